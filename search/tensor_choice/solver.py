"""Chooses one option for every part of a rank at least time within its memory: exact, by bounds and merging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.tensor_choice.frontier import Options, unbeaten

Floats = NDArray[np.float64]

MOST_PARTIAL = 150  # partial choices that go on to the next part; with more, the result is not proved
MOST_GROWN = 400  # maximum partial choices with the next part, before dominated ones are dropped at quadratic cost
PRICES = 48  # prices of a byte, between which the best bound is narrowed down
NARROWINGS = 3
STARTS = 8  # choices at a price that are improved part by part
ROUNDING = 1e-9  # relative, of a time


@dataclass(frozen=True)
class Limits:
    """Memory limits of one rank, or of ranks that share parts: one line for every moment that can be a peak.

    A choice fits if for every line the sum of three terms is not above ``most_bytes`` ``[line]``: ``in_flight`` ``[line, part]``
    times the bytes that the parts keep, ``fixed_bytes`` ``[line]``, and the larger of ``least_bytes`` ``[line]`` and
    ``beside_bytes`` ``[line]`` plus the most that a part needs while it runs.
    """

    in_flight: Floats
    fixed_bytes: Floats
    least_bytes: Floats
    beside_bytes: Floats
    most_bytes: Floats

    def binding(self) -> Limits:
        """The limits without lines that others imply."""
        room = self.most_bytes - self.fixed_bytes
        rows = unbeaten(*(-self.in_flight).T, room - self.least_bytes, room - self.beside_bytes)
        return Limits(*(column[rows] for column in vars(self).values()))

    def fit(self, held_bytes: Floats, working: Floats) -> NDArray[np.bool_]:
        """Whether choices fit that keep ``[line, choice]`` bytes and need ``[choice]`` bytes while they run."""
        beside = np.maximum(self.least_bytes[:, None], self.beside_bytes[:, None] + working[None])
        whole = held_bytes + self.fixed_bytes[:, None] + beside
        found: NDArray[np.bool_] = np.all(whole <= self.most_bytes[:, None], axis=0)
        return found


@dataclass(frozen=True)
class Chosen:
    """The option of every part, their time, and a lower bound on the time of every choice that fits."""

    options: tuple[int, ...]
    seconds: float
    least_s: float


@dataclass(frozen=True)
class Relaxed:
    """A relaxation of one line: ``least_s`` bounds the time of all choices, ``over_s`` is the surplus of an option over it.

    ``priced`` are the choices that a price of bytes alone would make.
    """

    least_s: float
    over_s: list[Floats]
    priced: list[tuple[int, ...]]


def cheapest(parts: Sequence[Options], limits: Limits, worth_s: float = 0.0) -> Chosen | None:
    """The choice of least time that fits, up to ``worth_s``; ``None`` where none fits.

    A price on bytes gives a lower bound, the surplus of each option over it, and choices that fit. Options that cannot be part of
    a better choice are dropped. The others are merged part by part, without those that cannot fit any more or are beaten. The
    result is the optimum. Where more than ``MOST_PARTIAL`` partial choices remain, or more than ``MOST_GROWN`` with another part,
    only those nearest to the bound go on, and ``least_s`` is the bound.
    """
    if not parts:
        return Chosen((), 0.0, 0.0) if bool(limits.fit(np.zeros((len(limits.most_bytes), 1)), np.zeros(1))[0]) else None
    limits = limits.binding()
    relaxed = relaxation(parts, limits)
    fitting = [choice for choice in relaxed.priced if _fits(parts, limits, choice)]
    found = [_improved(parts, limits, choice) for choice in sorted(fitting, key=lambda one: _seconds(parts, one))[:STARTS]]
    best_s, best = min(((_seconds(parts, choice), choice) for choice in found), default=(np.inf, None))
    merged, exact = _merged(parts, limits, relaxed, best_s - worth_s)
    least_s = max(best_s - worth_s, relaxed.least_s)
    if merged is not None and merged[0] < best_s:
        least_s, (best_s, best) = merged[0], merged
    if best is None:
        return None
    return Chosen(best, best_s, min(best_s, least_s if exact else relaxed.least_s))


def relaxation(parts: Sequence[Options], limits: Limits) -> Relaxed:
    """The relaxation of one line with the largest bound. The bound also holds where layers of a part choose apart."""
    return max(_relaxations(parts, limits), key=lambda one: one.least_s)


def _seconds(parts: Sequence[Options], choice: Sequence[int]) -> float:
    return float(sum(options.seconds[row] for options, row in zip(parts, choice, strict=True)))


def _fits(parts: Sequence[Options], limits: Limits, choice: Sequence[int]) -> bool:
    pairs = list(zip(parts, choice, strict=True))
    kept = np.array([options.kept_bytes[row] for options, row in pairs])
    works = max(options.working_bytes[row] for options, row in pairs)
    return bool(limits.fit((limits.in_flight @ kept)[:, None], np.array([works]))[0])


def _improved(parts: Sequence[Options], limits: Limits, choice: tuple[int, ...]) -> tuple[int, ...]:
    """The choice after changes of single parts that save time and fit, until there are none."""
    rows = list(choice)
    turns_left = len(parts)
    while turns_left:
        for number, options in enumerate(parts):
            kept = np.array([each.kept_bytes[row] for each, row in zip(parts, rows, strict=True)])
            others = [each.working_bytes[row] for n, (each, row) in enumerate(zip(parts, rows, strict=True)) if n != number]
            apart = limits.in_flight @ np.where(np.arange(len(parts)) == number, 0.0, kept)
            held = apart[:, None] + limits.in_flight[:, number, None] * options.kept_bytes[None]
            fits = np.flatnonzero(limits.fit(held, np.maximum(options.working_bytes, max(others, default=0.0))))
            better = int(fits[options.seconds[fits].argmin()])
            turns_left = len(parts) if options.seconds[better] < options.seconds[rows[number]] else turns_left - 1
            rows[number] = better if turns_left == len(parts) else rows[number]
            if not turns_left:
                break
    return tuple(rows)


def _relaxations(parts: Sequence[Options], limits: Limits) -> Iterator[Relaxed]:
    """Relaxations of each line: with the mean working bytes for the largest one, then with the bytes that are needed anyway."""
    room = limits.most_bytes - limits.fixed_bytes
    for line, in_flight in enumerate(limits.in_flight):
        held = [each * options.kept_bytes for each, options in zip(in_flight, parts, strict=True)]
        works = [kept + options.working_bytes / len(parts) for kept, options in zip(held, parts, strict=True)]
        yield _relaxed(parts, works, float(room[line] - limits.beside_bytes[line]))
        if limits.least_bytes[line] > limits.beside_bytes[line]:
            yield _relaxed(parts, held, float(room[line] - limits.least_bytes[line]))


def _relaxed(parts: Sequence[Options], held: list[Floats], room_bytes: float) -> Relaxed:
    """Largest Lagrangian lower bound on time under the memory limit. Every price of a byte gives such a bound."""
    priciest = max(float(options.seconds.max()) for options in parts) / max(min(float(h.max()) for h in held), 1.0)
    low, high = 1e-3 * priciest, 1e3 * priciest
    least_s, best, priced = -np.inf, 0.0, []
    prices = np.array([0.0, *np.geomspace(max(low, 1e-300), max(high, 1e-300), PRICES)])
    for _ in range(NARROWINGS):
        bounds = []
        for price in prices.tolist():
            totals = [options.seconds + price * bytes_ for options, bytes_ in zip(parts, held, strict=True)]
            rows = [int(total.argmin()) for total in totals]
            bounds.append(float(sum(total[row] for total, row in zip(totals, rows, strict=True))) - price * room_bytes)
            priced.append(tuple(rows))
        at = int(np.argmax(bounds))
        if bounds[at] > least_s:
            least_s, best = bounds[at], float(prices[at])
        prices = np.linspace(prices[max(at - 1, 0)], prices[min(at + 1, len(prices) - 1)], PRICES)
    totals = [options.seconds + best * bytes_ for options, bytes_ in zip(parts, held, strict=True)]
    return Relaxed(least_s, [total - total.min() for total in totals], list(dict.fromkeys(priced)))


def _merged(
    parts: Sequence[Options], limits: Limits, relaxed: Relaxed, below_s: float
) -> tuple[tuple[float, tuple[int, ...]] | None, bool]:
    """The best choice that takes less than ``below_s``, if any, and whether that is proved."""
    most_over_s = below_s - relaxed.least_s + ROUNDING * max(abs(relaxed.least_s), 1e-6)
    rows_of = [np.flatnonzero(over <= most_over_s) for over in relaxed.over_s]
    if not all(map(len, rows_of)):
        return None, True
    least = [limits.in_flight[:, n] * parts[n].kept_bytes[rows].min() for n, rows in enumerate(rows_of)]
    rest = np.cumsum([np.zeros(len(limits.most_bytes)), *reversed(least)], axis=0)[::-1]
    held, seconds, working, over = np.zeros((len(limits.most_bytes), 1)), np.zeros(1), np.zeros(1), np.zeros(1)
    picked, exact = np.zeros((0, 1), dtype=np.int64), True
    for number, (options, rows) in enumerate(zip(parts, rows_of, strict=True)):
        first, second = np.nonzero(over[:, None] + relaxed.over_s[number][rows][None] <= most_over_s)
        second = rows[second]
        grown = held[:, first] + limits.in_flight[:, number, None] * options.kept_bytes[second][None]
        works = np.maximum(working[first], options.working_bytes[second])
        fits = np.flatnonzero(limits.fit(grown + rest[number + 1][:, None], works))
        if not len(fits):
            return None, exact
        grown, works, first, second = grown[:, fits], works[fits], first[fits], second[fits]
        if len(first) > MOST_GROWN:  # keep the choices nearest to the bound
            near = np.argsort(over[first] + relaxed.over_s[number][second], kind="stable")[:MOST_GROWN]
            grown, works, first, second, exact = grown[:, near], works[near], first[near], second[near], False
        takes = seconds[first] + options.seconds[second]
        if number + 1 == len(parts):
            left = np.lexsort((grown.sum(axis=0), takes))[:1]
        else:
            left = unbeaten(takes, works, *grown)
            if len(left) > MOST_PARTIAL:
                left, exact = left[np.linspace(0, len(left) - 1, MOST_PARTIAL).astype(np.int64)], False
        picked = np.concatenate([picked[:, first[left]], second[left][None]])
        over = over[first[left]] + relaxed.over_s[number][second[left]]
        held, seconds, working = grown[:, left], takes[left], works[left]
    return (float(seconds[0]), tuple(picked[:, 0].tolist())), exact
