"""Which switches have an effect: for one strategy, for a batch, and under the options of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cost_models.schedules.schedule import ScheduleRules
from cost_models.shapes.strategy import Dispatcher, IntColumn, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, FUSED_KERNELS, SWITCHES, UNPRICED_FEATURES, Feature, Scope, acting_in
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence, joined

NOTHING = Scope(0)
Rows = Any  # a strategy (conditions are truth values) or a batch with the same names (conditions are columns)

_OF_SCHEDULE: dict[Scope, Callable[[ScheduleRules], bool]] = {
    Scope.INTERLEAVED: lambda rules: rules.in_groups,
    Scope.DUALPIPEV: lambda rules: rules.can_detach,
}
OF_SCHEDULE = Scope(sum(map(int, _OF_SCHEDULE)))


def schedule_scope(schedule: Schedule) -> Scope:
    """The scopes that a schedule provides."""
    return Scope(sum(int(scope) for scope, holds in _OF_SCHEDULE.items() if holds(schedule.rules)))


def has_replicas(model: ModelShape, rows: Rows) -> Any:
    """Whether some dense or expert parameters are replicated on several ranks."""
    replicas = rows.dp * rows.cp
    experts = model.moe is not None
    return (replicas > 1) | (experts & (rows.tp * replicas // (rows.ep * rows.etp) > 1))


def rotates(model: ModelShape) -> bool:
    """Whether queries and keys have rotary positions."""
    return not (model.learned_positions or model.alibi or model.no_positions)


_OF_MODEL: dict[Scope, Callable[[ModelShape], bool]] = {
    Scope.EXPERTS: lambda model: model.moe is not None,
    Scope.CAPACITY: lambda model: model.moe is not None and model.moe.capacity_factor is not None,
    Scope.GATED_MLP: lambda model: model.gated_linear_unit,
    Scope.SHARED_EXPERTS: lambda model: model.moe is not None and model.moe.shared_expert_ffn_hidden_size > 0,
    Scope.ROTARY: rotates,
    Scope.INDEXED: lambda model: model.sparse_attention is not None,
}
MISSING = {
    Scope.TENSOR_PARALLEL: Sentence("tp is 1"),
    Scope.CONTEXT_PARALLEL: Sentence("cp is 1"),
    Scope.REPLICAS: Sentence("no parameter has a replica"),
    Scope.SHARDED_OPTIMIZER: Sentence("zero_stage is 0"),
    Scope.INTERLEAVED: Sentence("the schedule is not interleaved-1f1b"),
    Scope.DUALPIPEV: Sentence("the schedule is not dualpipev"),
    Scope.ROUTED: Sentence("no token travels to its experts (ep x etp is 1)"),
    Scope.GATHERED: Sentence("the dispatcher is not allgather"),
    Scope.EXCHANGED: Sentence("the dispatcher is allgather"),
    Scope.STAGED: Sentence("the dispatcher is neither two_level nor hierarchical"),
    Scope.EXPERTS: Sentence("the model has no experts"),
    Scope.CAPACITY: Sentence("the experts have no capacity factor"),
    Scope.SHARED_EXPERTS: Sentence("the model has no shared experts"),
    Scope.GATED_MLP: Sentence("the MLPs are not gated"),
    Scope.ROTARY: Sentence("attention has no rotary positions"),
    Scope.INDEXED: Sentence("no indexer chooses tokens"),
}
_OF_DISPATCHER = {
    Dispatcher.NONE: Scope.EXCHANGED,
    Dispatcher.ALLGATHER: Scope.GATHERED,
    Dispatcher.ALLTOALL: Scope.EXCHANGED,
    Dispatcher.TWO_LEVEL: Scope.EXCHANGED | Scope.STAGED,
    Dispatcher.HIERARCHICAL: Scope.EXCHANGED | Scope.STAGED,
}


def _looked_up(table: Sequence[bool]) -> Callable[[Any], Any]:
    """Values of a table by the code of one strategy or by a column of codes; a tuple is faster than an array for one code."""
    of_code, of_column = tuple(table), np.array(table)
    return lambda codes: of_column[codes] if isinstance(codes, np.ndarray) else of_code[codes]


_GATHERED, _EXCHANGED, _STAGED = (
    _looked_up([scope in _OF_DISPATCHER[dispatcher] for dispatcher in Dispatcher])
    for scope in (Scope.GATHERED, Scope.EXCHANGED, Scope.STAGED)
)
_USUAL = _looked_up([schedule.rules.usual for schedule in Schedule])
_CAN_DETACH = _looked_up([schedule.rules.can_detach for schedule in Schedule])
OF_MODEL = Scope(sum(map(int, _OF_MODEL)))  # scopes that depend on the model alone
_OF_ROWS: dict[Scope, Callable[[ModelShape, Rows], Any]] = {
    Scope.TENSOR_PARALLEL: lambda model, rows: rows.tp > 1,
    Scope.CONTEXT_PARALLEL: lambda model, rows: rows.cp > 1,
    Scope.REPLICAS: has_replicas,
    Scope.SHARDED_OPTIMIZER: lambda model, rows: rows.zero_stage > 0,
    # With several chunks on a rank, every usual schedule means the one with groups.
    Scope.INTERLEAVED: lambda model, rows: (rows.pp > 1) & (rows.vpp > 1) & _USUAL(rows.schedule),
    Scope.DUALPIPEV: lambda model, rows: (rows.pp > 1) & _CAN_DETACH(rows.schedule),
    Scope.ROUTED: lambda model, rows: (model.moe is not None) & (rows.ep * rows.etp > 1),
    Scope.GATHERED: lambda model, rows: _GATHERED(rows.dispatcher),
    Scope.EXCHANGED: lambda model, rows: _EXCHANGED(rows.dispatcher),
    Scope.STAGED: lambda model, rows: _STAGED(rows.dispatcher),
}


@lru_cache(maxsize=64)  # every rule and option of every plan calls this
def model_scope(model: ModelShape) -> Scope:
    """The scopes that the model itself provides."""
    return Scope(sum(int(scope) for scope, holds in _OF_MODEL.items() if holds(model)))


def possible(model: ModelShape) -> Feature:
    """The switches that have an effect in some strategy of the model."""
    there = model_scope(model)
    return Feature(sum(f for f, switch in SWITCHES.items() if not switch.acts_on & ~there & OF_MODEL))


def fuses_attention(workload: Workload) -> bool:
    """Whether the devices have a fused attention kernel for the job's precision.

    GPU kernels support 16 bits or fewer, on Ampere (which brought BF16) and later [transformer-engine, utils.py;
    flash-attention-2].
    """
    if workload.device_traits.own_fused_attention:
        return True
    return "bf16" in workload.cluster.profile.matmul_flops_per_s and workload.training.precision != "fp32"


def usual_features(workload: Workload) -> Feature:
    """The switches that are on by default: those of ``DEFAULT_FEATURES`` that the devices and the stack have."""
    missing = Feature(0) if fuses_attention(workload) else Feature.FLASH_ATTENTION
    traits = workload.software_traits
    if not (traits.own_kernels or traits.fuses_by_switch or workload.software.torch_compile) and traits.eager:
        missing |= FUSED_KERNELS
    return DEFAULT_FEATURES & ~missing


def unusual_switches(workload: Workload, strategy: ParallelStrategy) -> dict[Feature, bool]:
    """Switches of ``DEFAULT_FEATURES`` with a price that act in the strategy, and whose value is not their usual one there."""
    acting_here = acting_in(scope_of(workload.model, strategy)) & DEFAULT_FEATURES & ~UNPRICED_FEATURES
    return {feature: feature in strategy.features for feature in (strategy.features ^ usual_features(workload)) & acting_here}


def why_idle(feature: Feature, there: Scope) -> str:
    """Why a switch has no effect if only ``there`` is present; empty if it has one."""
    missing = SWITCHES[feature].acts_on & ~there
    if Scope.EXPERTS in missing:  # all other scopes of experts follow from it
        return MISSING[Scope.EXPERTS]
    return joined(" and ", (MISSING[scope] for scope in missing))


def options_scope(dispatcher: Dispatcher, zero_stage: int) -> Scope:
    """The scopes that a dispatcher and a ZeRO stage provide."""
    sharded = Scope.SHARDED_OPTIMIZER if zero_stage > 0 else Scope(0)
    return sharded | _OF_DISPATCHER[dispatcher]


def scope_of(model: ModelShape, strategy: ParallelStrategy) -> Scope:
    """All scopes of one strategy; its ``dp`` must be set."""
    held = sum(bit for bit, holds in _ROW_TESTS if holds(model, strategy))
    return Scope(held | int(model_scope(model)))


def acting(model: ModelShape, batch: StrategyBatch, features: Feature, *, given: Scope = NOTHING) -> IntColumn:
    """The ``features`` that have an effect in each row, as bits ``[n]``.

    Parameters
    ----------
    given
        Scopes that every row has regardless of its columns.
    """
    found = np.zeros(len(batch), dtype=np.int64)
    for missing, bits in _groups(int(features), int(model_scope(model)) | int(given)):
        column = batch.features & bits
        if column.any():
            for bit, holds in _ROW_TESTS:
                if missing & bit:
                    column = column * holds(model, batch)
            found |= column
    return found


@lru_cache(maxsize=1024)
def _groups(wanted: int, there: int) -> tuple[tuple[int, int], ...]:
    """Scopes that each row still needs, and the switches that then have an effect."""
    groups: dict[int, int] = {}
    for bit, needed in _NEEDS:
        if bit & wanted and not needed & ~there & _MODEL_BITS:
            groups[needed & ~there] = groups.get(needed & ~there, 0) | bit
    return tuple(groups.items())


_NEEDS = [(int(feature), int(switch.acts_on)) for feature, switch in SWITCHES.items()]
_ROW_TESTS = [(int(scope), holds) for scope, holds in _OF_ROWS.items()]
_MODEL_BITS = int(OF_MODEL)
if {*_OF_MODEL, *_OF_ROWS} != set(Scope):
    raise TypeError("every scope of switches.py is one entry here, of the model or of rows")
