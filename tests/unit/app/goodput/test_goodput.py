"""What a job delivers, as a document: parts that sum up, assumptions that are told, limits of the question."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from app.answers.costs import WAITING
from app.answers.site import changed_sites, nodes_of, running_plan, site_of, supernode_devices
from app.goodput.failure_log import read_failure_log
from app.goodput.schemas import GoodputDocument
from app.goodput.service import TOLD_STRETCHES, goodput_document
from app.jobs.delivery import SOURCES, DeliverySection
from app.jobs.job import parse_job
from cost_models.delivery.failures import DAY_S
from documents.errors import InfeasibleError, InputError
from hardware_profiles import catalogue

JOB: dict[str, Any] = {
    "model": "llama-2-70b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 512},
    "training": {"seq_length": 4096, "global_batch_size": 512, "train_tokens": 2e12},
    "strategy": {"tp": 8, "pp": 4, "vpp": 2, "recompute": "full"},
}


def answered(job: dict[str, Any] = JOB, **site: Any) -> GoodputDocument:
    return goodput_document(parse_job({**job, "delivery": {"histories": 200, **site}}))


def test_losses_sum_up_and_days_follow() -> None:
    found = answered(mtbf_s=20_000.0, slowdowns_per_node_day=0.01, slowdown_fraction=0.2, spares=0)
    assert sum(found.losses.values()) == pytest.approx(1.0, abs=1e-9)
    assert found.losses["useful"] == found.effective_time_fraction
    assert found.mtbf_s == pytest.approx(20_000.0)
    assert found.losses["waiting_for_nodes"] > 0
    assert found.delivered_tokens_per_day == pytest.approx(found.estimate.tokens_per_s * 86_400 * found.effective_time_fraction)
    assert found.days is not None
    assert found.days.mean == pytest.approx(2e12 / found.delivered_tokens_per_day)
    assert found.days.p10 <= found.days.p50 <= found.days.p90
    assert found.waterfall[0].stage == "peak"
    assert found.waterfall[-1].tokens_per_day == pytest.approx(found.delivered_tokens_per_day)


def test_a_cluster_that_never_fails_loses_checkpoints_alone() -> None:
    found = answered(failures_per_node_day=0.0)
    assert found.mtbf_s is None
    assert found.effective_time_fraction == pytest.approx(1.0, abs=1e-4)
    month, found_days = found.delivered_tokens_per_day_by_month, found.days
    assert found_days is not None
    assert found_days.p10 == pytest.approx(found_days.p90)
    assert month.p50 == pytest.approx(found.delivered_tokens_per_day, rel=1e-3)


def test_a_job_that_fails_too_often_delivers_nothing_and_says_so() -> None:
    found = answered(mtbf_s=2.0)
    assert found.effective_time_fraction < 1e-4
    assert found.days is None
    assert any("nothing is delivered" in warning for warning in found.warnings)


def test_parts_in_which_a_device_waits_are_parts_of_a_step() -> None:
    assert set(WAITING) <= set(answered().estimate.time_breakdown_s)


def test_what_is_too_long_to_play_is_played_in_part() -> None:
    quick: dict[str, Any] = {"recovery": "step", "detection_s": 1.0, "repair_s": 0.0}
    often, seldom = answered(mtbf_s=400.0, **quick), answered(mtbf_s=4e4, **quick)
    for found in (often, seldom):
        assert found.days is not None
        assert found.days.p50 == pytest.approx(found.days.mean, rel=0.01)
    assert often.days is not None
    assert (often.days.p90 - often.days.p10) / often.days.p50 < 0.01


def test_the_largest_gain_comes_first_and_is_that_of_the_change() -> None:
    found = answered(mtbf_s=20_000.0)
    assert [row.gain_fraction for row in found.changes] == sorted((row.gain_fraction for row in found.changes), reverse=True)
    assert found.changes[0].change == "no failures at all"
    (process,) = [row for row in found.changes if row.change == "recovery at the level of the process"]
    again = answered(mtbf_s=20_000.0, recovery="process")
    assert process.effective_time_fraction == pytest.approx(again.effective_time_fraction, rel=1e-12)


def test_every_default_that_decides_is_told_and_no_other() -> None:
    told = answered(loss_spikes_per_trillion_tokens=1.0).assumptions
    spikes = {"rollback_steps", "skipped_batches"}
    others = set(SOURCES) - {"loss_spikes_per_trillion_tokens"}
    assert all(any(line.startswith(f"delivery.{name} = ") for line in told) for name in others)
    assert not any(line.startswith(f"delivery.{name} = ") for line in answered().assumptions for name in spikes)
    given = answered(recovery="pod", detection_s=10.0, mtbf_s=1e5, price_per_device_hour_usd=2.0).assumptions
    for name in ("recovery", "detection_s", "failures_per_node_day", "years", "used_fraction"):
        assert not any(line.startswith(f"delivery.{name} = ") for line in given)


def test_money_and_energy_by_hand() -> None:
    found = answered(
        failures_per_node_day=0.0, price_per_device_hour_usd=2.0, spares=1, co2_kg_per_kwh=0.5, price_per_kwh_usd=0.1
    )
    assert found.cost is not None
    assert found.energy is not None
    assert found.cost.usd_per_day == pytest.approx((512 + 8) * 48.0 + found.energy.kwh_per_day * 0.1)
    assert found.energy.kwh is not None
    assert found.energy.co2_kg == pytest.approx(0.5 * found.energy.kwh)
    assert 512 * 350 * 0.5 < found.energy.site_power_w < 520 * 350 * 1.35 * 1.25
    bought = answered(failures_per_node_day=0.0).cost
    assert bought is not None
    assert "a device of atlas-800t-a2" in bought.basis
    without = answered({**JOB, "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 512}})
    assert without.cost is None


def test_experts_tie_replicas_together() -> None:
    job = parse_job(
        {
            "model": "qwen3-30b-a3b",
            "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
            "training": {"seq_length": 4096, "global_batch_size": 64},
            "strategy": {"tp": 1, "pp": 2, "ep": 8},
        }
    )
    assert job.strategy is not None
    from app.calibrations.constants import constants_for

    plan = running_plan(job.workload, job.strategy, 1.0, constants_for(job.workload))
    assert (plan.num_replicas, plan.replicas_per_node, plan.num_nodes) == (4, 0.5, 8)
    parameters = plan.state.total_bytes / 14.0
    assert 30e9 < parameters < 31e9
    assert plan.state.device_bytes >= plan.state.total_bytes / 64


def test_supernodes_are_the_domains_between_node_and_cluster() -> None:
    assert supernode_devices(catalogue.named("atlas-800t-a2")) is None
    assert supernode_devices(catalogue.named("gb200-nvl72")) == 72


def test_without_a_strategy_plans_are_ranked_by_what_they_deliver() -> None:
    job = {**JOB, "search": {"tp": 8, "pp": [2, 4], "vpp": [1, 2], "cp": 1, "zero_stage": 1}}
    del job["strategy"]
    found = answered(job, mtbf_s=20_000.0)
    assert found.plans
    rates = [plan.delivered_tokens_per_day for plan in found.plans]
    assert rates == sorted(rates, reverse=True)
    assert found.strategy == found.plans[0].strategy
    with pytest.raises(InfeasibleError, match="There is no plan"):
        answered({**job, "search": {**job["search"], "min_headroom": "59GiB"}})


def test_changes_are_of_one_thing_each() -> None:
    site = site_of(DeliverySection(), nodes_of(parse_job(JOB).workload))
    for name, changed in changed_sites(site, has_replicas=True).items():
        differing = [field for field in vars(site) if getattr(site, field) != getattr(changed, field)]
        assert len(differing) == (2 if name == "storage twice as fast" else 1), name


def test_a_log_gives_the_rate_and_its_interval(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,cause\n" + "".join(f"2026-03-{day:02d}T12:00:00,hbm\n" for day in range(1, 12)), encoding="utf-8")
    found = read_failure_log(log, 100, None)
    assert (found.num_failures, found.node_days) == (11, 1000.0)
    assert read_failure_log(log, 100, 22.0).per_node_day == pytest.approx(0.005)
    document = goodput_document(parse_job({**JOB, "delivery": {"histories": 100}}), log=found)
    assert any("11 interruptions in 1,000 node-days" in line for line in document.assumptions)


@pytest.mark.parametrize(
    ("text", "nodes", "days", "sentence"),
    [
        ("when\n2026-01-01\n", 10, 5.0, "names no column 'time'"),
        ("time\nyesterday\n", 10, 5.0, "line 2, column time: 'yesterday' is no time"),
        ("time\n2026-01-01\n", 10, None, "give --log-days"),
        ("time\n2026-01-01\n", 0, 5.0, "--log-nodes: 0 is not allowed"),
        ("time\n2026-01-01\n", 10, -1.0, "--log-days: -1.0 is not allowed"),
        ("time\n\xff\n", 10, 5.0, "is no time"),
    ],
)
def test_logs_that_say_nothing_are_refused(tmp_path: Path, text: str, nodes: int, days: float | None, sentence: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        read_failure_log(log, nodes, days)


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        ({"failures_per_node_day": -1}, "delivery.failures_per_node_day: -1 is not allowed; give a number from 0 to 1,000"),
        ({"mtbf_s": 1e5, "failures_per_node_day": 4e-3}, "mtbf_s and failures_per_node_day say the same in two ways"),
        ({"recovery": "node"}, "delivery.recovery: 'node' is not allowed"),
        ({"sparse": 3}, "did you mean"),
        ({"pue": float("nan")}, "delivery.pue"),
        ({"histories": 10**9}, "delivery.histories"),
    ],
)
def test_sites_that_cannot_be_are_refused(site: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        answered(**site)


def test_a_month_is_told_without_a_gap_and_as_far_as_it_can_be() -> None:
    month = answered(mtbf_s=30_000.0).month
    assert month.span_s == 30 * DAY_S == month.stretches[-1].end_s
    assert all(one.end_s == after.start_s for one, after in itertools.pairwise(month.stretches))
    assert {one.ended_by for one in month.stretches} >= {None, "node"}
    crowded = answered(mtbf_s=900.0, repair_s=0).month
    assert len(crowded.stretches) == TOLD_STRETCHES
    assert crowded.span_s == crowded.stretches[-1].end_s < 30 * DAY_S
    assert [one.state for one in answered(failures_per_node_day=0).month.stretches] == ["runs"]


def test_more_devices_deliver_what_an_answer_of_their_own_says() -> None:
    whole = answered(mtbf_s=30_000.0, spares=2)
    rows = whole.on_devices
    counts = [row.num_devices for row in rows]
    assert counts == sorted(counts)
    here = next(row for row in rows if row.num_devices == 512)
    assert here.effective_time_fraction == whole.effective_time_fraction
    assert here.delivered_tokens_per_day == pytest.approx(whole.delivered_tokens_per_day)
    assert len(counts) > 2
    for row in rows:
        there = goodput_document(parse_job({**JOB, "cluster": {**JOB["cluster"], "num_devices": row.num_devices}, "delivery": {
            "mtbf_s": 30_000.0 * 512 / row.num_devices, "histories": 100, "spares": 2}}))  # fmt: skip
        assert row.step_time_s == pytest.approx(there.estimate.step_time_s)
        assert row.effective_time_fraction == pytest.approx(there.effective_time_fraction)
        assert row.delivered_days == pytest.approx(there.days.mean if there.days else None)


def test_linearity_stands_between_peak_and_step() -> None:
    found = answered(mtbf_s=30_000.0)
    stages = {stage.stage: stage.tokens_per_day for stage in found.waterfall}
    fewest = found.on_devices[0]
    a_day_there = 512 * 4096 / fewest.step_time_s * DAY_S
    assert stages["fewest_devices_scaled_up"] == pytest.approx(a_day_there * 512 / fewest.num_devices)
    assert stages["peak"] > stages["fewest_devices_scaled_up"] > stages["step"]


def test_days_hold_the_error_of_the_step_and_of_failures() -> None:
    found = answered(mtbf_s=20_000.0, histories=4000)
    estimate, days, whole = found.estimate, found.days, found.days_with_step
    assert days is not None
    assert whole is not None
    assert estimate.step_time_low_s is not None
    assert estimate.step_time_high_s is not None
    # The step decides: a tenth of the days lie below those of its lower end, a tenth above those of the upper.
    assert whole.p10 / days.p50 == pytest.approx(estimate.step_time_low_s / estimate.step_time_s, rel=0.03)
    assert whole.p90 / days.p50 == pytest.approx(estimate.step_time_high_s / estimate.step_time_s, rel=0.03)
    assert found.intervals["days"].low == pytest.approx(whole.p10)
    assert found.sure_by is not None
    by = {each.probability: each.days for each in found.sure_by}
    assert by[0.5] == whole.p50 < by[0.8] < by[0.9] == whole.p90 < by[0.95]


def test_loss_spikes_cost_their_rollback_and_skip_data() -> None:
    site = {"mtbf_s": 20_000.0, "repair_s": 0.0}
    none, some = answered(**site), answered(**site, loss_spikes_per_trillion_tokens=26.0)
    assert none.loss_spikes is None
    assert some.loss_spikes is not None
    assert some.loss_spikes.number == pytest.approx(52.0)
    assert some.loss_spikes.skipped_tokens == pytest.approx(52 * 350 * 512 * 4096)
    # 52 spikes repeat 100 steps, half an interval, and a recovery each.
    each_s = 100 * some.estimate.step_time_s + some.checkpoint.interval_s / 2 + some.loss_spikes.recovery_s
    useful_s = 2e12 / some.estimate.tokens_per_s
    lost = 1.0 / some.effective_time_fraction - 1.0 / none.effective_time_fraction
    assert lost == pytest.approx(52 * each_s / useful_s, rel=0.15)
    assert some.losses["recovery_loss_spike"] > 0
    assert any("half as many loss spikes" in row.change for row in some.changes)
