"""A script of the Megatron family as a whole job: what was written is read, and what cannot be read is said."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalogue.models.presets import names, resolve_model
from cost_models.shapes.canonical import canonical
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES
from cost_models.shapes.workload import ModelShape, MoeShape, Workload
from frameworks.framework import ReadingError, ReadJob
from frameworks.legality import legal_mask
from frameworks.megatron_lm.job_reader import repeated
from frameworks.registry import BY_LABEL
from search.space.enumeration import Rejections, chunks
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace
from tests.unit.frameworks.legality_workloads import job
from tests.unit.frameworks.megatron_models import STATED

LABELS = tuple(label for label in BY_LABEL if label.startswith("megatron-lm"))
MODELS = {model.name: model for model in STATED} | {
    name: resolve_model(name)[0] for name in names() if name not in {model.name for model in STATED}
}
SMALL = ["--num-layers", "4", "--hidden-size", "64", "--num-attention-heads", "4", "--max-position-embeddings", "128"]


@cache
def plans(label: str, name: str) -> tuple[Workload, tuple[ParallelStrategy, ...]]:
    """A job of the model on 64 devices, and legal plans of it, thinned evenly."""
    made = job(MODELS[name], 64, family="nvidia", global_batch_size=128)
    made = replace(made, software=replace(made.software, target=label))
    space = SearchSpace(
        tp=(1, 2), pp=(1, 2, 4), vpp=(1, 2), cp=(1, 2), ep=(1, 8), etp=(1,), micro_batch_size=(1,), zero_stage=(0, 1),
        sequence_parallel=(True,), cp_algo=(CpAlgo.RING, CpAlgo.ULYSSES), schedule=(Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED),
        microbatch_group_size_per_vp_stage=(0,), dispatcher=(Dispatcher.ALLTOALL, Dispatcher.TWO_LEVEL),
        features=(DEFAULT_FEATURES,), dualpipev_features=(DEFAULT_FEATURES,), interleaved_features=(DEFAULT_FEATURES,),
        recompute=tuple(recompute_mode(mode) for mode in ("none", "full", "core_attn")),
    )  # fmt: skip
    found: list[ParallelStrategy] = []
    for chunk in chunks(made, space, Rejections()):
        legal = chunk.batch.take(legal_mask(made, chunk.batch))
        found += [legal.row(index) for index in range(0, len(legal), max(len(legal) // 20, 1))]
    return made, tuple(found)


def stated(label: str, model: ModelShape, workload: Workload) -> ModelShape:
    """The model as a script can say it: constants that it leaves open are the framework's, and a few have no place."""
    constants = model.constants
    if model.mla is not None and constants.rope_scaling is not None and label.endswith("0.12"):
        constants = replace(constants, max_position_embeddings=None)  # YaRN's own takes its place
    elif constants.max_position_embeddings is not None:
        longest = max(constants.max_position_embeddings, workload.training.seq_length)
        constants = replace(constants, max_position_embeddings=longest)
    return replace(model, name="", constants=constants)


def read(label: str, arguments: list[str], num_devices: int | None = None) -> ReadJob:
    reader = BY_LABEL[label].read_job
    assert reader is not None
    return reader(arguments, num_devices)


def as_told(moe: MoeShape | None) -> MoeShape | None:
    """Megatron-LM's arguments state the width of all shared experts, not how many share it."""
    if moe is None or not moe.num_shared_experts:
        return moe
    return replace(moe, num_shared_experts=round(moe.shared_expert_ffn_hidden_size / moe.expert_ffn_hidden_size))


@pytest.mark.parametrize("label", LABELS)
def test_layers_of_different_context_parallelism_are_refused_by_name(label: str) -> None:
    start = [*SMALL, "--context-parallel-size", "4", "--micro-batch-size", "1", "--cp-comm-type"]
    assert read(label, [*start, "all_gather", "all_gather"]).strategy.cp_algo is CpAlgo.KV_ALLGATHER
    with pytest.raises(ReadingError, match="--cp-comm-type a2a all_gather"):
        read(label, [*start, "a2a", "all_gather", "a2a"])


@pytest.mark.parametrize("label", LABELS)
@given(name=st.sampled_from(sorted(MODELS)), index=st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_a_job_comes_back_from_its_arguments(label: str, name: str, index: int) -> None:
    made, found = plans(label, name)
    if not found:
        return
    plan = found[index % len(found)]
    written = BY_LABEL[label].write(made, plan).arguments
    back = read(label, list(written), made.cluster.num_devices)
    assert back.not_understood == ()
    assert (back.seq_length, back.global_batch_size, back.precision) == (made.training.seq_length, 128, "bf16")
    told, _ = BY_LABEL[label].nearest(made, plan)
    assert canonical(made, back.strategy) == canonical(made, told)
    if made.model.vocab_size % plan.tp == 0:
        dims = replace(back.model, constants=ModelConstants())
        assert dims == replace(made.model, name="", constants=ModelConstants(), moe=as_told(made.model.moe))
    if made.model in STATED and not BY_LABEL[label].untold(made):
        assert back.model.constants == stated(label, made.model, made).constants


@pytest.mark.parametrize("label", LABELS)
def test_what_is_not_said_is_the_frameworks_default(label: str) -> None:
    back = read(label, [*SMALL, "--swiglu", "--disable-bias-linear", "--num-experts", "8"])
    assert back.model.constants.norm_epsilon == 1e-5
    assert back.model.learned_positions
    assert back.model.kv_channels == 16
    assert back.model.ffn_hidden_size == 128  # 4 x 64 x 2 / 3 = 170, down to a multiple of 64
    assert back.model.moe is not None
    assert (back.model.moe.top_k, back.model.moe.expert_ffn_hidden_size) == (2, 128)
    assert back.model.constants.router.normalize_topk
    assert (back.seq_length, back.global_batch_size, back.precision) == (None, 1, "fp32")
    assert back.model.vocab_size == 0
    assert back.not_understood == (
        "vocab-size is not given: the tokenizer decides how many rows the embedding has.",
        "attention-dropout 0.1 is priced as 0, which keeps no masks.",
        "hidden-dropout 0.1 is priced as 0, which keeps no masks.",
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--vocab-size", "1000", "--hiden-dropout", "0"],
            "hiden-dropout: no argument of megatron-lm 0.12; the nearest is hidden-dropout",
        ),
        (["--vocab-size", "1000", "--normalization", "PowerNorm"], "'PowerNorm' is not allowed"),
        (
            ["--vocab-size", "1000", "--optimizer-cpu-offload", "--optimizer-offload-fraction", "0.5"],
            "optimizer-offload-fraction: it changes step time and memory",
        ),
        (["--vocab-size", "1000", "--optimizer", "sgd", "--sgd-momentum", "0"], "sgd-momentum: it changes the memory"),
        (["--vocab-size", "1000", "--hybrid-override-pattern", "M-M*"], "hybrid-override-pattern: it makes another model"),
        (["--vocab-size", "1000", "--num-experts", "4", "--moe-layer-freq", "[0,1,1,0]"], "moe-layer-freq: no order of dense"),
        (["--vocab-size", "1000", "--position-embedding-type", "mrope"], "position-embedding-type: it makes another model"),
    ],
)
def test_what_the_price_depends_on_and_is_not_understood_is_named(arguments: list[str], sentence: str) -> None:
    found = read("megatron-lm@0.12", [*SMALL, *arguments])
    assert [sentence in f"{name}: {change}" for name, change in found.unread] == [True]


HOST = ["--optimizer-cpu-offload", "--use-precision-aware-optimizer", "--use-distributed-optimizer"]


def test_the_part_of_states_on_the_host_matters_only_where_they_are_there() -> None:
    part = ["--vocab-size", "1000", "--optimizer-offload-fraction", "0.5"]
    assert read("megatron-lm@0.12", [*SMALL, *part]).unread == ()
    assert [name for name, _ in read("megatron-lm@0.12", [*SMALL, *part, *HOST]).unread] == ["optimizer-offload-fraction"]


def test_a_precision_aware_optimizer_without_a_distributed_one_is_named() -> None:
    aware = [*SMALL, "--vocab-size", "1000", "--use-precision-aware-optimizer"]
    wanted = "use-precision-aware-optimizer needs use-distributed-optimizer"
    assert any(wanted in sentence for sentence in read("megatron-lm@0.12", aware).not_understood)
    distributed = [*aware, "--use-distributed-optimizer"]
    assert not any(wanted in sentence for sentence in read("megatron-lm@0.12", distributed).not_understood)


@pytest.mark.parametrize(
    ("label", "arguments", "warned"),
    [
        ("megatron-lm@0.12", HOST, True),
        ("megatron-lm@0.12", [], False),
        ("megatron-lm@0.19", HOST, False),
    ],
)
def test_copies_beside_adam_are_doubted_before_they_waited(label: str, arguments: list[str], warned: bool) -> None:
    given = [*SMALL, "--vocab-size", "1000", *arguments]
    copies = [*given, "--overlap-cpu-optimizer-d2h-h2d"]
    assert any("before its weights have come back" in sentence for sentence in read(label, copies).warnings) == warned
    assert not any("before its weights have come back" in sentence for sentence in read(label, given).warnings)


def test_what_the_framework_rejects_or_is_priced_in_another_form_is_said() -> None:
    both = read("megatron-lm@0.12", [*SMALL, "--vocab-size", "1000", "--bf16", "--fp16", "--rampup-batch-size", "8", "8", "99"])
    assert any("fp16 and bf16 exclude each other" in sentence for sentence in both.not_understood)
    assert any("rampup-batch-size: the price is of a step" in sentence for sentence in both.not_understood)


def test_arguments_without_effect_are_known() -> None:
    known = [
        "--decoupled-lr",
        "5.0e-4",
        "--decoupled-min-lr",
        "4.5e-5",
        "--timing-log-option",
        "minmax",
        "--disable-gloo-process-groups",
    ]
    back = read("megatron-lm@0.12", [*SMALL, "--vocab-size", "1000", *known, "--one-logger-project", "x", "--log-straggler"])
    assert (back.unread, [sentence for sentence in back.not_understood if "dropout" not in sentence]) == ((), [])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--num-layers", "4", "--hidden-size", "64"], "num-attention-heads is not given"),
        ([*SMALL, "--ffn-hidden-size", "-3"], "ffn-hidden-size -3 is not allowed"),
        ([*SMALL, "--num-layers", "10001"], "num-layers 10001 is not allowed; give 1 to 10000"),
        ([*SMALL, "--num-experts", "4", "--moe-layer-freq", "__import__('os')"], "is not a list of numbers"),
        ([*SMALL, "--num-experts", "4", "--moe-layer-freq", "[1]*3"], "does not say of 4 layers which are MoE"),
        ([*SMALL, "--num-experts", "4", "--moe-layer-freq", "[1]*9999*9999"], "more than 10000 layers"),
        ([*SMALL, "--num-experts", "4", "--moe-layer-freq", "(" * 40 + "[1]" + ")" * 40], "nested too deeply"),
    ],
)
def test_a_model_that_cannot_be_read_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(ReadingError, match=re.escape(sentence)):
        read("megatron-lm@0.12", arguments)


def test_lists_of_layers_are_read_without_being_evaluated() -> None:
    assert repeated("([0]*3+[1]*2)*2") == [0, 0, 0, 1, 1] * 2
    assert repeated("[0, 1,1]") == [0, 1, 1]


def test_rows_of_the_embedding_are_those_that_the_tokenizer_is_padded_to() -> None:
    padded = [*SMALL, "--vocab-size", "151669", "--make-vocab-size-divisible-by", "128", "--tensor-model-parallel-size", "2"]
    assert read("megatron-lm@0.12", padded).model.vocab_size == 151808  # 593 x 256
    exact = [*SMALL, "--make-vocab-size-divisible-by", "75968", "--tensor-model-parallel-size", "2"]
    assert read("megatron-lm@0.12", exact).model.vocab_size == 151936
