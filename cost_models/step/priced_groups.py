"""Strategies priced in groups that share a pipeline, with all parts that a step needs in closed form or in simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.communication import network_of
from cost_models.layer.compute import Device, element_factor, stream_bytes
from cost_models.network.collectives import send_recv_s
from cost_models.network.tiers import Network
from cost_models.pipeline.closed_form import LeastWork, Surroundings, least_work
from cost_models.pipeline.merged_passes import MergedPasses
from cost_models.pipeline.pace import slot_table, slowest_slots_s, sorts_of_chunks
from cost_models.pipeline.placements import PlacedChunks, placed_chunks
from cost_models.pipeline.stage_times import LayerCounts, PassTimes, chunk_counts, rank_counts
from cost_models.pipeline.stages import Stages, stages_of
from cost_models.shapes.effective_switches import acting
from cost_models.shapes.layer_keys import Floats, rows_alike
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, ParallelStrategy, Placement, Schedule, StrategyBatch, by_schedule
from cost_models.shapes.switches import PRICED, Feature, Place, priced_bits
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.step.chosen_tensors import under_choices
from cost_models.step.priced_keys import GatheredKeys, LayerPrices, PricedKeys, memory_keys, priced_keys
from cost_models.step.sharded_model import KnownShardings, ShardedModel, sharded_model, sharded_models
from documents.late_methods import dataclass
from documents.sentences import Sentence

MOST_SHARDINGS = 1 << 11  # shardings to keep, times ranks: a few hundred bytes each


_STREAMS = np.array([schedule.rules.num_streams for schedule in Schedule])
_SPLITS_BACKWARD = by_schedule(lambda rules: rules.splits_backward)


def pipeline_sends_s(workload: Workload, batch: StrategyBatch, network: Network) -> Floats:
    """Seconds of pipeline sends of one micro batch on one rank, before compute hides any. ``[n]``

    There are 2 v hops of 2 n h / t bytes, twice as many in FP32 and if the residual stream is FP32. Both directions of DualPipe
    send. The tensor-parallel ranks each send their slice, but Megatron-Core the whole hidden state without sequence parallelism
    [megatron-0.12, schedules.py].
    """
    tokens = workload.training.sample_tokens * batch.micro_batch_size / batch.cp
    sends_whole = workload.software.has_since(workload.software_traits.whole_sends_year)
    slices = np.where((batch.sequence_parallel == 0) & sends_whole, 1, batch.tp)
    # The reference's hidden states go forward beside the model's.
    passes = 1.5 if workload.training.task.runs_reference else 1.0
    moved = passes * element_factor(workload) * stream_bytes(workload) * tokens * workload.model.hidden_size / slices
    chunks = batch.vpp * _STREAMS[batch.schedule]
    hops: Floats = 2.0 * chunks * send_recv_s(moved, batch.pp, batch.tp * batch.cp * batch.dp, network)
    return hops


def _send_recv_s(workload: Workload, batch: StrategyBatch, network: Network, constants: Constants) -> tuple[Floats, Floats]:
    """Exposed and hidden part of the pipeline sends. ``[n]``

    Without interleaving Megatron waits for every hop; with it, hops hide behind other chunks [megatron-0.12, schedules.py].
    Schedules that split the backward send in the background [zero-bubble-code; dualpipe].
    """
    hops = pipeline_sends_s(workload, batch, network)
    overlapped = _SPLITS_BACKWARD[batch.schedule] | ((batch.vpp > 1) & batch.has(Feature.OVERLAP_P2P))
    exposed = hops * np.where(overlapped, constants.p2p_exposed_fraction, 1.0)
    return exposed, hops - exposed


@dataclass(frozen=True)
class PricedGroup:
    """Strategies that share a pipeline, with all priced parts that a step needs in either fidelity; ``[kind, n]`` or ``[n]``."""

    batch: StrategyBatch
    stages: Stages
    num_microbatches: Floats
    priced: GatheredKeys
    sharded: ShardedModel
    sends_s: Callable[[], tuple[Floats, Floats]]  # exposed and masked
    host_micro_batch_s: Floats

    @cached_property
    def chunk_counts(self) -> LayerCounts:
        """Contents of each chunk of a rank."""
        return chunk_counts(self.stages, self.batch)

    @cached_property
    def layers(self) -> LayerCounts:
        """Contents of whole ranks."""
        return rank_counts(self.chunk_counts)

    @cached_property
    def p2p_s(self) -> Floats:
        """Exposed seconds of pipeline sends of a micro batch on a rank that sends both ways from every chunk, ``[n]``."""
        return self.sends_s()[0]

    @cached_property
    def p2p_masked_s(self) -> Floats:
        """Hidden seconds of pipeline sends of a micro batch on such a rank, ``[n]``."""
        return self.sends_s()[1]

    @property
    def sent_fraction(self) -> Floats:
        """Sends of each kind of rank over those of a rank that sends both ways from every chunk, ``[kind, 1]``."""
        return self.stages.num_hops / (2.0 * self.stages.num_chunks)

    @cached_property
    def alone(self) -> PassTimes:
        """Passes of whole ranks with sends and gradient accumulation, which count with the backward; no passes are merged."""
        return self._times(self.layers, self.sent_fraction * self.p2p_s + self.sharded.accumulation_s)

    @cached_property
    def rank(self) -> PassTimes:
        """Passes of whole ranks with the savings of merged passes."""
        return self.alone if self.merged is None else self.alone.saving(self.merged.steady_s(self.batch.group_size))

    @cached_property
    def merged(self) -> MergedPasses | None:
        """Savings of merged passes; ``None`` if the schedule merges none."""
        savings = self.priced.savings
        return None if savings is None or not self.stages.merge_pairs else MergedPasses(self.stages.of_model, savings)

    @cached_property
    def slots_s(self) -> Floats | None:
        """Seconds of a micro batch in slots that all ranks wait for, ``[n]``; ``None`` for schedules without interleaving."""
        stages, merged = self.stages, self.merged
        if not stages.schedule.rules.in_groups:
            return None
        sorts, examples = sorts_of_chunks(stages)
        chunks = self.chunks
        beside_s = (self.p2p_s + self.sharded.accumulation_s.max(axis=0)) / stages.vpp

        @cache
        def meeting_s(first: int, second: int) -> Floats:
            (kind, forward), (other, backward) = examples[first], examples[second]
            seconds: Floats = chunks[forward].forward[kind] + chunks[backward].backward[other] + beside_s
            return seconds if merged is None else seconds - merged.met((kind, forward), (other, backward))

        slots = partial(slot_table, (sorts,), merged=stages.merge_pairs)
        slowest: Floats = slowest_slots_s(slots, self.batch.group_size, meeting_s)[0]
        return slowest

    def least_work(self, reduce_left_s: Floats, gather_left_s: Floats) -> LeastWork:
        """Lower bounds on the work of the ranks of one pipeline, or of several (``pipeline.placements``), ``[kind, n]``.

        Parameters
        ----------
        reduce_left_s, gather_left_s : ``[kind, n]``
            Gradient reduction and weight gathering that passes do not hide.
        """
        hops = 2.0 * self.stages.num_chunks
        most_saved_s = () if self.merged is None else tuple(self.merged.most_of_chunk_s)
        sends_s = self.p2p_s / hops, self.p2p_masked_s / hops
        around = Surroundings(*sends_s, self.host_micro_batch_s, gather_left_s, reduce_left_s, most_saved_s)
        return least_work(self.stages, self.alone, self.chunks[0], self.num_microbatches, around, self.batch.group_size)

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> PricedGroup:
        """The given rows, by index or by a mask over all rows, in that order; parts that are already priced stay priced."""
        return PricedGroup(
            self.batch.take(rows),
            self.stages,
            self.num_microbatches[rows],
            GatheredKeys(self.priced.keys, self.priced.of_row[rows], self.priced.tables),
            self.sharded.take(rows),
            lambda: (self.p2p_s[rows], self.p2p_masked_s[rows]),
            self.host_micro_batch_s[rows],
        )

    @cached_property
    def chunks(self) -> list[PassTimes]:
        """Passes of each chunk without sends and gradient accumulation; no passes are merged."""
        return [self._times(self.chunk_counts.chunk(index)) for index in range(self.stages.num_chunks)]

    def _times(self, counts: LayerCounts, extra_s: Floats | float = 0.0) -> PassTimes:
        relay_s = self.p2p_s / (2.0 * self.stages.num_chunks)
        return PassTimes(counts, self.stages, self.priced.layers, self.priced.edges, relay_s, extra_s)


def _stages(model: ModelShape, one: ParallelStrategy, shared: int, *, merge: bool) -> Stages:
    """Ranks of one strategy's pipeline; ``shared`` are the switches that decide how it runs."""
    return stages_of(
        model,
        one.pp,
        one.vpp,
        one.layer_layout,
        one.recompute_layers_per_stage,
        tensors=one.tensor_plan,
        schedule=one.schedule,
        mtp_before_head=one.mtp_before_head,
        merge_pairs=one.schedule.rules.pairs is not None and bool(shared & priced_bits(Feature.MOE_COMM_OVERLAP, Place.PIPELINE)),
        detach_weight_gradients=bool(shared & priced_bits(Feature.DUALPIPEV_DW_DETACH, Place.PIPELINE)),
        merge=merge,
    )


def _price_group(
    workload: Workload,
    batch: StrategyBatch,
    stages: Stages,
    priced: GatheredKeys,
    device: Device,
    network: Network,
    constants: Constants,
    sharded: ShardedModel | None,
) -> PricedGroup:
    """Price the parts of strategies that share a pipeline."""
    return PricedGroup(
        batch=batch,
        stages=stages,
        num_microbatches=batch.num_microbatches(workload.training.global_batch_size).astype(np.float64),
        priced=priced,
        sharded=sharded_model(workload, batch, stages, device, network) if sharded is None else sharded,
        sends_s=cache(lambda: _send_recv_s(workload, batch, network, constants)),
        host_micro_batch_s=host_micro_batch_s(workload, batch, constants),
    )


def host_micro_batch_s(workload: Workload, batch: StrategyBatch, constants: Constants) -> Floats:
    """Seconds of the host for each micro batch where it dispatches kernel by kernel, ``[n]``."""
    dispatched = workload.software_traits.eager & ~batch.has(Feature.CUDA_GRAPH)
    seconds: Floats = constants.host_micro_batch_s * np.where(dispatched, 1.0, 0.0)
    return seconds


@dataclass(frozen=True)
class PricedBatch:
    """A batch with its layer costs, priced once per layer key; nothing in it depends on the placement of layers."""

    workload: Workload
    batch: StrategyBatch
    constants: Constants
    device: Device
    network: Network
    keys: PricedKeys
    key_of: IntColumn
    known: KnownPipelines | None = None

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> PricedBatch:
        """The given rows, by index or by a mask over all rows, in that order."""
        return varied(self, batch=self.batch.take(rows), key_of=self.key_of[rows])

    def placed(self, batch: StrategyBatch) -> PricedBatch:
        """Copy of the rows under another ``batch``, which differs in its layouts only."""
        return varied(self, batch=batch)

    def gathered(self, *, tables: bool = False) -> GatheredKeys:
        """Layer costs of each row."""
        return GatheredKeys(self.keys, self.key_of, tables)

    @property
    def fewer(self) -> tuple[PricedKeys | GatheredKeys, IntColumn]:
        """Layer costs by key or by row, whichever has fewer entries, and the index of each row's entry ``[n]``."""
        if len(self.batch) < len(self.keys.alike):
            return self.gathered(), np.arange(len(self.batch))
        return self.keys, self.key_of

    def group(self, stages: Stages, *, tables: bool = False, sharded: ShardedModel | None = None) -> PricedGroup:
        """All rows on the given ranks.

        Parameters
        ----------
        tables
            Keep parts of layer costs, for a breakdown.
        sharded
            Costs of the rows' parameters, if known.
        """
        gathered = self.gathered(tables=tables)
        if stages.chosen:
            gathered = under_choices(self.workload, self.batch, gathered, stages.chosen, self.device, self.network)
        return _price_group(self.workload, self.batch, stages, gathered, self.device, self.network, self.constants, sharded)

    def under(self, placements: Sequence[Placement]) -> PlacedChunks:
        """Chunks of the pipeline that the rows share, under each placement."""
        one, model = replace(self.batch.row(0), **placements[0]._asdict()), self.workload.model
        return placed_chunks(model, _stages(model, one, int(self.shared_switches[0]), merge=True), placements)

    @property
    def shared_switches(self) -> IntColumn:
        """``pipeline_switches`` of the batch as bits, ``[n]``."""
        return pipeline_switches(self.workload.model, self.batch)

    def groups(self, *, merge: bool, tables: bool) -> Iterator[tuple[IntColumn, PricedGroup]]:
        """Groups of rows that share a pipeline, with the indices of their rows ``[n]``; raises ``ValueError`` for a wrong layout.

        Parameters
        ----------
        merge
            Merge equal ranks into kinds.
        tables
            Keep parts of layer costs, for a breakdown.
        """
        b, shared = self.batch, self.shared_switches
        placed = b.layout_index, b.mtp_before_head, b.recompute_plan_index, b.tensor_plan_index
        parts = [(rows, self.take(rows), int(shared[rows[0]])) for rows in rows_alike([b.pp, b.vpp, b.schedule, shared, *placed])]
        if self.known is not None:
            for rows, some, switches in parts:
                shardings = self.known.shardings(some, switches, merge=merge)
                yield rows, some.group(shardings.stages, tables=tables, sharded=shardings.of(some.batch))
            return
        alike: dict[tuple[int, ...], list[tuple[IntColumn, PricedBatch, Stages]]] = {}
        for rows, some, switches in parts:
            pipeline = tuple(int(column[rows[0]]) for column in (b.pp, b.vpp, b.schedule, b.mtp_before_head))
            stages = _stages(self.workload.model, some.batch.row(0), switches, merge=merge)
            alike.setdefault(pipeline, []).append((rows, some, stages))
        for of_pipeline in alike.values():
            together = b.take(np.concatenate([rows for rows, *_ in of_pipeline]))
            ranks = [(len(rows), stages) for rows, _, stages in of_pipeline]
            sharded = sharded_models(self.workload, together, ranks, self.device, self.network)
            for (rows, some, stages), each in zip(of_pipeline, sharded, strict=True):
                yield rows, some.group(stages, tables=tables, sharded=each)


class KnownPipelines:
    """Ranks of pipelines, and the costs of their shardings, from earlier batches of one workload.

    Beyond ``most`` shardings the cache starts empty again.
    """

    def __init__(self, most: int = MOST_SHARDINGS) -> None:
        self._most = most
        self._known: dict[tuple[object, ...], KnownShardings] = {}

    def shardings(self, priced: PricedBatch, shared: int, *, merge: bool) -> KnownShardings:
        """Shardings of the pipeline that all rows of a batch share.

        Parameters
        ----------
        priced
            Always of the same workload.
        shared
            The switches that decide how the pipeline runs.
        merge
            Merge equal ranks into kinds.
        """
        if sum(map(len, self._known.values())) > self._most:
            self._known.clear()
        b = priced.batch
        indices = (b.layouts, b.layout_index), (b.recompute_plans, b.recompute_plan_index), (b.tensor_plans, b.tensor_plan_index)
        placed = [None if index[0] < 0 else listed[index[0]] for listed, index in indices]
        key = (*(int(column[0]) for column in (b.pp, b.vpp, b.schedule, b.mtp_before_head)), *placed, shared, merge)
        found = self._known.get(key)
        if found is None:
            workload = priced.workload
            stages = _stages(workload.model, b.row(0), shared, merge=merge)
            found = self._known[key] = KnownShardings(workload, stages, priced.device, priced.network)
        return found


def pipeline_switches(model: ModelShape, batch: StrategyBatch) -> IntColumn:
    """Bits of the switches that decide how a pipeline runs and have an effect, ``[n]``."""
    return acting(model, batch, Feature(PRICED[Place.PIPELINE]))


def priced_batch(
    workload: Workload, batch: StrategyBatch, constants: Constants, known: KnownPipelines | None = None
) -> PricedBatch:
    """Layer costs of a batch, for steps under any placement of the layers.

    Raises ``ValueError`` for an empty batch, or a precision without a peak. ``known`` are pipelines of earlier batches.
    """
    if len(batch) == 0:
        raise ValueError(Sentence("no strategy to estimate"))
    device, network = Device.of(workload, constants), network_of(workload, constants)
    keys, key_of = priced_keys(workload, batch, device, network)
    return PricedBatch(workload, batch, constants, device, network, keys, key_of, known)


def memory_batch(workload: Workload, batch: StrategyBatch, constants: Constants) -> PricedBatch:
    """A batch for ``composition.peaks`` alone: its layers have no times. Raises ``ValueError`` as ``priced_batch``."""
    if len(batch) == 0:
        raise ValueError(Sentence("no strategy to estimate"))
    device, network = Device.of(workload, constants), network_of(workload, constants)
    keys, key_of = memory_keys(workload, batch)
    return PricedBatch(workload, batch, constants, device, network, keys, key_of)


def priced_by(prices: LayerPrices, batch: StrategyBatch, known: KnownPipelines | None = None) -> PricedBatch:
    """Like ``priced_batch`` with layer costs of earlier batches; a breakdown is not possible."""
    keys, key_of = prices.of(batch)
    return PricedBatch(prices.workload, batch, prices.constants, prices.device, prices.network, keys, key_of, known)


def priced_groups(
    workload: Workload, batch: StrategyBatch, constants: Constants, *, merge: bool, tables: bool
) -> Iterator[tuple[IntColumn, PricedGroup]]:
    """``PricedBatch.groups`` of a batch: groups of rows that share a pipeline, with the indices of their rows ``[n]``.

    Raises ``ValueError`` for an empty batch, a layout that does not hold the model, or a precision without a peak.
    """
    return priced_batch(workload, batch, constants).groups(merge=merge, tables=tables)
