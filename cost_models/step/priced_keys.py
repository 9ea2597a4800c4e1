"""Layer costs, priced once for each distinct layer key, of one batch or of all batches of a search."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TypeVar

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import LayerActivations, layer_activations
from cost_models.layer.communication import network_of
from cost_models.layer.compute import Device
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.edges import EdgeCosts, edge_costs
from cost_models.layer.pairs import PairSavings, pair_savings
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import LayerKeys, layer_keys
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

Costs = TypeVar("Costs")

MOST_KEYS = 1 << 16  # keys to keep, a few hundred bytes each


@dataclass(frozen=True)
class PricedKeys:
    """Costs priced once for each layer key ``[k]``, or gathered for each strategy ``[n]``; tuples have one entry a kind of layer.

    ``alike`` is equal for rows whose layers keep the same activations and whose losses keep the same logits.
    """

    layers: tuple[LayerCosts, ...]
    activations: tuple[LayerActivations, ...]
    edges: EdgeCosts
    savings: PairSavings | None
    alike: IntColumn


def taken(value: Costs, index: IntColumn, *, tables: bool) -> Costs:
    """Copy of the structure with every array indexed along its last axis; dicts are left out unless ``tables`` is set."""
    if isinstance(value, np.ndarray):
        return value.take(index, axis=-1)  # type: ignore[return-value]  # several times faster than value[..., index]
    if isinstance(value, dict):
        return {name: taken(item, index, tables=tables) for name, item in value.items() if tables}  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(taken(item, index, tables=tables) for item in value)  # type: ignore[return-value]
    if value is None:
        return value
    return varied(value, **{f.name: taken(getattr(value, f.name), index, tables=tables) for f in fields(value)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class GatheredKeys:
    """``PricedKeys`` of every strategy, ``[n]``. Each part is gathered on first use, because few callers need all parts."""

    keys: PricedKeys
    of_row: IntColumn
    tables: bool

    @cached_property
    def layers(self) -> tuple[LayerCosts, ...]:
        """Time of a layer of each kind."""
        return taken(self.keys.layers, self.of_row, tables=self.tables)

    @cached_property
    def activations(self) -> tuple[LayerActivations, ...]:
        """Activation memory of a layer of each kind."""
        return taken(self.keys.activations, self.of_row, tables=self.tables)

    @cached_property
    def edges(self) -> EdgeCosts:
        """Time of embedding, head and loss."""
        return taken(self.keys.edges, self.of_row, tables=self.tables)

    @cached_property
    def savings(self) -> PairSavings | None:
        """Savings of merged pairs of layers."""
        return taken(self.keys.savings, self.of_row, tables=self.tables)

    @property
    def alike(self) -> IntColumn:
        """Indices ``[n]``, equal for rows whose layers keep the same activations and whose losses keep the same logits."""
        return self.keys.alike[self.of_row]


def joined(first: Costs, second: Costs) -> Costs:
    """Concatenate two structures along the last axis of their arrays; the structures have no tables."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second], axis=-1)  # type: ignore[return-value]
    if isinstance(first, tuple):
        return tuple(joined(one, other) for one, other in zip(first, second, strict=True))  # type: ignore[return-value, call-overload]
    if first is None or isinstance(first, dict):
        return first
    return type(first)(**{f.name: joined(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)})  # type: ignore[arg-type]


class Rows(dict[bytes, int]):
    """Numbers of distinct rows in the order of first occurrence; a new row gets the next one."""

    def __missing__(self, row: bytes) -> int:
        """Number the row."""
        number = self[row] = len(self)
        return number


def numbered(columns: list[IntColumn], known: Rows) -> IntColumn:
    """Indices ``[n]`` of rows, equal for equal rows, in the order of first occurrence.

    Parameters
    ----------
    columns : ``[n]`` each
        Of 64 bits each.
    known
        Index of each row that occurred before. New rows are added.
    """
    table = np.stack(columns, axis=1)
    rows = table.view(f"V{table.shape[1] * table.itemsize}").ravel().tolist()
    return np.fromiter(map(known.__getitem__, rows), np.int64, len(rows))


def _priced(workload: Workload, keys: LayerKeys, device: Device, network: Network, known: Rows) -> PricedKeys:
    """Price the keys; ``known`` numbers the rows of kept activations."""
    kinds = workload.model.layer_kinds()
    layers = tuple(layer_costs(workload.of_kind(kind), keys, device, network, moe=kind.moe, local=kind.local) for kind in kinds)
    activations, alike = _kept(workload, keys, known)
    stretch, merged = device.constants.hidden_stretch_fraction, keys.has(Feature.MOE_COMM_OVERLAP)
    return PricedKeys(
        layers=layers,
        activations=activations,
        edges=edge_costs(workload, keys, device, network),
        savings=pair_savings(layers, merged, stretch) if any(kind.moe for kind in kinds) else None,
        alike=alike,
    )


def _kept(workload: Workload, keys: LayerKeys, known: Rows) -> tuple[tuple[LayerActivations, ...], IntColumn]:
    """Activations of each kind of layer, and ``PricedKeys.alike``."""
    kinds = workload.model.layer_kinds()
    activations = tuple(layer_activations(workload.of_kind(kind), keys, moe=kind.moe, local=kind.local) for kind in kinds)
    kept = [column.view(np.int64) for each in activations for column in each.sums.values()]  # equal if their bits are equal
    return activations, numbered([*kept, keys.micro_batch_size, keys.cp, keys.tp, keys.sequence_parallel], known)


class LayerPrices:
    """Layer costs under one workload; each distinct key is priced once, whatever the number of batches that contain it.

    Parts of costs, which only a breakdown needs, are not kept. Beyond ``most_keys`` the cache starts empty again.
    """

    def __init__(self, workload: Workload, constants: Constants, most_keys: int = MOST_KEYS) -> None:
        self.workload, self.constants, self._most_keys = workload, constants, most_keys
        self.device, self.network = Device.of(workload, constants), network_of(workload, constants)
        self._number, self._alike = Rows(), Rows()
        self._keys: PricedKeys | None = None

    def of(self, batch: StrategyBatch) -> tuple[PricedKeys, IntColumn]:
        """Prices of all keys so far ``[k]``, including the keys of the batch, and the index of each strategy's key ``[n]``."""
        try:
            return self._of(batch)
        except BaseException:  # also an interrupt: numbered keys without a price would get other keys' prices
            self._forget()
            raise

    def _forget(self) -> None:
        self._number, self._alike, self._keys = Rows(), Rows(), None

    def _of(self, batch: StrategyBatch) -> tuple[PricedKeys, IntColumn]:
        keys, index = layer_keys(self.workload, batch)
        columns = {f.name: getattr(keys, f.name) for f in fields(keys)}
        if len(self._number) > self._most_keys:
            self._forget()
        known = len(self._number)
        numbers = numbered(list(columns.values()), self._number)
        new = np.flatnonzero(numbers >= known)  # new keys in the order of their numbers
        if len(new):
            added = LayerKeys(**{name: column[new] for name, column in columns.items()})
            priced = _priced(self.workload, added, self.device, self.network, self._alike)
            priced = taken(priced, np.arange(len(new)), tables=False)
            self._keys = priced if self._keys is None else joined(self._keys, priced)
        assert self._keys is not None  # a batch has a key
        return self._keys, numbers[index]


def priced_keys(workload: Workload, batch: StrategyBatch, device: Device, network: Network) -> tuple[PricedKeys, IntColumn]:
    """Prices of one batch's keys with all their parts ``[k]``, and the index of each strategy's key ``[n]``."""
    keys, index = layer_keys(workload, batch)
    return _priced(workload, keys, device, network, Rows()), index


def memory_keys(workload: Workload, batch: StrategyBatch) -> tuple[PricedKeys, IntColumn]:
    """Keys without times ``[k]``, for memory alone, and the index of each strategy's key ``[n]``. A formula of times fails."""
    keys, index = layer_keys(workload, batch)
    activations, alike = _kept(workload, keys, Rows())
    return PricedKeys(layers=(), activations=activations, edges=None, savings=None, alike=alike), index  # type: ignore[arg-type]
