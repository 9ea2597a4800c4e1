"""Budgets are strict: what they cannot mean is one sentence."""

import math
from typing import Any

import pytest

from app.checks.budget import Budget, parse_budget
from app.checks.metrics import DELIVERED, HIGHER_IS_BETTER, MEASURES, METRICS, SLOWDOWN, measured, shown, worsening
from app.jobs.job import Job
from documents.errors import InputError
from tests.unit.app.checks.jobs import small_job


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        ({"step_tim_s": {"max": 1}}, ["budget.step_tim_s", "unknown key", "did you mean 'step_time_s'?"]),
        ({"fits": {"min": 1}}, ["budget.fits", "unknown key"]),
        ({"bottleneck": {"min": 1}}, ["budget.bottleneck", "unknown key"]),
        ({"step_time_s": {"maxx": 1}}, ["budget.step_time_s.maxx", "did you mean 'max'?"]),
        ({"step_time_s": {"max": "20 s"}}, ["budget.step_time_s.max", "'20 s'", "a number"]),
        ({"step_time_s": {"max": True}}, ["budget.step_time_s.max", "true"]),
        ({"step_time_s": {"max": math.inf}}, ["budget.step_time_s.max", "inf"]),
        ({"step_time_s": {"max": math.nan}}, ["budget.step_time_s.max", "nan"]),
        ({"step_time_s": {"max": 10**400}}, ["budget.step_time_s.max", "an integer of more than 60 digits"]),
        ({"step_time_s": {"max": 1e19}}, ["budget.step_time_s.max"]),
        ({"step_time_s": 20}, ["budget.step_time_s", "20", "a mapping with min, max"]),
        ({"step_time_s": {}}, ["budget.step_time_s", "give min, max or both"]),
        ({"step_time_s": {"min": None}}, ["budget.step_time_s", "give min, max or both"]),
        ({"step_time_s": {"min": 2, "max": 1}}, ["budget.step_time_s", "min 2 is above max 1"]),
        ({}, ["budget", "bounds nothing"]),
        ({"schema_version": 2, "step_time_s": {"max": 1}}, ["budget.schema_version", "2", "give 1"]),
        ({"regression": {"step_time": {"max_fraction": 0}}}, ["budget.regression.step_time", "did you mean 'step_time_s'?"]),
        ({"regression": {"step_time_s": {"max_fraction": -0.1}}}, ["budget.regression.step_time_s.max_fraction", "-0.1"]),
        ({"regression": {"step_time_s": 0.1}}, ["budget.regression.step_time_s", "0.1"]),
        ({"regression": {SLOWDOWN: {"max_fraction": 0.1}}}, [f"budget.regression.{SLOWDOWN}", "unknown key"]),
    ],
)
def test_what_a_budget_cannot_mean_is_one_sentence(document: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_budget(document, has_baseline=True)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_a_regression_without_a_baseline_would_check_nothing() -> None:
    with pytest.raises(InputError, match=r"budget\.regression: there is no baseline"):
        parse_budget({"regression": {"step_time_s": {"max_fraction": 0}}})


def test_limits_are_the_given_ends_in_the_order_of_the_metrics() -> None:
    budget = parse_budget({"tokens_per_s": {"min": 5, "max": 9.5}, "step_time_s": {"max": 20}, SLOWDOWN: {"max": 0.1}})
    assert list(budget.limits()) == [
        ("step_time_s", "max", 20.0),
        ("tokens_per_s", "min", 5.0),
        ("tokens_per_s", "max", 9.5),
        (SLOWDOWN, "max", 0.1),
    ]
    assert budget.needs_search
    assert not Budget().needs_search


def test_without_a_regression_part_no_slower_step_is_allowed() -> None:
    assert parse_budget({"step_time_s": {"max": 1}}, has_baseline=True).tolerances == {"step_time_s": 0.0}
    given = parse_budget({"regression": {"peak_memory_bytes": {"max_fraction": 0.5}}}, has_baseline=True)
    assert given.tolerances == {"peak_memory_bytes": 0.5}


def test_every_number_of_an_estimate_is_a_metric(estimate: dict[str, Any]) -> None:
    numbers = {name for name, value in estimate.items() if isinstance(value, float | int) and not isinstance(value, bool)}
    assert numbers == set(METRICS) - {"device_days", SLOWDOWN, *DELIVERED}
    assert set(METRICS) > HIGHER_IS_BETTER


def test_device_days_are_devices_times_days(job: Job, estimate: dict[str, Any]) -> None:
    # 1e11 tokens at t tokens/s are 1e11 / t / 86,400 days, on 8 devices each.
    expected = 8 * 1e11 / estimate["tokens_per_s"] / 86_400
    assert measured("device_days", estimate, job.document, where="budget") == pytest.approx(expected, rel=1e-12)


def test_device_days_need_a_number_of_tokens(estimate: dict[str, Any]) -> None:
    training = {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"}
    model = {"num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "ffn_hidden_size": 2048, "vocab_size": 32000}
    job = small_job(model={"name": "own", **model}, training=training)
    with pytest.raises(InputError, match=r"budget\.device_days: .*training\.train_tokens"):
        measured("device_days", estimate, job.document, where="budget")


@pytest.mark.parametrize(
    ("metric", "before", "after", "expected"),
    [
        ("step_time_s", 10.0, 11.0, 0.1),
        ("step_time_s", 10.0, 9.0, -0.1),
        ("tokens_per_s", 10.0, 9.0, 0.1),
        ("headroom_bytes", -4.0, -5.0, 0.25),
        ("headroom_bytes", 4.0, -1.0, 1.25),
        ("headroom_bytes", 0.0, 0.0, 0.0),
        ("headroom_bytes", 0.0, -1.0, None),
    ],
)
def test_worse_is_more_time_and_less_headroom(metric: str, before: float, after: float, expected: float | None) -> None:
    assert worsening(metric, before, after) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("metric", MEASURES)
def test_every_metric_is_shown_with_a_unit(metric: str) -> None:
    text = shown(metric, 1234.5)
    assert any(unit in text for unit in (" s", "GiB", "%", "tokens/s", "device-days", "tokens a day", " days"))
