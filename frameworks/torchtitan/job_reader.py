"""Reads options of torchtitan as a whole job: model, strategy, batch, and what of them is not understood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from documents.sentences import Sentence
from frameworks.framework import ReadJob
from frameworks.options import options_of
from frameworks.torchtitan.checkpoints import BY_OPERATORS, IN_PARTS, KEEPS_EXCHANGE, Mode
from frameworks.torchtitan.flavors import FLEX
from frameworks.torchtitan.reader import Reading
from frameworks.torchtitan.table import OPTION, TABLE
from frameworks.unread import CHANGES, Unread

_RECOMPUTED = "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"
_ROUTER = "moe.router.gate"  # what it names by default; layers without experts have none
_ROTATION = "parallelism.context_parallel_rotate_method"  # [torchtitan-0.2, components/validate.py:213]
_EARLY = "activation_checkpoint.early_stop"


def read(arguments: Sequence[str], num_devices: int | None = None) -> ParallelStrategy:
    """The strategy of ``path=value`` arguments; ``num_devices`` where the shards are what is left of them."""
    return Reading(arguments, num_devices).strategy()


def read_job(arguments: Sequence[str], num_devices: int | None = None) -> ReadJob:
    """The job of ``path=value`` arguments; raises ``ReadingError``."""
    reading = Reading(arguments, num_devices)
    uneven = ("model.flavor",) if reading.flavor.within_documents else ()
    return reading.job(_assumed(reading), _by_operator(reading, arguments), uneven)


def _by_operator(reading: Reading, arguments: Sequence[str]) -> Iterator[Unread]:
    """Activation checkpoints by operator that keep something else than the price says."""
    if reading.mode() != BY_OPERATORS:
        return
    has_experts = reading.flavor.model.moe is not None
    if has_experts and reading.compiles_layers:
        yield Unread(OPTION, IN_PARTS)
    if reading.flavor.keeps_exchange and reading.strategy().ep > 1:
        yield Unread(OPTION, KEEPS_EXCHANGE)
    named = options_of(arguments).get(_RECOMPUTED, [_ROUTER])
    if named != [_ROUTER] and (has_experts or named != []):
        yield Unread(_RECOMPUTED, CHANGES["cost"])


def _assumed(reading: Reading) -> Iterator[str]:
    """Sentences on what is priced in another form."""
    if reading.flavor.attention == FLEX:
        yield Sentence("FlexAttention of flavor {} is priced as PyTorch's fused attention", reading.flavor.flavor)
    if reading.mode() not in (Mode("none"), BY_OPERATORS) and not reading.value(_EARLY):
        yield Sentence("{} is off; layers are priced as if recompute stopped at the last tensor that is needed", _EARLY)
    if reading.cp > 1 and reading.value(_ROTATION) != TABLE.cp_algos[CpAlgo.KV_ALLGATHER]:
        yield Sentence("{} acts in validation alone: training gathers keys and values", _ROTATION)
