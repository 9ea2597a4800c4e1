"""Flags of published Ascend runs, parsed, land on the strategy that the same record states; every difference is explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from calibration.records.training import RunRecord, read_run_records
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute
from cost_models.shapes.switches import Feature
from tests.oracle.launch_files.parsing import parse_arguments
from tests.oracle.launch_files.shell import LaunchFileError
from tests.unit.frameworks.published import ROOT, RUNS, megatron_arguments, mindformers_options, rows

RECOMPUTE = {"recompute", "recompute_method", "recompute_num_layers", "recompute_modules"}
# Names of scripts before Megatron core that no table of a core release has.
GONE = ("checkpoint-policy", "triangle-attn", "mlp-layer-fusion", "moe-train-capacity-factor")


@cache
def records() -> dict[str, RunRecord]:
    return {record.id: record for record in read_run_records(RUNS) if isinstance(record, RunRecord)}


def recorded(row: dict[str, Any]) -> RunRecord:
    return records()[row["id"]]


def differing(row: dict[str, Any], read: ParallelStrategy) -> set[str]:
    made, meant = recorded(row).workload, recorded(row).strategy
    ours, theirs = canonical(made, meant), canonical(made, read)
    return {f.name for f in fields(ours) if getattr(ours, f.name) != getattr(theirs, f.name)}


def mindspeed_differences(row: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """(explanation, fields that it covers) of a MindSpeed-LLM row."""
    raw, meant = row["strategy"]["recompute"]["raw"] or {}, recorded(row).strategy
    if "checkpoint-activations" in raw or "checkpoint-activations" in row["software"]["raw_flags"]:
        yield "recompute by --checkpoint-activations, which core releases refuse", RECOMPUTE
    if row["strategy"]["zero_stage"] in (2, 3):
        yield "ZeRO stage of a DeepSpeed file beside the script", {"zero_stage"}
    if meant.cp_algo is CpAlgo.HYBRID:
        yield (
            "hybrid context parallelism without a Ulysses degree, read as the smallest that its heads allow",
            {
                "cp_algo",
                "ulysses_degree",
            },
        )
    if any(flag.startswith("moe-train-capacity-factor") for flag in row["software"]["raw_flags"]):
        yield "a capacity that fills every expert up, by a flag from before Megatron core", {"features"}
    covered = raw.get("recompute-activation-function-num-layers")
    if covered is not None and meant.recompute is not Recompute.FULL:
        yield "recompute of activation functions in less than half of the layers, which the record leaves out", RECOMPUTE
    stages, layers = row["strategy"]["pp"], row["model"]["num_layers"]
    if layers % stages and (layers + 2) % stages == 0:
        yield "embedding and loss count as layers of the end stages, in a release without a flag for it", {"unreadable"}


def mindformers_differences(row: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """(explanation, fields that it covers) of a MindFormers row; ``feature`` names stand for the switch alone."""
    parts = [flag for flag in row["software"]["raw_flags"] if flag.startswith("micro_batch_interleave_num")]
    if parts or row["strategy"]["num_microbatches"] in (None, 1):  # those parts are one micro batch
        yield "without accumulation the parallel optimizer keeps no whole gradient: recorded as ZeRO 2", {"zero_stage"}
    if row["strategy"]["etp"] > 1:
        yield "expert_model_parallel is a key of the legacy branch", {"etp"}
    yield "fused_norm is a key, on by default, of the mcore branch that these releases came before", {"features"}


def test_mindspeed_rows_say_what_their_record_says() -> None:
    compared, different, explained, kinds = 0, 0, Counter[str](), Counter[str]()
    for row in rows("mindspeed-llm"):
        try:
            read = parse_arguments(megatron_arguments(row), framework="mindspeed-llm", num_devices=row["cluster"]["num_devices"])
            found = differing(row, read.strategy)
            unknown = [problem.split(" ")[0] for problem in read.problems if "is no argument" in problem]
            assert set(unknown) <= set(GONE)
        except LaunchFileError:
            found = {"unreadable"}
        compared += 1
        plan = recorded(row).strategy
        kinds["moe"] += recorded(row).workload.model.moe is not None
        kinds["cp"] += plan.cp > 1
        kinds["vpp"] += plan.vpp > 1
        kinds["recompute"] += plan.recompute is not Recompute.NONE
        if found:
            different += 1
            reasons = [(why, covers) for why, covers in mindspeed_differences(row) if covers & found]
            assert found <= set().union(*(covers for _, covers in reasons)), (row["id"], found)
            explained.update(why for why, _ in reasons)
    assert compared == 104
    assert min(kinds[kind] for kind in ("moe", "cp", "vpp", "recompute")) >= 8, kinds
    assert different == 18
    assert all(why in documentation() for why in explained)


def test_mindformers_rows_say_what_their_record_says() -> None:
    compared, explained = 0, Counter[str]()
    for row in rows("mindformers"):
        if row["id"] not in records():
            continue  # states no batch, so that it is no run to compare with
        read = parse_arguments(mindformers_options(row), framework="mindformers")
        assert read.num_devices == row["cluster"]["num_devices"]
        found = differing(row, read.strategy)
        compared += 1
        reasons = [(why, covers) for why, covers in mindformers_differences(row) if covers & found]
        assert found <= set().union(*(covers for _, covers in reasons)), (row["id"], found)
        explained.update(why for why, _ in reasons)
        made = recorded(row).workload
        switches = canonical(made, read.strategy).features ^ canonical(made, recorded(row).strategy).features
        assert switches in Feature.FUSED_NORM | Feature.FINE_GRAIN_INTERLEAVE, (row["id"], switches)
    assert compared >= 58
    assert all(why in documentation() for why in explained)


def documentation() -> str:
    return (ROOT / "docs/launch.md").read_text(encoding="utf-8")
