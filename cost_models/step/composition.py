"""Combines layer costs to the time and memory of a training step, for a whole batch of strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.costs import LayerCosts
from cost_models.memory.fit import fit_rule
from cost_models.pipeline.closed_form import pipeline_lower_bound_s, pipeline_time
from cost_models.pipeline.sums import weighted
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import exchange_beyond_compute_s, exchange_of_step_s, exposed_exchange_s
from cost_models.step.group_memory import group_memory
from cost_models.step.priced_groups import KnownPipelines, PricedBatch, PricedGroup, memory_batch, priced_batch, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Breakdown, Estimate
from documents.late_methods import dataclass


@dataclass(frozen=True)
class StepTime:
    """Step times of a group, ``[n]``: parts on the ``critical`` kind of rank, and work that all ranks do once.

    ``pair_saving_s`` is the expert communication that merged pairs hide over the whole step. ``stage_bubble_s`` ``[stage, n]`` is
    every rank's idle time, if known. ``*_left_s`` ``[stage, n]`` is the part of each rank's exchange that its passes do not hide.
    """

    step_s: Floats
    critical: IntColumn
    bubble_s: Floats
    pair_saving_s: Floats
    p2p_s: Floats
    p2p_masked_s: Floats
    data_parallel_s: Floats
    data_parallel_masked_s: Floats
    host_s: Floats
    reduce_left_s: Floats
    gather_left_s: Floats
    stage_bubble_s: Floats | None = None
    fidelity: str = "closed_form"


def closed_form(group: PricedGroup, constants: Constants) -> StepTime:
    """Step times in closed form, from the pace of the slowest rank and a bubble, ``[n]``."""
    stages, m, times = group.stages, group.num_microbatches, group.rank
    pipeline = pipeline_time(stages, times, m, group.batch.group_size, group.slots_s)
    slack = 0.0 if stages.schedule.rules.num_streams > 1 else 1.0 / stages.vpp
    beyond = exchange_beyond_compute_s(
        group.batch, group.sharded.exchange, times.forward, times.backward, constants.dp_exposed_fraction
    )
    before = stages.before_first
    exposed, masked = exposed_exchange_s(
        exchange_of_step_s(group.batch, group.sharded.exchange),
        *beyond,
        slack * weighted(before, times.forward),
        slack * weighted(before, times.backward),
    )
    host = group.host_micro_batch_s * (m + stages.pp - 1)
    saving = 0.0 * m if group.merged is None else pipeline.merged_passes * at_kind(times.whole - times.pair, pipeline.critical)
    once = exposed + host + group.sharded.optimizer_s + constants.step_overhead_s
    step = pipeline.steady_s + pipeline.bubble_s + once
    passes = m * stages.passes_fraction * at_kind(group.sent_fraction, pipeline.critical)
    return StepTime(
        step_s=step,
        critical=pipeline.critical,
        bubble_s=pipeline.bubble_s,
        pair_saving_s=saving,
        p2p_s=passes * group.p2p_s,
        p2p_masked_s=passes * group.p2p_masked_s,
        data_parallel_s=exposed,
        data_parallel_masked_s=masked,
        host_s=host,
        reduce_left_s=beyond[0],
        gather_left_s=beyond[1],
    )


Composer = Callable[[Iterable[PricedGroup], Constants], Iterable[tuple[PricedGroup, StepTime]]]


def closed_forms(groups: Iterable[PricedGroup], constants: Constants) -> Iterator[tuple[PricedGroup, StepTime]]:
    """``closed_form`` of each group, with the group, one after the other."""
    for group in groups:
        yield group, closed_form(group, constants)


def at_kind(values: Floats, kind: IntColumn) -> Floats:
    """The entries of ``values`` at one kind each, ``[n]``, in the unit of ``values``.

    Parameters
    ----------
    values : ``[kind, n]`` or ``[kind, 1]``
    kind : ``[n]``
        Index of the kind.
    """
    table = np.broadcast_to(values, (len(values), len(kind)))
    chosen: Floats = np.take_along_axis(table, kind[None, :], axis=0)[0]
    return chosen


def lower_bound_s(group: PricedGroup, time: StepTime, constants: Constants) -> Floats:
    """Lower bound on the step time over all orders of the group's tasks, ``[n]``.

    Of ``time`` only the exchange that passes do not hide is used.
    """
    passes = pipeline_lower_bound_s(group.stages, group.least_work(time.reduce_left_s, time.gather_left_s))
    bound: Floats = passes + group.sharded.optimizer_s + constants.step_overhead_s
    return bound


def _estimate_group(workload: Workload, group: PricedGroup, time: StepTime, constants: Constants, *, breakdown: bool) -> Estimate:
    """Estimate of a group, from its step times."""
    batch, sharded, times = group.batch, group.sharded, group.rank
    memory = group_memory(workload, group, constants, breakdown=breakdown)
    detail = None
    if breakdown:
        steady, masked = _critical_parts(group, time, constants.hidden_stretch_fraction)
        steady["optimizer"] = sharded.optimizer_s
        steady["step_overhead"] = np.full(len(batch), constants.step_overhead_s)
        worst = memory.peak.argmax(axis=0)
        detail = Breakdown(steady, masked, {name: at_kind(part, worst) for name, part in memory.parts.items()})
    return Estimate(
        step_time_s=time.step_s,
        step_time_lower_bound_s=_bound_s(group, time, constants),
        peak_memory_bytes=memory.peak.max(axis=0),
        allocated_peak_bytes=memory.allocated.max(axis=0),
        allocated_first_iteration_bytes=memory.first_iteration.max(axis=0),
        allocated_after_step_bytes=memory.after_step.max(axis=0),
        reserved_peak_bytes=memory.reserved.max(axis=0),
        pooled_peak_bytes=memory.pooled.max(axis=0),
        fit_rule=fit_rule(workload, constants),
        fidelity=time.fidelity,
        breakdown=detail,
        stage_allocated_after_step_bytes=memory.after_step if breakdown else None,
        stage_allocated_first_iteration_bytes=memory.first_iteration if breakdown else None,
        stage_allocated_peak_bytes=memory.allocated if breakdown else None,
        stage_peak_memory_bytes=memory.peak if breakdown else None,
        stage_time_s=times.whole if breakdown else None,
        stage_bubble_s=time.stage_bubble_s if breakdown else None,
    )


def _critical_parts(group: PricedGroup, time: StepTime, stretch: float) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Exposed and hidden time by part on the critical rank, ``[n]`` each, without work that every rank does once.

    ``contention`` is the slowdown of compute, ``stretch`` of the hidden time. Full recompute repeats some of it, which counts in
    ``recompute``.
    """
    stages, layers, priced, edges = group.stages, group.layers, group.priced, group.priced.edges
    passes = group.num_microbatches * stages.passes_fraction

    def at(values: Floats) -> Floats:
        return at_kind(values, time.critical)

    embeddings, heads, mtps = at(layers.embeddings), at(layers.heads), at(layers.mtps)
    mtp = stages.mtp_layers * mtps
    numbers = stages.with_mtp(tuple(map(at, layers.layers)), mtps)
    kinds = list(zip(numbers, map(at, layers.again), priced.layers, strict=True))

    def of_layers(names: Iterable[str], seconds: Callable[[LayerCosts, str], Floats]) -> dict[str, Floats]:
        none = np.zeros(len(group.batch))
        return {name: passes * sum((count * seconds(costs, name) for count, _, costs in kinds), none) for name in names}

    steady = of_layers(priced.layers[0].forward, lambda costs, name: costs.forward[name] + costs.backward[name])
    masked = of_layers(priced.layers[0].masked, lambda costs, name: costs.masked[name])
    again = sum((count * costs.full_recompute_s for _, count, costs in kinds), np.zeros(len(group.batch)))
    steady["recompute"] = steady["recompute"] + passes * again
    steady["embedding"] = passes * embeddings * (edges.embedding_forward_s + edges.embedding_backward_s)
    head = heads * (1 + stages.mtp_layers) * (edges.head_forward_s + edges.head_backward_s)
    steady["head_and_loss"] = passes * (head + mtp * edges.mtp_module_s)
    hidden = time.pair_saving_s / (1.0 - stretch)
    steady["ep_comm"] = steady["ep_comm"] - hidden
    masked["ep_comm"] = masked["ep_comm"] + hidden
    steady["contention"] = steady["contention"] + stretch * hidden
    relays = passes * at(sum(layers.relays, np.zeros(1))) / (2.0 * stages.num_chunks)
    steady["pipeline_p2p"] = time.p2p_s + relays * group.p2p_s
    masked["pipeline_p2p"] = time.p2p_masked_s + relays * group.p2p_masked_s
    steady["gradient_accumulation"] = passes * at(group.sharded.accumulation_s)
    steady["pipeline_bubble"] = time.bubble_s
    steady["dp_comm"], masked["dp_comm"] = time.data_parallel_s, time.data_parallel_masked_s
    steady["host"] = steady["host"] + time.host_s
    return steady, masked


def _scattered(rows: Sequence[IntColumn], parts: Sequence[Estimate], n: int) -> Estimate:
    """Scatter the groups' columns to the rows of the batch."""

    def column(pieces: list[Floats]) -> Floats:
        """One column in its own unit and numbers, ``[n]``, or ``[stage, n]`` with as many stages as the longest pipeline."""
        stages = [max(map(len, pieces))] if pieces[0].ndim == 2 else []
        out = np.zeros((*stages, n))
        for index, piece in zip(rows, pieces, strict=True):
            if stages:
                out[: len(piece), index] = piece
            else:
                out[index] = piece
        return out

    def table(name: str) -> dict[str, Floats]:
        tables = [getattr(part.breakdown, name) for part in parts]
        return {key: column([entries[key] for entries in tables]) for key in tables[0]}

    has_detail = parts[0].breakdown is not None
    detail = Breakdown(table("time_s"), table("masked_s"), table("memory_bytes")) if has_detail else None
    names = [f.name for f in fields(Estimate) if f.name not in ("fit_rule", "fidelity", "breakdown")]
    given = [name for name in names if getattr(parts[0], name) is not None]
    columns: dict[str, Any] = {name: column([getattr(part, name) for part in parts]) for name in given}
    return replace(parts[0], **columns, breakdown=detail)


def estimate(
    workload: Workload,
    batch: StrategyBatch,
    constants: Constants,
    *,
    breakdown: bool = False,
    memory: bool = True,
    prices: LayerPrices | None = None,
    known: KnownPipelines | None = None,
) -> Estimate:
    """Step time, lower bound and peak memory of ``n`` strategies; ``Estimate`` explains the columns.

    Strategies must be legal for ``any`` target (``frameworks.legality``). Layer costs are priced once per distinct layer key and
    gathered; rows are grouped by pipeline shape. Raises ``ValueError`` for an empty batch, a layout that does not hold the model,
    or a precision without a peak.

    Parameters
    ----------
    breakdown
        Add parts and per-stage columns.
    memory
        Count bytes. Without them, it is unknown which strategies fit.
    prices
        Layer costs of the same workload from earlier batches; not with a breakdown.
    known
        Pipelines of the same workload from earlier batches.
    """
    priced = priced_batch(workload, batch, constants, known) if prices is None else priced_by(prices, batch, known)
    found = composed_of(priced, closed_forms, merge=not breakdown, breakdown=breakdown, memory=memory)
    return with_uneven_experts(workload, batch, constants, found) if breakdown else found


def with_uneven_experts(workload: Workload, batch: StrategyBatch, constants: Constants, found: Estimate) -> Estimate:
    """The estimate with ``uneven_experts_s``, from the share of the step in closed form."""
    fraction = uneven_experts_fraction(workload, batch, constants)
    spread = workload.training.expert_spread
    is_outside = spread is not None and spread.assumed
    return replace(found, uneven_experts_s=found.step_time_s * (fraction if is_outside else fraction / (1.0 + fraction)))


def uneven_experts_fraction(workload: Workload, batch: StrategyBatch, constants: Constants) -> Floats:
    """What uneven experts, stated or assumed, add to a step in closed form, over the step with even ones. ``[n]``"""
    training = workload.training
    moe, spread, counts = workload.model.moe, training.expert_spread, training.expert_counts
    uneven = replace(training, expert_spread=None if spread is None else spread.stated)
    even = replace(
        uneven,
        expert_load_factor=1.0,
        expert_spread=uneven.expert_spread and uneven.expert_spread.with_excess(0.0),
        expert_counts=counts and counts.with_excess(0.0),
    )
    if moe is None or even == uneven or not (batch.ep * batch.etp > 1).any():
        return np.zeros(len(batch))
    steps = [estimate(replace(workload, training=each), batch, constants, memory=False).step_time_s for each in (uneven, even)]
    fraction: Floats = np.maximum(steps[0] / steps[1] - 1.0, 0.0)
    return fraction


class Peaks(NamedTuple):
    """``Estimate.peak_memory_bytes``, ``[n]``, and the part that no memory-saving switch can remove."""

    peak_bytes: Floats
    kept_bytes: Floats


def peaks(priced: PricedBatch, enough_bytes: float = float("inf")) -> Peaks:
    """Memory peaks without step times, which is a fraction of the cost of an estimate. ``[n]``

    Parameters
    ----------
    enough_bytes
        If weights, gradients and optimizer states exceed this, nothing else is counted. The result is then a lower bound on the
        peak that also exceeds it.
    """
    found = Peaks(np.empty(len(priced.batch)), np.empty(len(priced.batch)))
    for rows, group in priced.groups(merge=True, tables=False):
        least, found.kept_bytes[rows] = group.sharded.least_bytes
        found.peak_bytes[rows] = least
        counted = least <= enough_bytes
        if counted.any():
            rows = rows[counted]
            group = group if counted.all() else group.take(counted)
            memory = group_memory(priced.workload, group, priced.constants, breakdown=False)
            found.peak_bytes[rows] = memory.peak.max(axis=0)
    return found


def fitting_rows(workload: Workload, batch: StrategyBatch, constants: Constants) -> NDArray[np.bool_]:
    """``Estimate.fits`` alone, ``[n]``, without step times and orders of tasks."""
    limit_bytes = fit_rule(workload, constants).fit_limit_bytes
    fits: NDArray[np.bool_] = peaks(memory_batch(workload, batch, constants), limit_bytes).peak_bytes <= limit_bytes
    return fits


def estimate_priced(priced: PricedBatch, *, memory: bool = True) -> Estimate:
    """Like ``estimate`` without a breakdown, for a batch of priced layers."""
    return composed_of(priced, closed_forms, merge=True, breakdown=False, memory=memory)


def composed_of(
    priced: PricedBatch,
    compose: Composer,
    *,
    merge: bool,
    breakdown: bool,
    memory: bool = True,
) -> Estimate:
    """Like ``estimate``, for a batch of priced layers whose step times come from ``compose``.

    Parameters
    ----------
    compose
        ``closed_forms``, or another fidelity.
    merge
        Merge equal ranks into kinds.
    """
    workload, constants = priced.workload, priced.constants
    rows = []

    def groups() -> Iterator[PricedGroup]:
        for index, group in priced.groups(merge=merge, tables=breakdown):
            rows.append(index)
            yield group

    parts = [
        _estimate_group(workload, group, time, constants, breakdown=breakdown)
        if memory
        else _without_memory(workload, group, time, constants)
        for group, time in compose(groups(), constants)
    ]
    return _scattered(rows, parts, len(priced.batch))


def _bound_s(group: PricedGroup, time: StepTime, constants: Constants) -> Floats:
    return np.minimum(lower_bound_s(group, time, constants), time.step_s)


def _without_memory(workload: Workload, group: PricedGroup, time: StepTime, constants: Constants) -> Estimate:
    """Step times and, in closed form, lower bounds only; all other fields are ``nan``."""
    known: dict[str, Any] = {"step_time_s": time.step_s, "fit_rule": fit_rule(workload, constants), "fidelity": time.fidelity}
    if time.fidelity == "closed_form":  # a simulated time is its own bound
        known["step_time_lower_bound_s"] = _bound_s(group, time, constants)
    unknown: dict[str, Any] = {f.name: np.full_like(time.step_s, np.nan) for f in fields(Estimate) if f.default is MISSING}
    return Estimate(**(unknown | known))
