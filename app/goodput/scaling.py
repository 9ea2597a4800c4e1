"""Delivered rates of the same degrees on fewer and on more devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.answers.delivery import LEAST_RATE
from app.answers.price import priced
from app.answers.simulation import can_simulate
from app.answers.site import nodes_of, running_plan, site_of
from app.calibrations.constants import constants_for
from app.goodput.schemas import OnDevices
from app.jobs.delivery import DeliverySection
from calibration.files.calibrations import Calibration
from cost_models.delivery.delivered import delivered
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from documents.bounds import MAX_DEVICES
from frameworks.legality import first_violation

HALVINGS = range(4)  # down to an eighth of the devices, and up by the same factor


def on_devices(
    workload: Workload,
    strategy: ParallelStrategy,
    section: DeliverySection,
    device_hour_usd: float | None,
    own: Sequence[Calibration] = (),
) -> list[OnDevices]:
    """Results with the same degrees and batch and other numbers of replicas and devices, where that is legal.

    ``mtbf_s`` of the site is for this job. It gives the failure rate of a node, which is the same for all numbers of devices.
    """
    num_nodes = nodes_of(workload)
    if section.mtbf_s is not None:
        rate = DAY_S / (section.mtbf_s * num_nodes)
        section = section.model_copy(update={"mtbf_s": None, "failures_per_node_day": rate})
    rows = []
    replica = workload.cluster.num_devices // strategy.dp
    counts = {strategy.dp >> halvings for halvings in HALVINGS if strategy.dp % (1 << halvings) == 0}
    for dp in sorted(counts | {strategy.dp << doublings for doublings in HALVINGS}):
        if (num_devices := dp * replica) > MAX_DEVICES:
            break
        there = replace(workload, cluster=replace(workload.cluster, num_devices=num_devices))
        scaled = replace(strategy, dp=dp)
        if first_violation(there, StrategyBatch.of([scaled]))[0] >= 0:
            continue
        found = priced(there, StrategyBatch.of([scaled]), own, simulated=can_simulate(there, scaled))
        step_time_s = float(found.step_time_s[0])
        site = site_of(section, nodes_of(there))
        plan = running_plan(there, scaled, step_time_s, constants_for(there, own))
        rate = delivered(plan, site).rate
        training = there.training
        per_day = training.step_tokens / step_time_s * DAY_S * rate
        is_moving = rate >= LEAST_RATE
        tokens = training.train_tokens
        rented = num_devices + site.num_spares * there.cluster.profile.devices_per_node
        usd_per_day = None if device_hour_usd is None else rented * device_hour_usd * 24.0
        rows.append(
            OnDevices(
                num_devices=num_devices,
                step_time_s=step_time_s,
                fits=bool(found.fits[0]),
                effective_time_fraction=rate,
                delivered_tokens_per_day=per_day,
                delivered_days=tokens / per_day if tokens is not None and is_moving else None,
                usd_per_trillion_tokens=usd_per_day / per_day * 1e12 if usd_per_day is not None and is_moving else None,
            )
        )
    return rows
