"""Balanced packing: items into bins of equal numbers, with the fullest bin as light as possible. All rows at once.

A row is one problem: the experts of a layer over ranks, or the sequences of a step over replicas. First greedily: the heaviest
item goes to the lightest bin with room, which is within 4/3 - 1/(3 n) of the optimum for bins without limit [graham1969]. Then by
exchanges between the fullest bin and any other, until none helps. For small rows an exact search follows.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Splits = tuple[Ints, Ints, Floats]

GOOD = 2e-3  # relative; a fullest bin this close to the bound is accepted
MAX_EXCHANGES = 200  # maximum exchanges in one row
LIGHTEST = 3  # bins that are tried first for an exchange
MAX_SPLIT_SIZE = 4  # items of two bins are shared anew in all of 70 ways; of larger bins one is exchanged for one
EXACT_ITEMS = 16
EXACT_VISITS = 5_000  # partial packings of one row in the exact search
ALL_VISITS, LEAST_VISITS = 500_000, 50  # visits for all rows together; with fewer for a row none is searched
MAX_COMPARED = 4_000_000  # exchanges that are compared at once; of a row with more none is made, as it has many items a bin


def pack(weights: Floats, num_bins: int, names: Ints | None = None) -> Ints:
    """The items of each row, ``[row, bin, place]``: equally many in every bin, with the fullest as light as was found.

    ``weights`` is ``[row, item]``; the number of items divides by ``num_bins``. Items with one name, copies of an expert, are
    kept apart where possible; without ``names`` all differ.
    """
    num_rows, num_items = weights.shape
    size = num_items // num_bins
    if num_bins == 1 or num_rows == 0:
        return np.broadcast_to(np.arange(num_items).reshape(1, num_bins, size), (num_rows, num_bins, size)).copy()
    if size == 1:
        return np.broadcast_to(np.arange(num_items).reshape(1, num_items, 1), (num_rows, num_items, 1)).copy()
    bins = _heaviest_first(weights, num_bins, names)
    bins = exchange(weights, bins, names)
    if num_items <= EXACT_ITEMS:
        bound = _bound(weights, num_bins)
        rows = np.flatnonzero(fullest(weights, bins) > bound * (1.0 + GOOD)).tolist()
        visits = min(EXACT_VISITS, ALL_VISITS // max(len(rows), 1))
        for row in rows if visits >= LEAST_VISITS else ():
            bins[row] = _exact(weights[row], bins[row], np.arange(num_items) if names is None else names[row], visits)
    return bins


def exchange(weights: Floats, bins: Ints, names: Ints | None = None) -> Ints:
    """The bins after exchanges between the fullest and another, each of which makes the fuller of both lighter."""
    num_rows, num_bins, size = bins.shape
    splits = _splits(size) if names is None and size <= MAX_SPLIT_SIZE else None
    compared = num_bins * (size * size if splits is None else comb(2 * size, size))
    if compared > MAX_COMPARED:
        return bins.copy()
    block = max(MAX_COMPARED // compared, 1)
    parts = [slice(start, start + block) for start in range(0, num_rows, block)]
    of_parts = [_exchanged(weights[part], bins[part].copy(), None if names is None else names[part], splits) for part in parts]
    return np.concatenate(of_parts) if of_parts else bins.copy()


def _exchanged(weights: Floats, bins: Ints, names: Ints | None, splits: Splits | None) -> Ints:
    bound = _bound(weights, bins.shape[1]) * (1.0 + GOOD)
    active = np.arange(len(bins))
    for _ in range(MAX_EXCHANGES):
        loads = weights[active[:, None, None], bins[active]]
        sums = loads.sum(axis=2)
        full = sums.argmax(axis=1)
        open_rows = sums.max(axis=1) > bound[active]
        active, loads, sums, full = active[open_rows], loads[open_rows], sums[open_rows], full[open_rows]
        if not len(active):
            break
        if splits is None:
            improved = _exchange_one(bins, active, loads, sums, full, names)
        else:
            improved = _share_anew(bins, active, loads, sums, full, splits)
        active = active[improved]
    return bins


def _heaviest_first(weights: Floats, num_bins: int, names: Ints | None) -> Ints:
    num_rows, num_items = weights.shape
    size = num_items // num_bins
    rows = np.arange(num_rows)
    order = np.argsort(-weights, axis=1, kind="stable")
    bins = np.zeros((num_rows, num_bins, size), dtype=np.int64)
    sums, taken = np.zeros((num_rows, num_bins)), np.zeros((num_rows, num_bins), dtype=np.int64)
    held = None if names is None else np.zeros((num_rows, num_bins, int(names.max()) + 1), dtype=bool)
    for item in order.T:
        cost = np.where(taken < size, sums, np.inf)
        if held is not None and names is not None:
            meets = held[rows, :, names[rows, item]]
            cost = np.where(meets & ~(meets | (taken >= size)).all(axis=1, keepdims=True), np.inf, cost)
        chosen = cost.argmin(axis=1)
        bins[rows, chosen, taken[rows, chosen]] = item
        sums[rows, chosen] += weights[rows, item]
        taken[rows, chosen] += 1
        if held is not None and names is not None:
            held[rows, chosen, names[rows, item]] = True
    return bins


def _exchange_one(bins: Ints, active: Ints, loads: Floats, sums: Floats, full: Ints, names: Ints | None) -> NDArray[np.bool_]:
    """Make the best exchange of one item of the fullest bin for one of another; whether there was one, by active row."""
    num_bins = bins.shape[1]
    improved = np.zeros(len(active), dtype=bool)
    for number in (LIGHTEST, num_bins) if LIGHTEST < num_bins else (num_bins,):
        rest = np.flatnonzero(~improved)
        if not len(rest):
            break
        others = np.argsort(sums[rest], axis=1)[:, :number]
        improved[rest] = _best_exchange(bins, active[rest], loads[rest], full[rest], others, names)
    return improved


def _best_exchange(bins: Ints, active: Ints, loads: Floats, full: Ints, others: Ints, names: Ints | None) -> NDArray[np.bool_]:
    """The best exchange with ``others`` ``[row, bin]`` alone."""
    rows, (size, number) = np.arange(len(active)), (bins.shape[2], others.shape[1])
    own, theirs = loads[rows, full], loads[rows[:, None], others]
    top = own.sum(axis=1)
    change = own[:, :, None, None] - theirs[:, None]  # [row, place, bin, place]: weight that leaves the fullest bin
    after = np.maximum(top[:, None, None, None] - change, theirs.sum(axis=2)[:, None, :, None] + change)
    if names is not None:
        ids = names[active[:, None, None], bins[active]]
        mine, its = ids[rows, full], ids[rows[:, None], others]
        meets = (mine[:, :, None, None] == its[:, None]).any(axis=3, keepdims=True)  # the other bin has a copy of mine
        comes = (its[:, :, :, None] == mine[:, None, None]).any(axis=3)[:, None]  # I have a copy of the other's
        after = np.where(meets | comes, np.inf, after)
    after[np.broadcast_to((others == full[:, None])[:, None, :, None], after.shape)] = np.inf
    flat = after.reshape(len(active), -1)
    best = flat.argmin(axis=1)
    improved: NDArray[np.bool_] = flat[rows, best] < top * (1.0 - 1e-9)
    place, other, its_place = np.unravel_index(best, (size, number, size))
    row = np.flatnonzero(improved)
    own_at = (active[row], full[row], place[row])
    its_at = (active[row], others[row, other[row]], its_place[row])
    bins[own_at], bins[its_at] = bins[its_at], bins[own_at]
    return improved


def _share_anew(bins: Ints, active: Ints, loads: Floats, sums: Floats, full: Ints, splits: Splits) -> NDArray[np.bool_]:
    """Redistribute the items of the fullest bin and another in the best way; whether that helped, by active row."""
    rows = np.arange(len(active))
    first_places, other_places, mask = splits
    pair = np.concatenate([np.broadcast_to(loads[rows, full][:, None], loads.shape), loads], axis=2)
    first = pair @ mask.T
    after = np.maximum(first, pair.sum(axis=2, keepdims=True) - first)
    after[rows, full] = np.inf
    flat = after.reshape(len(active), -1)
    best = flat.argmin(axis=1)
    improved: NDArray[np.bool_] = flat[rows, best] < sums[rows, full] * (1.0 - 1e-9)
    other, split = np.divmod(best, len(mask))
    row, own, its, split = active[improved], full[improved], other[improved], split[improved]
    items = np.concatenate([bins[row, own], bins[row, its]], axis=1)
    bins[row, own] = np.take_along_axis(items, first_places[split], axis=1)
    bins[row, its] = np.take_along_axis(items, other_places[split], axis=1)
    return improved


def _splits(size: int) -> Splits:
    """Every choice of ``size`` of twice as many places, its complement, and the choice as zeros and ones."""
    first = np.array(list(combinations(range(2 * size), size)), dtype=np.int64)
    mask = np.zeros((len(first), 2 * size))
    np.put_along_axis(mask, first, 1.0, axis=1)
    others = np.argsort(mask, axis=1, kind="stable")[:, :size]
    return first, others, mask


def _bound(weights: Floats, num_bins: int) -> Floats:
    """Lower bound on the fullest bin: the mean, or the heaviest item together with the lightest others."""
    size = weights.shape[1] // num_bins
    ordered = np.sort(weights, axis=1)
    bound: Floats = np.maximum(weights.sum(axis=1) / num_bins, ordered[:, -1] + ordered[:, : size - 1].sum(axis=1))
    return bound


def fullest(weights: Floats, bins: Ints) -> Floats:
    """Weight of the fullest bin of each row."""
    sums: Floats = np.take_along_axis(weights, bins.reshape(len(bins), -1), axis=1).reshape(bins.shape).sum(axis=2).max(axis=1)
    return sums


def _exact(weights: Floats, found: Ints, names: Ints, most_visits: int) -> Ints:
    """The lightest fullest bin of a small row, depth first, heaviest first; the best so far after ``most_visits``."""
    num_bins, size = found.shape
    order = np.argsort(-weights, kind="stable").tolist()
    heavy = weights[order].tolist()
    best, best_load = found, float(weights[found].sum(axis=1).max())
    called = names.tolist()
    sums, members = [0.0] * num_bins, [[] for _ in range(num_bins)]  # type: tuple[list[float], list[list[int]]]
    visits = 0

    def place(index: int) -> None:
        nonlocal best, best_load, visits
        visits += 1
        if visits > most_visits:
            return
        if index == len(order):
            best, best_load = np.array(members, dtype=np.int64), max(sums)
            return
        tried = set()
        for one in sorted(range(num_bins), key=sums.__getitem__):
            state = tuple(called[item] for item in members[one])
            if len(members[one]) == size or sums[one] + heavy[index] >= best_load * (1.0 - 1e-12):
                continue
            if state in tried or called[order[index]] in state:
                continue
            tried.add(state)
            sums[one] += heavy[index]
            members[one].append(order[index])
            place(index + 1)
            members[one].pop()
            sums[one] -= heavy[index]

    place(0)
    return best
