"""The values that each dimension of the search may take.

Default grid (a range in the limits selects from it, a list replaces it):

- ``tp``: powers of two up to a node, or up to 32 inside a supernode
- ``pp``: divisors of the device count up to the number of layers and 64; ``vpp``: 1 to 8, and more where they divide the layers
- ``cp``: powers of two that leave a rank at least 4,096 tokens [mindspeed, auto_settings]; ring, ulysses and hybrid,
  and kv_allgather where the target has it
- ``ep``: divisors of the number of experts, 1 for dense models; all dispatchers
- ``etp``: powers of two up to a node that leave a shard at least 2,048 columns of an expert, 1 for dense models
- ``micro_batch_size``: 1, 2, 4, 8, 16; ``sequence_parallel`` on; distributed optimizer (``zero_stage`` 1; 0 with SGD, and
  with adapters where frozen weights would be divided), or for a stack that shards weights ``zero_stage`` 3 and 2, over all
  replicas, over those of a node and over those of an inner tier
- ``recompute``: none, modules, the first 1 to 16 layers or a quarter, a half and three quarters of each virtual stage, all layers
- ``schedule``: none, 1F1B or interleaved by the shape, and DualPipeV for experts on several ranks where the target has it;
  an interleaved chunk takes pp micro batches in turn
- switches, as each entry of ``cost_models.shapes.switches`` says: those of ``DEFAULT_FEATURES`` on; ``wanted``, what saves time,
  on in every strategy in which the target takes it; ``leaner``, what saves memory for time, tried the other way where a
  strategy does not fit (``memory_saving_forms.py``); the rest off. With DualPipeV ``moe_comm_overlap`` is on, which is the
  purpose of the schedule; switches that the target excludes with it are off
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.idle_modules import idle_modules
from cost_models.shapes.canonical import canonical_group_size, expert_domain_devices, schedules_of
from cost_models.shapes.effective_switches import fuses_attention, possible, usual_features
from cost_models.shapes.fully_sharded import has_units
from cost_models.shapes.recompute_modules import MODULE_NAMES, RecomputeModule, present_modules
from cost_models.shapes.strategy import CpAlgo, Dispatcher, IntColumn, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature, InSearch, treated
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence, joined
from frameworks.accepted_switches import usual_if_set
from frameworks.registry import cp_algos_tried, framework_of, off_beside, offered
from search.errors import SearchError
from search.space.allowed_names import allowed_both_ways, features_among, kept, modules_among
from search.space.limits import CP_ALGOS, DEGREES, DISPATCHERS, SCHEDULES, Degrees, Range, SearchLimits
from search.space.recompute_modes import RecomputeMode, recompute_mode

MAX_TENSOR_PARALLEL = 32
MAX_PIPELINE = 64
MOST_UNEVEN_VIRTUAL_STAGES = 8  # maximum on a rank without an even split; Megatron-LM and Calculon always require one
MIN_TOKENS_PER_CP_RANK = 4096
MIN_EXPERT_COLUMNS = 2048
MICRO_BATCH_SIZES = (1, 2, 4, 8, 16)
MOST_COUNTED_LAYERS = 16  # recomputed layers of a virtual stage that are counted one by one; shares go beyond


class Pipeline(NamedTuple):
    """The facts that decide the order of tasks, without the number of micro batches."""

    pp: int
    vpp: int
    schedule: Schedule
    group_size: int


@dataclass(frozen=True)
class SearchSpace:
    """Sorted values of every dimension; ``dp`` is derived.

    ``features`` lists whole combinations of switches. ``dualpipev_features`` are those of schedules that may merge passes,
    ``interleaved_features`` those of schedules with groups and of no pipeline. ``wanted`` are also on wherever the target takes
    them. Where a strategy does not fit, those of ``leaner`` are turned. The lattice is the product of all dimensions in canonical
    form (``cost_models.shapes.canonical``).
    """

    tp: tuple[int, ...]
    pp: tuple[int, ...]
    vpp: tuple[int, ...]
    cp: tuple[int, ...]
    ep: tuple[int, ...]
    etp: tuple[int, ...]
    micro_batch_size: tuple[int, ...]
    sequence_parallel: tuple[bool, ...]
    cp_algo: tuple[CpAlgo, ...]
    schedule: tuple[Schedule, ...]
    microbatch_group_size_per_vp_stage: tuple[int, ...]  # 0: pp
    dispatcher: tuple[Dispatcher, ...]
    recompute: tuple[RecomputeMode, ...]
    zero_stage: tuple[int, ...]
    features: tuple[Feature, ...]
    dualpipev_features: tuple[Feature, ...]
    interleaved_features: tuple[Feature, ...]
    wanted: Feature = Feature(0)
    leaner: Feature = Feature(0)
    optimizer_shard_size: tuple[int, ...] = (0,)  # 0: all ranks that hold the same weights

    def dimensions(self) -> dict[str, list[Any]]:
        """The values of every dimension except the switches, as jobs name them."""
        values: dict[str, list[Any]] = {name: list(getattr(self, name)) for name in (*DEGREES, "sequence_parallel", "zero_stage")}
        if len(self.optimizer_shard_size) > 1:
            values["optimizer_shard_size"] = list(self.optimizer_shard_size)
        for name in ("cp_algo", "schedule", "dispatcher"):
            values["moe_dispatcher" if name == "dispatcher" else name] = [kind.label for kind in getattr(self, name)]
        return values | {
            "microbatch_group_size_per_vp_stage": list(self.microbatch_group_size_per_vp_stage),
            "recompute": [mode.name for mode in self.recompute],
        }

    def features_with(self, schedule: Schedule) -> tuple[Feature, ...]:
        """Combinations of switches that are tried with a schedule."""
        pairs = schedule.rules.pairs
        if schedule.rules.tried == "always" and pairs is not None and not pairs.wait:
            return self.interleaved_features
        return self.dualpipev_features if schedule.rules.tried == "to_merge" else self.features

    def pipelines(self) -> tuple[Pipeline, ...]:
        """Every pipeline of the space once, in canonical form."""
        return tuple(
            dict.fromkeys(
                Pipeline(pp, vpp, schedule, canonical_group_size(pp, schedule, size))
                for pp, vpp in product(self.pp, self.vpp)
                for schedule in schedules_of(pp, vpp)
                if schedule in self.schedule
                for size in self.microbatch_group_size_per_vp_stage
            )
        )


def search_space(workload: Workload, limits: SearchLimits | None = None) -> SearchSpace:
    """The space of a workload under the user's limits.

    Raises ``SearchError`` where a range leaves a dimension without a value.
    """
    limits = limits_with_names(workload, limits or SearchLimits())
    options = tried_options(workload, limits)
    features = _feature_combinations(workload, limits, {})
    merged = _feature_combinations(workload, limits, _with_merged_pairs(workload))
    degrees = {name: _selected(name, getattr(limits, name), grid) for name, grid in _default_degrees(workload).items()}
    return SearchSpace(
        **degrees,
        # The first value of an option is the one that a user expects, since it wins ties.
        sequence_parallel=limits.sequence_parallel or (True,),
        cp_algo=options["cp_algo"],
        schedule=options["schedule"],
        microbatch_group_size_per_vp_stage=limits.microbatch_group_size_per_vp_stage or (0,),
        dispatcher=options["dispatcher"],
        recompute=options["recompute"],
        zero_stage=limits.zero_stage or _zero_stages(workload),
        features=features,
        dualpipev_features=merged,
        interleaved_features=tuple(dict.fromkeys((*features, *(merged if _merges_pairs(workload, degrees["ep"]) else ())))),
        wanted=_open(workload, limits, InSearch.ON, InSearch.LEAN_OFF) & ~DEFAULT_FEATURES
        | _if_allowed(workload, limits)
        | usual_if_set(workload) & ~Feature(sum(feature for feature, tried in limits.switches.items() if tried != (True,))),
        leaner=_open(workload, limits, InSearch.LEAN_ON, InSearch.LEAN_OFF),
        optimizer_shard_size=(0, *_inner_domains(workload)) if _shards_in_groups(workload, limits) else (0,),
    )


def _zero_stages(workload: Workload) -> tuple[int, ...]:
    return (3, 2) if _shards_weights(workload) else (int(workload.shares_optimizer),)


def _shards_weights(workload: Workload) -> bool:
    """Whether the stack is fully sharded data parallelism, which has no other form of the optimizer."""
    return workload.software_traits.fp32_shards


def _shards_in_groups(workload: Workload, limits: SearchLimits) -> bool:
    """Whether plans whose gradients are sharded may repeat their shards."""
    return _shards_weights(workload) or (has_units(workload) and max(limits.zero_stage or (0,)) >= 2)


def _inner_domains(workload: Workload) -> tuple[int, ...]:
    """Devices of each tier inside the outermost, of a node, and of 2, 4, 8 ... of both, if they are not all of the cluster.

    A ring over several nodes is shorter than over all, and its shards are smaller than a node's. Sizes that would straddle
    domains are left out.
    """
    cluster = workload.cluster
    node, domains = cluster.profile.devices_per_node, domains_inside(workload)
    whole = [
        each << doublings for each in domains if each >= node for doublings in range((cluster.num_devices // each).bit_length())
    ]
    sizes = np.array(sorted({*domains, *whole}), dtype=np.int64)
    return tuple(sizes[(sizes > 1) & (sizes < cluster.num_devices) & nests(sizes, domains)].tolist())


def domains_inside(workload: Workload) -> tuple[int, ...]:
    """Devices of a node and of each tier inside the outermost."""
    profile = workload.cluster.profile
    return profile.devices_per_node, *(tier.domain_devices for tier in profile.tiers[:-1] if tier.domain_devices)


def nests(num_devices: IntColumn, domains: Sequence[int]) -> NDArray[np.bool_]:
    """Whether groups of so many neighbours fill each domain or are filled by it, ``[k]``."""
    nested: NDArray[np.bool_] = np.ones(len(num_devices), dtype=np.bool_)
    for each in domains:
        nested &= np.maximum(num_devices, each) % np.minimum(num_devices, each) == 0
    return nested


def limits_with_names(workload: Workload, limits: SearchLimits) -> SearchLimits:
    """The limits, with the switches that they allow and forbid as values of these switches."""
    both = allowed_both_ways(limits.allow) & offered_switches(workload) & possible(workload.model)
    switches = {
        **limits.switches,
        **dict.fromkeys(both, (False, True)),
        **dict.fromkeys(features_among(limits.forbid), (False,)),
    }
    return replace(limits, switches=switches)


def tried_options(workload: Workload, limits: SearchLimits) -> dict[str, tuple[Any, ...]]:
    """Values of the dimensions whose values have names, within the limits. Raises ``SearchError`` where one has none."""
    model, allow, forbid = workload.model, limits.allow, limits.forbid
    ep = _selected("ep", limits.ep, _default_degrees(workload)["ep"])
    schedules = limits.schedule or _default_schedules(workload, ep)
    dispatchers = limits.dispatcher or _default_dispatchers(model)
    cp_algos = limits.cp_algo or cp_algos_tried(workload.software.target)
    idle = always_idle(workload, limits)
    modes = tuple(dict.fromkeys(_without(idle, mode) for mode in limits.recompute or _default_recompute(workload)))
    modes = tuple(mode for mode in modes if not mode.modules & modules_among(forbid))
    allowed = {name: recompute_mode(name) for name, module in MODULE_NAMES.items() if name in allow and not module & idle}
    return {
        "schedule": kept("schedule", schedules, SCHEDULES, allow, forbid),
        "dispatcher": kept("moe_dispatcher", dispatchers, DISPATCHERS, allow if model.moe else frozenset(), forbid),
        "cp_algo": kept("cp_algo", cp_algos, CP_ALGOS, allow, forbid),
        "recompute": kept("recompute", modes, allowed, allow, forbid),
    }


def _if_allowed(workload: Workload, limits: SearchLimits) -> Feature:
    return _open(workload, limits, InSearch.IF_ALLOWED) & features_among(limits.allow)


def offered_switches(workload: Workload) -> Feature:
    """The switches that the job's target offers on its devices."""
    return offered(workload.software.target, workload.cluster.profile.family)


def _open(workload: Workload, limits: SearchLimits, *ways: InSearch) -> Feature:
    """The switches that the target offers, that a search treats in these ways, and that no limit decides."""
    return treated(*ways) & offered_switches(workload) & possible(workload.model) & ~Feature(sum(limits.switches))


def _default_schedules(workload: Workload, ep: tuple[int, ...]) -> tuple[Schedule, ...]:
    tried = ("always", "to_merge") if _merges_pairs(workload, ep) else ("always",)
    return tuple(schedule for schedule in Schedule if schedule.rules.tried in tried)


def _merges_pairs(workload: Workload, ep: tuple[int, ...]) -> bool:
    """Whether the target can merge forwards and backwards, and that could hide expert communication."""
    return workload.model.moe is not None and max(ep) > 1 and Feature.MOE_COMM_OVERLAP in offered_switches(workload)


def _with_merged_pairs(workload: Workload) -> dict[Feature, tuple[bool, ...]]:
    excluded = off_beside(workload.software.target, Feature.MOE_COMM_OVERLAP)
    return {Feature.MOE_COMM_OVERLAP: (True,), **{feature: (False,) for feature in excluded}}


def _default_degrees(workload: Workload) -> dict[str, tuple[int, ...]]:
    model, cluster = workload.model, workload.cluster
    node = min(cluster.profile.devices_per_node, cluster.num_devices)
    domain = min(max(expert_domain_devices(cluster), node), MAX_TENSOR_PARALLEL, cluster.num_devices)
    experts = model.moe.num_experts if model.moe else 1
    expert_columns = model.moe.expert_ffn_hidden_size if model.moe else 0
    deepest = min(model.num_layers, MAX_PIPELINE)
    return {
        "tp": _powers_of_two(domain),
        "pp": tuple(pp for pp in range(1, deepest + 1) if cluster.num_devices % pp == 0),
        "vpp": (*range(1, MOST_UNEVEN_VIRTUAL_STAGES + 1), *_divisors_above(MOST_UNEVEN_VIRTUAL_STAGES, model.num_layers)),
        "cp": _powers_of_two(max(1, workload.training.seq_length // MIN_TOKENS_PER_CP_RANK)),
        "ep": tuple(ep for ep in range(1, experts + 1) if experts % ep == 0),
        "etp": _powers_of_two(max(1, min(node, expert_columns // MIN_EXPERT_COLUMNS))),
        "micro_batch_size": MICRO_BATCH_SIZES,
    }


def _divisors_above(most: int, layers: int) -> tuple[int, ...]:
    """Numbers of virtual stages above ``most`` that share the layers of two or more ranks evenly."""
    return tuple(vpp for vpp in range(most + 1, layers // 2 + 1) if layers % vpp == 0)


def _powers_of_two(highest: int) -> tuple[int, ...]:
    return tuple(1 << exponent for exponent in range(highest.bit_length()))


def _selected(name: str, limit: Degrees, grid: tuple[int, ...]) -> tuple[int, ...]:
    if limit is None:
        return grid
    if not isinstance(limit, Range):
        return tuple(sorted(set(limit)))
    low = limit.min if limit.min is not None else 1
    high = limit.max if limit.max is not None else max(grid[-1], low)
    if name in ("tp", "cp", "etp", "micro_batch_size") and high > grid[-1]:
        grid = _powers_of_two(high)
    elif name == "vpp" and limit.max is not None:  # a bound includes all values up to it
        grid = tuple(range(1, min(high, MOST_UNEVEN_VIRTUAL_STAGES + MAX_PIPELINE) + 1))
    elif name == "pp" and high > grid[-1]:
        grid = (*grid, *range(grid[-1] + 1, min(high, grid[-1] + MAX_PIPELINE) + 1))
    chosen = tuple(value for value in grid if low <= value <= high)
    if not chosen:
        values = joined(", ", map(str, grid[:24]))
        raise SearchError(
            Sentence("search.{}: nothing from {} to {} is among the values that can run here: {}.", name, low, high, values)
        )
    return chosen


def _default_dispatchers(model: ModelShape) -> tuple[Dispatcher, ...]:
    if model.moe is None:
        return (Dispatcher.NONE,)
    return (Dispatcher.ALLTOALL, Dispatcher.ALLGATHER, Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL)


def always_idle(workload: Workload, limits: SearchLimits) -> RecomputeModule:
    """Recompute modules that change nothing, whichever switches the search tries."""
    return idle_modules(workload, usual_features(workload) & ~Feature(sum(limits.switches)) & ~features_among(limits.forbid))


def _without(idle: RecomputeModule, mode: RecomputeMode) -> RecomputeMode:
    """The mode without modules that change nothing."""
    modules = mode.modules & ~idle
    return replace(mode, modules=modules) if modules or not mode.modules else recompute_mode("none")


def _default_recompute(workload: Workload) -> tuple[RecomputeMode, ...]:
    model, by_operator = workload.model, RecomputeModule.EVERY_OTHER_MATMUL
    framework = framework_of(workload.software.target)
    # Fused attention keeps no scores, so recomputing them frees nothing.
    names = ["none", *([] if fuses_attention(workload) else ["core_attn"]), "layernorm+mlp_act"]
    attention = "+mla_up_proj" if model.mla else ""
    if attention:
        names.append("layernorm+mlp_act+mla_up_proj")
    blocks = (("mlp", model.has_dense_mlp), ("moe", any(model.moe_layers())))
    modules = "+".join(name for name, is_there in blocks if is_there)
    names.append(f"layernorm{attention}+{modules}")
    if by_operator & present_modules(model) and framework is not None and by_operator in framework.table.modules:
        names.append(str(by_operator.name).lower())
    names += [f"block:{layers}" for layers in range(1, min(MOST_COUNTED_LAYERS + 1, model.num_layers))]
    names += ["block:25%", "block:50%", "block:75%", "full"]
    return tuple(map(recompute_mode, names))


def _feature_combinations(
    workload: Workload, limits: SearchLimits, defaults: Mapping[Feature, tuple[bool, ...]]
) -> tuple[Feature, ...]:
    switches: dict[Feature, tuple[bool, ...]] = {**defaults, **limits.switches}
    fixed = usual_features(workload) & ~usual_if_set(workload)
    for feature in switches:
        fixed &= ~feature
    combinations = []
    for chosen in product(*switches.values()):
        on = fixed
        for feature, enabled in zip(switches, chosen, strict=True):
            on |= feature if enabled else Feature(0)
        combinations.append(on)
    return tuple(combinations)
