"""Merged pairs: one layer's forward and another's backward interleaved, so that each hides the other's communication.

Each pass is a chain of pieces on two exclusive streams, compute and expert communication. Every order of the pieces that can
be the shortest is tried, and the shortest is kept [mindspeed-fb-overlap, fwdbwd.py]. A dense layer has no expert
communication and hides the communication of an MoE layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.costs import LayerCosts
from cost_models.shapes.layer_keys import Floats
from documents.late_methods import dataclass

Pieces = Mapping[str, Floats]  # seconds ``[k]`` by name, as in ``AFTER``; a layer without experts has no communication

# The pieces that each piece waits for, in addition to its stream. The backward's combine and the forward's attention can start
# at once. A dense layer's MLP takes the place of the experts.
AFTER = {
    "attention": (),
    "shared": ("attention",),
    "dispatch": ("attention",),
    "experts": ("dispatch",),
    "combine": ("experts", "shared"),
    "combine_back": (),
    "shared_back": (),
    "experts_back": ("combine_back",),
    "dispatch_back": ("experts_back",),
    "attention_back": ("dispatch_back", "shared_back"),
    "experts_weights": ("experts_back",),
    "attention_weights": ("attention_back",),
}
FORWARD = ("attention", "shared", "dispatch", "experts", "combine")
COMMUNICATION = ("dispatch", "combine", "combine_back", "dispatch_back")
LETTERS = {
    "A": "attention", "S": "shared", "D": "dispatch", "E": "experts", "C": "combine",
    "c": "combine_back", "s": "shared_back", "e": "experts_back", "d": "dispatch_back", "a": "attention_back",
    "f": "experts_weights", "b": "attention_weights",
}  # fmt: skip
# The chains allow 496 orders. These are the shortest ones of 40,000 random durations. One pair in a thousand of other durations
# has a shorter order, by less than 5 %. If one layer is dense, the shortest order is always among them.
ORDERS = """
    ASceDEsfdabC ceASsfdabDEC ASsDEcefCdab AsceSfDEdabC sceASfdaDEbC ASDEcesfdabC ASsceDEfdabC ASDEscefCdab
    AceSsfdaDEbC AScDEesfCdab AScesfDEdabC AceSDEsfdabC ASsDEcefdabC ceASsfdaDEbC AScesDEfdabC ASscDEefCdab
    ASscefDEdabC sceASfdabDEC sceASdaDEfbC AsceSDEfdabC ASscefdaDEbC AceSsfdabDEC sceASfdDEabC ASDEcesfCdab
    AScesfdabDEC ceASsdDEfabC AScesfdaDEbC AsceSdaDEfbC AsceSfdabDEC ASscefdabDEC AsceSfdaDEbC
""".split()


class _Step(NamedTuple):
    """One piece that several orders share at the same place, and the pieces that can follow it."""

    piece: str
    following: tuple[_Step, ...]


@lru_cache(maxsize=8)
def _tree(pieces: frozenset[str]) -> tuple[_Step, ...]:
    """All orders of the given pieces as a tree of common prefixes, so that each prefix is simulated once."""
    orders = (tuple(LETTERS[letter] for letter in order if LETTERS[letter] in pieces) for order in ORDERS)
    return _steps(tuple(dict.fromkeys(orders)))


def _steps(orders: tuple[tuple[str, ...], ...]) -> tuple[_Step, ...]:
    by_piece: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in filter(None, orders):
        by_piece.setdefault(first, []).append(tuple(rest))
    return tuple(_Step(piece, _steps(tuple(rests))) for piece, rests in by_piece.items())


def _shortest(pieces: Pieces, steps: tuple[_Step, ...], end: dict[str, Floats], compute: Floats, communication: Floats) -> Floats:
    """End of the shortest order that continues with one of ``steps``. [s] ``[k]``

    Parameters
    ----------
    pieces : ``[k]``, seconds
    steps
        Pieces that can come next.
    end : ``[k]``, seconds
        End of each piece so far.
    compute, communication : ``[k]``, seconds
        When each stream is free.
    """
    if not steps:
        return np.maximum(compute, communication)
    shortest: Floats | None = None
    for piece, following in steps:
        sent = piece in COMMUNICATION
        start = communication if sent else compute
        for need in AFTER[piece]:
            if need in end:  # otherwise the layer lacks that piece, and its stream keeps the order
                start = np.maximum(start, end[need])
        done = start + pieces[piece]
        ended = {**end, piece: done}
        found = _shortest(pieces, following, ended, compute if sent else done, done if sent else communication)
        shortest = found if shortest is None else np.minimum(shortest, found)
    assert shortest is not None
    return shortest


def compute_s(pieces: Pieces) -> Floats:
    """Seconds of the compute stream of one merged pair, ``[k]``."""
    return _sum([seconds for name, seconds in pieces.items() if name not in COMMUNICATION])


def communication_s(pieces: Pieces) -> Floats:
    """Seconds of the communication stream of one merged pair, ``[k]``: dispatch and combine, forward and backward."""
    return _sum([seconds for name, seconds in pieces.items() if name in COMMUNICATION])


def _sum(parts: list[Floats]) -> Floats:
    """Sum in a fixed order: NumPy would add the parts of one pair in another order than those of several pairs."""
    return sum(parts[1:], parts[0])


def merged_communication_s(pieces: Pieces, stretch: float) -> Floats:
    """Time that communication adds to the pair's compute in the shortest order; 0 if all of it hides for free. [s] ``[k]``

    Equal pairs are simulated once.

    Parameters
    ----------
    stretch
        ``hidden_stretch_fraction``: slowdown of compute for each second of communication that it hides.

    Notes
    -----
    Exact for the orders of ``ORDERS``; one pair in a thousand drawn at random has a shorter order, by less than 5 %.
    """
    distinct, index = np.unique(np.stack(list(pieces.values())), axis=1, return_inverse=True)
    few = dict(zip(pieces, distinct, strict=True))
    zero = np.zeros(distinct.shape[1])
    shortest = _shortest(few, _tree(frozenset(few)), {}, zero, zero)
    # Rounding can make the sum of a stream slightly larger than the end of its last piece.
    exposed = np.maximum(shortest - compute_s(few), 0.0)
    hidden = np.maximum(communication_s(few) - exposed, 0.0)
    total: Floats = (exposed + stretch * hidden)[index.reshape(-1)]
    return total


@dataclass(frozen=True)
class PairSavings:
    """Seconds that merging two layers saves beyond the overlap that each has alone, ``[k]`` or ``[n]``.

    The contention of the hidden part is subtracted: of a saving *x*, *x* / (1 - stretch) is hidden and the rest is contention.
    Rows are kinds of the forward's layer and columns kinds of the backward's, in the order of ``ModelShape.layer_kinds``. Two
    dense layers save nothing: ``None``.
    """

    by_kinds: tuple[tuple[Floats | None, ...], ...]


def pair_savings(costs: tuple[LayerCosts, ...], merged: NDArray[np.bool_], stretch: float) -> PairSavings:
    """Saving of the keys whose passes are merged, 0 for the others: at most the exposed communication of both passes.

    The host dispatches both passes all the same.

    Parameters
    ----------
    costs
        For each kind of layer.
    merged : ``[k]``
        Keys whose passes are merged.
    stretch
        ``hidden_stretch_fraction``.
    """

    def saving_s(forward: LayerCosts, backward: LayerCosts) -> Floats | None:
        if "dispatch" not in forward.pieces and "dispatch" not in backward.pieces:
            return None
        saving = np.zeros(len(merged))
        if not merged.any():
            return saving
        pieces = {name: seconds[merged] for name, seconds in forward.pieces.items() if name in FORWARD}
        pieces |= {name: seconds[merged] for name, seconds in backward.pieces.items() if name not in FORWARD}
        left = merged_communication_s(pieces, stretch)
        together = np.maximum(compute_s(pieces) + left, (forward.host["forward"] + backward.host["backward"])[merged])
        # Hidden communication slows the compute that hides it; the slowdown is subtracted from the saving.
        shown, sent = (forward.forward["ep_comm"] + backward.backward["ep_comm"])[merged], communication_s(pieces)
        exposed = shown + stretch * np.maximum(sent - shown, 0.0)
        alone = (forward.forward_s + backward.backward_s)[merged]
        saving[merged] = np.maximum(np.minimum(exposed - left, alone - together), 0.0)
        return saving

    return PairSavings(tuple(tuple(saving_s(forward, backward) for backward in costs) for forward in costs))
