"""Days, tokens a day, energy and cost carry the interval of the step, in JSON too."""

from __future__ import annotations

from typing import Any

from app.answers.price import estimate_document
from app.answers.step_interval import intervals_of
from app.goodput.service import goodput_document
from app.jobs.job import parse_job
from app.sweeps.points import Source
from app.sweeps.service import sweep_document
from app.text.json_documents import plain

JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "train_tokens": 1e11},
    "delivery": {"price_per_device_hour_usd": 2.0, "histories": 100},
    "strategy": {"tp": 8},
}


def test_by_hand_days_grow_and_rates_shrink_with_the_step() -> None:
    # A step of 10 s, 8 to 15 s: 100 days are 80 to 150, 30 tokens/s are 20 to 37.5.
    step = {"step_time_s": 10.0, "step_time_low_s": 8.0, "step_time_high_s": 15.0}
    assert intervals_of(step, {"days": 100.0, "cost": None}, {"rate": 30.0}) == {
        "days": {"low": 80.0, "high": 150.0},
        "rate": {"low": 20.0, "high": 37.5},
    }
    assert intervals_of({"step_time_s": 10.0, "step_time_low_s": None, "step_time_high_s": None}, {"days": 1.0}, {}) == {}


def carries(document: dict[str, Any], step: dict[str, Any], values: dict[str, float], *, wider: float = 0.0) -> None:
    """Whether the ends are those of the step, or ``wider`` by at most that fraction."""
    assert set(values) <= set(document["intervals"])
    shortest, longest = step["step_time_low_s"] / step["step_time_s"], step["step_time_high_s"] / step["step_time_s"]
    for name, value in values.items():
        ends = document["intervals"][name]
        assert ends["low"] < value < ends["high"]
        assert longest / shortest * (1.0 - 5e-3) <= ends["high"] / ends["low"] <= longest / shortest * (1.0 + wider + 5e-3)


def test_delivery_and_goodput_carry_the_interval_of_the_step() -> None:
    job = parse_job(JOB)
    assert job.strategy is not None
    priced = plain(estimate_document(job, job.strategy))
    delivery = priced["delivery"]
    carries(delivery, priced["estimate"], {name: delivery[name] for name in ("delivered_tokens_per_day", "delivered_days")})
    found = plain(goodput_document(job))
    carries(found, found["estimate"], {"delivered_tokens_per_day": found["delivered_tokens_per_day"]})
    values = {
        "days": found["days"]["mean"],
        "energy.kwh": found["energy"]["kwh"],
        "cost.usd": found["cost"]["usd"],
    }
    carries(found, found["estimate"], values, wider=0.05)  # failures too, which decide little here


def test_points_of_a_sweep_carry_the_interval_of_the_step() -> None:
    asked = {**JOB, "delivery": None, "strategy": None, "search": {"tp": [4, 8], "pp": 1, "cp": 1}, "sweep": {"devices": [8, 16]}}
    found = plain(sweep_document(Source({name: part for name, part in asked.items() if part is not None})))
    for point in found["points"]:
        carries(point, point, {name: point[name] for name in ("days", "device_days", "tokens_per_s")})
