"""One form for strategies that run alike: an option without effect takes one fixed value.

Without this, a switch that does nothing would multiply the space and the plans would repeat themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import (
    CpAlgo,
    Dispatcher,
    Feature,
    ParallelStrategy,
    Recompute,
    RecomputeMethod,
    RecomputeModule,
    Schedule,
)
from cost_models.shapes.workload import Cluster, ModelShape, Workload

TENSOR_PARALLEL_FEATURES = (
    Feature.REPLICATED_EMBEDDING
    | Feature.MC2
    | Feature.COC
    | Feature.TP_COMM_OVERLAP
    | Feature.TP_2D
    | Feature.FINE_GRAIN_INTERLEAVE
)
DATA_PARALLEL_FEATURES = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
EXPERT_PARALLEL_FEATURES = (
    Feature.MOE_PERMUTATION_ASYNC_COMM
    | Feature.MOE_ALLGATHER_OVERLAP_COMM
    | Feature.MOE_ALLTOALL_OVERLAP_COMM
    | Feature.MOE_COMM_OVERLAP
    | Feature.MOE_SHARED_EXPERT_OVERLAP
    | Feature.MOE_TP_EXTEND_EP
)
MOE_FEATURES = (
    EXPERT_PARALLEL_FEATURES
    | Feature.MOE_GROUPED_GEMM
    | Feature.MOE_PERMUTE_FUSION
    | Feature.MOE_PAD_TO_CAPACITY
    | Feature.MOE_ZERO_MEMORY
)


@dataclass(frozen=True)
class Scope:
    """What a layout has, as far as it decides which options matter."""

    tensor_parallel: bool
    context_parallel: bool
    schedule: Schedule  # canonical
    data_parallel: bool  # some parameters, dense or expert, have replicas
    routed: bool  # tokens travel to their experts


def expert_domain_devices(cluster: Cluster) -> int:
    """Devices inside which expert traffic needs no outermost link: the node, or the supernode where there is one."""
    inner = [tier.domain_devices for tier in cluster.profile.tiers[:-1] if tier.domain_devices is not None]
    return max(inner, default=cluster.profile.devices_per_node)


def layers_per_chunk(model: ModelShape, pp: int, vpp: int) -> int:
    """Layers of the longest virtual stage under the default layout."""
    return -(-model.num_layers // (pp * vpp))


def scope_of(model: ModelShape, strategy: ParallelStrategy) -> Scope:
    """The scope of a strategy; its ``dp`` must be set, and its schedule canonical."""
    ranks = strategy.tp * strategy.cp * strategy.dp
    expert_ranks = strategy.ep * strategy.etp
    return Scope(
        tensor_parallel=strategy.tp > 1,
        context_parallel=strategy.cp > 1,
        schedule=strategy.schedule,
        data_parallel=strategy.dp * strategy.cp > 1 or (model.moe is not None and ranks // expert_ranks > 1),
        routed=model.moe is not None and expert_ranks > 1,
    )


def canonical_features(model: ModelShape, scope: Scope, dispatcher: Dispatcher, zero_stage: int, features: Feature) -> Feature:
    """The features that have an effect in that scope, under a canonical dispatcher and ZeRO stage."""
    idle = Feature(0)
    if not scope.tensor_parallel:
        idle |= TENSOR_PARALLEL_FEATURES
    if not scope.context_parallel:
        idle |= Feature.CP_SEND_RECV_OVERLAP
    if scope.schedule is not Schedule.INTERLEAVED:
        idle |= Feature.OVERLAP_P2P  # Megatron has a switch in the interleaved schedule only
    if scope.schedule is not Schedule.DUALPIPE_V:
        idle |= Feature.DUALPIPEV_DW_DETACH
    if not scope.data_parallel:
        idle |= DATA_PARALLEL_FEATURES
    if zero_stage == 0:
        idle |= Feature.OVERLAP_PARAM_GATHER  # every rank updates all of its parameters
    if not scope.routed:
        idle |= EXPERT_PARALLEL_FEATURES
    idle |= Feature.MOE_ALLTOALL_OVERLAP_COMM if dispatcher is Dispatcher.ALLGATHER else Feature.MOE_ALLGATHER_OVERLAP_COMM
    if model.moe is None:
        idle |= MOE_FEATURES
    elif model.moe.capacity_factor is None:
        idle |= Feature.MOE_PAD_TO_CAPACITY
    if not model.gated_linear_unit:
        idle |= Feature.FUSED_SWIGLU
    if model.learned_positions:
        idle |= Feature.FUSED_ROPE
    return features & ~idle


def canonical_zero_stage(scope: Scope, zero_stage: int) -> int:
    """Optimizer sharding over one rank is the distributed optimizer, whatever was asked."""
    return zero_stage if scope.data_parallel else 1


def schedules_of(pp: int, vpp: int) -> tuple[Schedule, ...]:
    """The schedules that a pipeline of that shape can run, the usual one first."""
    if pp == 1:
        return (Schedule.NONE,)
    if vpp == 1:
        return Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.ZB1P, Schedule.ZB2P, Schedule.DUALPIPE
    return (Schedule.INTERLEAVED, Schedule.ZBV, Schedule.DUALPIPE_V) if vpp == 2 else (Schedule.INTERLEAVED,)


def canonical_schedule(pp: int, vpp: int, schedule: Schedule = Schedule.NONE) -> Schedule:
    """None, 1F1B and interleaved are one schedule at different vpp; another one stays, wherever there is a pipeline."""
    if pp == 1 or schedule in (Schedule.NONE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED):
        return schedules_of(pp, vpp)[0]
    return schedule


def group_size(strategy: ParallelStrategy) -> int:
    """Micro batches that a chunk of the interleaved schedule takes in turn."""
    return strategy.microbatch_group_size_per_vp_stage or strategy.pp


def canonical_group_size(pp: int, schedule: Schedule, size: int) -> int:
    """Micro batches that a chunk takes in turn, 0 for pp of them and where chunks take no turns."""
    return 0 if schedule is not Schedule.INTERLEAVED or size == pp else size


def canonical_cp(cp: int, algo: CpAlgo, ulysses_degree: int) -> tuple[CpAlgo, int]:
    """Algorithm and Ulysses degree; a hybrid with nothing left for one side is the other side alone."""
    if cp == 1:
        return CpAlgo.NONE, 1
    if algo is CpAlgo.ULYSSES or (algo is CpAlgo.HYBRID and ulysses_degree == cp):
        return CpAlgo.ULYSSES, cp
    if algo is CpAlgo.HYBRID and ulysses_degree > 1:
        return CpAlgo.HYBRID, ulysses_degree
    return CpAlgo.RING, 1


def canonical_dispatcher(model: ModelShape, expert_ranks: int, cluster: Cluster, dispatcher: Dispatcher) -> Dispatcher:
    """Dispatcher of ``expert_ranks`` = ep etp; forms of two levels inside one domain are the plain all-to-all.

    But for DeepEP's on a GPU, which sends a rank one copy of a token however many of its experts the rank has.
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
    """Granularity, method, layers and modules, where the longest virtual stage holds ``longest_chunk`` layers.

    A block that covers every layer keeps one checkpoint a layer, which is the uniform method with one layer.
    """
    nothing = Recompute.NONE, RecomputeMethod.NONE, 0, RecomputeModule(0)
    if granularity is Recompute.SELECTIVE:
        kept = _effective_modules(model, modules)
        return (granularity, RecomputeMethod.NONE, 0, kept) if kept else nothing
    if granularity is Recompute.NONE or num_layers <= 0:
        return nothing
    if method is RecomputeMethod.BLOCK and num_layers < longest_chunk:
        return granularity, method, num_layers, RecomputeModule(0)
    layers = 1 if method is RecomputeMethod.BLOCK else min(num_layers, longest_chunk)
    return granularity, RecomputeMethod.UNIFORM, layers, RecomputeModule(0)


def _effective_modules(model: ModelShape, modules: RecomputeModule) -> RecomputeModule:
    kinds = set(model.moe_layers())
    absent = RecomputeModule(0)
    if model.mla is None:
        absent |= RecomputeModule.MLA_UP_PROJ
    if True not in kinds:
        absent |= RecomputeModule.MOE
    if False not in kinds:
        absent |= RecomputeModule.MLP
    kept = modules & ~absent
    whole = (RecomputeModule.MLP if False in kinds else 0) | (RecomputeModule.MOE if True in kinds else 0)
    if kept & whole == whole:
        kept &= ~RecomputeModule.MLP_ACT  # every activation function lies inside a module that is recomputed
    return kept


def canonical(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy with ``dp`` derived from the cluster and every option without effect at its fixed value.

    Degrees are never changed, so an illegal strategy stays illegal.
    """
    model, cluster = workload.model, workload.cluster
    strategy = replace(
        strategy,
        dp=max(cluster.num_devices // (strategy.tp * strategy.pp * strategy.cp), 1),
        schedule=canonical_schedule(strategy.pp, strategy.vpp, strategy.schedule),
    )
    scope = scope_of(model, strategy)
    zero_stage = canonical_zero_stage(scope, strategy.zero_stage)
    expert_ranks = strategy.ep * strategy.etp
    dispatcher = canonical_dispatcher(model, expert_ranks, cluster, strategy.dispatcher)
    cp_algo, ulysses_degree = canonical_cp(strategy.cp, strategy.cp_algo, strategy.ulysses_degree)
    layout = strategy.layer_layout
    if layout is not None and layout == default_layout(model, strategy.pp, strategy.vpp, strategy.schedule):
        layout = None
    recompute, method, num_layers, modules = canonical_recompute(
        model,
        max(map(max, layout)) if layout else layers_per_chunk(model, strategy.pp, strategy.vpp),
        strategy.recompute,
        strategy.recompute_method,
        strategy.recompute_num_layers,
        strategy.recompute_modules,
    )
    if strategy.recompute is Recompute.FULL and strategy.recompute_layers_per_stage is not None:
        # A plan by stage says alone which layers are recomputed; the modules speak for the others.
        recompute, method, num_layers, modules = Recompute.FULL, RecomputeMethod.NONE, 0, strategy.recompute_modules
    return replace(
        strategy,
        sequence_parallel=strategy.sequence_parallel and scope.tensor_parallel,
        cp_algo=cp_algo,
        ulysses_degree=ulysses_degree,
        microbatch_group_size_per_vp_stage=canonical_group_size(
            strategy.pp, strategy.schedule, strategy.microbatch_group_size_per_vp_stage
        ),
        zero_stage=zero_stage,
        dispatcher=dispatcher,
        recompute=recompute,
        recompute_method=method,
        recompute_num_layers=num_layers,
        recompute_modules=modules,
        features=canonical_features(model, scope, dispatcher, zero_stage, strategy.features),
        layer_layout=layout,
    )
