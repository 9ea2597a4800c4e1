"""What a check says, and the status that its exit code stands for."""

from collections.abc import Iterable
from typing import Any

import pytest

from app.checks.budget import Budget, parse_budget
from app.checks.check import check_job, check_without_job
from app.checks.metrics import SLOWDOWN
from app.checks.outcome import bound_item, item, status_of
from app.checks.schemas import CheckDocument
from app.jobs.job import Job
from app.text.json_documents import plain
from documents.errors import InputError
from tests.unit.app.checks.jobs import SMALL, checked, small_job

TOO_LARGE = {"tp": 1, "micro_batch_size": 8, "features": []}


def statuses(document: dict[str, Any]) -> dict[str, str]:
    CheckDocument.model_validate(document)
    return {item["id"]: item["status"] for item in document["checks"]}


def test_a_bound_that_is_met_exactly_holds(job: Job, estimate: dict[str, Any]) -> None:
    time_s = estimate["step_time_s"]
    document = checked(job, parse_budget({"step_time_s": {"min": time_s, "max": time_s}}))
    assert document["status"] == "passed"
    assert document["exit_code"] == 0
    assert statuses(document) == {
        "strategy": "passed", "memory": "passed", "budget.step_time_s.min": "passed", "budget.step_time_s.max": "passed",
    }  # fmt: skip
    assert document["estimate"] == estimate


@pytest.mark.parametrize(("end", "factor"), [("max", 0.999), ("min", 1.001)])
def test_a_bound_that_is_missed_breaks_the_budget(job: Job, estimate: dict[str, Any], end: str, factor: float) -> None:
    document = checked(job, parse_budget({"tokens_per_s": {end: estimate["tokens_per_s"] * factor}}))
    assert (document["status"], document["exit_code"]) == ("broken", 3)
    assert statuses(document)[f"budget.tokens_per_s.{end}"] == "failed"


def test_a_strategy_that_does_not_fit_is_infeasible_and_its_budget_is_not_evaluated() -> None:
    job = small_job(model="llama-2-70b", strategy=TOO_LARGE)
    document = checked(job, parse_budget({"step_time_s": {"max": 1e9}, SLOWDOWN: {"max": 1}}))
    assert (document["status"], document["exit_code"]) == ("infeasible", 4)
    assert statuses(document) == {
        "strategy": "passed",
        "memory": "failed",
        "budget.step_time_s.max": "not_evaluated",
        f"budget.{SLOWDOWN}.max": "not_evaluated",
    }
    assert document["search"] is None  # nothing was searched for a strategy that cannot run


def test_a_strategy_that_breaks_a_rule_is_infeasible() -> None:
    job = small_job(strategy={"tp": 1, "micro_batch_size": 3})
    document = checked(job, parse_budget({"step_time_s": {"max": 1e9}}))
    assert (document["status"], document["exit_code"]) == ("infeasible", 4)
    assert document["estimate"] is None
    assert statuses(document) == {"strategy": "failed", "budget.step_time_s.max": "not_evaluated"}


def test_a_strategy_that_does_not_divide_the_devices_is_infeasible() -> None:
    document = check_without_job("strategy: tp 3 does not divide 8.", Budget(), with_regression=True).document
    assert document.exit_code == 4
    assert statuses(plain(document)) == {"strategy": "failed", "regression.step_time_s": "not_evaluated"}


def test_the_distance_to_the_best_is_measured_by_a_search(job: Job) -> None:
    document = checked(job, parse_budget({SLOWDOWN: {"max": 0.0}}))
    best = document["search"]["best"]
    slowdown = document["estimate"]["step_time_s"] / best["estimate"]["step_time_s"] - 1
    item = document["checks"][-1]
    assert item["value"] == pytest.approx(slowdown, rel=1e-12)
    assert slowdown > 0
    assert (item["status"], document["exit_code"]) == ("failed", 3)
    again = checked(small_job(strategy=best["strategy"]), parse_budget({SLOWDOWN: {"max": 0.0}}))
    assert again["checks"][-1]["value"] == 0.0
    assert again["exit_code"] == 0


def test_a_job_without_a_strategy_is_checked_at_its_best_plan(job: Job) -> None:
    best = checked(job, parse_budget({SLOWDOWN: {"max": 1.0}}))["search"]["best"]
    document = checked(small_job(strategy=None), parse_budget({SLOWDOWN: {"max": 0.0}}))
    assert document["strategy"] == best["strategy"]
    assert document["exit_code"] == 0


@pytest.mark.parametrize("strategy", [None, SMALL["strategy"]])
def test_no_plan_is_infeasible(strategy: dict[str, Any] | None) -> None:
    job = small_job(strategy=strategy, search={"tp": 8, "pp": 4})  # 32 devices of 8
    document = checked(job, parse_budget({SLOWDOWN: {"max": 0.1}}))
    assert (document["status"], document["exit_code"]) == ("infeasible", 4)
    assert statuses(document)["plan" if strategy else "strategy"] == "failed"


def test_a_cut_search_leaves_the_distance_unknown_but_a_broken_budget_broken(job: Job, estimate: dict[str, Any]) -> None:
    def stop(progress: object) -> bool:
        return False

    asked = {SLOWDOWN: {"max": 9}}
    document = checked(job, parse_budget(asked), on_progress=stop)
    assert document["search"]["proof"]["stopped_by"]
    assert (document["status"], document["exit_code"]) == ("cut", 5)
    assert statuses(document)[f"budget.{SLOWDOWN}.max"] == "undetermined"
    budget = parse_budget({**asked, "step_time_s": {"max": estimate["step_time_s"] / 2}})
    broken = checked(job, budget, on_progress=stop)
    assert (broken["status"], broken["exit_code"]) == ("broken", 3)


def test_without_a_strategy_a_cut_search_may_have_missed_a_plan_that_holds(job: Job) -> None:
    job = small_job(strategy=None)
    stopped = {
        limit: checked(job, parse_budget({"step_time_s": {"max": limit}}), on_progress=lambda _: False) for limit in (1e9, 1)
    }
    assert stopped[1]["exit_code"] == 5
    assert stopped[1e9]["exit_code"] == 0  # whatever was missed: the plan that was found holds
    assert checked(job, parse_budget({"step_time_s": {"max": 1}}))["exit_code"] == 3


@pytest.mark.parametrize(
    ("end", "value", "expected"),
    # The best plan that a cut search has found is not faster than the best there is: the slowdown can only grow.
    [("max", 0.05, "undetermined"), ("max", 0.15, "failed"), ("min", 0.05, "undetermined"), ("min", 0.15, "passed")],
)
def test_what_a_cut_search_knows_of_a_slowdown(end: str, value: float, expected: str) -> None:
    assert bound_item(SLOWDOWN, end, 0.1, value, may_grow=True).status == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([("strategy", "passed"), ("budget.x.max", "passed")], "passed"),
        ([("budget.x.max", "not_evaluated")], "passed"),
        ([("budget.x.max", "undetermined")], "cut"),
        ([("budget.x.max", "undetermined"), ("budget.y.max", "failed")], "broken"),
        ([("memory", "failed"), ("budget.y.max", "failed")], "infeasible"),
        ([("plan", "failed"), ("regression.y", "failed")], "infeasible"),
    ],
)
def test_the_worst_decides(found: Iterable[tuple[str, Any]], expected: str) -> None:
    assert status_of([item(name, status, "") for name, status in found]) == expected


def test_a_sampler_is_warned_about_where_a_search_runs() -> None:
    job = small_job(search={**SMALL["search"], "sampler": "random", "seed": 1})
    assert any("search.sampler" in text for text in checked(job, parse_budget({SLOWDOWN: {"max": 9}}))["warnings"])
    assert checked(job, parse_budget({"step_time_s": {"max": 99}}))["warnings"] == []


def test_pin_needs_a_baseline(job: Job) -> None:
    with pytest.raises(InputError, match=r"pin \(--pin\): there is no baseline"):
        check_job(job, Budget(), pin=True)
