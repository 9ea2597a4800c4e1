"""A check tells what the job moved from what the tool moved, and a pinned one holds the tool still."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hardware_profiles
from app.answers.price import estimate_document
from app.answers.provenance import priced_with
from app.answers.search import search_document
from app.calibrations.constants import paired_error_of
from app.checks.baseline import Baseline, baseline_document, job_changes, parse_baseline
from app.checks.budget import parse_budget
from app.checks.check import check_job
from app.jobs.job import Job, parse_job
from app.text.json_documents import json_text, plain
from calibration.files.calibrations import Calibration, calibration_for
from documents.errors import InputError
from documents.hashing import fingerprint
from hardware_profiles.loader import parse_profile
from hardware_profiles.writer import profile_document
from tests.unit.app.checks.jobs import SMALL, checked, small_job

TOLERANT = parse_budget({"regression": {"step_time_s": {"max_fraction": 0.02}}}, has_baseline=True)


def stored(job: Job, own: tuple[Calibration, ...] = ()) -> dict[str, Any]:
    """The baseline file of a job, as it is read back."""
    assert job.strategy is not None
    document: dict[str, Any] = json.loads(json.dumps(baseline_document(job, estimate_document(job, job.strategy, own), own)))
    return document


def baseline_of(job: Job, own: tuple[Calibration, ...] = ()) -> Baseline:
    return parse_baseline(stored(job, own), "plan.json")


def other_calibration(job: Job) -> Calibration:
    """The shipped one with its first constants moved by a tenth: another tool."""
    shipped = calibration_for(job.workload)
    fitted = tuple(replace(entry, value=entry.value * 0.9) for entry in shipped.fitted[:3])
    return replace(shipped, fitted=fitted, correlations=())


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 0


def movement(document: dict[str, Any], metric: str = "step_time_s") -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in document["baseline"]["movements"] if entry["metric"] == metric)
    parts = (1 + found["tool_fraction"]) * (1 + found["job_fraction"])
    assert math.isclose(parts, found["value"] / found["before"], rel_tol=1e-12)
    return found


def test_the_same_job_and_tool_move_nothing(job: Job) -> None:
    document = checked(job, TOLERANT, baseline=baseline_of(job))
    moved = movement(document)
    assert (moved["tool_fraction"], moved["job_fraction"], moved["worse_fraction"]) == (0.0, 0.0, 0.0)
    assert (document["baseline"]["tool_changes"], document["baseline"]["job_changes"]) == ([], [])
    assert document["exit_code"] == 0


def test_a_change_of_the_job_is_the_job_s(job: Job) -> None:
    slower = small_job(strategy={"tp": 8, "micro_batch_size": 1, "recompute": "full"})
    document = checked(slower, TOLERANT, baseline=baseline_of(job))
    moved = movement(document)
    assert moved["tool_fraction"] == 0.0
    assert moved["job_fraction"] > 0.02
    assert document["exit_code"] == 3
    assert document["baseline"]["tool_changes"] == []
    assert "strategy.recompute.granularity: 'none' -> 'full'" in document["baseline"]["job_changes"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["mc2", "coc"], ["coc", "fused_rope"], "+fused_rope, -mc2"),
        ([], ["mc2"], "+mc2"),
        ([f"f{n}" for n in range(20)], [], ", ".join(f"-f{n}" for n in range(12)) + ", ..."),
        (["mc2", "coc"], ["coc", "mc2"], "['mc2', 'coc'] -> ['coc', 'mc2']"),  # their order is all that differs
        (["mc2", "mc2"], ["mc2"], "['mc2', 'mc2'] -> ['mc2']"),
        (["a b"], ["c"], "['a b'] -> ['c']"),  # of a file that anyone may have written
        ([{"a": 1}], [{"a": 2}], "[{'a': 1}] -> [{'a': 2}]"),
        ([1, 2], [1], "[1, 2] -> [1]"),
    ],
)
def test_of_a_list_of_names_what_came_and_what_went_is_told(before: list[Any], after: list[Any], told: str) -> None:
    assert job_changes({"strategy": {"features": before}}, {"strategy": {"features": after}}) == [f"strategy.features: {told}"]


def test_a_field_that_the_baseline_s_version_did_not_know_is_no_change_of_the_job(job: Job) -> None:
    older = stored(job)
    del older["job"]["software"]["execution"], older["strategy"]["zero_stage"]
    document = checked(job, TOLERANT, baseline=parse_baseline(older, "plan.json"))
    assert document["baseline"]["job_changes"] == []
    assert movement(document)["job_fraction"] == 0.0


def test_a_change_of_the_calibration_is_the_tool_s(job: Job) -> None:
    baseline = baseline_of(job, (other_calibration(job),))
    document = checked(job, TOLERANT, baseline=baseline)
    moved = movement(document)
    assert moved["job_fraction"] == 0.0
    assert abs(moved["tool_fraction"]) > 0.001
    assert document["baseline"]["job_changes"] == []
    assert any("calibration" in sentence for sentence in document["baseline"]["tool_changes"])


def test_pin_holds_the_calibration(job: Job) -> None:
    other = other_calibration(job)
    document = checked(job, TOLERANT, baseline=baseline_of(job, (other,)), pin=True)
    moved = movement(document)
    assert moved["before"] == moved["repriced"] == moved["value"]
    assert document["exit_code"] == 0
    assert document["priced_with"]["calibration"] == other.fingerprint
    assert any("calibration" in sentence for sentence in document["baseline"]["tool_changes"])  # it is reported all the same


def test_pin_holds_the_profile(job: Job) -> None:
    document = stored(job)
    document["hardware_profile"]["hbm_bytes_per_s"]["value"] *= 0.5
    profile = parse_profile(document["hardware_profile"], "test")
    old = replace(job, workload=replace(job.workload, cluster=replace(job.workload.cluster, profile=profile)))
    baseline = baseline_of(old)
    free = movement(checked(job, TOLERANT, baseline=baseline))
    assert free["job_fraction"] == 0.0
    assert free["tool_fraction"] < -0.001  # twice the bandwidth is faster
    pinned = checked(job, TOLERANT, baseline=baseline, pin=True)
    assert movement(pinned)["value"] == movement(pinned)["before"]
    assert pinned["priced_with"]["hardware_profile"] == fingerprint(profile)


def test_pin_counts_only_what_the_job_moved_where_the_version_moved_too(job: Job) -> None:
    document = stored(job)
    document["estimate"]["step_time_s"] *= 0.5  # what a version with another model of the same step would have said
    document["priced_with"]["version"] = "0.0.9"
    baseline = parse_baseline(document, "plan.json")
    free, pinned = (checked(job, TOLERANT, baseline=baseline, pin=pin) for pin in (False, True))
    assert movement(free)["tool_fraction"] == pytest.approx(1.0)
    assert (free["exit_code"], pinned["exit_code"]) == (3, 0)
    assert any("0.0.9" in sentence for sentence in pinned["baseline"]["tool_changes"])


@pytest.mark.parametrize(("factor", "code"), [(1.02, 0), (1.0, 0), (1.021, 3)])
def test_the_tolerance_is_of_the_baseline(job: Job, factor: float, code: int) -> None:
    document = stored(job)
    document["estimate"]["step_time_s"] /= factor
    assert checked(job, TOLERANT, baseline=parse_baseline(document, "plan.json"))["exit_code"] == code


def test_answers_of_estimate_and_search_are_baselines(job: Job) -> None:
    assert job.strategy is not None
    for document in (estimate_document(job, job.strategy), search_document(job)):
        baseline = parse_baseline(json.loads(json_text(document)), "answer.json")
        found = checked(job, parse_budget({"step_time_s": {"max": 99}}), baseline=baseline, pin=True)
        assert movement(found)["tool_fraction"] == pytest.approx(0.0, abs=1e-12)
    assert movement(found)["job_fraction"] > 0  # the search's best plan is faster than the job's


def test_a_check_s_own_document_is_a_baseline(job: Job) -> None:
    document = json.loads(json.dumps(checked(job, parse_budget({"step_time_s": {"max": 99}}))))
    assert movement(checked(job, TOLERANT, baseline=parse_baseline(document, "check.json")))["value"] > 0


def test_a_baseline_of_hashes_alone_cannot_hold_another_tool(job: Job) -> None:
    assert job.strategy is not None
    document = {
        **plain(estimate_document(job, job.strategy)),
        "priced_with": {**priced_with(job.workload), "calibration": "0" * 12},
    }
    with pytest.raises(InputError, match=r"pin \(--pin\): plan\.json names its calibration by hash.*--write-baseline"):
        check_job(job, TOLERANT, baseline=parse_baseline(document, "plan.json"), pin=True)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"estimate": None}, "no baseline"),
        ({"job": []}, "no baseline"),
        ({"priced_with": None}, "what priced it"),
        ({"priced_with": {"version": 3}}, "priced_with is not as our commands write it"),
        ({"plans": []}, "found no plan"),
        ({"plans": 3}, "found no plan"),
        ({"calibration": {}}, "calibration: format: missing"),
        ({"hardware_profile": {"name": "x"}}, "hardware_profile"),
        ({"calibration": {"num_runs": float("inf")}}, "it holds inf"),
        ({"priced_with": {"version": 10**400}}, "it holds an integer of more than 60 digits"),
        ({"job": {"a": nested(40)}}, "nested deeper than 32 levels"),
    ],
)
def test_what_is_no_baseline_is_refused(job: Job, change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=r"^plan\.json: ") as caught:
        parse_baseline({**stored(job), **change}, "plan.json")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "12 s", [], {}, 1e-300, -1e-300])
def test_a_baseline_without_the_number_is_refused(job: Job, value: Any) -> None:
    document = stored(job)
    document["estimate"]["step_time_s"] = value
    with pytest.raises(InputError, match=r"plan\.json.*step_time_s"):
        check_job(job, TOLERANT, baseline=parse_baseline(document, "plan.json"))


def test_a_baseline_whose_job_no_longer_parses_is_compared_by_its_numbers_alone(job: Job) -> None:
    document = stored(job)
    document["job"]["training"]["bygone"] = 1
    baseline = parse_baseline(document, "plan.json")
    found = checked(job, TOLERANT, baseline=baseline)
    entry = found["baseline"]["movements"][0]
    assert (entry["repriced"], entry["tool_fraction"], entry["job_fraction"], entry["worse_fraction"]) == (None, None, None, 0.0)
    assert "bygone" in found["baseline"]["note"]
    with pytest.raises(InputError, match=r"pin \(--pin\): .*bygone"):
        check_job(job, TOLERANT, baseline=baseline, pin=True)


def test_other_hardware_is_a_change_of_the_job(job: Job) -> None:
    moved = small_job(cluster={"hardware": "atlas-900-a2-podc", "num_devices": 8})
    for pin in (False, True):
        document = checked(moved, TOLERANT, baseline=baseline_of(job), pin=pin)
        assert movement(document)["tool_fraction"] == 0.0
        assert "cluster.hardware: 'atlas-800t-a2' -> 'atlas-900-a2-podc'" in document["baseline"]["job_changes"]


def test_a_site_s_own_profile_may_lie_elsewhere_today(tmp_path: Path) -> None:
    text = (Path(hardware_profiles.__file__).parent / "ascend/atlas-800t-a2.yaml").read_text(encoding="utf-8")
    jobs = []
    for folder in ("then", "now"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "site.yaml").write_text(text.replace("name: atlas-800t-a2", "name: our-site", 1), encoding="utf-8")
        cluster = {"hardware": "site.yaml", "num_devices": 8}
        jobs.append(parse_job({**SMALL, "cluster": cluster}, folder=tmp_path / folder))
    baseline = baseline_of(jobs[0])
    shutil.rmtree(tmp_path / "then")
    for pin in (False, True):
        document = checked(jobs[1], TOLERANT, baseline=baseline, pin=pin)
        assert movement(document)["value"] == movement(document)["before"]
        assert document["baseline"]["job_changes"] == document["baseline"]["tool_changes"] == []


def test_the_profile_s_hash_is_of_its_numbers(job: Job) -> None:
    profile = job.workload.cluster.profile
    again = parse_profile(json.loads(json.dumps(profile_document(profile))), "again")
    assert fingerprint(again) == fingerprint(profile)
    assert fingerprint(replace(profile, title="x", notes=("y",))) == fingerprint(profile)
    assert fingerprint(replace(profile, hbm_bytes=1.0)) != fingerprint(profile)


def test_a_slower_plan_within_the_paired_error_is_said_to_tie_and_fails_the_budget_all_the_same() -> None:
    # The fused norm off: a few per cent, of the same job under the same tool.
    fused = small_job()
    unfused = small_job(strategy={**SMALL["strategy"], "features": ["flash_attention", "fused_swiglu", "fused_rope"]})
    document = checked(
        unfused,
        parse_budget({"regression": {"step_time_s": {"max_fraction": 0}}}, has_baseline=True),
        baseline=baseline_of(fused),
    )
    (found,) = [entry for entry in document["checks"] if entry["id"] == "regression.step_time_s"]
    told = paired_error_of(fused.workload).fraction
    assert 0 < found["value"] < told
    assert found["status"] == "failed"
    assert f"(less than the paired error of {told:.1%}: the plans cannot be told apart)" in found["sentence"]
    # Another batch is another job, of which the paired error says nothing.
    other = small_job(training={**SMALL["training"], "global_batch_size": 72})
    document = checked(
        other, parse_budget({"regression": {"step_time_s": {"max_fraction": 9}}}, has_baseline=True), baseline=baseline_of(fused)
    )
    assert "paired error" not in json.dumps(document["checks"])
