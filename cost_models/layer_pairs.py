"""A forward and a backward of different micro batches in one layer, merged so that one's communication hides behind the other.

Each is a chain of pieces on two exclusive streams, compute and expert communication; every order of the pieces that can be
the shortest is tried, and the shortest kept [mindspeed, fb_overlap].
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.layer_keys import Floats


@dataclass(frozen=True)
class LayerPieces:
    """Seconds ``[k]`` of one MoE layer's pieces; ``*_back`` are input gradients, ``*_weights`` weight gradients.

    ``attention`` holds all that comes before the dispatch (norms, router, TP communication), ``experts`` the permutation.
    Dispatch and combine take as long in the backward, each the other's reverse.
    """

    attention: Floats
    experts: Floats
    shared: Floats
    dispatch: Floats
    combine: Floats
    attention_back: Floats
    experts_back: Floats
    shared_back: Floats
    attention_weights: Floats
    experts_weights: Floats

    def take(self, rows: NDArray[np.bool_]) -> LayerPieces:
        """The chosen keys."""
        return LayerPieces(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def compute_s(self) -> Floats:
        """The exclusive compute stream's share."""
        total: Floats = sum(
            (getattr(self, f.name) for f in fields(self) if f.name not in ("dispatch", "combine")), np.zeros_like(self.attention)
        )
        return total

    @property
    def communication_s(self) -> Floats:
        """The communication stream's share: dispatch and combine, forward and backward."""
        return 2.0 * (self.dispatch + self.combine)


# What each piece waits for, beside its stream. The backward's combine and the forward's attention can start at once.
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
DURATION = {"combine_back": "combine", "dispatch_back": "dispatch"}
COMMUNICATION = ("dispatch", "combine", "combine_back", "dispatch_back")
LETTERS = {
    "A": "attention", "S": "shared", "D": "dispatch", "E": "experts", "C": "combine",
    "c": "combine_back", "s": "shared_back", "e": "experts_back", "d": "dispatch_back", "a": "attention_back",
    "f": "experts_weights", "b": "attention_weights",
}  # fmt: skip
# Of the 496 orders that the chains allow, those that 40,000 random durations needed; one pair in a thousand drawn otherwise
# has a shorter one, by less than 1 %.
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


@lru_cache(maxsize=1)
def _tree() -> tuple[_Step, ...]:
    """All orders with their common beginnings put together, so that each is played once."""
    return _steps(tuple(tuple(LETTERS[letter] for letter in order) for order in ORDERS))


def _steps(orders: tuple[tuple[str, ...], ...]) -> tuple[_Step, ...]:
    by_piece: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in filter(None, orders):
        by_piece.setdefault(first, []).append(tuple(rest))
    return tuple(_Step(piece, _steps(tuple(rests))) for piece, rests in by_piece.items())


def _shortest(
    pieces: LayerPieces, steps: tuple[_Step, ...], end: dict[str, Floats], compute: Floats, communication: Floats
) -> Floats:
    if not steps:
        return np.maximum(compute, communication)
    shortest: Floats | None = None
    for piece, following in steps:
        sent = piece in COMMUNICATION
        start = communication if sent else compute
        for need in AFTER[piece]:
            start = np.maximum(start, end[need])
        done = start + getattr(pieces, DURATION.get(piece, piece))
        ended = {**end, piece: done}
        found = _shortest(pieces, following, ended, compute if sent else done, done if sent else communication)
        shortest = found if shortest is None else np.minimum(shortest, found)
    assert shortest is not None
    return shortest


def merged_communication_s(pieces: LayerPieces, stretch: float) -> Floats:
    """What communication adds to the pair's compute in the shortest order, ``[k]``.

    ``stretch`` is what a hidden second of communication costs the compute beside it. Equal pairs are played once.
    """
    columns = [getattr(pieces, f.name) for f in fields(LayerPieces)]
    distinct, index = np.unique(np.stack(columns), axis=1, return_inverse=True)
    few = LayerPieces(*distinct)
    zero = np.zeros_like(few.attention)
    shortest = _shortest(few, _tree(), {}, zero, zero)
    # Rounding may leave the sum of a stream a little above its parts' end.
    exposed = np.maximum(shortest - few.compute_s, 0.0)
    hidden = np.maximum(few.communication_s - exposed, 0.0)
    total: Floats = (exposed + stretch * hidden)[index.reshape(-1)]
    return total
