"""Which switches act: for one strategy, for the columns of a batch, and under the options of a search."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from cost_models.shapes.strategy import Dispatcher, IntColumn, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, SWITCHES, Feature, Scope
from cost_models.shapes.workload import ModelShape, Workload

NOTHING = Scope(0)
Rows = Any  # a strategy, or columns of the same names: what holds is a truth value, or one a row
SCHEDULE_SCOPES = {Schedule.INTERLEAVED: Scope.INTERLEAVED, Schedule.DUALPIPE_V: Scope.DUALPIPEV}


def has_replicas(model: ModelShape, rows: Rows) -> Any:
    """Whether some parameters, dense or expert, sit on several ranks."""
    replicas = rows.dp * rows.cp
    experts = model.moe is not None
    return (replicas > 1) | (experts & (rows.tp * replicas // (rows.ep * rows.etp) > 1))


_OF_MODEL: dict[Scope, Callable[[ModelShape], bool]] = {
    Scope.EXPERTS: lambda model: model.moe is not None,
    Scope.CAPACITY: lambda model: model.moe is not None and model.moe.capacity_factor is not None,
    Scope.GATED_MLP: lambda model: model.gated_linear_unit,
    Scope.SHARED_EXPERTS: lambda model: model.moe is not None and model.moe.shared_expert_ffn_hidden_size > 0,
    Scope.ROTARY: lambda model: not model.learned_positions,
}
MISSING = {
    Scope.TENSOR_PARALLEL: "tp is 1",
    Scope.CONTEXT_PARALLEL: "cp is 1",
    Scope.REPLICAS: "no parameter has a replica",
    Scope.SHARDED_OPTIMIZER: "zero_stage is 0",
    Scope.INTERLEAVED: "the schedule is not interleaved-1f1b",
    Scope.DUALPIPEV: "the schedule is not dualpipev",
    Scope.ROUTED: "no token travels to its experts (ep x etp is 1)",
    Scope.GATHERED: "the dispatcher is not allgather",
    Scope.EXCHANGED: "the dispatcher is allgather",
    Scope.STAGED: "the dispatcher is neither two_level nor hierarchical",
    Scope.EXPERTS: "the model has no experts",
    Scope.CAPACITY: "the experts have no capacity factor",
    Scope.SHARED_EXPERTS: "the model has no shared experts",
    Scope.GATED_MLP: "the MLPs are not gated",
    Scope.ROTARY: "the positions are learned",
}
OF_MODEL = Scope(sum(map(int, _OF_MODEL)))  # the model alone decides them
_OF_ROWS: dict[Scope, Callable[[ModelShape, Rows], Any]] = {
    Scope.TENSOR_PARALLEL: lambda model, rows: rows.tp > 1,
    Scope.CONTEXT_PARALLEL: lambda model, rows: rows.cp > 1,
    Scope.REPLICAS: has_replicas,
    Scope.SHARDED_OPTIMIZER: lambda model, rows: rows.zero_stage > 0,
    # Where there are virtual stages, 1F1B and no schedule mean the interleaved one.
    Scope.INTERLEAVED: lambda model, rows: (rows.pp > 1) & (rows.vpp > 1) & (rows.schedule <= Schedule.INTERLEAVED),
    Scope.DUALPIPEV: lambda model, rows: (rows.pp > 1) & (rows.schedule == Schedule.DUALPIPE_V),
    Scope.ROUTED: lambda model, rows: (model.moe is not None) & (rows.ep * rows.etp > 1),
    Scope.GATHERED: lambda model, rows: rows.dispatcher == Dispatcher.ALLGATHER,
    Scope.EXCHANGED: lambda model, rows: rows.dispatcher != Dispatcher.ALLGATHER,
    Scope.STAGED: lambda model, rows: (rows.dispatcher == Dispatcher.TWO_LEVEL) | (rows.dispatcher == Dispatcher.HIERARCHICAL),
}


@lru_cache(maxsize=64)  # asked for by every rule and option of every plan
def model_scope(model: ModelShape) -> Scope:
    """What the model has for switches to act on."""
    return Scope(sum(int(scope) for scope, holds in _OF_MODEL.items() if holds(model)))


def possible(model: ModelShape) -> Feature:
    """The switches that act in some strategy of the model."""
    there = model_scope(model)
    return Feature(sum(f for f, switch in SWITCHES.items() if not switch.acts_on & ~there & OF_MODEL))


def fuses_attention(workload: Workload) -> bool:
    """Whether the devices have a fused kernel of attention for the job's precision.

    A GPU's are for 16 bits or fewer and from Ampere on, which brought BF16 [transformer-engine, utils.py; flash-attention-2].
    """
    if workload.device_traits.own_fused_attention:
        return True
    return "bf16" in workload.cluster.profile.matmul_flops_per_s and workload.training.precision != "fp32"


def usual_features(workload: Workload) -> Feature:
    """The switches that are on where nothing is asked."""
    return DEFAULT_FEATURES if fuses_attention(workload) else DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION


def why_idle(feature: Feature, there: Scope) -> str:
    """Why a switch does nothing where ``there`` is all it could act on; empty where it acts."""
    missing = SWITCHES[feature].acts_on & ~there
    if Scope.EXPERTS in missing:  # which all else about them follows from
        return MISSING[Scope.EXPERTS]
    return " and ".join(MISSING[scope] for scope in missing)


def options_scope(dispatcher: Dispatcher, zero_stage: int) -> Scope:
    """What a dispatcher and a ZeRO stage have."""
    sharded = Scope.SHARDED_OPTIMIZER if zero_stage > 0 else Scope(0)
    staged = Scope.STAGED if dispatcher in (Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL) else Scope(0)
    return sharded | staged | (Scope.GATHERED if dispatcher is Dispatcher.ALLGATHER else Scope.EXCHANGED)


def scope_of(model: ModelShape, strategy: ParallelStrategy) -> Scope:
    """All that one strategy has; its ``dp`` must be set."""
    held = sum(bit for bit, holds in _ROW_TESTS if holds(model, strategy))
    return Scope(held | int(model_scope(model)))


def acting(model: ModelShape, batch: StrategyBatch, features: Feature, *, given: Scope = NOTHING) -> IntColumn:
    """Of ``features``, those of each row that have all they act on, as bits ``[n]``. ``given`` is taken to be there.

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    features : Feature
        Switches to look at.
    given : Scope
        What is there in every row, whatever its columns say.

    Returns
    -------
    IntColumn, ``[n]``, bits of ``Feature``
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
    """What each row has to have beside what is ``there``, and which of the switches then act."""
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
