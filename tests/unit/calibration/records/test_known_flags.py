"""The closed list of flags: every entry reads, and no flag of a shipped run is dropped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibration.records.known_flags import NO_FLAGS, Effect, Flag, read_features, read_flags, record_flags, with_stated
from calibration.records.training import RunRecord, read_run_records
from calibration.validation.predictions import validate
from cost_models.constants import prior_constants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.traits import STACKS
from frameworks.megatron_lm.table import TABLE_0_12 as MEGATRON
from frameworks.mindformers.table import TABLE as MINDFORMERS
from frameworks.mindspeed_llm.table import TABLE as MINDSPEED
from frameworks.table import Table

ROOT = Path(__file__).resolve().parents[4]
TABLE: dict[str, Any] = json.loads((ROOT / "calibration/records/known_flags.json").read_text(encoding="utf-8"))
FRAMEWORKS = {
    "mindspeed-llm": "MindSpeed-LLM",
    "mindformers": "MindFormers",
    "megatron-lm": "Megatron-LM",
    "nemo": "NeMo",
    "megatron-deepspeed": "Megatron-DeepSpeed",
    "fsdp": "torchtitan",
    "mindspeed-llm-fsdp2": "MindSpeed-LLM-FSDP2",
    "maxtext": "MaxText",
}
ON_GPUS: dict[str, Any] = {"cluster.hardware": "h100-sxm-80gb"}
Read = Callable[..., RunRecord]


def flag(text: str, stack: str = "mindspeed-llm") -> Flag:
    (found,) = read_flags([text], stack)
    return found


def entries(*kinds: str) -> list[tuple[str, str, Any]]:
    """(stack, name, meaning) of the entries of these kinds that a stack has."""
    found = {
        (stack, name): meaning
        for stack, dialects in TABLE["stacks"].items()
        for dialect in reversed(dialects)
        for kind, names in TABLE[dialect].items()
        for name, meaning in names.items()
        if kind in kinds
    }
    return [(stack, name, meaning) for (stack, name), meaning in found.items()]


def test_every_stack_has_its_list() -> None:
    assert set(TABLE["stacks"]) == set(STACKS)
    dialects = {dialect for listed in TABLE["stacks"].values() for dialect in listed}
    assert set(TABLE) == {"stacks", "features", *dialects}
    kinds = {"switch", "off_switch", "switch_above_1", "field", "rule", "no_effect", "assumed"}
    assert {kind for name in (*dialects, "features") for kind in TABLE[name]} <= kinds


@pytest.mark.parametrize("name", ["ascend", "gpu"])
def test_no_flag_of_a_shipped_run_is_dropped(name: str) -> None:
    path = ROOT / f"calibration/runs/{name}.jsonl"
    listed = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row, record in zip(listed, read_run_records(path), strict=True):
        if not isinstance(record, RunRecord):
            continue
        assert record.flags.not_understood == (), record.id
        told = {each.flag for kind in (record.flags.read, record.flags.no_effect, record.flags.assumed) for each in kind}
        assert set(row["software"].get("raw_flags") or ()) | set(row["strategy"].get("features") or ()) <= told, record.id


@pytest.mark.parametrize("name", ["ascend", "gpu"])
def test_switches_of_shipped_runs_are_on_where_a_flag_says_so(name: str) -> None:
    for record in read_run_records(ROOT / f"calibration/runs/{name}.jsonl"):
        if isinstance(record, RunRecord):
            switches = {
                told.meaning
                for told in record.flags.read
                if told.meaning in Feature.__members__ or told.meaning.upper() in Feature.__members__
            }
            on = {str(feature.name).lower() for feature in record.strategy.features}
            assert switches - {"cuda_graph"} <= on, record.id  # a graph of parts of a layer counts as none


@pytest.mark.parametrize(("stack", "name", "meaning"), entries("switch", "switch_above_1"))
def test_a_switch_of_the_list_reaches_the_strategy(read: Read, stack: str, name: str, meaning: str) -> None:
    changes = {} if STACKS[stack].devices == "ascend" else ON_GPUS
    made = read(
        {**changes, "software.framework": FRAMEWORKS[stack], "strategy.features": [], "software.raw_flags": [f"{name}=2"]}
    )
    assert Feature[meaning.upper()] in made.strategy.features
    off = read({**changes, "software.framework": FRAMEWORKS[stack], "strategy.features": [], "software.raw_flags": [f"{name}=0"]})
    assert Feature[meaning.upper()] not in off.strategy.features


@pytest.mark.parametrize(("stack", "name", "meaning"), entries("off_switch"))
def test_a_flag_that_turns_a_switch_off_takes_what_is_usual(read: Read, stack: str, name: str, meaning: str) -> None:
    bare = read_flags([name], stack)[0]
    assert (bare.off, bare.meaning) == (Feature[meaning.upper()], f"{meaning} off")


# What a reader asks for by name: each must change what is priced, in a record where it can.
RULES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("add-qkv-bias", {}, {}),
    ("square-alibi-mask", {}, {}),
    ("position-embedding-type=alibi", {}, {}),
    ("post-norm", {}, {}),
    ("sliding-window=1024", {}, {}),
    ("interleave-sliding-window=1024", {}, {}),
    ("window-size=(1023, 0)", {"software.framework": "Megatron-LM"}, {}),
    ("use-mcore-models", {"software.backend": "torch_npu + Megatron legacy"}, {"software.raw_flags": ["manual-gc"]}),
    ("attention-backend=unfused", {**ON_GPUS, "software.framework": "Megatron-LM", "strategy.features": []}, {}),
    ("no flash attention", {**ON_GPUS, "software.framework": "Megatron-LM", "strategy.features": []}, {}),
    ("grad-reduce-in-fp32=false", {**ON_GPUS, "software.framework": "Megatron-LM"}, {}),
    ("sync-free MoE stage 1", {**ON_GPUS, "software.framework": "Primus (Megatron-LM on ROCm)"}, {}),
    ("no-overlap-p2p-communication", {"strategy.vpp": 2, "strategy.schedule": "interleaved-1f1b"}, {}),
    ("pp_layout=Et*7|(t*8|)*2t*9L", {}, {}),
    ("pipeline layout Et*7|(t*8|)*2t*9L", {}, {}),
    ("pipeline-model-parallel-layout=Et*7|(t*8|)*2t*9L", {}, {}),
    ("torch.compile", {**ON_GPUS, "software.framework": "torchtitan", "software.version": "2025-03"}, {}),
    (
        "ulysses-degree-in-cp=4",
        {"strategy.pp": 1, "strategy.dp": 1, "strategy.cp": 8, "strategy.cp_algo": "hybrid", "strategy.num_microbatches": 64},
        {},
    ),
    ("recompute=[3, 1, 0, 0]", {"software.framework": "MindFormers", "strategy.recompute.granularity": "per_stage"}, {}),
    ("select_recompute=True", {"software.framework": "MindFormers"}, {}),
    ("optimizer=FP32StateAdamWeightDecay", {"software.framework": "MindFormers", "training.precision": "fp16"}, {}),
)


@pytest.mark.parametrize(("text", "changes", "without"), RULES)
def test_a_rule_changes_what_is_priced(read: Read, text: str, changes: dict[str, Any], without: dict[str, Any]) -> None:
    plain = read({**changes, "software.raw_flags": [], **without})
    flagged = read({**changes, "software.raw_flags": [text]})
    assert (flagged.workload, flagged.strategy) != (plain.workload, plain.strategy)
    assert text in {told.flag for told in flagged.flags.read}


def test_a_field_is_stated_where_the_section_is_silent(row: Callable[..., dict[str, Any]], moe: dict[str, Any]) -> None:
    silent = row({"model.moe": moe, "strategy.distributed_optimizer": None})
    stated = with_stated(
        silent, read_flags(["use-distributed-optimizer", "expert-tensor-parallel-size=2", "moe-layer-freq=2"], "megatron-lm")
    )
    assert stated["strategy"]["distributed_optimizer"] is True  # type: ignore[index]
    assert stated["model"]["moe"]["moe_layer_freq"] == 2  # type: ignore[index]
    assert stated["strategy"]["etp"] == 1  # type: ignore[index]  # the record's own
    assert silent["strategy"]["distributed_optimizer"] is None
    assert "moe_layer_freq" not in silent["model"]["moe"]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--use-mc2", "use-mc2", None),
        ("padded-vocab-size=65024", "padded-vocab-size", "65024"),
        ("cuda graph off", "cuda graph off", None),
        ("fix_router=True (forced balance)", "fix-router", "True"),
        ("cross-entropy-loss-fusion native", "cross-entropy-loss-fusion", "native"),
        ("sequence-parallel (tp 1: no effect)", "sequence-parallel", None),
    ],
)
def test_flags_are_found_as_sources_write_them(text: str, name: str, value: str | None) -> None:
    found = flag(text)
    assert (found.text, found.name, found.value) == (text, name, value)
    assert found.effect is not Effect.NOT_UNDERSTOOD


def test_fine_grain_interleave_is_on_from_two_parts() -> None:
    assert flag("fine_grain_interleave=2", "mindformers").on == Feature.FINE_GRAIN_INTERLEAVE
    assert flag("fine_grain_interleave=1", "mindformers").off == Feature.FINE_GRAIN_INTERLEAVE
    assert flag("micro_batch_interleave_num=4", "mindformers").on == Feature.FINE_GRAIN_INTERLEAVE


def test_interleaved_parts_are_one_micro_batch(read: Read) -> None:
    changes = {"software.framework": "MindFormers", "software.raw_flags": ["micro_batch_interleave_num=4"]}
    assert read(changes).strategy.micro_batch_size == 4  # 64 samples over dp 2: 8 micro batches of 4 parts
    assert read({**changes, "strategy.num_microbatches": 30}).strategy.micro_batch_size == 1  # not in parts of 4


def test_a_framework_s_name_of_a_switch_is_the_switch(read: Read) -> None:
    assert read({"strategy.features": ["moe_fb_overlap"]}).strategy.features & Feature.MOE_COMM_OVERLAP
    (unknown,) = read_features(["warp_drive"])
    assert unknown.effect is Effect.NOT_UNDERSTOOD


def test_what_became_of_flags_is_told_by_run(read: Read, refuse: Callable[..., str]) -> None:
    record = read({"software.raw_flags": ["use-mc2", "manual-gc", "triangle-attn", "warp-drive=9"], "strategy.features": ["mc2"]})
    (row,) = validate([record], lambda workload: prior_constants("ascend")).rows
    assert [told.flag for told in row.flags.read] == ["mc2", "use-mc2"]
    assert [told.flag for told in row.flags.no_effect] == ["manual-gc"]
    assert [told.flag for told in row.flags.assumed] == ["triangle-attn"]
    assert row.flags.not_understood == ("warp-drive=9",)
    assert "warp-drive" not in refuse({"strategy.tp": 3})


def test_switches_that_nobody_says_are_assumed(read: Read) -> None:
    changes = {**ON_GPUS, "software.framework": "torchtitan", "strategy.features": [], "software.raw_flags": []}
    assumed = {told.flag for told in read(changes).flags.assumed}
    assert {"overlap_grad_reduce", "overlap_param_gather", "flash_attention"} <= assumed
    assert record_flags((), Feature(0)) == NO_FLAGS


def test_a_list_that_is_long_is_cut_and_not_refused(read: Read) -> None:
    found = read({"software.raw_flags": [f"flag-{number}" for number in range(5000)]})
    assert 0 < len(found.flags.not_understood) <= 1000


@pytest.mark.parametrize(
    ("stack", "table"), [("mindspeed-llm", MINDSPEED), ("megatron-lm", MEGATRON), ("mindformers", MINDFORMERS)]
)
def test_arguments_that_launch_files_have_for_switches_are_known(stack: str, table: Table) -> None:
    for switch in table.switches:
        for name in (switch.argument, switch.former):
            if name:
                found = flag(name if name == "optimizer.swap" else name.rpartition(".")[2], stack)
                assert found.effect in (Effect.READ, Effect.ASSUMED), name
                assert not (found.on | found.off) & ~switch.feature, name


def test_recompute_by_stage_is_read_from_text_too(read: Read) -> None:
    changes = {"software.framework": "MindFormers", "strategy.recompute.granularity": "per_stage"}
    strategy = read({**changes, "strategy.recompute.raw": "recompute: [3, 1, 0, 0], select_recompute: [[8, 8, 8, 8]]"}).strategy
    assert strategy.recompute_layers_per_stage == (3, 1, 0, 0)
    assert strategy.recompute_modules == RecomputeModule.MLP_ACT


@pytest.mark.parametrize("value", ["[" * 900, "[[[]]]", "[-1]", "[1e9]", "{}", "[true]", "null"])
def test_odd_lists_of_layers_refuse_no_run(read: Read, value: str) -> None:
    changes = {"software.framework": "MindFormers", "strategy.recompute.granularity": "per_stage"}
    strategy = read({**changes, "software.raw_flags": [f"recompute={value}", f"select_recompute={value}"]}).strategy
    assert strategy.recompute_layers_per_stage is None


def test_a_pattern_of_layers_is_read(read: Read, moe: dict[str, Any]) -> None:
    flags = {"model.moe": moe, "software.raw_flags": ["moe-layer-freq=([0]*3+[1]*29)"]}
    shape = read(flags).workload.model.moe
    assert shape is not None
    assert (shape.num_leading_dense_layers, shape.moe_layer_freq) == (3, 1)


def test_flags_of_the_parallel_optimizer_are_read(read: Read) -> None:
    changes = {"software.framework": "MindFormers", "strategy.distributed_optimizer": None}
    assert read({**changes, "software.raw_flags": ["enable_parallel_optimizer=True"]}).strategy.zero_stage == 1
    both = ["enable_parallel_optimizer=True", "gradient_accumulation_shard=True"]
    assert read({**changes, "software.raw_flags": both}).strategy.zero_stage == 2


def test_a_legacy_capacity_fills_every_expert_up() -> None:
    """DeepSpeed's and legacy ModelLink's experts get tensors of a fixed capacity, so nobody waits for sizes."""
    (flag,) = read_flags(["moe-train-capacity-factor=1.1"], "mindspeed-llm")
    assert (flag.field, flag.stated, flag.on) == ("model.moe.capacity_factor", 1.1, Feature.MOE_PAD_TO_CAPACITY)
    (modern,) = read_flags(["moe-expert-capacity-factor=1.1"], "mindspeed-llm")
    assert not modern.on
