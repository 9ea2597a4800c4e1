"""A trace beside its prediction: sums, order, our own timelines, and the run record that it makes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from app.answers.simulation import play
from app.answers.trace import trace_text
from app.calibrations.constants import constants_for
from app.jobs.job import Job, parse_job
from app.text.terminal import plain_text
from app.traces.records import add_record, record_of
from app.traces.schemas import ComparedPart, TraceDocument
from app.traces.service import accounted, compared
from app.traces.tables import print_comparison
from app.traces.trace_parts import dealt
from calibration.records.training import RunRecord, parse_run_record, read_run_records
from calibration.traces.measured import VOCABULARY, Source
from documents.errors import InputError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "traces"
DENSE: dict[str, Any] = {
    "model": "llama-2-13b",
    "cluster": {"hardware": "atlas-900-a2-podc", "num_devices": 32},
    "training": {"seq_length": 4096, "global_batch_size": 32},
    "strategy": {"tp": 2, "pp": 4, "vpp": 2, "cp": 2, "micro_batch_size": 1},
}
MIXTURE: dict[str, Any] = {
    "model": "deepseek-v2-lite",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "strategy": {"tp": 2, "ep": 8, "recompute": "full"},
}
GPU: dict[str, Any] = {
    "model": "llama-2-13b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 32},
    "strategy": {"tp": 2, "pp": 2},
}


def own_trace(job: Job, path: Path) -> Path:
    assert job.strategy is not None
    path.write_text(trace_text(play(job.workload, job.strategy, constants_for(job.workload))), encoding="utf-8")
    return path


@pytest.mark.parametrize("document", [DENSE, MIXTURE, GPU])
def test_our_own_trace_is_as_predicted(document: dict[str, Any], tmp_path: Path) -> None:
    job = parse_job(document)
    path = own_trace(job, tmp_path / "own.json")
    found = compared(job, path)
    assert found.trace.source == "meshplan"
    assert [row.difference_s for row in found.parts] == [0.0] * len(found.parts)
    assert found.difference_s == pytest.approx(0.0, abs=1e-9)
    assert found.trace.step_time_s == pytest.approx(found.estimate.step_time_s, rel=1e-6)
    assert found.accounted == "Every part is as predicted."
    for rank in found.trace.ranks:
        assert all(row.difference_s == 0.0 for row in compared(job, path, rank=rank).parts)


def test_our_trace_of_another_plan_is_not(tmp_path: Path) -> None:
    """A network of a fiftieth: without a pipeline it is gradients and weights that take longer."""
    job = {**GPU, "strategy": {"tp": 2}}
    path = own_trace(parse_job({**job, "cluster": {**GPU["cluster"], "inter_node_bytes_per_s": 1e9}}), tmp_path / "slow.json")
    found = compared(parse_job(job), path)
    assert found.parts[0].part == "dp_comm"
    assert found.parts[0].difference_s > 0.0
    assert "Most of it is in DP communication" in found.accounted


@pytest.mark.parametrize(
    ("document", "name"), [(DENSE, "step_trace_time.csv"), (GPU, "torch.pt.trace.json"), (MIXTURE, "trace_view.json")]
)
def test_parts_sum_to_both_steps_and_the_largest_disagreement_comes_first(document: dict[str, Any], name: str) -> None:
    found: TraceDocument = compared(parse_job(document), FIXTURES / name)
    assert sum(row.measured_s for row in found.parts) == pytest.approx(found.trace.step_time_s)
    assert sum(row.predicted_s for row in found.parts) == pytest.approx(found.estimate.step_time_s)
    assert found.estimate.fidelity == "simulated"
    sizes = [abs(row.difference_s) for row in found.parts]
    assert sizes == sorted(sizes, reverse=True)
    assert found.difference_s == pytest.approx(sum(row.difference_s for row in found.parts))


@pytest.mark.parametrize("source", [Source.STEP_TABLE, Source.TORCH, Source.TORCH_NPU])
def test_every_part_of_an_estimate_is_dealt_whole(source: Source) -> None:
    """Each part to the traces' own; a recompute is one more forward: a third of matmul's 6 s, two sevenths of attention's 7 s."""
    found = compared(parse_job(MIXTURE), FIXTURES / "trace_view.json")
    parts = dealt(source, found.estimate.time_breakdown_s, found.strategy)
    assert set(parts) == {str(part) for part in VOCABULARY[source]}
    for name, time_s in found.estimate.time_breakdown_s.items():
        assert sum(of.get(name, 0.0) for of in parts.values()) == pytest.approx(time_s)
    if source is not Source.STEP_TABLE:
        again = dealt(source, {"matmul": 6.0, "attention": 7.0, "recompute": 8.0}, found.strategy)
        assert again["matmul"]["recompute"] == again["attention"]["recompute"] == pytest.approx(4.0)


def part(name: str, measured_s: float, predicted_s: float) -> ComparedPart:
    return ComparedPart(
        part=name,
        of={},
        measured_s=measured_s,
        predicted_s=predicted_s,
        difference_s=measured_s - predicted_s,
        measured_masked_s=0.0,
        predicted_masked_s=0.0,
    )


def test_the_sentence_names_what_accounts_for_the_difference() -> None:
    """3 s longer of communication, 1 s of free time, 1 s less compute: 75 % of what is longer."""
    rows = [part("dp_comm", 5.0, 2.0), part("free", 2.0, 1.0), part("matmul", 3.0, 4.0)]
    assert accounted(3.0, 10.0, rows) == (
        "Most of it is in DP communication: 3 s longer than predicted, 75% of all that is longer."
    )
    rows = [part("matmul", 6.0, 3.0), part("attention", 1.0, 3.5)]
    assert (
        accounted(0.5, 10.0, rows) == "Parts differ by more than the step and nearly cancel out: matmul +3 s, attention -2.5 s."
    )


@pytest.mark.parametrize("document", [DENSE, MIXTURE, GPU])
def test_a_record_is_read_back_as_the_job(document: dict[str, Any]) -> None:
    job = parse_job(document)
    found = compared(job, FIXTURES / "step_trace_time.csv")
    read = parse_run_record(record_of(job, found.trace, Path("step_trace_time.csv")))
    assert isinstance(read, RunRecord)
    assert read.measured.step_time_s == pytest.approx(found.trace.median_step_time_s)
    assert job.strategy is not None
    for name in (
        "tp",
        "pp",
        "vpp",
        "cp",
        "dp",
        "ep",
        "etp",
        "micro_batch_size",
        "schedule",
        "zero_stage",
        "dispatcher",
        "recompute",
    ):
        assert getattr(read.strategy, name) == getattr(job.strategy, name), name
    assert read.workload.cluster == job.workload.cluster
    assert read.workload.model.moe == job.workload.model.moe
    assert read.workload.software.stack == job.workload.software.stack


def test_a_record_is_added_and_takes_the_place_of_itself(tmp_path: Path) -> None:
    job, path, trace = parse_job(DENSE), tmp_path / "runs.jsonl", FIXTURES / "step_trace_time.csv"
    path.write_text('{"id": "other"}\n')
    first, second = compared(job, trace, step=11).trace, compared(job, trace, step=12).trace
    for step in (first, second):
        told = add_record(path, job, step, trace)
    assert [json.loads(line)["id"] == "other" for line in path.read_text().splitlines()] == [True, False]
    assert len(read_run_records(path)) == 2
    assert "--stack mindspeed-llm" in told[0]


def test_a_record_says_what_it_cannot_hold(tmp_path: Path) -> None:
    """Normed queries and keys have no key of their own in a record; nor has a measured load of experts."""
    job = parse_job({**MIXTURE, "model": "qwen3-30b-a3b"})
    trace = FIXTURES / "step_trace_time.csv"
    told = add_record(tmp_path / "runs.jsonl", job, compared(job, trace).trace, trace)
    assert "model.qk_layernorm" in told[1]


def test_what_a_person_sees() -> None:
    """Every row in one unit, kernels of no known kind up to twenty, the rest of them summed up."""
    found = compared(parse_job(GPU), FIXTURES / "torch.pt.trace.json")
    kernel = found.unknown_kernels[0]
    many = found.model_copy(update={"unknown_kernels": [kernel] * 22, "warnings": ["Beware."]})
    text = io.StringIO()
    print_comparison(plain_text(text, 120), many)
    shown = text.getvalue()
    assert "Warning: Beware." in shown
    assert "torch.profiler, step 5 of rank 0: 10 ms measured" in shown
    assert "3 steps in the trace, median 10 ms." in shown
    assert shown.count("void house::mystery_kernel<int>(int*)") == 20
    assert "2 more" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith(("matmul", "attention", "step "))]
    assert [row[-1] for row in rows[:2]] == ["s", "s"]
    same = found.model_copy(update={"difference_fraction": 0.0, "unknown_kernels": [], "notes": []})
    text = io.StringIO()
    print_comparison(plain_text(text, 120), same)
    assert "the same." in text.getvalue()


def test_our_trace_of_a_longer_pipeline_is_refused(tmp_path: Path) -> None:
    path = own_trace(parse_job(DENSE), tmp_path / "own.json")
    with pytest.raises(InputError, match="--job: its timeline holds no rank 3; it has 0, 1"):
        compared(parse_job({**DENSE, "strategy": {"tp": 2, "pp": 2}}), path, rank=3)


def test_what_makes_no_record_is_refused(tmp_path: Path) -> None:
    job = parse_job(DENSE)
    own = compared(job, own_trace(job, tmp_path / "own.json")).trace
    with pytest.raises(InputError, match="--records: the trace is one of our own"):
        add_record(tmp_path / "runs.jsonl", job, own, tmp_path / "own.json")
    step = compared(job, FIXTURES / "step_trace_time.csv").trace
    job_file = tmp_path / "job.yaml"
    job_file.write_text("model: llama-2-7b\n")
    with pytest.raises(InputError, match=r"--records: .*job.yaml: line 1: no record of a run; give a file of such, or a new one"):
        add_record(job_file, job, step, tmp_path / "own.json")
    assert job_file.read_text() == "model: llama-2-7b\n"


def test_the_file_stands_before_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("[]")
    with pytest.raises(InputError, match=r"trace\.json: holds no work of a device"):
        compared(parse_job(DENSE), path)
    without = {name: section for name, section in DENSE.items() if name != "strategy"}
    with pytest.raises(InputError, match="--job: the job has no strategy"):
        compared(parse_job(without), path)
