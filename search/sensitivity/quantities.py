"""The sensitivity of a plan's step time to each number that prices it: a little better, and a little worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import TrainingJob, Workload
from cost_models.step.host_update import with_host_rate
from hardware_profiles.schema import CollectiveCurve, HardwareProfile, NetworkTier
from search.plans.estimator import Estimator

CHANGE = 0.1
HOST_CONSTANTS = ("host_kernel_s", "host_moe_sync_s", "host_micro_batch_s")

Priced = tuple[Workload, Constants]
Scaled = Callable[[float], Priced]


def sensitivity(
    workload: Workload, strategy: ParallelStrategy, constants: Constants, estimate: Estimator
) -> list[dict[str, Any]]:
    """Step times with one quantity better by ``CHANGE`` and worse by as much, the largest effect first, as JSON.

    Better is a rate times 1 + ``CHANGE``, or a time divided by it. ``*_delta_fraction`` is the step time over that of the plan,
    minus 1. Quantities that the plan does not use are left out.
    """
    batch = StrategyBatch.of([strategy])

    def step_time_s(priced: Priced) -> float:
        return float(estimate(priced[0], batch, priced[1]).step_time_s[0])

    base_s = step_time_s((workload, constants))
    entries = []
    for quantity, scaled in quantities(workload, constants):
        better_s, worse_s = step_time_s(scaled(1.0 + CHANGE)), step_time_s(scaled(1.0 / (1.0 + CHANGE)))
        if max(abs(better_s - base_s), abs(worse_s - base_s)) <= 1e-9 * base_s:
            continue
        entries.append(
            {
                "quantity": quantity,
                "change_fraction": CHANGE,
                "better_step_time_s": better_s,
                "better_delta_fraction": better_s / base_s - 1.0,
                "worse_step_time_s": worse_s,
                "worse_delta_fraction": worse_s / base_s - 1.0,
            }
        )
    return sorted(entries, key=lambda entry: (entry["better_step_time_s"] - entry["worse_step_time_s"], entry["quantity"]))


def quantities(workload: Workload, constants: Constants) -> Iterator[tuple[str, Scaled]]:
    """Each quantity by name, with the workload and constants in which it is ``factor`` times as fast."""
    profile, training = workload.cluster.profile, workload.training

    def on(changed: HardwareProfile) -> Priced:
        return replace(workload, cluster=replace(workload.cluster, profile=changed)), constants

    yield (
        "matmul_rate",
        lambda factor: on(
            replace(
                profile,
                matmul_flops_per_s=_times(profile.matmul_flops_per_s, factor),
                achievable_matmul_flops_per_s=_times(profile.achievable_matmul_flops_per_s, factor),
            )
        ),
    )
    yield "memory_bandwidth", lambda factor: on(replace(profile, hbm_bytes_per_s=profile.hbm_bytes_per_s * factor))
    for index, tier in enumerate(profile.tiers):
        yield f"bandwidth.{tier.name}", partial(_with_tier, workload, constants, index)
    yield (
        "network_latency",
        lambda factor: on(replace(profile, tiers=tuple(replace(t, latency_s=t.latency_s / factor) for t in profile.tiers))),
    )
    yield (
        "host_time",
        lambda factor: (
            workload,
            constants.with_values({name: getattr(constants, name) / factor for name in HOST_CONSTANTS}),
        ),
    )
    yield "host_link", lambda factor: on(replace(profile, host_link_bytes_per_s=profile.host_link_bytes_per_s * factor))
    yield "host_memory", lambda factor: (with_host_rate(workload, factor), constants)
    if workload.model.moe is not None:
        yield "expert_balance", lambda factor: (replace(workload, training=_balanced(training, factor)), constants)


def _balanced(training: TrainingJob, factor: float) -> TrainingJob:
    """The training job with its excess expert load divided by the factor."""
    spread, counts = training.expert_spread, training.expert_counts
    return replace(
        training,
        expert_load_factor=1.0 + (training.expert_load_factor - 1.0) / factor,
        expert_spread=None if spread is None else spread.with_excess(1.0 / factor),
        expert_counts=None if counts is None else counts.with_excess(1.0 / factor),
    )


def _times(rates: Mapping[str, float], factor: float) -> dict[str, float]:
    return {precision: rate * factor for precision, rate in rates.items()}


def _with_tier(workload: Workload, constants: Constants, index: int, factor: float) -> Priced:
    cluster = workload.cluster
    tiers = tuple(_faster(t, factor) if i == index else t for i, t in enumerate(cluster.profile.tiers))
    site = cluster.inter_node_bytes_per_s
    if site is not None and index == len(tiers) - 1:
        site *= factor
    changed = replace(cluster, profile=replace(cluster.profile, tiers=tiers), inter_node_bytes_per_s=site)
    return replace(workload, cluster=changed), constants


def _faster(tier: NetworkTier, factor: float) -> NetworkTier:
    link = None if tier.link_bytes_per_s is None else tier.link_bytes_per_s * factor
    curves = tuple(_faster_curve(curve, factor) for curve in tier.curves)
    return replace(tier, bandwidth_bytes_per_s=tier.bandwidth_bytes_per_s * factor, link_bytes_per_s=link, curves=curves)


def _faster_curve(curve: CollectiveCurve, factor: float) -> CollectiveCurve:
    """The curve of a faster wire: the same times, for more bytes."""
    return replace(curve, message_bytes=tuple(size * factor for size in curve.message_bytes))
