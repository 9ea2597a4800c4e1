"""Layer costs of strategies under a tensor plan, derived from layers that keep everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.layer.compute import Device
from cost_models.layer.tensors import TensorCosts, chosen_activations, chosen_costs, tensor_costs
from cost_models.network.tiers import Network
from cost_models.pipeline.choices import ChosenKind
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.priced_keys import GatheredKeys, PricedKeys, taken


def tensors_by_kind(workload: Workload, batch: StrategyBatch, device: Device, network: Network) -> tuple[TensorCosts, ...]:
    """Bytes and recompute time of every tensor, for each kind of layer and each strategy, ``[n]``.

    Kinds are in the order of ``ModelShape.layer_kinds``. The strategies swap nothing but by their tensor plans, and
    recompute modules alone beside them.
    """
    keys, index = layer_keys(workload, batch)
    found = []
    for kind in workload.model.layer_kinds():
        costs = tensor_costs(workload.of_kind(kind), keys, device, network, moe=kind.moe, local=kind.local)
        columns = {name: taken(getattr(costs, name), index, tables=True) for name in vars(costs) if name not in _OF_ALL}
        found.append(replace(costs, **columns))
    return tuple(found)


_OF_ALL = ("host_bytes_per_s", "stretch")  # equal for all strategies


def under_choices(
    workload: Workload,
    batch: StrategyBatch,
    priced: GatheredKeys,
    kinds: tuple[ChosenKind, ...],
    device: Device,
    network: Network,
) -> GatheredKeys:
    """The priced layers with one kind of layer for every choice of a tensor plan, ``[n]``.

    Savings of merged pairs stay as for layers without the plan: recomputed work hides nothing more.

    Parameters
    ----------
    batch
        Strategies that share a tensor plan.
    priced
        Layers that keep everything.
    kinds
        Kinds of layers under the plan.
    """
    tensors = tensors_by_kind(workload, batch, device, network)
    keys = PricedKeys(
        layers=tuple(chosen_costs(priced.layers[kind], tensors[kind], choice) for kind, choice in kinds),
        activations=tuple(chosen_activations(priced.activations[kind], tensors[kind], choice) for kind, choice in kinds),
        edges=priced.edges,
        savings=priced.savings,
        alike=priced.alike,
    )
    return GatheredKeys(keys, np.arange(len(batch)), priced.tables)
