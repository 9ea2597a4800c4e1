"""Layer costs once per distinct layer key, of one batch or of all that a search comes to."""

from __future__ import annotations

from dataclasses import dataclass, fields
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
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.varied import varied
from cost_models.shapes.workload import Workload

Costs = TypeVar("Costs")

MOST_KEYS = 1 << 16  # that are kept, a few hundred bytes each


@dataclass(frozen=True)
class PricedKeys:
    """What is priced once per layer key ``[k]``, or gathered per strategy ``[n]``; layers of each kind.

    ``alike`` is equal where layers keep the same activations and losses the same logits.
    """

    layers: tuple[LayerCosts, ...]
    activations: tuple[LayerActivations, ...]
    edges: EdgeCosts
    savings: PairSavings | None
    alike: IntColumn


def taken(value: Costs, index: IntColumn, *, tables: bool) -> Costs:
    """The same structure with every array in it indexed; tables of parts are left out unless asked for.

    Parameters
    ----------
    value : dataclass, tuple, dict, array or None
        What to take from; the last axis of its arrays counts.
    index : IntColumn
        Which entries.
    tables : bool
        Whether dicts are kept.

    Returns
    -------
    The type of ``value``
    """
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
    """``PricedKeys`` of every strategy, ``[n]``: each part is gathered when it is first asked for, as few callers want all."""

    keys: PricedKeys
    of_row: IntColumn
    tables: bool

    @cached_property
    def layers(self) -> tuple[LayerCosts, ...]:
        """Seconds of a layer of each kind."""
        return taken(self.keys.layers, self.of_row, tables=self.tables)

    @cached_property
    def activations(self) -> tuple[LayerActivations, ...]:
        """What a layer of each kind keeps."""
        return taken(self.keys.activations, self.of_row, tables=self.tables)

    @cached_property
    def edges(self) -> EdgeCosts:
        """Seconds of embedding, head and loss."""
        return taken(self.keys.edges, self.of_row, tables=self.tables)

    @cached_property
    def savings(self) -> PairSavings | None:
        """What merged pairs of layers save."""
        return taken(self.keys.savings, self.of_row, tables=self.tables)

    @property
    def alike(self) -> IntColumn:
        """Equal where layers keep the same activations and losses the same logits."""
        return self.keys.alike[self.of_row]


def joined(first: Costs, second: Costs) -> Costs:
    """Structures without tables, one behind the other.

    Parameters
    ----------
    first : dataclass, tuple or array
        The last axis of its arrays counts.
    second : the same
        What comes behind it.

    Returns
    -------
    The type of ``first``
    """
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second], axis=-1)  # type: ignore[return-value]
    if isinstance(first, tuple):
        return tuple(joined(one, other) for one, other in zip(first, second, strict=True))  # type: ignore[return-value, call-overload]
    if first is None or isinstance(first, dict):
        return first
    return type(first)(**{f.name: joined(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)})  # type: ignore[arg-type]


Rows = dict[bytes, int]  # number of each distinct row


def numbered(columns: list[IntColumn], known: Rows) -> IntColumn:
    """A number of each row of some columns, equal for equal rows; new ones are added to ``known``.

    Parameters
    ----------
    columns : list of IntColumn, ``[n]``
        Of 64 bits each.
    known : dict
        The number of each row that was met before.

    Returns
    -------
    IntColumn, ``[n]``
        In the order in which they were met.
    """
    table = np.stack(columns, axis=1)
    rows = table.view(f"V{table.shape[1] * table.itemsize}").ravel().tolist()
    return np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.int64)


def _priced(workload: Workload, keys: LayerKeys, device: Device, network: Network, known: Rows) -> PricedKeys:
    """Prices of the keys; ``known`` numbers what layers keep."""
    kinds = workload.model.layer_kinds()
    layers = tuple(layer_costs(workload, keys, device, network, moe=kind.moe, local=kind.local) for kind in kinds)
    activations = tuple(layer_activations(workload, keys, moe=kind.moe, local=kind.local) for kind in kinds)
    kept = [column.view(np.int64) for each in activations for column in each.sums.values()]  # equal where their bits are
    kept += [keys.micro_batch_size, keys.cp, keys.tp, keys.sequence_parallel]
    stretch, merged = device.constants.hidden_stretch_fraction, keys.has(Feature.MOE_COMM_OVERLAP)
    return PricedKeys(
        layers=layers,
        activations=activations,
        edges=edge_costs(workload, keys, device, network),
        savings=pair_savings(layers, merged, stretch) if any(kind.moe for kind in kinds) else None,
        alike=numbered(kept, known),
    )


class LayerPrices:
    """Layer costs under one workload, each distinct key priced once, however many batches have it.

    Parts of costs, which a breakdown wants, are not kept. Beyond ``most_keys`` it begins anew.
    """

    def __init__(self, workload: Workload, constants: Constants, most_keys: int = MOST_KEYS) -> None:
        self.workload, self.constants, self._most_keys = workload, constants, most_keys
        self.device, self.network = Device.of(workload, constants), network_of(workload, constants)
        self._number: Rows = {}
        self._alike: Rows = {}
        self._keys: PricedKeys | None = None

    def of(self, batch: StrategyBatch) -> tuple[PricedKeys, IntColumn]:
        """Prices of all keys so far, those of a batch among them, and which of them its strategies have.

        Parameters
        ----------
        batch : StrategyBatch, ``[n]``
            At least one strategy.

        Returns
        -------
        tuple of PricedKeys, ``[k]``, and IntColumn, ``[n]``
        """
        try:
            return self._of(batch)
        except BaseException:  # an interrupt, too: keys that are numbered and not priced would be other keys' prices
            self._forget()
            raise

    def _forget(self) -> None:
        self._number, self._alike, self._keys = {}, {}, None

    def _of(self, batch: StrategyBatch) -> tuple[PricedKeys, IntColumn]:
        keys, index = layer_keys(batch)
        columns = {f.name: getattr(keys, f.name) for f in fields(keys)}
        if len(self._number) > self._most_keys:
            self._forget()
        known = len(self._number)
        numbers = numbered(list(columns.values()), self._number)
        new = np.flatnonzero(numbers >= known)  # in the order of their numbers
        if len(new):
            added = LayerKeys(**{name: column[new] for name, column in columns.items()})
            priced = _priced(self.workload, added, self.device, self.network, self._alike)
            priced = taken(priced, np.arange(len(new)), tables=False)
            self._keys = priced if self._keys is None else joined(self._keys, priced)
        assert self._keys is not None  # a batch has a key
        return self._keys, numbers[index]


def priced_keys(workload: Workload, batch: StrategyBatch, device: Device, network: Network) -> tuple[PricedKeys, IntColumn]:
    """Prices of the keys of one batch with all their parts, and which of them its strategies have.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    device : Device
        Rates of one rank under the workload's hardware and software.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.

    Returns
    -------
    tuple of PricedKeys, ``[k]``, and IntColumn, ``[n]``
    """
    keys, index = layer_keys(batch)
    return _priced(workload, keys, device, network, {}), index
