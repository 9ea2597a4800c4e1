"""Chooses an option for every virtual stage at least time under what its ranks have room for: exact, by merging stages in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.tensor_choice.frontier import Options, unbeaten

Floats = NDArray[np.float64]

MOST_PARTIAL = 4000  # choices for the first stages of a rank that go on, the cheapest of each part of their range
ROUNDING_BYTES = 1.0  # of a sum


@dataclass(frozen=True)
class Limits:
    """What the stages of one rank, or of ranks that share them, must leave: one line for every moment that can be a peak.

    A choice fits where for all lines ``in_flight`` ``[line, stage]`` times what the stages keep, plus ``fixed_bytes`` ``[line]``,
    plus the larger of ``least_bytes`` ``[line]`` and ``beside_bytes`` ``[line]`` with the most that a stage works in, is not
    above ``most_bytes`` ``[line]``.
    """

    in_flight: Floats
    fixed_bytes: Floats
    least_bytes: Floats
    beside_bytes: Floats
    most_bytes: Floats

    def binding(self) -> Limits:
        """Without lines that others imply."""
        room = self.most_bytes - self.fixed_bytes
        others = np.stack([room - self.least_bytes, room - self.beside_bytes], axis=1)
        rows = unbeaten(*(-self.in_flight).T, *others.T)
        return Limits(*(column[rows] for column in vars(self).values()))

    def fit(self, held_bytes: Floats, working: Floats) -> NDArray[np.bool_]:
        """Whether choices fit that hold ``[line, choice]`` and work in ``[choice]``."""
        beside = np.maximum(self.least_bytes[:, None], self.beside_bytes[:, None] + working[None])
        whole = held_bytes + self.fixed_bytes[:, None] + beside
        found: NDArray[np.bool_] = (whole <= self.most_bytes[:, None] + ROUNDING_BYTES).all(axis=0)
        return found


@dataclass(frozen=True)
class Chosen:
    """The option of every stage, what they take together, and what no choice that fits takes less than."""

    options: tuple[int, ...]
    seconds: float
    least_s: float


def cheapest(stages: Sequence[Options], limits: Limits) -> Chosen | None:
    """The choice of least time that fits; ``None`` where none does.

    Choices for the first stages that the others cannot make fit, or that another beats in time and in every line, are left out,
    so that what stands in the end is the best. Where more than ``MOST_PARTIAL`` stand, only some go on: then ``least_s``, from
    each line alone with stages mixed between options, says how far from the best the answer can be.
    """
    limits = limits.binding()
    rest = _least_of_rest(stages, limits)
    held, seconds, working = np.zeros((len(limits.most_bytes), 1)), np.zeros(1), np.zeros(1)
    picked, exact = np.zeros((0, 1), dtype=np.int64), True
    for number, options in enumerate(stages):
        first, second = (index.ravel() for index in np.indices((len(seconds), len(options))))
        grown = held[:, first] + limits.in_flight[:, number, None] * options.kept_bytes[second][None]
        works = np.maximum(working[first], options.working_bytes[second])
        fits = np.flatnonzero(limits.fit(grown + rest[number + 1][:, None], works))
        if not len(fits):
            return None
        grown, works, first, second = grown[:, fits], works[fits], first[fits], second[fits]
        takes = seconds[first] + options.seconds[second]
        if number + 1 == len(stages):
            rows = np.lexsort((grown.sum(axis=0), takes))[:1]
        else:
            rows = unbeaten(takes, works, *grown)
            if len(rows) > MOST_PARTIAL:
                rows, exact = rows[np.linspace(0, len(rows) - 1, MOST_PARTIAL).astype(np.int64)], False
        picked = np.concatenate([picked[:, first[rows]], second[rows][None]])
        held, seconds, working = grown[:, rows], takes[rows], works[rows]
    found = float(seconds[0])
    return Chosen(tuple(picked[:, 0].tolist()), found, found if exact else _bound_s(stages, limits))


def _least_of_rest(stages: Sequence[Options], limits: Limits) -> Floats:
    """What the stages from each one on hold at least, ``[stage and one more, line]``."""
    least = [limits.in_flight[:, number] * options.kept_bytes.min() for number, options in enumerate(stages)]
    from_last = np.cumsum([np.zeros(len(limits.most_bytes)), *reversed(least)], axis=0)
    return from_last[::-1]


def _bound_s(stages: Sequence[Options], limits: Limits) -> float:
    """The largest over lines of the least time under that line alone, stages mixing their options as they like."""
    found = 0.0
    for line in range(len(limits.most_bytes)):
        least = max(limits.least_bytes[line], limits.beside_bytes[line])
        room = limits.most_bytes[line] - limits.fixed_bytes[line] - least
        found = max(found, _mixed_s(stages, limits.in_flight[line], float(room)))
    return found


def _mixed_s(stages: Sequence[Options], in_flight: Floats, room_bytes: float) -> float:
    """Least time of stages under one limit, each on the lower hull of its options: steps of it, the best rate first."""
    total_s, over, steps = 0.0, -room_bytes, []
    for number, options in enumerate(stages):
        order = np.lexsort((options.seconds, -options.kept_bytes))
        held, seconds = in_flight[number] * options.kept_bytes[order], options.seconds[order]
        cheapest_row = int(np.lexsort((held, seconds))[0])
        total_s, over = total_s + seconds[cheapest_row], over + held[cheapest_row]
        at = held[cheapest_row], seconds[cheapest_row]
        while True:
            saves = at[0] - held
            below = np.flatnonzero(saves > 0)
            if not len(below):
                break
            rates = (seconds[below] - at[1]) / saves[below]
            row = int(below[np.lexsort((-saves[below], rates))[0]])
            steps.append((float(rates.min()), float(saves[row])))
            at = held[row], seconds[row]
    for rate, saved in sorted(steps):
        if over <= 0:
            break
        part = min(saved, over)
        total_s, over = total_s + rate * part, over - part
    return total_s
