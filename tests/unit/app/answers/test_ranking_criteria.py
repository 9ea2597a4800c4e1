"""Objectives and limits of a job, in numbers worked by hand from the steps that they judge."""

from typing import Any

import pytest

from app.answers.schemas import SearchDocument
from app.answers.search import search_document
from app.jobs.job import parse_job
from documents.errors import InputError

JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "train_tokens": 1e11},
}
LIMITS = {"tp": [1, 8], "vpp": 1, "cp": 1, "recompute": ["none", "full"], "top": 5}
SECONDS = 1e12 / (4096 * 64)  # for each second of a step, for a trillion tokens


def found(objective: str | list[str], delivery: dict[str, Any] | None = None, **search: Any) -> SearchDocument:
    return search_document(parse_job({**JOB, "delivery": delivery, "search": {**LIMITS, "objective": objective, **search}}))


def test_cost_is_the_price_of_all_device_hours() -> None:
    document = found("cost", {"price_per_device_hour_usd": 2.0})
    for plan in document.plans:
        assert plan.values is not None
        assert plan.values["cost"] == pytest.approx(plan.estimate.step_time_s * SECONDS / 3600.0 * 16 * 2.0)
    assert document.proof.proved_best
    assert any("price_per_device_hour_usd, as given" in sentence for sentence in document.assumptions)


def test_energy_is_less_where_devices_wait_more_of_an_equal_step() -> None:
    site = {"power_w": 100.0, "waiting_power_fraction": 0.5, "host_power_fraction": 0.0, "pue": 1.0}
    document = found("energy", site)
    for plan in document.plans:
        times = plan.estimate.time_breakdown_s
        waits = (
            "tp_comm",
            "cp_comm",
            "ep_comm",
            "dp_comm",
            "weight_gather",
            "activation_swap",
            "pipeline_p2p",
            "pipeline_bubble",
            "host",
        )
        waiting_s = sum(times.get(name, 0.0) for name in waits)
        joules = (100.0 * (plan.estimate.step_time_s - waiting_s) + 50.0 * waiting_s) * 16
        assert plan.values is not None
        assert plan.values["energy"] == pytest.approx(joules * SECONDS / 3.6e6)
    values = [(plan.values or {})["energy"] for plan in document.plans]
    assert values == sorted(values)
    assert document.proof.optimality_gap_fraction is not None
    assert 0.0 < document.proof.optimality_gap_fraction < 0.5  # less than half cannot be drawn


def test_delivered_counts_failures_of_a_site_of_defaults_and_says_so() -> None:
    document = found("delivered")
    best = document.plans[0]
    assert best.values is not None
    per_day = best.estimate.tokens_per_s * 86_400.0
    assert 0.5 * per_day < best.values["delivered"] < per_day
    assert any("failures_per_node_day" in sentence for sentence in document.assumptions)
    unfailing = found("delivered", {"failures_per_node_day": 0.0, "checkpoint_fixed_s": 0.0})
    assert (unfailing.plans[0].values or {})["delivered"] == pytest.approx(per_day, rel=1e-3)


def test_robust_is_never_below_the_step() -> None:
    document = found("robust")
    for plan in document.plans:
        assert plan.values is not None
        assert plan.estimate.step_time_s <= plan.values["robust"] <= 1.1 * plan.estimate.step_time_s * (1 + 1e-9)
        assert "worse, which hurts it most" in (plan.explanation.objective or "")


def test_several_objectives_have_a_front_of_plans() -> None:
    document = found(["step_time", "memory_headroom", "device_hours"])
    assert document.proof.objective == "step_time"
    front = [entry.values for entry in document.pareto]
    assert [each["memory_headroom"] for each in front] == sorted({each["memory_headroom"] for each in front})
    for each in front:
        assert each["device_hours"] == pytest.approx(each["step_time"] * SECONDS * 16 / 3600.0)


def test_a_deadline_and_a_budget_bound_plans() -> None:
    fastest = max(plan.estimate.tokens_per_s for plan in found("step_time").plans)  # plan 1 is the sturdiest of a tie
    days = 1e11 / fastest / 86_400.0
    assert found("step_time", deadline_days=days * 1.001).proof.proved_best
    late = found("step_time", deadline_days=days * 0.99)
    assert late.plans == []
    assert late.nearest == (
        f"No plan is done within {days * 0.99:g} days: the fastest takes {days:,.1f}, and trains 9.9e+10 of the 1e+11 tokens in "
        "that time. At its speed a device it would take 17 devices."  # 16 / 0.99, rounded up
    )
    usd = days * 24.0 * 16 * 3.0
    dear = found("step_time", {"price_per_device_hour_usd": 3.0}, budget_usd=usd * 0.9)
    assert dear.nearest == (
        f"No plan costs {usd * 0.9:,.0f} USD or less: the cheapest costs {usd:,.0f}, and trains 9e+10 of the 1e+11 "
        "tokens for that."
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16}, "search": {"objective": "cost"}}, "has no price"),
        (
            {"model": "megatron-22b", "training": {"seq_length": 2048, "global_batch_size": 64}, "search": {"deadline_days": 3}},
            "train_tokens",
        ),
        ({"search": {"objective": "energy", "sampler": "random"}}, "needs the exhaustive search"),
        ({"search": {"objective": ["step_time", "speed"]}}, "'speed' is not allowed"),
    ],
)
def test_what_has_no_number_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        search_document(parse_job({**JOB, **changes}))
