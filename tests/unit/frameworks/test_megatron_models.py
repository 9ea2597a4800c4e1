"""What Megatron-LM is told of a model: every constant that it takes, and a sentence for what it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Cluster, LocalAttention, ModelShape, Software, TrainingJob, Workload
from frameworks.launch import launch_block
from frameworks.legality import launchable_on, violations
from frameworks.megatron_lm.table import RELEASE_0_12
from frameworks.registry import BY_LABEL
from frameworks.release import read_tokens
from tests.unit.frameworks.legality_workloads import profile
from tests.unit.frameworks.megatron_models import DEEPSEEK_V2_LITE, DEEPSEEK_V3, GLM_4, GPT_3, LLAMA_31, QWEN_30B, STATED

PLAN = ParallelStrategy(tp=1, pp=1, dp=8, micro_batch_size=1)


def made(model: ModelShape, seq_length: int = 4096) -> Workload:
    return Workload(
        model, TrainingJob(seq_length, 64), Cluster(profile("nvidia"), 8), Software("megatron-lm", target="megatron-lm@0.12")
    )


UNFUSED = replace(PLAN, features=PLAN.features & ~Feature.FUSED_ROPE)  # core 0.12 fuses few rotary embeddings


def written(model: ModelShape, plan: ParallelStrategy = PLAN, **given: int) -> dict[str, tuple[str, ...]]:
    return read_tokens(RELEASE_0_12, list(BY_LABEL["megatron-lm@0.12"].write(made(model, **given), plan).arguments))[0]


def told(model: ModelShape, **constants: Any) -> str:
    changed = replace(model, constants=replace(model.constants, **constants))
    block = launch_block(made(changed), PLAN)["megatron-lm"]
    return next((note for note in block["notes"] if note.startswith(("Not the same model", "Another constant"))), "")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (LLAMA_31, {"rotary-base": "500000", "norm-epsilon": "1e-05", "use-rope-scaling": "", "rope-scaling-factor": "8",
                    "max-position-embeddings": "131072", "swiglu": "", "normalization": "RMSNorm"}),
        (QWEN_30B, {"rotary-base": "1000000", "norm-epsilon": "1e-06", "moe-router-score-function": "softmax",
                    "qk-layernorm": "", "kv-channels": "128"}),
        (GLM_4, {"rotary-percent": "0.5", "rotary-interleaved": "", "norm-epsilon": "1.5625e-07", "no-rope-fusion": "",
                 "add-qkv-bias": "", "make-vocab-size-divisible-by": "151552"}),
        (DEEPSEEK_V3, {"rotary-scaling-factor": "40", "mscale": "1", "mscale-all-dim": "1", "max-position-embeddings": "4096",
                       "moe-router-score-function": "sigmoid", "moe-router-topk-scaling-factor": "2.5",
                       "moe-router-enable-expert-bias": "", "moe-router-num-groups": "8", "moe-router-group-topk": "4"}),
        (DEEPSEEK_V2_LITE, {"mscale": "0.707", "mscale-all-dim": "0.707", "moe-router-pre-softmax": ""}),
        (GPT_3, {"position-embedding-type": "learned_absolute", "normalization": "LayerNorm"}),
    ],
)  # fmt: skip
def test_the_constants_of_a_model_are_written(model: ModelShape, said: dict[str, str]) -> None:
    found = written(model)
    assert {name: " ".join(found.get(name, ("missing",))) for name in said} == said


@pytest.mark.parametrize("model", STATED)
def test_a_model_that_can_be_told_whole_is_launchable(model: ModelShape) -> None:
    block = launch_block(made(model, 2048), UNFUSED)["megatron-lm"]
    assert block["launchable"]
    assert launchable_on(made(model, 2048), UNFUSED) == ("megatron-lm@0.12", "megatron-lm@0.19")
    assert not [note for note in block["notes"] if "does not state" in note]


@pytest.mark.parametrize("target", ["megatron-lm@0.12", "megatron-lm@0.19"])
def test_prediction_of_further_tokens_wants_rotary_positions(target: str) -> None:
    predicting = replace(QWEN_30B, mtp_num_layers=1)
    assert "megatron_model" not in {broken.rule for broken in violations(made(predicting), PLAN, target)}
    (broken,) = (
        each
        for each in violations(made(replace(predicting, learned_positions=True)), PLAN, target)
        if each.rule == "megatron_model"
    )
    assert "multi-token prediction beside learned positions" in broken.sentence


def test_latent_attention_says_a_width_of_heads_where_they_do_not_divide_the_hidden_size() -> None:
    assert "kv-channels" not in written(DEEPSEEK_V3)
    assert written(replace(DEEPSEEK_V3, hidden_size=7200))["kv-channels"] == ("192",)  # 56.25 a head, which the framework refuses


@pytest.mark.parametrize(("tp", "rows"), [(1, 151936), (2, 151936), (8, 151936), (5, 151940)])
def test_the_tokenizer_is_padded_to_the_rows_of_the_model(tp: int, rows: int) -> None:
    multiple = int(written(QWEN_30B, ParallelStrategy(tp=tp, pp=1, dp=1))["make-vocab-size-divisible-by"][0])
    tokens = 151669  # of its tokenizer
    assert -(-tokens // (multiple * tp)) * multiple * tp == rows


@pytest.mark.parametrize(
    ("model", "constants", "words"),
    [
        (LLAMA_31, {"activation": "gelu_tanh"}, "activation gated gelu_tanh"),
        (LLAMA_31, {"rope_scaling": RopeScaling("llama3", 32.0, 8192, 1.0, 4.0)}, "rope-scaling-factor 32 (pretrain_gpt.py"),
        (LLAMA_31, {"rope_scaling": RopeScaling("llama3", 8.0, 4096, 1.0, 4.0)}, "original_max_position_embeddings 4096"),
        (LLAMA_31, {"rope_scaling": RopeScaling("yarn", 4.0)}, "positions by yarn"),
        (LLAMA_31, {"rope_scaling": RopeScaling("linear", 4.0)}, "rotary positions scaled by linear"),
        (LLAMA_31, {"rotary_base": 10000.5}, "rotary_base 10000.5"),
        (LLAMA_31, {"logit_softcap": 30.0, "embedding_scale": 64.0}, "logit_softcap 30; embedding_scale 64"),
        (LLAMA_31, {"attention_scale": 0.1}, "attention_scale 0.1"),
        (LLAMA_31, {"attention_scale": 128**-0.5}, ""),
        (LLAMA_31, {"attention_sinks": True}, "attention_sinks"),
        (LLAMA_31, {"attention_output_bias": True}, "attention_output_bias"),
        (LLAMA_31, {"local_rotary_base": 10000.0}, "local_rotary_base 10000"),
        (DEEPSEEK_V3, {"router": RouterConstants("sigmoid", normalize_topk=False)}, "normalize_topk False"),
        (DEEPSEEK_V3, {"router": RouterConstants("softmax", expert_bias=True)}, "expert_bias beside a softmax"),
        (DEEPSEEK_V3, {"rope_scaling": RopeScaling("yarn", 40.0, mscale=1.0, mscale_all_dim=0.5)}, "1.0 and 0.5"),
        (QWEN_30B, {"router": RouterConstants("softmax", normalize_topk=True, shared_expert_gate=True)}, "shared_expert_gate"),
    ],
)  # fmt: skip
def test_what_has_no_argument_is_named_and_a_file_of_another_model_is_not_written(
    model: ModelShape, constants: dict[str, Any], words: str
) -> None:
    said = told(model, **constants)
    assert words in said
    changed = made(replace(model, constants=replace(model.constants, **constants)))
    is_other = said.startswith("Not the same model")
    launch = launch_block(changed, UNFUSED)["megatron-lm"]
    if launch["target"] == "megatron-lm@0.12":
        assert launch["launchable"] == (not is_other)
        assert (launch["arguments"] is None) == is_other
    assert ("megatron-lm@0.12" in launchable_on(changed, UNFUSED)) == (not is_other)


@pytest.mark.parametrize(
    "constants",
    [{"rope_scaling": RopeScaling("llama3", 32.0, 8192, 1.0, 4.0)}, {"local_rotary_base": 10000.0}],
)
def test_a_number_without_an_argument_is_a_warning_and_its_file_is_written(constants: dict[str, Any]) -> None:
    changed = made(replace(LLAMA_31, constants=replace(LLAMA_31.constants, **constants)))
    launch = launch_block(changed, PLAN)["megatron-lm"]
    assert launch["launchable"]
    assert launch["arguments"]
    assert any(note.startswith("Another constant: ") for note in launch["notes"])


def test_yarn_of_latent_attention_is_another_where_a_sequence_outgrows_what_it_was_trained_on() -> None:
    notes = launch_block(made(DEEPSEEK_V3, 8192), PLAN)["megatron-lm"]["notes"]
    assert any("original_max_position_embeddings 4096" in note for note in notes)
    assert written(DEEPSEEK_V3, seq_length=8192)["max-position-embeddings"] == ("8192",)


def test_lightning_attention_is_not_told_as_the_delta_rule() -> None:
    heads = {"num_key_heads": 32, "num_value_heads": 32, "key_head_dim": 128, "value_head_dim": 128}
    delta = replace(LLAMA_31, local_attention=LocalAttention("linear", 4, conv_kernel=4, **heads))
    lightning = replace(LLAMA_31, local_attention=LocalAttention("linear", 4, **heads))
    assert launchable_on(made(delta), PLAN) == ("megatron-lm@0.19",)
    assert launchable_on(made(lightning), PLAN) == ()
    arguments = BY_LABEL["megatron-lm@0.19"].write(made(lightning), PLAN).arguments
    assert not [argument for argument in arguments if argument.startswith(("--experimental-attention", "--linear-"))]


def test_groups_that_are_chosen_otherwise_are_named() -> None:
    assert DEEPSEEK_V3.moe is not None
    even = replace(DEEPSEEK_V3, moe=replace(DEEPSEEK_V3.moe, group_topk=8))
    assert "as many experts of each of 8" in told(even)
    by_best = RouterConstants("softmax", normalize_topk=False, expert_bias=False)
    assert "chosen by their best expert" in told(DEEPSEEK_V3, router=by_best)


def test_what_a_model_does_not_state_is_named_with_the_frameworks_default() -> None:
    notes = launch_block(made(replace(QWEN_30B, constants=ModelConstants())), PLAN)["megatron-lm"]["notes"]
    (note,) = [note for note in notes if "does not state" in note]
    assert "norm_epsilon (1e-05), rotary_base (10000), score_function (softmax) and normalize_topk (True)" in note


def test_without_a_release_the_first_that_launches_the_plan_is_written() -> None:
    sunken = replace(LLAMA_31, constants=replace(LLAMA_31.constants, attention_sinks=True))
    asked = {
        label: replace(made(sunken), software=Software("megatron-lm", target=label)) for label in ("any", "megatron-lm@0.12")
    }
    blocks = {label: launch_block(workload, PLAN)["megatron-lm"] for label, workload in asked.items()}
    found = {label: (block["target"], block["launchable"]) for label, block in blocks.items()}
    assert found == {"any": ("megatron-lm@0.19", True), "megatron-lm@0.12": ("megatron-lm@0.12", False)}


def test_linear_attention_is_named_as_such() -> None:
    linear = replace(LLAMA_31, local_attention=LocalAttention("linear", 4, 0, 16, 32, 128, 128, 4))
    assert "cannot be told linear attention of" in " ".join(launch_block(made(linear), PLAN)["megatron-lm"]["notes"])
