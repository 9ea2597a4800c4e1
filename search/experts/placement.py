"""Placement of experts on ranks: the load of each rank, new placements in two levels, and the moves to them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from search.experts.packing import Floats, Ints, exchange, fullest, pack

Bools = NDArray[np.bool_]

MAX_CHOICES = 512  # choices of copies, times rows, up to which all are tried


@dataclass(frozen=True)
class Placement:
    """The routed experts of every layer on the ranks of an expert-parallel group, ``experts[layer, rank, slot]``.

    An expert in several slots has copies, which share its tokens evenly [eplb]. Ranks of a node follow each other.
    """

    experts: Ints

    @property
    def num_ranks(self) -> int:
        """Ranks of the group."""
        return int(self.experts.shape[1])

    @property
    def slots(self) -> int:
        """Experts that each rank holds, with copies."""
        return int(self.experts.shape[2])

    def copies(self, num_experts: int) -> Ints:
        """The number of ranks that hold each expert, ``[layer, expert]``."""
        num_layers = len(self.experts)
        flat = self.experts.reshape(num_layers, -1) + np.arange(num_layers)[:, None] * num_experts
        return np.bincount(flat.ravel(), minlength=num_layers * num_experts).reshape(num_layers, num_experts)

    def slot_loads(self, loads: Floats) -> Floats:
        """The part of ``loads`` ``[..., layer, expert]`` in each slot: ``[..., layer, rank, slot]``."""
        num_layers, num_experts = loads.shape[-2:]
        each = loads / np.maximum(self.copies(num_experts), 1)
        layers = np.arange(num_layers)[:, None, None]
        found: Floats = each[..., layers, self.experts]
        return found

    def relative_loads(self, loads: Floats) -> Floats:
        """The load of each rank over the mean, ``[..., layer, rank]``."""
        ranks = self.slot_loads(loads).sum(axis=-1)
        found: Floats = ranks / ranks.mean(axis=-1, keepdims=True)
        return found

    def load_factors(self, loads: Floats) -> Floats:
        """Load of the fullest rank over the mean, ``[..., layer]``."""
        found: Floats = self.relative_loads(loads).max(axis=-1)
        return found

    def avoidable_loads(self, loads: Floats) -> Floats:
        """Load of the fullest rank over the mean beyond what its hottest slot alone makes, ``[..., layer]``."""
        slots = self.slot_loads(loads)
        hottest = slots.max(axis=(-2, -1)) * self.num_ranks / slots.sum(axis=(-2, -1))
        found: Floats = self.load_factors(loads) - np.maximum(hottest, 1.0)
        return found

    def holds(self, num_experts: int) -> Bools:
        """Whether a rank holds an expert, ``[layer, rank, expert]``."""
        held = np.zeros((*self.experts.shape[:2], num_experts), dtype=bool)
        np.put_along_axis(held, self.experts, True, axis=2)
        return held


def in_order(num_layers: int, num_experts: int, num_ranks: int) -> Placement:
    """The start of frameworks: rank i of n holds the experts from i E / n on [megatron-0.12, moe_layer.py]."""
    one = np.arange(num_experts, dtype=np.int64).reshape(num_ranks, -1)
    return Placement(np.broadcast_to(one, (num_layers, *one.shape)).copy())


def exchanged(loads: Floats, current: Placement, num_nodes: int) -> Placement:
    """The ``current`` placement after exchanges of experts inside each node; few move. None may have copies."""
    num_layers, num_ranks, slots = current.experts.shape
    of_nodes = current.experts.reshape(num_layers * num_nodes, num_ranks // num_nodes, slots)
    names = of_nodes.reshape(len(of_nodes), -1)
    weights = np.take_along_axis(np.repeat(loads, num_nodes, axis=0), names, axis=1)
    bins = exchange(weights, np.broadcast_to(np.arange(names.shape[1]).reshape(of_nodes.shape[1:]), of_nodes.shape))
    experts = np.take_along_axis(names, bins.reshape(names.shape), axis=1)
    return Placement(np.sort(experts.reshape(current.experts.shape), axis=2))


def placed_anew(loads: Floats, current: Placement, num_nodes: int, extra_slots: int = 0) -> Placement:
    """Experts of ``loads`` ``[layer, expert]`` balanced over nodes, then over their ranks, near the ``current`` placement.

    Each rank has E / n slots and ``extra_slots`` more for copies of the hottest experts of its node. With one node there is one
    level, over all ranks. Each bin is matched to the node or rank that holds most of its experts already.
    """
    num_layers, num_experts = loads.shape
    per_node, ranks_per_node = num_experts // num_nodes, current.num_ranks // num_nodes
    rows = np.arange(num_layers)[:, None, None]
    nodes = pack(loads, num_nodes)  # [layer, node, expert]
    held = current.holds(num_experts)
    if num_nodes > 1:
        of_nodes = np.any(held.reshape(num_layers, num_nodes, ranks_per_node, num_experts), axis=2)
        nodes = nodes[rows[:, :, 0], _matching(_holding(nodes, num_experts), of_nodes)]
    inside = loads[rows, nodes].reshape(num_layers * num_nodes, per_node)
    names, bins = _packed(inside, ranks_per_node, extra_slots * ranks_per_node)
    local = np.take_along_axis(names, bins.reshape(len(bins), -1), axis=1)
    experts = np.take_along_axis(nodes.reshape(len(bins), -1), local, axis=1).reshape(len(bins), ranks_per_node, -1)
    mine = held.reshape(len(bins), ranks_per_node, num_experts)
    experts = experts[np.arange(len(bins))[:, None], _matching(_holding(experts, num_experts), mine)]
    return Placement(np.sort(experts.reshape(num_layers, current.num_ranks, -1), axis=2))


def _packed(loads: Floats, num_ranks: int, extra: int) -> tuple[Ints, Ints]:
    """The expert of each of E + ``extra`` slots, and the slots of each rank. For few experts all choices of copies are tried."""
    num_rows, num_experts = loads.shape
    names, weights = _copied(loads, extra, num_ranks)
    bins = pack(weights, num_ranks, names if extra else None)
    if not extra or comb(num_experts + extra - 1, extra) * num_rows > MAX_CHOICES:
        return names, bins
    lightest = fullest(weights, bins)
    for copied in combinations_with_replacement(range(num_experts), extra):
        items = np.tile([*range(num_experts), *copied], (num_rows, 1))
        copies = np.bincount(items[0], minlength=num_experts)
        if copies.max() > num_ranks:
            continue
        shares = (loads / copies)[:, items[0]]
        found = pack(shares, num_ranks, items)
        better = fullest(shares, found) < lightest
        names[better], bins[better] = items[better], found[better]
        lightest = np.minimum(lightest, fullest(shares, found))
    return names, bins


def _copied(loads: Floats, extra: int, most: int) -> tuple[Ints, Floats]:
    """The expert and the load of each of E + ``extra`` slots: the hottest copy is split again and again [eplb]."""
    num_rows, num_experts = loads.shape
    rows = np.arange(num_rows)
    names = np.concatenate([np.tile(np.arange(num_experts), (num_rows, 1)), np.zeros((num_rows, extra), dtype=np.int64)], axis=1)
    copies = np.ones((num_rows, num_experts))
    for slot in range(num_experts, num_experts + extra):
        hottest = np.where(copies < most, loads / copies, -1.0).argmax(axis=1)
        names[:, slot] = hottest
        copies[rows, hottest] += 1
    return names, np.take_along_axis(loads / copies, names, axis=1)


def _holding(bins: Ints, num_experts: int) -> Bools:
    held = np.zeros((*bins.shape[:2], num_experts), dtype=bool)
    np.put_along_axis(held, bins, True, axis=2)
    return held


def _matching(bins: Bools, places: Bools) -> Ints:
    """The bin for each place, ``[row, place]``: pairs that share most experts first."""
    num_rows, number = bins.shape[:2]
    shared = places.astype(np.float32) @ bins.astype(np.float32).swapaxes(1, 2)
    rows, found = np.arange(num_rows), np.zeros((num_rows, number), dtype=np.int64)
    for _ in range(number):
        place, chosen = np.divmod(shared.reshape(num_rows, -1).argmax(axis=1), number)
        found[rows, place] = chosen
        shared[rows, place], shared[rows, :, chosen] = -1.0, -1.0
    return found


@dataclass(frozen=True)
class Moves:
    """Experts that come to a rank which has not held them, by layer.

    ``*_of_rank`` is the most that one rank sends or gets, ``*_of_pair`` the most that one rank sends to one other.
    """

    inside: Ints
    between: Ints
    inside_of_rank: Ints
    between_of_rank: Ints
    inside_of_pair: Ints
    between_of_pair: Ints


def moves(before: Placement, after: Placement, num_experts: int, num_nodes: int) -> Moves:
    """The experts to send, each from the first rank that holds it, in the same node where possible."""
    num_layers, num_ranks = before.experts.shape[:2]
    per_node = num_ranks // num_nodes
    had = before.holds(num_experts)
    layer, rank, expert = np.nonzero(after.holds(num_experts) & ~had)
    in_node = had.reshape(num_layers, num_nodes, per_node, num_experts)[layer, rank // per_node, :, expert]
    is_inside = np.any(in_node, axis=1)
    source = np.where(is_inside, rank // per_node * per_node + in_node.argmax(axis=1), had[layer, :, expert].argmax(axis=1))

    def busiest(chosen: Bools) -> Ints:
        ends = [
            np.bincount(layer[chosen] * num_ranks + one[chosen], minlength=num_layers * num_ranks).reshape(num_layers, num_ranks)
            for one in (rank, source)
        ]
        most: Ints = np.maximum(*ends).max(axis=1)
        return most

    def of_pair(chosen: Bools) -> Ints:
        most = np.zeros(num_layers, dtype=np.int64)
        pairs, number = np.unique((layer * num_ranks + source)[chosen] * num_ranks + rank[chosen], return_counts=True)
        np.maximum.at(most, pairs // num_ranks**2, number)
        return most

    return Moves(
        inside=np.bincount(layer[is_inside], minlength=num_layers),
        between=np.bincount(layer[~is_inside], minlength=num_layers),
        inside_of_rank=busiest(is_inside),
        between_of_rank=busiest(~is_inside),
        inside_of_pair=of_pair(is_inside),
        between_of_pair=of_pair(~is_inside),
    )


def shared_slots(placement: Placement, num_experts: int, num_nodes: int) -> tuple[Ints, Ints]:
    """Slots of the fullest rank whose expert has copies in its node alone, and in others too, by layer."""
    num_layers, num_ranks = placement.experts.shape[:2]
    held = placement.holds(num_experts)
    copies = held.sum(axis=1)
    nodes = held.reshape(num_layers, num_nodes, num_ranks // num_nodes, num_experts).any(axis=2).sum(axis=1)
    layers = np.arange(num_layers)[:, None, None]
    is_shared, is_spread = (copies > 1)[layers, placement.experts], (nodes > 1)[layers, placement.experts]
    inside, between = (is_shared & ~is_spread).sum(axis=2), is_spread.sum(axis=2)
    return inside.max(axis=1), between.max(axis=1)
