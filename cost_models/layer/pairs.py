"""A layer's forward and a layer's backward of two micro batches, merged so that one's communication hides behind the other.

Each is a chain of pieces on two exclusive streams, compute and expert communication; every order of the pieces that can be
the shortest is tried, and the shortest kept [mindspeed-fb-overlap, fwdbwd.py]. A dense layer has no communication of its own and
hides that of a MoE layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.costs import LayerCosts
from cost_models.shapes.layer_keys import Floats

Pieces = Mapping[str, Floats]  # seconds ``[k]`` by name, as in ``AFTER``; a layer without experts has no communication

# What each piece waits for, beside its stream. The backward's combine and the forward's attention can start at once; a dense
# layer's MLP has the place of the experts.
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
# Of the 496 orders that the chains allow, those that 40,000 random durations needed; one pair in a thousand drawn otherwise
# has a shorter one, by less than 5 %. Without the exchanges of a dense layer they hold the shortest of all.
ORDERS = """
    ASceDEsfdabC ceASsfdabDEC ASsDEcefCdab AsceSfDEdabC sceASfdaDEbC ASDEcesfdabC ASsceDEfdabC ASDEscefCdab
    AceSsfdaDEbC AScDEesfCdab AScesfDEdabC AceSDEsfdabC ASsDEcefdabC ceASsfdaDEbC AScesDEfdabC ASscDEefCdab
    ASscefDEdabC sceASfdabDEC sceASdaDEfbC AsceSDEfdabC ASscefdaDEbC AceSsfdabDEC sceASfdDEabC ASDEcesfCdab
    AScesfdabDEC ceASsdDEfabC AScesfdaDEbC AsceSdaDEfbC AsceSfdabDEC ASscefdabDEC AsceSfdaDEbC
""".split()


class _Step(NamedTuple):
    """One piece of every order that begins with the same pieces, and what may follow."""

    piece: str
    following: tuple[_Step, ...]


@lru_cache(maxsize=8)
def _tree(pieces: frozenset[str]) -> tuple[_Step, ...]:
    """All orders of the given pieces with their common beginnings put together, so that each is played once."""
    orders = (tuple(LETTERS[letter] for letter in order if LETTERS[letter] in pieces) for order in ORDERS)
    return _steps(tuple(dict.fromkeys(orders)))


def _steps(orders: tuple[tuple[str, ...], ...]) -> tuple[_Step, ...]:
    by_piece: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in filter(None, orders):
        by_piece.setdefault(first, []).append(tuple(rest))
    return tuple(_Step(piece, _steps(tuple(rests))) for piece, rests in by_piece.items())


def _shortest(pieces: Pieces, steps: tuple[_Step, ...], end: dict[str, Floats], compute: Floats, communication: Floats) -> Floats:
    """The end of the shortest of the orders that go on as ``steps`` do.

    Parameters
    ----------
    pieces : mapping of Floats, ``[k]``, seconds
        Of one merged pair.
    steps : tuple of _Step
        Pieces that may come next.
    end : dict of Floats, ``[k]``, seconds
        When the pieces that were played have ended.
    compute : Floats, ``[k]``, seconds
        When the compute stream is free.
    communication : Floats, ``[k]``, seconds
        When the communication stream is free.

    Returns
    -------
    Floats, ``[k]``, seconds
    """
    if not steps:
        return np.maximum(compute, communication)
    shortest: Floats | None = None
    for piece, following in steps:
        sent = piece in COMMUNICATION
        start = communication if sent else compute
        for need in AFTER[piece]:
            if need in end:  # else the layer has none, and its stream keeps the order
                start = np.maximum(start, end[need])
        done = start + pieces[piece]
        ended = {**end, piece: done}
        found = _shortest(pieces, following, ended, compute if sent else done, done if sent else communication)
        shortest = found if shortest is None else np.minimum(shortest, found)
    assert shortest is not None
    return shortest


def compute_s(pieces: Pieces) -> Floats:
    """The exclusive compute stream's share, ``[k]``.

    Parameters
    ----------
    pieces : mapping of Floats, ``[k]``, seconds
        Of one merged pair, by the names of ``AFTER``.

    Returns
    -------
    Floats, ``[k]``, seconds
    """
    return _sum([seconds for name, seconds in pieces.items() if name not in COMMUNICATION])


def communication_s(pieces: Pieces) -> Floats:
    """The communication stream's share, ``[k]``: dispatch and combine, forward and backward.

    Parameters
    ----------
    pieces : mapping of Floats, ``[k]``, seconds
        Of one merged pair, by the names of ``AFTER``.

    Returns
    -------
    Floats, ``[k]``, seconds
    """
    return _sum([seconds for name, seconds in pieces.items() if name in COMMUNICATION])


def _sum(parts: list[Floats]) -> Floats:
    """One after the other: NumPy would add those of a single pair in another order than those of several."""
    return sum(parts[1:], parts[0])


def merged_communication_s(pieces: Pieces, stretch: float) -> Floats:
    """What communication adds to the pair's compute in the shortest order, ``[k]``.

    ``stretch`` is what a hidden second of communication costs the compute beside it. Equal pairs are played once.

    Parameters
    ----------
    pieces : mapping of Floats, ``[k]``, seconds
        Of one merged pair, by the names of ``AFTER``.
    stretch : float
        ``hidden_stretch_fraction``.

    Returns
    -------
    Floats, ``[k]``, seconds
        0 where all of it hides and costs nothing.

    Notes
    -----
    Exact for the orders of ``ORDERS``; one pair in a thousand drawn at random has a shorter order, by less than 5 %.
    """
    distinct, index = np.unique(np.stack(list(pieces.values())), axis=1, return_inverse=True)
    few = dict(zip(pieces, distinct, strict=True))
    zero = np.zeros(distinct.shape[1])
    shortest = _shortest(few, _tree(frozenset(few)), {}, zero, zero)
    # Rounding may leave the sum of a stream a little above its parts' end.
    exposed = np.maximum(shortest - compute_s(few), 0.0)
    hidden = np.maximum(communication_s(few) - exposed, 0.0)
    total: Floats = (exposed + stretch * hidden)[index.reshape(-1)]
    return total


@dataclass(frozen=True)
class PairSavings:
    """Seconds that merging two layers saves by hiding expert communication beyond what each hides alone, ``[k]`` or ``[n]``.

    Net of the contention that the hidden part brings: of a saving *x*, *x* / (1 - stretch) is hidden and the rest is contention.
    By kind of the forward's layer and of the backward's, in the order of ``ModelShape.layer_kinds``. Two dense layers save
    nothing: ``None``.
    """

    by_kinds: tuple[tuple[Floats | None, ...], ...]


def pair_savings(costs: tuple[LayerCosts, ...], merged: NDArray[np.bool_], stretch: float) -> PairSavings:
    """What merging saves for the ``merged`` of all keys; nothing for the others. The host dispatches both passes all the same.

    Parameters
    ----------
    costs : tuple of LayerCosts, ``[k]``
        Of each kind of layer.
    merged : bool, ``[k]``
        Keys whose passes are merged.
    stretch : float
        ``hidden_stretch_fraction``.

    Returns
    -------
    PairSavings, ``[k]``
        At least 0, at most the communication that both passes show alone.
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
        # What merging hides beside the compute it stretches too: the saving is net of that.
        shown, sent = (forward.forward["ep_comm"] + backward.backward["ep_comm"])[merged], communication_s(pieces)
        exposed = shown + stretch * np.maximum(sent - shown, 0.0)
        alone = (forward.forward_s + backward.backward_s)[merged]
        saving[merged] = np.maximum(np.minimum(exposed - left, alone - together), 0.0)
        return saving

    return PairSavings(tuple(tuple(saving_s(forward, backward) for backward in costs) for forward in costs))
