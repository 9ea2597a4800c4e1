"""Whole jobs read back from MindFormers' options: what is written, and files in the form that others write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.shapes.canonical import canonical
from cost_models.shapes.model_constants import RopeScaling, RouterConstants
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Recompute, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import MlaShape, ModelShape, Workload
from frameworks.document import options_from_document
from frameworks.framework import ReadingError, ReadJob
from frameworks.mindformers.framework import MINDFORMERS
from frameworks.mindformers.nearest import nearest
from frameworks.mindformers.table import MODEL, RELEASE
from frameworks.mindformers.writer import arguments
from tests.unit.frameworks.plans import legal_plans, workload
from tests.unit.frameworks.test_mindformers_models import DEEPSEEK, QWEN_8B, QWEN_MOE

Document = Mapping[str, Any]
DENSE_DEEPSEEK = replace(
    DEEPSEEK, moe=None, mtp_num_layers=0, mla=MlaShape(0, 512, 128, 64, 128),
    constants=replace(DEEPSEEK.constants, router=RouterConstants()),
)  # fmt: skip
# A model that is trained -> the test's model whose plans are legal for it as well: as many layers, or fewer.
TRAINED: dict[str, tuple[ModelShape, str]] = {
    "qwen3": (replace(QWEN_8B, num_layers=32), "dense"),
    "qwen3_moe": (replace(QWEN_MOE, num_layers=24), "mixture"),
    "deepseek_v3": (replace(DEEPSEEK, num_layers=13), "latent"),
}


def read(document: Document, num_devices: int | None = None) -> ReadJob:
    assert MINDFORMERS.read_job is not None
    return MINDFORMERS.read_job(options_from_document(RELEASE, document), num_devices)


def again(made: Workload, plan: Any) -> ReadJob:
    assert MINDFORMERS.read_job is not None
    return MINDFORMERS.read_job(arguments(made, plan).arguments, made.cluster.num_devices)


@given(
    kind=st.sampled_from(tuple(TRAINED)), index=st.integers(0, 10**6), fp32=st.booleans(), form=st.sampled_from(["none", "layer"])
)
@settings(max_examples=60, deadline=None)
def test_a_job_comes_back_from_the_options_that_are_written(kind: str, index: int, fp32: bool, form: str) -> None:
    model, plans_of = TRAINED[kind]
    plans = legal_plans("mindformers", plans_of)
    plan = plans[index % len(plans)]
    made = replace(workload("mindformers", plans_of), model=model)
    made = replace(made, software=replace(made.software, fp32_parameters=fp32, fp32_residual=form))
    job = again(made, plan)
    assert replace(job.model, name=model.name) == model
    assert canonical(made, job.strategy) == canonical(made, nearest(made, plan)[0])
    training = made.training
    assert (job.seq_length, job.global_batch_size, job.precision) == (training.seq_length, training.global_batch_size, "bf16")
    assert [sentence for sentence in job.not_understood if "params_dtype" not in sentence] == []
    assert (bool(job.not_understood), job.fp32_residual) == (fp32, form)


@pytest.mark.parametrize("model", [DENSE_DEEPSEEK, replace(DEEPSEEK, constants=replace(DEEPSEEK.constants, rope_scaling=None))])
def test_what_a_file_takes_away_from_a_class_does_not_come_back(model: ModelShape) -> None:
    plan = legal_plans("mindformers", "dense")[0]
    made = replace(workload("mindformers", "dense"), model=model)
    assert replace(again(made, plan).model, name=model.name) == model


QWEN_FILE: Document = {
    "use_legacy": False,
    "run_mode": "train",
    "runner_config": {"batch_size": 1, "gradient_accumulation_steps": 1},
    "parallel_config": {
        "data_parallel": 1, "model_parallel": 4, "pipeline_stage": 4, "micro_batch_num": 4, "use_seq_parallel": False,
        "gradient_aggregation_group": 1,
    },
    "parallel": {"parallel_mode": 1, "enable_parallel_optimizer": False, "dataset_strategy": [[1, 1]]},
    "recompute_config": {"recompute": True, "parallel_optimizer_comm_recompute": True, "mp_comm_recompute": True},
    "model": {
        "model_config": {
            "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 5120,
            "intermediate_size": 25600, "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
            "head_dim": 128, "hidden_act": "swiglu", "max_position_embeddings": 4096, "seq_length": 4096, "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0, "attention_bias": False, "offset": [-1, -1, 1, 1], "fp32_residual_connection": False,
            "params_dtype": "float32", "compute_dtype": "bfloat16", "qk_layernorm": True, "pad_token_id": 151643,
        }
    },
}  # fmt: skip
LLAMA_FILE: Document = {  # the layers before use_legacy: False, under their names
    "run_mode": "finetune",
    "runner_config": {"batch_size": 2},
    "parallel_config": {"data_parallel": 8, "model_parallel": 1, "pipeline_stage": 1, "micro_batch_num": 1, "vocab_emb_dp": True},
    "parallel": {"parallel_mode": 1, "enable_parallel_optimizer": True},
    "model": {
        "arch": {"type": "LlamaForCausalLM"},
        "model_config": {
            "type": "LlamaConfig", "seq_length": 8192, "hidden_size": 4096, "num_layers": 32, "num_heads": 32, "n_kv_heads": 8,
            "vocab_size": 128256, "multiple_of": 1024, "ffn_dim_multiplier": 1.3, "rms_norm_eps": 1e-5, "theta": 500000,
            "compute_dtype": "bfloat16", "param_init_type": "bfloat16", "use_flash_attention": True, "offset": 0,
        },
    },
}  # fmt: skip
DEEPSEEK_FILE: Document = {
    "run_mode": "train",
    "runner_config": {"batch_size": 1},
    "parallel_config": {
        "data_parallel": 16, "model_parallel": 4, "pipeline_stage": 16, "expert_parallel": 8, "micro_batch_num": 32,
        "use_seq_parallel": True,
    },
    "moe_config": {
        "expert_num": 256, "num_experts_chosen": 8, "shared_expert_num": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
        "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "use_gating_sigmoid": True, "balance_via_topk_bias": True,
        "capacity_factor": 1.5, "use_gmm": True, "aux_loss_factor": 0.05,
    },
    "model": {
        "model_config": {
            "type": "DeepseekV3Config", "seq_length": 4096, "hidden_size": 7168, "num_layers": 61, "num_heads": 128,
            "n_kv_heads": 128, "intermediate_size": 18432, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "qk_nope_head_dim": 128, "vocab_size": 129280, "compute_dtype": "bfloat16", "mtp_depth": 1,
            "offset": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1],
        }
    },
}  # fmt: skip


def test_a_file_of_a_release_is_read_to_its_model_plan_and_batch() -> None:
    job = read(QWEN_FILE, 16)
    assert num_parameters(job.model).total == pytest.approx(32.76e9, rel=1e-3)
    assert (job.seq_length, job.global_batch_size, job.precision) == (4096, 4, "bf16")
    plan = job.strategy
    assert (plan.tp, plan.pp, plan.dp, plan.zero_stage, plan.recompute) == (4, 4, 1, 0, Recompute.FULL)
    assert plan.layer_layout == ((15, 15, 17, 17),)
    named = [sentence.split(" ")[0] for sentence in job.not_understood]
    assert named == ["model.model_config.params_dtype"]  # nothing is gathered for an optimizer that is not sharded


def test_files_of_the_legacy_layers_are_read_as_far_as_they_say_the_model() -> None:
    job = read(LLAMA_FILE)
    # int((1.3 + 0.01) x 16384) = 21463, of which two thirds are 14308, rounded up to 1024: 14336
    assert (job.model.ffn_hidden_size, job.model.num_query_groups) == (14336, 8)
    assert num_parameters(job.model).total == pytest.approx(8.03e9, rel=1e-3)
    assert (job.model.constants.rotary_base, job.model.constants.model_type) == (500000.0, "llama")
    assert (job.global_batch_size, job.strategy.zero_stage, job.not_understood) == (16, 2, ())
    deepseek = read(DEEPSEEK_FILE, 1024)
    assert num_parameters(replace(deepseek.model, mtp_num_layers=0)).total == pytest.approx(671.0e9, rel=1e-3)
    assert (deepseek.model.mtp_num_layers, deepseek.model.moe and deepseek.model.moe.num_leading_dense_layers) == (1, 3)
    assert deepseek.model.constants.router.score_function == "sigmoid"
    # The legacy layers count the predicting one among those that offset places: the last stage holds 2, one of which is it.
    assert deepseek.strategy.layer_layout == ((4,) * 15 + (1,),)
    assert deepseek.not_understood == ("model.model_config.capacity_factor 1.5 is read as experts without a limit",)


def with_model(document: Document, **changes: Any) -> Document:
    return {**document, "model": {**document["model"], "model_config": {**document["model"]["model_config"], **changes}}}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (with_model(QWEN_FILE, use_sliding_windov=True), "model.model_config.use_sliding_windov is no key of MindFormers 1.8"),
        (with_model(QWEN_FILE, attention_dropout=0.1), "model.model_config.attention_dropout 0.1 is read as 0"),
        (with_model(QWEN_FILE, num_layers=60), "model.model_config.num_layers 60 is passed over"),
        (with_model(QWEN_FILE, compute_dtype="int8"), "model.model_config.compute_dtype int8 is read as bfloat16"),
        ({**QWEN_FILE, "swap_config": {"swap": True}}, "these layers ask model.model_config.swap"),
        (with_model(QWEN_FILE, fine_grain_interleave=2), "model.model_config.fine_grain_interleave 2"),
        (with_model(DEEPSEEK_FILE, moe_layer_freq=[1, 0]), ""),
    ],
)
def test_what_is_not_understood_is_named(document: Document, words: str) -> None:
    assert any(words in sentence for sentence in read(document).not_understood)


def recomputed(parallel: dict[str, Any], recompute: dict[str, Any], *, sharded: bool = False) -> Document:
    return {
        **QWEN_FILE,
        "parallel_config": {**QWEN_FILE["parallel_config"], **parallel},
        "parallel": {"parallel_mode": 1, "enable_parallel_optimizer": sharded},
        "recompute_config": recompute,
    }


SPLIT = {"use_seq_parallel": True}
GLM_FILE = with_model(LLAMA_FILE, type="ChatGLM2Config")


@pytest.mark.parametrize(
    ("felt", "not_felt", "name"),
    [
        (
            # four samples over tp 4
            {**recomputed({}, {"recompute": True, "recompute_slice_activation": True}), "runner_config": {"batch_size": 4}},
            recomputed({}, {"recompute": True, "recompute_slice_activation": True}),
            "recompute_config.recompute_slice_activation",
        ),
        (
            with_model(recomputed({}, {"recompute": True, "recompute_slice_activation": True}), rmsnorm_compute_2d=True),
            recomputed({}, {"recompute": [15, 15, 17, 17], "recompute_slice_activation": True}),
            "recompute_config.recompute_slice_activation",
        ),
        (
            {**GLM_FILE, "recompute_config": {"recompute": True, "parallel_optimizer_comm_recompute": True}},
            {**LLAMA_FILE, "recompute_config": {"recompute": True, "parallel_optimizer_comm_recompute": True}},
            "recompute_config.parallel_optimizer_comm_recompute",
        ),
        (
            recomputed({}, {"recompute": True, "select_recompute_exclude": ["mul"]}),
            recomputed({}, {"select_recompute_exclude": ["mul"]}),
            "recompute_config.select_recompute_exclude",
        ),
        (
            recomputed({}, {"select_recompute": {"mlp": True, "self_attention.linear_qkv": True}}),
            recomputed({}, {"select_recompute": {"mlp": True, r"mlp\.linear_fc1\.reshape": True}}),
            "recompute_config.select_recompute",
        ),
        (
            # half of the activation function's operators in some layers only
            recomputed({}, {"select_recompute": {r"mlp\.mul": True, r"mlp\.activation_func\.silu": [15, 15, 17, 0]}}),
            recomputed({}, {"select_recompute": {r"mlp\.mul": True, r"mlp\.activation_func\.silu": [15, 15, 17, 17]}}),
            "recompute_config.select_recompute",
        ),
    ],
)
def test_a_key_of_recompute_is_refused_where_the_plan_feels_it(felt: Document, not_felt: Document, name: str) -> None:
    assert [entry.name for entry in read(felt).unread] == [name]
    assert read(not_felt).unread == ()


@pytest.mark.parametrize("key", ["mp_comm_recompute", "parallel_optimizer_comm_recompute"])
def test_keys_that_no_layer_is_handed_change_nothing(key: str) -> None:
    """Under tensor parallelism, with sharded states, where every layer is recomputed."""
    on, off = (recomputed({"data_parallel": 2}, {"recompute": True, key: value}, sharded=True) for value in (True, False))
    assert read(on) == read(off)
    assert read(off).unread == ()


@pytest.mark.parametrize(
    ("select", "recompute", "found"),
    [
        ({"mlp": True}, False, RecomputeModule.MLP),
        ({"mlp": [15, 15, 17, 17]}, False, RecomputeModule.MLP),
        ({"mlp": [0, 0, 0, 0]}, False, RecomputeModule(0)),
        ({"mlp": [2, 2, 2, 2]}, [2, 2, 2, 2], RecomputeModule(0)),  # recomputed whole, those layers alone
        ({"mlp": [15, 15, 0, 17]}, [0, 0, 17, 0], RecomputeModule.MLP),  # the third stage is recomputed whole
        ([15, 15, 17, 17], False, RecomputeModule.MLP_ACT),
        ([False, False, False, False], False, RecomputeModule(0)),
        ([True, True, True, True], False, RecomputeModule.MLP_ACT),
        ([r".*\.norm"], False, RecomputeModule.LAYERNORM),
    ],
)
def test_modules_are_read_by_the_layers_that_have_them(select: Any, recompute: Any, found: RecomputeModule) -> None:
    job = read(recomputed({}, {"recompute": recompute, "select_recompute": select}))
    assert job.unread == ()
    assert job.strategy.recompute_modules == found


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (QWEN_FILE, "none"),
        (with_model(QWEN_FILE, fp32_residual_connection=True), "layer"),
        (with_model(QWEN_FILE, fp32_residual_connection=True, compute_dtype="float32"), "none"),
        (LLAMA_FILE, "none"),
        (with_model(LLAMA_FILE, residual_dtype="float32"), "sums"),
        (with_model(LLAMA_FILE, fp32_residual_connection=True), "none"),  # a key of other layers
        (with_model(LLAMA_FILE, type="TelechatConfig"), "sums"),
        (with_model(LLAMA_FILE, type="TelechatConfig", res_dtype="bfloat16"), "none"),
        (GLM_FILE, "stream"),
        (with_model(GLM_FILE, residual_dtype="bfloat16"), "none"),
    ],
)
def test_the_residual_has_the_precision_of_its_layers(document: Document, form: str) -> None:
    assert read(document).fp32_residual == form


def test_a_key_without_effect_since_an_older_release_is_passed_over() -> None:
    shard = {**QWEN_FILE, "parallel_config": {**QWEN_FILE["parallel_config"], "optimizer_shard": True}}
    assert read(shard).not_understood == read(QWEN_FILE).not_understood


def test_legacy_layers_cut_tokens_in_two_where_tensor_parallel() -> None:
    parallel = {**LLAMA_FILE["parallel_config"], "model_parallel": 2}
    for parts, cut in ((1, False), (2, True)):
        halved = with_model({**LLAMA_FILE, "parallel_config": parallel}, fine_grain_interleave=parts)
        job = read(halved)
        assert bool(job.strategy.features & Feature.FINE_GRAIN_INTERLEAVE) == cut
        assert not any("fine_grain_interleave" in sentence for sentence in job.not_understood)
    alone = with_model({**LLAMA_FILE, "parallel_config": {**parallel, "model_parallel": 1}}, fine_grain_interleave=2)
    assert not read(alone).strategy.features & Feature.FINE_GRAIN_INTERLEAVE


def test_other_devices_and_ulysses_without_its_degree_are_named() -> None:
    assert "parallel_config asks for 16 devices, and 8 are started" in read(QWEN_FILE, 8).not_understood
    parallel = {**QWEN_FILE["parallel_config"], "context_parallel": 2, "context_parallel_algo": "ulysses_cp"}
    job = read({**QWEN_FILE, "parallel_config": parallel})
    assert job.strategy.cp_algo is CpAlgo.ULYSSES
    assert any("ulysses_degree_in_cp 1 is read as 2" in sentence for sentence in job.not_understood)


@pytest.mark.parametrize("algo", [None, "colossalai_cp"])
def test_colossalai_gathers_keys_unless_attention_is_a_ring(algo: str | None) -> None:
    parallel = {**QWEN_FILE["parallel_config"], "context_parallel": 2, "context_parallel_algo": algo}
    file = {**QWEN_FILE, "parallel_config": parallel}
    assert read(file).strategy.cp_algo is CpAlgo.KV_ALLGATHER
    assert read(with_model(file, use_ring_attention=True)).strategy.cp_algo is CpAlgo.RING


def test_layers_of_experts_are_read_from_a_number_or_a_list() -> None:
    def layers(**changes: Any) -> tuple[int, int]:
        moe = read(with_model(DEEPSEEK_NEW, num_hidden_layers=6, **changes)).model.moe
        assert moe is not None
        return moe.num_leading_dense_layers, moe.moe_layer_freq

    assert layers(first_k_dense_replace=2) == (2, 1)
    assert layers() == (3, 1)  # the class's default
    assert layers(first_k_dense_replace=0, moe_layer_freq=[0, 1, 0, 1, 0, 1]) == (0, 2)
    assert layers(first_k_dense_replace=0, moe_layer_freq=[0, 0, 1, 1, 1, 1]) == (2, 1)
    odd = read(with_model(DEEPSEEK_NEW, num_hidden_layers=6, first_k_dense_replace=0, moe_layer_freq=[1, 0, 0, 1, 1, 0]))
    assert any("moe_layer_freq" in sentence for sentence in odd.not_understood)


DEEPSEEK_NEW: Document = {
    "use_legacy": False,
    "run_mode": "train",
    "parallel_config": {"data_parallel": 8},
    "model": {
        "model_config": {"model_type": "deepseek_v3", "seq_length": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 40}}
    },
}


def test_what_a_file_leaves_out_has_the_default_of_its_class() -> None:
    job = read(DEEPSEEK_NEW)
    assert num_parameters(replace(job.model, mtp_num_layers=0)).total == pytest.approx(671.0e9, rel=1e-3)
    assert job.model.constants.rope_scaling == RopeScaling("yarn", 40.0)
    assert (job.strategy.schedule, job.global_batch_size) == (Schedule.NONE, 8)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"use_legacy": False, "run_mode": "train"}, "model.model_config.model_type is missing; give it"),
        ({"use_legacy": True, "run_mode": "train"}, "model.model_config.num_hidden_layers is missing; give it"),
        (
            {**with_model(QWEN_FILE, model_type=None), "pretrained_model_dir": ""},
            "model.model_config.model_type is missing; it is left",
        ),
        ({"use_legacy": False, "pretrained_model_dir": "/m"}, "it is left to the configuration in pretrained_model_dir"),
        (with_model(LLAMA_FILE, type="BertConfig"), "'BertConfig' names layers that are not known here"),
        ({**QWEN_FILE, "run_mode": "predict"}, "run_mode 'predict' trains nothing"),
        (
            recomputed({}, {"select_recompute": {"mlp": [1, 2]}}),
            "recompute_config.select_recompute {'mlp': [1, 2]} is no selection",
        ),
        (recomputed({}, {"select_recompute": [-1, 0, 0, 0]}), "recompute_config.select_recompute [-1, 0, 0, 0] is no selection"),
        (recomputed({}, {"select_recompute": 3}), "recompute_config.select_recompute 3 is no selection"),
        (with_model(QWEN_FILE, hidden_size="wide"), "model.model_config.hidden_size 'wide' is not allowed"),
        (with_model(QWEN_FILE, hidden_size=10**15), "hidden_size '1000000000000000' is not allowed"),
        (with_model(QWEN_FILE, num_hidden_layers=10**9), "num_hidden_layers 1000000000 is not allowed; give at most"),
        (with_model(QWEN_FILE, num_attention_heads=0), "num_attention_heads '0' is not allowed"),
        (with_model(DEEPSEEK_FILE, v_head_dim=None), "model.model_config.v_head_dim is missing"),
        ({**QWEN_FILE, "runner_config": {"batch_size": [1]}}, "runner_config.batch_size '[1]' is not allowed"),
    ],
)
def test_a_file_that_says_no_training_is_refused_in_one_sentence(document: Document, words: str) -> None:
    with pytest.raises(ReadingError) as refused:
        read(document)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**13), 10**13) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
SAID = tuple(
    arguments(replace(workload("mindformers", "latent"), model=DEEPSEEK), legal_plans("mindformers", "dense")[0]).arguments
)


@given(st.dictionaries(st.integers(0, len(SAID) - 1), VALUES, max_size=4))
@settings(max_examples=100, deadline=None)
def test_no_value_of_a_file_ends_in_anything_but_a_job_or_a_sentence(changes: dict[int, Any]) -> None:
    assert MINDFORMERS.read_job is not None
    options = [
        f"{option.partition('=')[0]}={json.dumps(changes[index])}" if index in changes else option
        for index, option in enumerate(SAID)
    ]
    with suppress(ReadingError):
        assert MINDFORMERS.read_job(options, None).strategy.pp >= 1


def test_a_file_that_trains_adapters_is_not_read_as_a_training_of_all_weights() -> None:
    found = read(with_model(LLAMA_FILE, pet_config={"pet_type": "lora", "lora_rank": 8})).unread
    assert [(entry.name, entry.change) for entry in found] == [
        ("model.model_config.pet_config", "it decides which weights are trained")
    ]


@pytest.mark.parametrize(
    ("section", "key", "value", "usual"),
    [
        ("parallel_config", "seq_split_num", 8, 1),  # a pipeline of parts of a sequence
        ("parallel", "parallel_mode", 2, 1),
        ("context", "mode", 1, 0),
        ("optimizer", "type", "Muon", "AdamW"),
        ("swap_config", "layer_swap", [{"layers": [0]}], None),
        ("moe_config", "ep_extend_tp", True, False),
        (MODEL, "window_size", [4096, 0], None),
    ],
)
def test_keys_that_change_much_of_the_cost_and_have_no_price_refuse_a_file(
    section: str, key: str, value: object, usual: object
) -> None:
    def names(given: object) -> list[str]:
        changed = {**LLAMA_FILE, section: {**LLAMA_FILE.get(section, {}), key: given}}
        return [each.name for each in read(with_model(LLAMA_FILE, **{key: given}) if section == MODEL else changed).unread]

    assert (names(value), names(usual)) == ([f"{section}.{key}"], [])


def test_attention_within_documents_is_doubt_about_lengths() -> None:
    assert read(with_model(LLAMA_FILE, use_eod_reset=True)).uneven == ("model.model_config.use_eod_reset",)
    assert read(with_model(LLAMA_FILE, use_eod_reset=False)).uneven == ()
