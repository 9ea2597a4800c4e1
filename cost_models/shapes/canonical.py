"""Canonical form of strategies: an option without effect takes one fixed value.

Otherwise a switch without effect would multiply the search space, and plans would repeat.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cost_models.shapes.effective_switches import scope_of
from cost_models.shapes.layout import default_layout, has_default_layout
from cost_models.shapes.recompute_modules import RecomputeModule, effective_modules
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Scope, acting_in, acting_on
from cost_models.shapes.tensors import drops_nothing
from cost_models.shapes.workload import Cluster, ModelShape, Workload

DATA_PARALLEL_FEATURES = acting_on(Scope.REPLICAS)


def expert_domain_devices(cluster: Cluster) -> int:
    """Devices that exchange expert traffic without the outermost link: the supernode if there is one, else the node."""
    inner = [tier.domain_devices for tier in cluster.profile.tiers[:-1] if tier.domain_devices is not None]
    return max(inner, default=cluster.profile.devices_per_node)


def layers_per_chunk(model: ModelShape, pp: int, vpp: int) -> int:
    """Layers of the longest virtual stage under the default layout."""
    return -(-model.num_layers // (pp * vpp))


def canonical_zero_stage(scope: Scope, zero_stage: int) -> int:
    """ZeRO stage; without replicas every stage is the distributed optimizer (1)."""
    return zero_stage if Scope.REPLICAS in scope else 1


@lru_cache(maxsize=4096)  # parsing a strategy calls this for many candidates
def schedules_of(pp: int, vpp: int) -> tuple[Schedule, ...]:
    """Schedules that a pipeline of that shape can run, the usual one first."""
    return tuple(schedule for schedule in Schedule if schedule.rules.runs(pp, vpp))


def canonical_schedule(pp: int, vpp: int, schedule: Schedule = Schedule.NONE) -> Schedule:
    """The schedule. Usual schedules are one at different vpp. Other schedules stay if there is a pipeline."""
    if pp == 1 or schedule.rules.usual:
        return schedules_of(pp, vpp)[0]
    return schedule


def group_size(strategy: ParallelStrategy) -> int:
    """Micro batches that pass one chunk before the next, if the schedule has groups."""
    return strategy.microbatch_group_size_per_vp_stage or strategy.pp


def canonical_group_size(pp: int, schedule: Schedule, size: int) -> int:
    """Micro batches of a group; 0 means pp of them, or a schedule without groups."""
    return 0 if not schedule.rules.in_groups or size == pp else size


def canonical_mtp_before_head(model: ModelShape, pp: int, vpp: int, given: int) -> int:
    """Virtual stages between MTP modules and head; 0 without MTP modules or with one stage."""
    return given if model.mtp_num_layers and pp * vpp > 1 else 0


def canonical_cp(cp: int, algo: CpAlgo, ulysses_degree: int) -> tuple[CpAlgo, int]:
    """Context-parallel algorithm and Ulysses degree; a hybrid with one side of degree 1 becomes the other side."""
    if cp == 1:
        return CpAlgo.NONE, 1
    if algo is CpAlgo.ULYSSES or (algo is CpAlgo.HYBRID and ulysses_degree == cp):
        return CpAlgo.ULYSSES, cp
    if algo is CpAlgo.HYBRID and ulysses_degree > 1:
        return CpAlgo.HYBRID, ulysses_degree
    return (algo if algo is CpAlgo.KV_ALLGATHER else CpAlgo.RING), 1


def canonical_dispatcher(model: ModelShape, expert_ranks: int, cluster: Cluster, dispatcher: Dispatcher) -> Dispatcher:
    """Dispatcher of ``expert_ranks`` = ep etp; inside one domain, two-level forms become the plain all-to-all.

    DeepEP on a GPU is an exception: it sends a rank one copy of a token, however many of the token's experts the rank has.
    """
    if model.moe is None:
        return Dispatcher.NONE
    if expert_ranks == 1 or dispatcher is Dispatcher.NONE:
        return Dispatcher.ALLTOALL
    by_domain = {Dispatcher.HIERARCHICAL} | ({Dispatcher.TWO_LEVEL} if cluster.profile.sequential_tiers else set())
    if expert_ranks <= expert_domain_devices(cluster) and dispatcher in by_domain:
        return Dispatcher.ALLTOALL
    return dispatcher


def canonical_recompute(
    model: ModelShape,
    longest_chunk: int,
    granularity: Recompute,
    method: RecomputeMethod,
    num_layers: int,
    modules: RecomputeModule,
) -> tuple[Recompute, RecomputeMethod, int, RecomputeModule]:
    """Recompute granularity, method, layers and modules, if the longest virtual stage holds ``longest_chunk`` layers.

    A block that covers every layer keeps one checkpoint a layer, which equals the uniform method with one layer.
    """
    nothing = Recompute.NONE, RecomputeMethod.NONE, 0, RecomputeModule(0)
    if granularity is Recompute.SELECTIVE:
        kept = effective_modules(model, modules)
        return (granularity, RecomputeMethod.NONE, 0, kept) if kept else nothing
    if granularity is Recompute.NONE or num_layers <= 0:
        return nothing
    if method is RecomputeMethod.BLOCK and num_layers < longest_chunk:
        return granularity, method, num_layers, RecomputeModule(0)
    layers = 1 if method is RecomputeMethod.BLOCK else min(num_layers, longest_chunk)
    return granularity, RecomputeMethod.UNIFORM, layers, RecomputeModule(0)


def _recomputes_every_layer(model: ModelShape, strategy: ParallelStrategy) -> bool:
    """Whether the plan by stage covers all layers of every rank, so that no layer is left to its modules."""
    pp, vpp, layout, plan = strategy.pp, strategy.vpp, strategy.layer_layout, strategy.recompute_layers_per_stage
    if model.mtp_num_layers or plan is None or len(plan) != pp:
        return False
    if layout is None and not has_default_layout(model, pp, vpp, strategy.schedule):
        return False
    rows = layout or default_layout(model, pp, vpp, strategy.schedule)
    if any(len(row) != pp for row in rows):  # a rule refuses it
        return False
    is_vee = strategy.schedule.rules.is_vee
    chunks = [row[::-1] if is_vee and chunk % 2 else row for chunk, row in enumerate(rows)]
    return all(recomputed >= sum(held) for recomputed, held in zip(plan, zip(*chunks, strict=True), strict=True))


def canonical(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy with ``dp`` derived from the cluster, and every option without effect at its fixed value.

    Degrees are never changed, so an illegal strategy stays illegal.
    """
    model, cluster = workload.model, workload.cluster
    strategy = replace(
        strategy,
        dp=max(cluster.num_devices // (strategy.tp * strategy.pp * strategy.cp), 1),
        schedule=canonical_schedule(strategy.pp, strategy.vpp, strategy.schedule),
    )
    scope = scope_of(model, strategy)
    cp_algo, ulysses_degree = canonical_cp(strategy.cp, strategy.cp_algo, strategy.ulysses_degree)
    layout = strategy.layer_layout
    has_default = has_default_layout(model, strategy.pp, strategy.vpp, strategy.schedule)  # with more stages a rule refuses it
    if has_default and layout is not None and layout == default_layout(model, strategy.pp, strategy.vpp, strategy.schedule):
        layout = None
    recompute, method, num_layers, modules = canonical_recompute(
        model,
        max(map(max, layout)) if layout else layers_per_chunk(model, strategy.pp, strategy.vpp),
        strategy.recompute,
        strategy.recompute_method,
        strategy.recompute_num_layers,
        strategy.recompute_modules,
    )
    tensors, shards = strategy.tensor_plan, strategy.optimizer_shard_size
    if strategy.recompute is Recompute.FULL and strategy.recompute_layers_per_stage is not None:
        # A plan by stage alone decides which layers are recomputed; the modules apply to the other layers.
        modules = RecomputeModule(0) if _recomputes_every_layer(model, strategy) else strategy.recompute_modules
        recompute, method, num_layers, modules = Recompute.FULL, RecomputeMethod.NONE, 0, effective_modules(model, modules)
    return replace(
        strategy,
        sequence_parallel=strategy.sequence_parallel and strategy.tp > 1,
        cp_algo=cp_algo,
        ulysses_degree=ulysses_degree,
        microbatch_group_size_per_vp_stage=canonical_group_size(
            strategy.pp, strategy.schedule, strategy.microbatch_group_size_per_vp_stage
        ),
        mtp_before_head=canonical_mtp_before_head(model, strategy.pp, strategy.vpp, strategy.mtp_before_head),
        zero_stage=canonical_zero_stage(scope, strategy.zero_stage),
        optimizer_shard_size=0 if shards == strategy.dp * strategy.cp else shards,
        dispatcher=canonical_dispatcher(model, strategy.ep * strategy.etp, cluster, strategy.dispatcher),
        recompute=recompute,
        recompute_method=method,
        recompute_num_layers=num_layers,
        recompute_modules=modules,
        features=strategy.features & acting_in(scope),
        layer_layout=layout,
        tensor_plan=None if tensors is None or drops_nothing(tensors) else tensors,
    )
