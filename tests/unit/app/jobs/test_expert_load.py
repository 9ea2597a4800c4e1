"""What balances the router: as given, as usual for the model, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from app.answers.price import estimate_document
from app.answers.schemas import EstimateNumbers
from app.cli.main import main
from app.jobs.job import parse_job
from cost_models.shapes.expert_spread import expert_spread
from cost_models.shapes.router_balance import RouterBalance
from documents.errors import InputError
from tests.unit.app.jobs.test_job import DENSE, PANGU, refusal, with_part


def balance_of(model: str) -> RouterBalance:
    spread = parse_job(
        {"model": model, "cluster": {"hardware": "atlas-800t-a2", "num_devices": 1024}}
    ).workload.training.expert_spread
    assert spread is not None
    return spread.balance


@pytest.mark.parametrize(
    ("model", "balance"),
    [
        ("pangu-ultra-moe-718b", RouterBalance.AUXILIARY_LOSS),
        ("deepseek-v3", RouterBalance.LOSS_FREE),
        ("deepseek-v2", RouterBalance.AUXILIARY_LOSS),
        ("pangu-pro-moe-72b", RouterBalance.GROUP),
        ("mixtral-8x7b", RouterBalance.AUXILIARY_LOSS),
    ],
)
def test_a_model_has_its_usual_balance(model: str, balance: RouterBalance) -> None:
    assert balance_of(model) is balance


def test_what_is_assumed_is_said_with_its_loads_and_its_basis() -> None:
    (line,) = (line for line in parse_job(PANGU).assumptions if "router_balance" in line)
    spread = expert_spread(RouterBalance.AUXILIARY_LOSS, 256)
    assert line.startswith("training.router_balance = none (not stated: times are those of even experts, ")
    assert "up to the usual auxiliary-loss" in line
    for ep in (8, 16, 32, 64):
        assert f"{float(spread.load_factor(ep)):.2f} at EP{ep}" in line
        assert f"{float(spread.peak_load_factor(ep)):.2f}" in line
    assert "DeepSeek-V2-Lite" in line


@pytest.mark.parametrize("balance", ["auxiliary-loss", "sequence", "micro-batch", "ep-group", "loss-free", "forced"])
def test_a_resolved_job_gives_the_same_balance(balance: str) -> None:
    job = parse_job(with_part(PANGU, training={"router_balance": balance}))
    assert not any("router_balance" in line for line in job.assumptions)
    assert job.document["training"]["router_balance"] == balance
    assert job.document["training"]["expert_load_factor"] is None
    assert parse_job(job.document).workload == job.workload
    assert parse_job(job.document).document == job.document


def test_a_factor_or_counts_take_the_place_of_the_balance() -> None:
    flat = parse_job(with_part(PANGU, training={"expert_load_factor": 1.3})).workload.training
    assert (flat.expert_load_factor, flat.expert_spread) == (1.3, None)
    counted = parse_job(with_part(PANGU, training={"expert_counts": [1] * 256})).workload.training
    assert counted.expert_spread is None


@pytest.mark.parametrize("other", [{"expert_load_factor": 1.1}, {"expert_counts": [1] * 256}])
def test_only_one_of_the_three_is_taken(other: dict[str, Any]) -> None:
    message = refusal(with_part(PANGU, training={"router_balance": "forced", **other}))
    assert message.startswith(f"training.router_balance: given beside training.{next(iter(other))}")


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (with_part(DENSE, training={"router_balance": "forced"}), "llama-2-7b has no experts; leave it out."),
        (with_part(PANGU, training={"router_balance": "group"}), "does not choose one expert of each"),
        (with_part(PANGU, training={"router_balance": "auxiliary_loss"}), "'auxiliary-loss'"),
    ],
)
def test_a_balance_that_the_model_cannot_have_is_refused(document: dict[str, Any], part: str) -> None:
    message = refusal(document)
    assert message.startswith("training.router_balance")
    assert part in message


def test_what_has_no_effect_is_said() -> None:
    capped = parse_job(PANGU).document
    capped["model"]["moe"]["capacity_factor"] = 1.0
    capped["training"]["router_balance"] = "loss-free"
    assert any("router_balance has no effect" in line for line in parse_job(capped).warnings)
    del capped["training"]["router_balance"], capped["assumed"]
    job = parse_job(capped)
    assert job.workload.training.expert_spread is None
    assert not any("router_balance" in line for line in (*job.assumptions, *job.warnings))
    capped["training"]["expert_load_factor"] = 1.2
    assert any("expert_load_factor has no effect" in line for line in parse_job(capped).warnings)
    dense = parse_job(with_part(DENSE, training={"expert_load_factor": 1.2}))
    assert any("expert_load_factor has no effect" in line for line in dense.warnings)
    assert parse_job(parse_job(DENSE).document).warnings == parse_job(DENSE).warnings


def test_an_estimate_slows_with_the_balance_and_says_the_load_of_its_degree() -> None:
    strategy = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32, "recompute": "full"}
    steps = {}
    for balance in ("forced", "loss-free", "auxiliary-loss"):
        job = parse_job(with_part(PANGU, training={"router_balance": balance}, strategy=strategy))
        assert job.strategy is not None
        steps[balance] = estimate_document(job, job.strategy, ()).estimate.step_time_s
    assert steps["forced"] < steps["loss-free"] < steps["auxiliary-loss"]


STRATEGY = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32, "recompute": "full"}


def estimate_of(training: dict[str, Any]) -> EstimateNumbers:
    job = parse_job(with_part(PANGU, training=training, strategy=STRATEGY))
    assert job.strategy is not None
    return estimate_document(job, job.strategy, ()).estimate


def test_routing_that_nobody_stated_is_even_in_time_and_doubt_above_it() -> None:
    unstated, forced, usual = (
        estimate_of(each) for each in ({}, {"router_balance": "forced"}, {"router_balance": "auxiliary-loss"})
    )
    assert unstated.step_time_s == pytest.approx(forced.step_time_s)
    added_s = usual.step_time_s - forced.step_time_s
    assert unstated.uneven_experts_s == pytest.approx(added_s)
    assert usual.uneven_experts_s == pytest.approx(added_s)
    assert forced.uneven_experts_s == 0.0
    # The doubt and the interval of even experts add in squares, upwards only.
    assert unstated.step_time_low_s == pytest.approx(forced.step_time_low_s)
    assert unstated.step_time_high_s is not None
    assert forced.step_time_high_s is not None
    known, doubt = math.log(forced.step_time_high_s / forced.step_time_s), math.log(usual.step_time_s / forced.step_time_s)
    assert math.log(unstated.step_time_high_s / unstated.step_time_s) == pytest.approx(math.hypot(known, doubt))
    # Memory has room for the usual loads.
    assert unstated.peak_memory_bytes == pytest.approx(usual.peak_memory_bytes)
    assert unstated.peak_memory_bytes > forced.peak_memory_bytes


def test_a_resolved_job_without_a_balance_stays_without() -> None:
    job = parse_job(PANGU)
    assert job.document["training"]["router_balance"] is None
    assert parse_job(job.document).workload == job.workload


def test_the_flag_and_the_table_say_the_balance(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--hardware atlas-800t-a2 --devices 6144 --tp 8 --pp 16 --vpp 2 --ep 32 --recompute full --router-balance loss-free"
    main(["estimate", "pangu-ultra-moe-718b", *flags.split(), "--details"])
    text = " ".join(capsys.readouterr().out.split())
    assert "Routing (loss-free): the fullest of 32 expert ranks has 1.12 x the mean, in memory 1.08" in text
    with pytest.raises(InputError, match="--router-balance"):
        parse_job(with_part(DENSE, training={"router_balance": "forced"}), labels={"training.router_balance": "--router-balance"})


def test_a_spread_is_part_of_what_names_a_job() -> None:
    job = parse_job(PANGU).workload.training
    assert job.expert_spread is not None
    assert job != replace(job, expert_spread=job.expert_spread.with_excess(0.5))


def test_a_capacity_of_the_job_takes_the_place_of_the_models() -> None:
    job = parse_job(with_part(PANGU, training={"expert_capacity_factor": 1.25}))
    assert job.workload.model.moe is not None
    assert job.workload.model.moe.capacity_factor == 1.25 == job.document["model"]["moe"]["capacity_factor"]
    assert job.workload.training.expert_spread is None
    assert parse_job(job.document).workload == job.workload


@pytest.mark.parametrize("value", [float("nan"), -1.0, 0.0, float("inf"), 1e9, "much"])
def test_a_capacity_that_is_none_is_refused(value: object) -> None:
    assert refusal(with_part(PANGU, training={"expert_capacity_factor": value})).startswith("training.expert_capacity_factor: ")


def test_a_capacity_without_experts_is_refused() -> None:
    message = refusal(with_part(DENSE, training={"expert_capacity_factor": 1.0}))
    assert message == "training.expert_capacity_factor: llama-2-7b has no experts; leave it out."


def test_drop_and_pad_removes_the_size_synchronisation_and_nothing_else_of_the_host() -> None:
    strategy = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32, "recompute": "full"}
    found = {}
    for pads in (False, True):
        switches = {"moe_pad_to_capacity": pads}
        job = parse_job(with_part(PANGU, training={"expert_capacity_factor": 1.0}, strategy={**strategy, "switches": switches}))
        assert job.strategy is not None
        found[pads] = estimate_document(job, job.strategy, ()).estimate.time_breakdown_s
    assert found[False]["size_synchronisation"] > 0.0 == found[True]["size_synchronisation"]
    assert found[False]["host"] == found[True]["host"]
