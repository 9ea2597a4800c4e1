"""The frontier of a layer: the choices among its tensors that no other choice beats in bytes and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.tensors import ROTATED, TensorCosts, working_bytes
from cost_models.shapes.tensors import Tensor, TensorChoice

Floats = NDArray[np.float64]
Masks = NDArray[np.int64]
Counts = NDArray[np.int64]

BLOCK = 128  # choices that are compared with the frontier at once
SMALLEST = 1e-12  # relative; numbers that differ by less are equal


@dataclass(frozen=True)
class Options:
    """Options ``[option]`` of a part, for a micro batch: bytes that each keeps, its seconds, and what a layer needs in use."""

    kept_bytes: Floats
    seconds: Floats
    working_bytes: Floats

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True)
class LayerOptions(Options):
    """Choices among the tensors of a layer. ``recompute`` and ``swap`` ``[option]`` are sets of tensors."""

    recompute: Masks
    swap: Masks

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> LayerOptions:
        """The chosen ones."""
        kept, seconds, working = self.kept_bytes[rows], self.seconds[rows], self.working_bytes[rows]
        return LayerOptions(kept, seconds, working, self.recompute[rows], self.swap[rows])

    def of_layers(self, number: int) -> LayerOptions:
        """One choice for all of ``number`` layers of a virtual stage, which run one after the other."""
        return replace(self, kept_bytes=number * self.kept_bytes, seconds=number * self.seconds)

    def choice(self, row: int) -> TensorChoice:
        """One of them."""
        return TensorChoice(Tensor(int(self.recompute[row])), Tensor(int(self.swap[row])))


def unbeaten(*columns: Floats) -> NDArray[np.int64]:
    """Rows that no other row matches or beats in every column, less being better. Of equal rows one stays."""
    table = np.stack(columns)
    scale = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-300)
    table = np.round(table / scale / SMALLEST)
    order = np.lexsort(table[::-1])
    standing = np.empty((len(table), 0))
    rows = np.empty(0, dtype=np.int64)
    for first in range(0, len(order), BLOCK):
        block = order[first : first + BLOCK]
        values = table[:, block]
        if standing.shape[1]:
            beaten = (standing[1:, :, None] <= values[1:, None, :]).all(axis=0).any(axis=0)  # sorted by the first column
            block, values = block[~beaten], values[:, ~beaten]
        among = (values[1:, :, None] <= values[1:, None, :]).all(axis=0)
        kept = ~np.triu(among, 1).any(axis=0)
        rows = np.concatenate([rows, block[kept]])
        standing = np.concatenate([standing, values[:, kept]], axis=1)
    return rows


def layer_options(tensors: TensorCosts, transient_bytes: float) -> LayerOptions:
    """The choices of one layer, from the first column of ``tensors``; ``transient_bytes`` are needed under each.

    The frontier grows tensor by tensor, and beaten choices are dropped at once. Only the rotary positions tie tensors together.
    The result is exact.
    """
    total = float(tensors.bytes_of(~Tensor(0))[0])
    kept, seconds, moved, host = np.array([total]), np.zeros(1), np.zeros(1), np.zeros(1)
    again = swap = np.zeros(1, dtype=np.int64)
    for states in _states(tensors):
        columns = np.array(states)
        grown = [
            (base[:, None] + more[None, :]).ravel()
            for base, more in zip((kept, seconds, moved, host), columns.T[:4], strict=True)
        ]
        masks = [
            (base[:, None] | more[None, :].astype(np.int64)).ravel()
            for base, more in zip((again, swap), columns.T[4:], strict=True)
        ]
        rows = unbeaten(*grown)
        (kept, seconds, moved, host), (again, swap) = (column[rows] for column in grown), (mask[rows] for mask in masks)
    copies = tensors.copies(moved)
    swapped = sum(np.where(swap & int(tensor), float(held[0]), 0.0) for tensor, held in tensors.bytes.items())
    device_s = seconds + copies.backward_s
    seconds = copies.forward_s + device_s + tensors.host_wait_s(device_s, host)
    working = transient_bytes + working_bytes(total - kept - swapped, moved)
    return LayerOptions(np.maximum(kept, 0.0), seconds, working, again, swap)


State = tuple[float, float, float, float, int, int]


def _states(tensors: TensorCosts) -> list[list[State]]:
    """(bytes freed, seconds, bytes copied, host seconds, recompute, swap) of each state, for tensors that share a price.

    Host seconds are 0 where the host stays ahead of the device under any choice: then they decide nothing.
    """
    waits = float(tensors.dispatched_s(~Tensor(0))[0]) > float(tensors.spare_s[0])
    tied = [tensor for tensor in tensors.bytes if tensor in ROTATED]
    groups = [tied] if tied else []
    groups += [[tensor] for tensor in tensors.bytes if tensor not in ROTATED]
    found = []
    for group in groups:
        ways = [("keep", "swap", "again") if tensor in tensors.again_s else ("keep", "swap") for tensor in group]
        found.append([_state(tensors, dict(zip(group, way, strict=True)), waits=waits) for way in product(*ways)])
    return found


def _state(tensors: TensorCosts, ways: dict[Tensor, str], *, waits: bool) -> State:
    sets = {name: Tensor(sum(t for t, way in ways.items() if way == name)) for name in ("again", "swap")}
    gone, moved = float(tensors.bytes_of(sets["again"] | sets["swap"])[0]), float(tensors.copied_bytes(sets["swap"])[0])
    host_s = float(tensors.dispatched_s(sets["again"])[0]) if waits else 0.0
    return -gone, float(tensors.recomputed_s(sets["again"])[0]), moved, host_s, int(sets["again"]), int(sets["swap"])
