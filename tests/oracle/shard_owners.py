"""Owners of every element of a small model's weights in two layouts, written apart from the product: sets of tuples, no arrays.

A tensor is ``GRAINS`` equal grains of its cut dimension, or experts times grains. Ranks are dealt by nested loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

GRAINS = 48

Grain = tuple[str, int, int, int]  # tensor, layer, expert, grain


@dataclass(frozen=True)
class Model:
    """Layers of a model, ``dense_layers`` of them without experts, and bytes of its tensors."""

    layers: int
    dense_layers: int
    experts: int
    is_tied: bool
    sharded_bytes: Mapping[bool, float]  # of a layer, by whether it has experts
    replicated_bytes: Mapping[bool, float]
    experts_bytes: float  # of all experts of a layer
    embedding_bytes: float
    norm_bytes: float

    def weight(self, grain: Grain) -> float:
        """Bytes of one grain."""
        tensor, layer, _, _ = grain
        has_experts = self.experts > 0 and layer >= self.dense_layers
        whole = {
            "sharded": self.sharded_bytes[has_experts],
            "replicated": self.replicated_bytes[has_experts],
            "experts": self.experts_bytes / max(self.experts, 1),
            "embedding": self.embedding_bytes,
            "head": self.embedding_bytes,
            "norm": self.norm_bytes,
        }
        return whole[tensor] / GRAINS


@dataclass(frozen=True)
class Training:
    tp: int
    cp: int
    dp: int
    pp: int
    vpp: int
    ep: int
    etp: int
    slices: int  # replicas over which every weight is cut, neighbours of one part; 1: none


@dataclass(frozen=True)
class Instances:
    tp: int
    pp: int
    dp: int
    is_spread: bool  # experts over tp and dp, else each sliced over tp
    count: int


def _cut(parts: int, part: int) -> range:
    return range(GRAINS * part // parts, GRAINS * (part + 1) // parts)


def _tensors(model: Model, layers: set[int], *, is_first: bool, is_last: bool) -> Iterator[tuple[str, int]]:
    for layer in layers:
        yield "sharded", layer
        yield "replicated", layer
        if model.experts and layer >= model.dense_layers:
            yield "experts", layer
    if is_first or (is_last and model.is_tied):
        yield "embedding", -1
    if is_last:
        yield "norm", -1
        if not model.is_tied:
            yield "head", -1


def trained(model: Model, layout: Training) -> list[set[Grain]]:
    """Grains of each training rank; ``layers`` is a multiple of the virtual stages."""
    stage_layers: dict[int, set[int]] = {stage: set() for stage in range(layout.pp)}
    each = model.layers // (layout.pp * layout.vpp)
    for layer in range(model.layers):
        stage_layers[layer // each % layout.pp].add(layer)
    found = []
    size = layout.tp * layout.cp * layout.dp
    copies = size // (layout.ep * layout.etp)
    for stage in range(layout.pp):
        dense = [(t, c + d * layout.cp) for d in range(layout.dp) for c in range(layout.cp) for t in range(layout.tp)]
        routed = list(product(range(copies), range(layout.ep), range(layout.etp)))
        for (t, replica), (copy, e, slice_) in zip(dense, routed, strict=True):
            replicas = min(layout.slices, layout.dp * layout.cp)
            expert_copies = min(layout.slices, copies)
            mine, my_copy = replica % replicas, copy % expert_copies
            grains: set[Grain] = set()
            ends = {"is_first": stage == 0, "is_last": stage == layout.pp - 1}
            for tensor, layer in _tensors(model, stage_layers[stage], **ends):
                if tensor == "experts":
                    own = range(model.experts // layout.ep * e, model.experts // layout.ep * (e + 1))
                    cut = _cut(layout.etp * expert_copies, slice_ * expert_copies + my_copy)
                    grains |= {(tensor, layer, expert, grain) for expert in own for grain in cut}
                elif tensor in ("replicated", "norm"):
                    grains |= {(tensor, layer, 0, grain) for grain in _cut(replicas, mine)}
                else:
                    grains |= {(tensor, layer, 0, grain) for grain in _cut(layout.tp * replicas, t * replicas + mine)}
            found.append(grains)
    return found


def served(model: Model, layout: Instances) -> list[set[Grain]]:
    """Grains of each rollout rank."""
    counts = [model.layers // layout.pp] * layout.pp
    for back in range(2, model.layers % layout.pp + 2):
        counts[-back] += 1
    stages, first = [], 0
    for count in counts:
        stages.append(set(range(first, first + count)))
        first += count
    one = []
    for d, p, t in product(range(layout.dp), range(layout.pp), range(layout.tp)):
        grains: set[Grain] = set()
        for tensor, layer in _tensors(model, stages[p], is_first=p == 0, is_last=p == layout.pp - 1):
            if tensor == "experts" and layout.is_spread:
                ranks, rank = layout.dp * layout.tp, d * layout.tp + t
                dealt = [model.experts // ranks + (other < model.experts % ranks) for other in range(ranks)]
                own = range(sum(dealt[:rank]), sum(dealt[: rank + 1]))
                grains |= {(tensor, layer, expert, grain) for expert in own for grain in range(GRAINS)}
            elif tensor == "experts":
                cut = _cut(layout.tp, t)
                grains |= {(tensor, layer, expert, grain) for expert in range(model.experts) for grain in cut}
            elif tensor in ("replicated", "norm"):
                grains |= {(tensor, layer, 0, grain) for grain in range(GRAINS)}
            else:
                grains |= {(tensor, layer, 0, grain) for grain in _cut(layout.tp, t)}
        one.append(grains)
    return one * layout.count


def moves(
    model: Model, holders: list[set[Grain]], wanted: list[set[Grain]], first_rollout: int, domains: list[int]
) -> list[tuple[float, float, list[float]]]:
    """For every rollout rank: bytes that it wants, that it keeps, and that it receives over each tier from the nearest holder."""
    owners: dict[Grain, list[int]] = {}
    for rank, grains in enumerate(holders):
        for grain in grains:
            owners.setdefault(grain, []).append(rank)
    found = []
    for number, grains in enumerate(wanted):
        device = first_rollout + number
        kept, received = 0.0, [0.0] * len(domains)
        for grain in grains:
            if device in owners[grain]:
                kept += model.weight(grain)
                continue
            nearest = min(
                next(tier for tier, size in enumerate(domains) if owner // size == device // size) for owner in owners[grain]
            )
            received[nearest] += model.weight(grain)
        found.append((sum(map(model.weight, grains)), kept, received))
    return found
