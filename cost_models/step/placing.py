"""Step times and memory of a pipeline under many placements of its layers, from layer costs that are priced once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace
from functools import cache, cached_property, partial, reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.fit import fit_rule
from cost_models.memory.model_states import apart_from_embedding, stage_parameters, trained_parameters
from cost_models.pipeline.closed_form import LeastWork
from cost_models.pipeline.largest import largest_of, member_table
from cost_models.pipeline.merged_passes import MergedPasses
from cost_models.pipeline.pace import SlotTable, slot_table, slowest_slots_s
from cost_models.pipeline.placements import ChunkTable, PlacedChunks, RankTable, chunk_table, rank_table
from cost_models.pipeline.stage_times import PassTimes, chunk_counts
from cost_models.shapes.layer_keys import Floats, distinct_rows
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, Placement, Recompute, RecomputeMethod, by_schedule
from cost_models.step.data_parallel import accumulation_s, exchange_beyond_compute_s
from cost_models.step.group_memory import group_memory
from cost_models.step.least_exchange import least_exchange
from cost_models.step.priced_groups import PricedBatch, host_micro_batch_s
from documents.late_methods import dataclass

ROUNDING = 1e-12  # relative rounding of sums that are added in another order than in the simulation
MANY_CELLS = 10_000  # ranks times rows from which it saves time to check some ranks first

Part = TypeVar("Part", bound=Hashable)


@dataclass(frozen=True)
class Paces:
    """Seconds of a micro batch under several placements, ``[placement, k]``, and the index into the k of each strategy, ``[n]``.

    ``steady_s`` is the pace between fill and drain; it is infinite where no placement can be faster than ``to_beat_s``.
    ``busiest_s`` is a lower bound on the work of the busiest rank. ``least_step_s`` is a lower bound on the whole step, with the
    fill before a rank and the drain behind it. If there is a time to beat, it also counts the host and the accumulation of the
    layers' gradients. ``steady_of`` computes the pace of some of the k, since few callers need all.
    """

    steady_of: Callable[[IntColumn], Floats]
    busiest: Callable[[], Floats]
    least_step_s: Floats
    of_row: IntColumn
    to_beat_s: float = np.inf

    @property
    def steady_s(self) -> Floats:
        """The pace of all k, ``[placement, k]``."""
        steady = np.full_like(self.least_step_s, np.inf)
        some = np.flatnonzero(self.least_step_s.min(axis=0) < self.to_beat_s)
        if len(some):
            steady[:, some] = self.steady_of(some)
        return steady

    @property
    def busiest_s(self) -> Floats:
        """The lower bound on the work of the busiest rank, ``[placement, k]``."""
        return self.busiest()

    def among(self, allowed: NDArray[np.bool_]) -> Paces:
        """The paces with an infinite time for every placement that is not ``allowed``, ``[placement, k]``."""
        least_s = np.where(allowed, self.least_step_s, np.inf)
        return replace(
            self, least_step_s=least_s, steady_of=lambda some: np.where(allowed[:, some], self.steady_of(some), np.inf)
        )


class SortedRanks(NamedTuple):
    """Distinct ranks of several placements, as sorts of their chunks.

    ``members`` ``[member]``: the ranks of every placement, one after the other. ``of_placement`` ``[turn, placement]``: which
    members are of each placement, and ``placed`` ``[turn, placement]`` which ranks. ``before``: of the ranks before the last rank
    like a member, how many have a first chunk of which sort, ``[sorts, member]`` each; zeros fill the table.
    """

    ranks: tuple[tuple[int, ...], ...]
    members: IntColumn
    of_placement: IntColumn
    before: tuple[Floats, IntColumn]

    @property
    def placed(self) -> IntColumn:
        """The ranks of each placement, ``[turn, placement]``."""
        return self.members[self.of_placement]

    def work_s(self, parts_of: Callable[[tuple[int, ...]], Iterable[Part]], part_s: Callable[[Part], Floats]) -> Floats:
        """Seconds of each of the ranks, ``[rank, n]``.

        Parameters
        ----------
        parts_of
            Parts of one rank's work, one for each of its chunks.
        part_s
            Seconds ``[n]`` of one part; called once for each.
        """
        number: dict[Part, int] = {}
        parts = np.array([[number.setdefault(part, len(number)) for part in parts_of(of_rank)] for of_rank in self.ranks])
        seconds = np.stack([part_s(part) for part in number])
        of_ranks: Floats = seconds[parts[:, 0]]
        for of_chunk in parts.T[1:]:
            of_ranks += seconds[of_chunk]
        return of_ranks

    def before_s(self, of_chunks: Floats) -> Floats:
        """Seconds of the first chunks of all ranks before the last rank like each member, ``[member, n]``.

        Parameters
        ----------
        of_chunks : ``[sort, n]``
        """
        total = np.zeros((len(self.members), of_chunks.shape[1]))
        for count, sort in zip(*self.before, strict=True):
            total += count[:, None] * of_chunks.take(sort, axis=0)
        return total


@dataclass(frozen=True)
class Alternatives:
    """Placements of one pipeline, as chunks from ``PricedBatch.under``, with the tables to compare them.

    Memory of a rank also depends on whether its MTP modules copy the embedding table. Placements that differ in this from the
    first are counted ``apart``.
    """

    @classmethod
    def of(cls, priced: PricedBatch, placements: Sequence[Placement]) -> Alternatives:
        """The placements of the pipeline that the rows share, at least one."""
        before, batch = placements[0].mtp_before_head, priced.batch
        places = np.array([each.mtp_before_head for each in placements])
        copies = apart_from_embedding(batch.pp[:1] * batch.vpp[:1], batch.schedule[:1], places)
        moved = np.flatnonzero(copies != copies[0])
        others = (moved, cls.of(priced, [placements[index] for index in moved.tolist()])) if len(moved) else None
        return cls(priced.under(placements), before, others)

    placed: PlacedChunks
    mtp_before_head: int = 0  # value of the first placement
    apart: tuple[IntColumn, Alternatives] | None = None  # placements that copy the table otherwise than the first
    fullest: set[int] = field(default_factory=set)  # ranks that are checked first for whether a row fits

    @cached_property
    def together(self) -> Alternatives:
        """The placements as if none were counted apart."""
        return replace(self, apart=None)

    @cached_property
    def members(self) -> NDArray[np.bool_]:
        """Which of the distinct ranks each placement has, ``[placement, rank]``."""
        found = np.zeros((len(self.ranks.of_placement), self.ranks.ranks.num_kinds), dtype=np.bool_)
        for placement, kinds in enumerate(self.ranks.of_placement):
            found[placement, list(kinds)] = True
        return found

    @cached_property
    def chunks(self) -> ChunkTable:
        """Distinct chunks of the placements."""
        return chunk_table(self.placed)

    @cached_property
    def ranks(self) -> RankTable:
        """Distinct ranks of the placements."""
        return rank_table(self.placed)

    @cached_property
    def sorts(self) -> SortedRanks:
        """Ranks by the sorts of their chunks."""
        number: dict[tuple[int, ...], int] = {}
        distinct: list[dict[tuple[int, ...], Any]] = [dict.fromkeys(each) for each in self.chunks.sorts]
        of_placement = [[number.setdefault(of_rank, len(number)) for of_rank in each] for each in distinct]
        numbered = iter(range(sum(map(len, of_placement))))
        before: list[dict[int, int]] = []
        for each, of_ranks in zip(self.chunks.sorts, distinct, strict=True):
            passed: dict[int, int] = {}
            for of_rank in each:
                of_ranks[of_rank] = dict(passed)
                passed[of_rank[0]] = passed.get(of_rank[0], 0) + 1
            before += of_ranks.values()
        counts, sorts = np.zeros((2, max(map(len, before)), len(before)))
        for member, passed in enumerate(before):
            counts[: len(passed), member], sorts[: len(passed), member] = list(passed.values()), list(passed)
        members = np.array([rank for each in of_placement for rank in each])
        placed = member_table([[next(numbered) for _ in each] for each in of_placement])
        return SortedRanks(tuple(number), members, placed, (counts, sorts.astype(np.int64)))

    @cached_property
    def slots(self) -> Callable[[int], SlotTable]:
        """Slots of the interleaved schedule, for each group size."""
        return cache(partial(slot_table, self.chunks.sorts, merged=self.placed.one.merge_pairs))


def _told_apart(priced: PricedBatch, num_microbatches: IntColumn, seconds: Sequence[Floats]) -> list[IntColumn]:
    """Columns in which strategies of one pipeline differ if their paces may."""
    batch = priced.batch
    extent = [batch.recompute, batch.recompute_method, batch.recompute_num_layers, batch.microbatch_group_size_per_vp_stage]
    return [priced.key_of, *extent, num_microbatches, *(each.view(np.int64) for each in seconds)]


def paces(priced: PricedBatch, placements: Alternatives, to_beat_s: float = np.inf) -> Paces:
    """Pace of strategies of one pipeline, computed once for equal layer costs and extent of recompute.

    1F1B and similar schedules run at the pace of the busiest rank. The interleaved schedule has the pace of the slowest rank in
    every slot (``cost_models.pipeline.pace``). Sends and accumulation are left out, because placements hardly change them.
    Strategies share pp, vpp, schedule and the switches of ``PricedBatch.shared_switches``.
    """
    batch, one, rules = priced.batch, placements.placed.one, placements.placed.one.schedule.rules
    num_microbatches = batch.num_microbatches(priced.workload.training.global_batch_size)
    is_timed, host_s, added_s = np.isfinite(to_beat_s), np.zeros(len(batch.tp)), np.zeros((0, len(batch.tp)))
    if is_timed:
        host_s, added_s = host_micro_batch_s(priced.workload, batch, priced.constants), added_to_layers_s(priced)
    first, index = distinct_rows(_told_apart(priced, num_microbatches, [host_s, *added_s]))
    few = priced.take(first)
    keys, chunks = few.gathered(), placements.chunks.chunks
    counts = chunk_counts(chunks, few.batch).chunk(0)
    times = PassTimes(counts, chunks, keys.layers, keys.edges)
    shape = (chunks.num_kinds, len(first))
    forward, backward = np.broadcast_to(times.forward, shape), np.broadcast_to(times.backward, shape)
    merged = None if keys.savings is None or not one.merge_pairs else MergedPasses(chunks, keys.savings)

    @cache
    def meeting_s(ahead: int, back: int) -> Floats:
        seconds: Floats = forward[ahead] + backward[back]
        return seconds if merged is None else seconds - merged.met((ahead, 0), (back, 0))

    def mirrored(of_rank: tuple[int, ...]) -> Iterable[tuple[int, int]]:
        """Every forward meets the backward of the mirrored chunk, as in a V and on the last rank."""
        return zip(of_rank, reversed(of_rank), strict=True)

    def hiding(of_rank: tuple[int, ...]) -> Iterable[tuple[int, frozenset[int]]]:
        """Every forward meets the backward that hides most of it."""
        return ((ahead, frozenset(of_rank)) for ahead in of_rank)

    def hidden_s(part: tuple[int, frozenset[int]]) -> Floats:
        (ahead, others), alone_s = part, forward[part[0]] + backward[part[0]]
        assert merged is not None
        savings = {id(saved): saved for saved in (merged.met((ahead, 0), (back, 0)) for back in others)}  # few differ
        least: Floats = alone_s - reduce(np.maximum, savings.values())
        return least

    ranks = placements.sorts
    as_mirrored = cache(partial(ranks.work_s, mirrored, lambda pair: meeting_s(*pair)))
    busy_s = one.passes_fraction * (as_mirrored() if merged is None else ranks.work_s(hiding, hidden_s))  # [rank, k]
    timed_s = busy_s
    if is_timed:
        added = sum((count * seconds[first] for count, seconds in zip(counts.layers, added_s, strict=True)), np.zeros(shape))
        of_ranks = ranks.work_s(lambda of_rank: of_rank, lambda chunk: added[chunk])
        timed_s = busy_s + one.passes_fraction * of_ranks + host_s[first]
    least_s = largest_of(timed_s, ranks.placed) * (1.0 - ROUNDING) * num_microbatches[first] + priced.constants.step_overhead_s
    some = np.flatnonzero(least_s.min(axis=0) < to_beat_s)
    if is_timed and len(some) and not (rules.num_streams > 1 or rules.overlaps_steps):
        ends_s = forward if rules.splits_backward else forward + backward  # fill and drain, as in ``LeastWork.spanned_s``
        of_members = timed_s[:, some].take(ranks.members, axis=0)
        spans_s = of_members * num_microbatches[first[some]] + ranks.before_s(ends_s[:, some])
        least_s[:, some] = largest_of(spans_s, ranks.of_placement) * (1.0 - ROUNDING) + priced.constants.step_overhead_s

    def steady_of(some: IntColumn) -> Floats:
        if rules.in_groups:
            return slowest_slots_s(placements.slots, few.batch.group_size[some], lambda ahead, back: meeting_s(ahead, back)[some])
        of_ranks = busy_s if merged is None else one.passes_fraction * as_mirrored()
        return largest_of(of_ranks[:, some], ranks.placed)

    return Paces(steady_of, lambda: largest_of(busy_s, ranks.placed), least_s, index, to_beat_s)


def fitting(
    priced: PricedBatch, placements: Alternatives, chosen: IntColumn | None = None, limit_bytes: float | None = None
) -> NDArray[np.bool_]:
    """Whether every rank fits in memory under the ``chosen`` placements (``None``: all), ``[chosen, n]``.

    ``limit_bytes`` replaces the memory of the job's devices.
    """
    limit_bytes = fit_rule(priced.workload, priced.constants).fit_limit_bytes if limit_bytes is None else limit_bytes
    fits: NDArray[np.bool_] = fullest_bytes(priced, placements, limit_bytes, chosen) <= limit_bytes
    return fits


def fullest_bytes(priced: PricedBatch, placements: Alternatives, limit_bytes: float, chosen: IntColumn | None = None) -> Floats:
    """Peak of the fullest rank under the ``chosen`` placements (``None``: all), ``[chosen, n]``.

    Strategies as in ``paces``. Peaks above ``limit_bytes`` may be those of another rank above it than the fullest.
    """
    workload, constants, table = priced.workload, priced.constants, placements.ranks
    tried = np.arange(len(placements.members)) if chosen is None else chosen
    if placements.apart is not None:
        found = np.empty((len(tried), len(priced.batch)))
        moved, others = placements.apart
        is_moved = np.isin(tried, moved)
        if not is_moved.all():
            found[~is_moved] = fullest_bytes(priced, placements.together, limit_bytes, tried[~is_moved])
        if is_moved.any():
            found[is_moved] = fullest_bytes(priced, others, limit_bytes, np.searchsorted(moved, tried[is_moved]))
        return found
    members = placements.members[tried]
    priced = priced.placed(
        varied(priced.batch, mtp_before_head=np.full_like(priced.batch.mtp_before_head, placements.mtp_before_head))
    )

    def peaks_of(rows: PricedBatch, kinds: IntColumn) -> Floats:
        """Largest peak of these ranks under each placement, ``[chosen, n]``; 0 where it has none of them."""
        of_ranks = group_memory(workload, rows.group(table.only(kinds.tolist())), constants, breakdown=False).peak
        held = [np.flatnonzero(of_placement).tolist() for of_placement in members[:, kinds]]
        has_some = [placement for placement, of_placement in enumerate(held) if of_placement]
        largest = np.zeros((len(members), len(rows.batch)))
        largest[has_some] = largest_of(of_ranks, member_table([held[placement] for placement in has_some]))
        return largest

    every = np.flatnonzero(members.any(axis=0))
    if len(priced.batch) * len(every) < MANY_CELLS:
        return peaks_of(priced, every)
    # The ranks that are fullest of one row come first: most rows that do not fit are done then.
    if not placements.fullest:
        one = priced.take(np.zeros(1, dtype=np.int64)).group(table.ranks)
        peak = group_memory(workload, one, constants, breakdown=False).peak
        placements.fullest.update(np.where(placements.members, peak[:, 0], -1.0).argmax(axis=1).tolist())
    is_first = np.isin(every, list(placements.fullest))
    first, rest = every[is_first], every[~is_first]
    found = peaks_of(priced, first)
    rows = np.flatnonzero((found <= limit_bytes).any(axis=0))
    if len(rest) and len(rows):
        found[:, rows] = np.maximum(found[:, rows], peaks_of(priced.take(rows), rest))
    return found


def least_peaks_bytes(priced: PricedBatch) -> Floats:
    """Lower bound in bytes on the fullest rank under any placement, ``[n]``: the mean of all ranks' bytes between steps."""
    least = np.empty(len(priced.batch))
    for rows, group in priced.groups(merge=True, tables=False):
        states, ranks = group.sharded.states_of_few, group.stages.num_ranks.reshape(-1, 1)
        kept = states.total - states.uneven  # which add up to the same sum under every placement
        least[rows] = ((ranks * kept).sum(axis=0) / ranks.sum())[group.sharded.of_row]
    return least


def lower_bounds_s(priced: PricedBatch, placements: Alternatives, chosen: IntColumn) -> Floats:
    """Lower bound on the time of any order of tasks under the ``chosen`` placements, ``[chosen, n]``.

    Strategies as in ``paces``. It equals ``cost_models.step.composition.lower_bound_s`` without the optimizer. The placements
    must have MTP modules if the strategies have them.
    """
    constants, (ranks, of_placement) = priced.constants, placements.ranks.under(chosen)
    group = priced.group(ranks)
    left_s = exchange_beyond_compute_s(
        group.batch, group.sharded.exchange, group.alone.forward, group.alone.backward, constants.dp_exposed_fraction
    )
    each = group.least_work(*left_s)
    kinds = []  # [chosen][rank]
    for sorts, of_ranks in zip(placements.placed.sorts[chosen].tolist(), of_placement, strict=True):
        alike = list(map(tuple, sorts))
        kind = dict(zip(dict.fromkeys(alike), of_ranks, strict=True))
        kinds.append([kind[of_rank] for of_rank in alike])
    shape, of_rank = (ranks.num_kinds, len(group.batch)), np.array(kinds).T
    work_of_ranks = LeastWork(*(np.broadcast_to(seconds, shape)[of_rank] for seconds in each))
    least: Floats = work_of_ranks.spanned_s(ranks.schedule, lambda seconds: seconds.cumsum(axis=0) - seconds)
    return least + constants.step_overhead_s


_USUAL = by_schedule(lambda rules: rules.usual)


class Least(NamedTuple):
    """Lower bounds on the seconds of a step over all placements, ``[n]``: for any order of tasks, and in closed form."""

    step_s: Floats
    closed_form_s: Floats


class Work(NamedTuple):
    """Seconds of a micro batch over all ranks of a pipeline together, ``[n]``, for any placement of its layers.

    ``least_s`` is the rest if merged pairs hide the most that they can.
    """

    alone_s: Floats
    least_s: Floats


def work(priced: PricedBatch) -> Work:
    """Seconds of layers, embedding, heads and MTP modules over all ranks. Recompute counts only if it covers every layer."""
    model, batch = priced.workload.model, priced.batch
    keys, of_row = priced.fewer
    number = Counter(model.kinds_of_layers())
    mtp, last = model.mtp_num_layers, model.layer_kinds().index(model.kinds_of_layers()[-1])
    edges, numbers = keys.edges, [number[kind] for kind in model.layer_kinds()]
    all_s = edges.embedding_forward_s + edges.embedding_backward_s
    all_s = all_s + (1 + mtp) * (edges.head_forward_s + edges.head_backward_s)
    for count, costs in zip(numbers, keys.layers, strict=True):
        all_s = all_s + count * (costs.forward_s + costs.backward_s)
    all_s = all_s + mtp * (keys.layers[last].forward_s + keys.layers[last].backward_s + edges.mtp_module_s)
    again_s = sum(count * costs.full_recompute_s for count, costs in zip(numbers, keys.layers, strict=True))
    every_layer = (batch.recompute == int(Recompute.FULL)) & (batch.recompute_method == int(RecomputeMethod.UNIFORM))
    alone_s = all_s[of_row] + np.where(every_layer, np.broadcast_to(again_s, all_s.shape)[of_row], 0.0)
    if keys.savings is None:
        return Work(alone_s, alone_s)
    most = np.max([saved for row in keys.savings.by_kinds for saved in row if saved is not None], axis=0)
    hidden_s: Floats = (model.num_layers + mtp) * np.maximum(most, 0.0)
    return Work(alone_s, alone_s - hidden_s[of_row])


def added_to_layers_s(priced: PricedBatch) -> Floats:
    """Seconds of a micro batch to add the gradients of one layer of each kind to the buffer, ``[layer kind, n]``."""
    workload, batch = priced.workload, priced.batch
    layers, none = np.eye(len(workload.model.layer_kinds()))[:, :, None], np.zeros((len(workload.model.layer_kinds()), 1))
    whole = stage_parameters(workload, batch, tuple(layers), none, none, none)
    return accumulation_s(workload, batch, trained_parameters(workload, batch, tuple(layers), none, whole), priced.device)


def beside_passes_s(priced: PricedBatch) -> Floats:
    """Lower bound on the seconds of a micro batch on the mean rank beside the passes, ``[n]``: host, and gradients of layers."""
    model, number = priced.workload.model, Counter(priced.workload.model.kinds_of_layers())
    added_s = zip(model.layer_kinds(), added_to_layers_s(priced), strict=True)
    of_all = sum((number[kind] * seconds for kind, seconds in added_s), np.zeros(len(priced.batch)))
    beside: Floats = of_all / priced.batch.pp + host_micro_batch_s(priced.workload, priced.batch, priced.constants)
    return beside


def busy_step_times_s(priced: PricedBatch, busiest_s: Floats) -> Floats:
    """Lower bound on the step time if the busiest rank computes ``busiest_s`` for each micro batch; elementwise."""
    micro_batches = priced.batch.num_microbatches(priced.workload.training.global_batch_size)
    seconds: Floats = micro_batches * busiest_s + priced.constants.step_overhead_s
    return seconds


def least_step_times_s(
    priced: PricedBatch,
    of_all: Work,
    steady_s: Floats | None = None,
    busiest_s: Floats | None = None,
    *,
    exchanges: bool = True,
) -> Least:
    """Lower bounds on step times: the fullest rank works at least as long as the mean rank, and the others fill and drain.

    In the closed form of 1F1B, interleaved or not, each rank but the slowest adds its forward and backward to the bubble, 1/v of
    them with v virtual stages.

    Parameters
    ----------
    of_all : ``[n]``
        From ``work``.
    steady_s, busiest_s : ``[n]``
        As in ``Paces``, if the placement is known. Default: the mean of the ranks.
    exchanges :
        Whether the exchange over the replicas counts, if the placement is not known. Without it the bound is lower and cheaper.
    """
    batch, constants = priced.batch, priced.constants
    micro_batches = batch.num_microbatches(priced.workload.training.global_batch_size)
    mean_s = of_all.least_s / batch.pp
    if busiest_s is None:
        busy_s = _mean_step_times_s(priced, of_all, exchanges=exchanges)
    else:
        busy_s = busy_step_times_s(priced, busiest_s)
    pace_s = mean_s if steady_s is None else steady_s
    filled = (batch.pp > 1) & _USUAL[batch.schedule]
    fill_s = np.where(filled, (of_all.alone_s - pace_s) / batch.vpp, 0.0)
    return Least(busy_s, micro_batches * pace_s + np.maximum(fill_s, 0.0) + constants.step_overhead_s)


def _mean_step_times_s(priced: PricedBatch, of_all: Work, *, exchanges: bool) -> Floats:
    """Lower bound on the step time for any order of tasks and any placement, from the work of the mean rank and its exchange."""
    batch, beside_s = priced.batch, beside_passes_s(priced)
    passes_s = busy_step_times_s(priced, of_all.least_s / batch.pp + beside_s)
    if not exchanges:
        return passes_s
    micro_batches = batch.num_microbatches(priced.workload.training.global_batch_size)
    beyond_s = least_exchange(priced).beyond_passes_s(of_all.alone_s / batch.pp + beside_s, micro_batches)
    least: Floats = (passes_s + beyond_s) * (1.0 - ROUNDING)
    return least
