"""The runs that are advised: legal, far cheaper than the job, the same every time, and priced as they will be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.answers.parts import PARTS
from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument
from app.calibrations.constants import constants_for
from app.calibrations.next_runs import NUM_RUNS, NUM_STEPS, START_S, has_next_run, next_runs
from app.catalogue.models.shape import model_to_mapping
from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE, NOTHING_FEASIBLE
from app.jobs.job import parse_job
from calibration.fitting.robust_fit import Observation, observation_of
from calibration.records.training import RunRecord, parse_run_record
from cost_models.shapes.strategy import StrategyBatch
from cost_models.step.composition import estimate
from frameworks.legality import violations

FAR: dict[str, Any] = {
    "model": "deepseek-v3",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 2048},
    "training": {"seq_length": 4096, "global_batch_size": 15360},
    "strategy": {"tp": 2, "pp": 16, "vpp": 2, "ep": 32, "recompute": "full"},
}
DENSE: dict[str, Any] = {
    "model": "llama-3.1-405b",
    "cluster": {"hardware": "mi300x", "num_devices": 1024},
    "training": {"seq_length": 8192, "global_batch_size": 512},
    "strategy": {"tp": 8, "pp": 8, "vpp": 2},
}
NEAR: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-900-a2-podc", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "strategy": {"tp": 8},
}


def saved(folder: Path, job: dict[str, Any], name: str = "job.json") -> str:
    path = folder / name
    path.write_text(json.dumps(job), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("document", [FAR, DENSE], ids=["experts", "dense"])
def test_a_job_far_from_evidence_gets_three_runs_that_cost_far_less(document: dict[str, Any]) -> None:
    job = parse_job(document)
    assert job.strategy is not None
    found = next_runs(job, job.strategy)
    assert len(found) == NUM_RUNS == 3
    step_time_s = estimate(job.workload, StrategyBatch.of([job.strategy]), constants_for(job.workload)).step_time_s[0]
    for run in found:
        assert run.device_s == pytest.approx(run.num_devices * (START_S + NUM_STEPS * run.step_time_s))
        assert run.device_s < 0.01 * NUM_STEPS * step_time_s * job.workload.cluster.num_devices
        assert run.num_devices <= 64
    spreads = [found[0].spread_before, *(run.spread_after for run in found)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 0.6 * spreads[0]
    assert [run.spread_before for run in found[1:]] == pytest.approx([run.spread_after for run in found[:-1]])


@pytest.mark.parametrize("document", [FAR, DENSE], ids=["experts", "dense"])
def test_each_run_is_a_job_that_starts_and_takes_what_was_said(document: dict[str, Any]) -> None:
    job = parse_job(document)
    assert job.strategy is not None
    for run in next_runs(job, job.strategy):
        again = parse_job(json.loads(json.dumps(run.job)))
        assert again.strategy is not None
        assert violations(again.workload, again.strategy) == ()
        priced = estimate(again.workload, StrategyBatch.of([again.strategy]), constants_for(again.workload))
        assert priced.step_time_s[0] == pytest.approx(run.step_time_s)
        assert priced.fits[0]
        assert again.workload.cluster.profile == job.workload.cluster.profile
        assert again.workload.software == job.workload.software
        assert again.workload.model.hidden_size == job.workload.model.hidden_size


@pytest.mark.parametrize(
    "document", [{**FAR, "software": {"stack": "mindspeed-llm", "year": 2025.5}}, DENSE], ids=["dated", "dense"]
)
def test_each_run_comes_with_the_record_that_calibrate_reads(document: dict[str, Any]) -> None:
    job = parse_job(document)
    assert job.strategy is not None
    for run in next_runs(job, job.strategy):
        row = json.loads(json.dumps(run.record))
        row["measured"]["step_time_s"] = run.step_time_s
        record = parse_run_record(row)
        assert isinstance(record, RunRecord)
        software = record.workload.software
        assert software == replace(job.workload.software, year=software.year, unknown_release=software.unknown_release)
        assert software.unknown_release == (row["software"]["version"] is None)
        assert record.workload.software.year == pytest.approx(job.workload.software.year)
        found = observation_of(record, constants_for(record.workload))
        assert isinstance(found, Observation)
        assert abs(found.log_error(constants_for(record.workload))) < 0.02  # simulated, where the advice is in closed form


def test_the_same_job_gets_the_same_runs() -> None:
    job = parse_job(FAR)
    assert job.strategy is not None
    assert next_runs(job, job.strategy) == next_runs(parse_job(FAR), job.strategy)


def test_runs_hold_whole_periods_of_layers_that_are_not_alike() -> None:
    model = model_to_mapping(parse_job({**DENSE, "model": "qwen3-8b"}).workload.model)
    local = {"kind": "window", "window": 1024, "full_attention_every": 6}
    job = parse_job({**DENSE, "model": {**model, "local_attention": local}, "strategy": {"tp": 8}})
    assert job.strategy is not None
    found = next_runs(job, job.strategy)
    assert found
    for run in found:
        assert parse_job(json.loads(json.dumps(run.job))).workload.model.num_layers % 6 == 0


@pytest.mark.parametrize(("pattern", "period"), [("M-*-" * 12, 4), ("M-" * 23 + "*-", 48)])
def test_layers_of_one_block_are_cut_with_their_pattern(pattern: str, period: int) -> None:
    model = model_to_mapping(parse_job({**DENSE, "model": "nemotron-h-8b"}).workload.model)
    model = {**model, "num_layers": len(pattern), "hybrid_layer_pattern": pattern}
    job = parse_job({**DENSE, "model": model, "strategy": {"tp": 8}})
    assert job.strategy is not None
    found = next_runs(job, job.strategy)
    assert found
    for run in found:
        again = parse_job(json.loads(json.dumps(run.job))).workload.model
        assert again.num_layers % period == 0
        assert pattern.startswith(again.hybrid_layer_pattern)


def test_a_job_that_holds_no_shorter_run_gets_none() -> None:
    job = parse_job({**NEAR, "training": {"seq_length": 4096, "global_batch_size": 1}})
    assert job.strategy is not None
    assert not has_next_run(job, job.strategy)
    assert next_runs(job, job.strategy) == []  # four micro batches of four layers are more than a tenth of one step of 32


def test_an_estimate_advises_where_evidence_is_far_and_is_silent_elsewhere() -> None:
    far, near = parse_job(DENSE), parse_job(NEAR)
    assert far.strategy is not None
    assert near.strategy is not None
    advised = estimate_document(far, far.strategy, explained=PARTS)
    assert advised.estimate.evidence.extrapolated
    assert advised.next_runs == next_runs(far, far.strategy)
    EstimateDocument.model_validate(advised.model_dump(exclude_unset=True))
    for document in (estimate_document(far, far.strategy), estimate_document(near, near.strategy, explained=PARTS)):
        assert "next_runs" not in document.model_dump(exclude_unset=True)


def test_an_estimate_far_from_measured_runs_says_so_and_names_those_to_make(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, DENSE)
    assert main(["estimate", path, "--show", "runs"]) == DONE
    first, _, runs = capsys.readouterr().out.partition("\nMeasured runs are far from this job. Make these")
    assert "Measured runs are far from this job. --show runs" in first
    lines = runs.splitlines()
    assert main(["estimate", path]) == DONE  # the runs are not priced for these lines
    assert "Measured runs are far from this job. --show runs" in capsys.readouterr().out
    assert [line.split(".")[0].strip() for line in lines[1:4]] == ["1", "2", "3"]
    assert "meshplan calibrate" in lines[4]
    alone = {**DENSE, "cluster": {"hardware": "mi300x", "num_devices": 8}, "strategy": {"tp": 8}}
    alone["training"] = {"seq_length": 8192, "global_batch_size": 1}
    assert main(["estimate", saved(tmp_path, alone)]) == DONE
    assert "far from this job. `meshplan calibrate` on runs of your site" in capsys.readouterr().out
    assert main(["estimate", saved(tmp_path, NEAR)]) == DONE
    assert "Measured runs are far" not in capsys.readouterr().out


def test_suggest_prints_the_runs_as_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, DENSE)
    assert main(["calibrate", "--suggest", path, "--json"]) == DONE
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == 3
    assert np.isfinite([run["device_s"] for run in document["runs"]]).all()
    assert main(["estimate", saved(tmp_path, document["runs"][0]["job"], "run.json"), "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["estimate"]["step_time_s"] == pytest.approx(document["runs"][0]["step_time_s"])
    assert main(["calibrate", "--suggest", path]) == DONE
    assert "device-hours" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ([], BAD_INPUT, "RUNS.jsonl: missing; give a file of your measured runs, or --suggest JOB"),
        (["runs.jsonl"], BAD_INPUT, "--hardware: missing"),
        (["runs.jsonl", "--hardware", "mi300x"], BAD_INPUT, "--stack: missing"),
        (["runs.jsonl", "--suggest", "{far}"], BAD_INPUT, "RUNS.jsonl: given beside --suggest"),
        (["--suggest", "{far}", "--overwrite"], BAD_INPUT, "--overwrite: given beside --suggest"),
        (["--suggest", "{far}", "--stack", "fsdp"], BAD_INPUT, "--stack: given beside --suggest"),
        (["--suggest", "none.yaml"], BAD_INPUT, "none.yaml"),
        (["--suggest", "{short}"], NOTHING_FEASIBLE, "no shorter run"),
        (["--suggest", "{search}"], BAD_INPUT, "has no strategy"),
    ],
)
def test_what_cannot_be_suggested_is_told_in_a_sentence(
    arguments: list[str], code: int, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = {**NEAR, "training": {"seq_length": 4096, "global_batch_size": 1}}
    jobs = {"{far}": DENSE, "{short}": short, "{search}": {k: v for k, v in NEAR.items() if k != "strategy"}}
    given = [saved(tmp_path, jobs[word]) if word in jobs else word for word in arguments]
    assert main(["calibrate", *given]) == code
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1
