"""The values that each dimension of the search may take.

Default grid (a range in the limits selects from it, a list replaces it):

- ``tp``: powers of two up to a node, or up to 32 inside a supernode
- ``pp``: divisors of the device count up to the number of layers and 64; ``vpp``: 1 to 8
- ``cp``: powers of two that leave a rank at least 4,096 tokens [mindspeed, auto_settings]; all algorithms
- ``ep``: divisors of the number of experts, 1 for dense models; all dispatchers
- ``etp``: powers of two up to a node that leave a shard at least 2,048 columns of an expert, 1 for dense models
- ``micro_batch_size``: 1, 2, 4, 8; ``sequence_parallel`` on; distributed optimizer (``zero_stage`` 1)
- ``recompute``: none, modules, a quarter, a half and three quarters of the layers of each virtual stage, all layers
- switches: ``swap_optimizer`` both ways, the features of ``DEFAULT_FEATURES`` on, all others off
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from cost_models.strategy import DEFAULT_FEATURES, CpAlgo, Dispatcher, Feature, Schedule
from cost_models.workload import ModelShape, Workload
from search.canonical import expert_domain_devices
from search.errors import SearchError
from search.limits import DEGREES, Degrees, Range, SearchLimits
from search.recompute_modes import RecomputeMode, recompute_mode

MAX_TENSOR_PARALLEL = 32
MAX_PIPELINE = 64
MAX_VIRTUAL_STAGES = 8
MIN_TOKENS_PER_CP_RANK = 4096
MIN_EXPERT_COLUMNS = 2048
MICRO_BATCH_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class SearchSpace:
    """Sorted values of every dimension; ``dp`` is derived. ``features`` lists whole combinations of switches.

    The lattice is their product in canonical form (``search.canonical``).
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
    dispatcher: tuple[Dispatcher, ...]
    recompute: tuple[RecomputeMode, ...]
    zero_stage: tuple[int, ...]
    features: tuple[Feature, ...]

    def as_mapping(self) -> dict[str, list[int] | list[bool] | list[str]]:
        """The values by dimension, as plain JSON; switches that take both values under ``switches``."""
        fixed = _shared(self.features)
        both = [
            f.name.lower()
            for f in Feature
            if f.name and any(f in combination for combination in self.features) and f not in fixed
        ]
        return {
            **{name: list(getattr(self, name)) for name in DEGREES},
            "sequence_parallel": list(self.sequence_parallel),
            "cp_algo": [algo.label for algo in self.cp_algo],
            "schedule": [schedule.label for schedule in self.schedule],
            "dispatcher": [dispatcher.label for dispatcher in self.dispatcher],
            "recompute": [mode.name for mode in self.recompute],
            "zero_stage": list(self.zero_stage),
            "features": [f.name.lower() for f in Feature if f.name and f in fixed],
            "switches": both,
        }


def search_space(workload: Workload, limits: SearchLimits | None = None) -> SearchSpace:
    """The space of a workload under the user's limits.

    Raises ``SearchError`` where a range leaves a dimension without a value.
    """
    limits = limits or SearchLimits()
    model = workload.model
    degrees = {name: _selected(name, getattr(limits, name), grid) for name, grid in _default_degrees(workload).items()}
    return SearchSpace(
        **degrees,
        # The first value of an option is what a user would expect, so that ties fall to it.
        sequence_parallel=limits.sequence_parallel or (True,),
        cp_algo=limits.cp_algo or (CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID),
        schedule=limits.schedule or tuple(Schedule),
        dispatcher=limits.dispatcher or _default_dispatchers(model),
        recompute=limits.recompute or _default_recompute(model),
        zero_stage=limits.zero_stage or (1,),
        features=_feature_combinations(limits),
    )


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
        "vpp": tuple(range(1, MAX_VIRTUAL_STAGES + 1)),
        "cp": _powers_of_two(max(1, workload.training.seq_length // MIN_TOKENS_PER_CP_RANK)),
        "ep": tuple(ep for ep in range(1, experts + 1) if experts % ep == 0),
        "etp": _powers_of_two(max(1, min(node, expert_columns // MIN_EXPERT_COLUMNS))),
        "micro_batch_size": MICRO_BATCH_SIZES,
    }


def _powers_of_two(highest: int) -> tuple[int, ...]:
    return tuple(1 << exponent for exponent in range(highest.bit_length()))


def _selected(name: str, limit: Degrees, grid: tuple[int, ...]) -> tuple[int, ...]:
    if limit is None:
        return grid
    if not isinstance(limit, Range):
        return tuple(sorted(set(limit)))
    low = limit.minimum if limit.minimum is not None else 1
    high = limit.maximum if limit.maximum is not None else max(grid[-1], low)
    if name in ("tp", "cp", "etp", "micro_batch_size") and high > grid[-1]:
        grid = _powers_of_two(high)
    elif name in ("pp", "vpp") and high > grid[-1]:
        grid = (*grid, *range(grid[-1] + 1, min(high, grid[-1] + MAX_PIPELINE) + 1))
    chosen = tuple(value for value in grid if low <= value <= high)
    if not chosen:
        values = ", ".join(map(str, grid[:24]))
        raise SearchError(f"search.{name}: nothing from {low} to {high} is among the values that can run here: {values}")
    return chosen


def _default_dispatchers(model: ModelShape) -> tuple[Dispatcher, ...]:
    if model.moe is None:
        return (Dispatcher.NONE,)
    return (Dispatcher.ALLTOALL, Dispatcher.ALLGATHER, Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL)


def _default_recompute(model: ModelShape) -> tuple[RecomputeMode, ...]:
    names = ["none", "layernorm+mlp_act"]
    attention = "+mla_up_proj" if model.mla else ""
    if attention:
        names.append("layernorm+mlp_act+mla_up_proj")
    kinds = set(model.moe_layers())
    modules = "+".join(name for name, moe in (("mlp", False), ("moe", True)) if moe in kinds)
    names.append(f"layernorm{attention}+{modules}")
    names += ["block:25%", "block:50%", "block:75%", "full"]
    return tuple(recompute_mode(name) for name in names)


def _shared(combinations: Iterable[Feature]) -> Feature:
    shared = ~Feature(0)
    for combination in combinations:
        shared &= combination
    return shared


def _feature_combinations(limits: SearchLimits) -> tuple[Feature, ...]:
    switches: dict[Feature, tuple[bool, ...]] = {Feature.SWAP_OPTIMIZER: (False, True), **limits.switches}
    fixed = DEFAULT_FEATURES
    for feature in switches:
        fixed &= ~feature
    combinations = []
    for chosen in product(*switches.values()):
        on = fixed
        for feature, enabled in zip(switches, chosen, strict=True):
            on |= feature if enabled else Feature(0)
        combinations.append(on)
    return tuple(combinations)
