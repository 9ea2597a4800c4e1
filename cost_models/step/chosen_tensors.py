"""Layer costs of strategies under a tensor plan, from those of layers that keep everything."""

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
    """What every tensor of each kind of the model's layers weighs and takes, under each strategy.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    batch : StrategyBatch, ``[n]``
        Strategies without recompute or swap but for their tensor plans.
    device : Device
        Rates of one rank under the workload's hardware and software.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.

    Returns
    -------
    tuple of TensorCosts, ``[n]``
        In the order of ``ModelShape.layer_kinds``.
    """
    keys, index = layer_keys(batch)
    found = []
    for kind in workload.model.layer_kinds():
        costs = tensor_costs(workload, keys, device, network, moe=kind.moe, local=kind.local)
        columns = {name: taken(getattr(costs, name), index, tables=True) for name in vars(costs) if name not in _OF_ALL}
        found.append(replace(costs, **columns))
    return tuple(found)


_OF_ALL = ("host_bytes_per_s", "stretch")  # of all strategies alike


def under_choices(
    workload: Workload,
    batch: StrategyBatch,
    priced: GatheredKeys,
    kinds: tuple[ChosenKind, ...],
    device: Device,
    network: Network,
) -> GatheredKeys:
    """The prices with a kind of layer for every choice of a tensor plan.

    What merged pairs save stays that of the layers without it: compute that a backward repeats hides nothing more.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    batch : StrategyBatch, ``[n]``
        Strategies that share a tensor plan.
    priced : GatheredKeys, ``[n]``
        Of layers that keep everything.
    kinds : tuple of ChosenKind
        Kinds of layers under the plan.
    device : Device
        Rates of one rank under the workload's hardware and software.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.

    Returns
    -------
    GatheredKeys, ``[n]``
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
