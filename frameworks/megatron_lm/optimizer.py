"""Arguments of the Megatron family for the optimizer [megatron-0.19, arguments.py; mindspeed, muon_optimizer_feature.py]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cost_models.shapes.optimizers import ADAM, NS_STEPS, OPTIMIZERS, Optimizer, TpMode
from cost_models.shapes.workload import Workload
from frameworks.model_facts import Arguments
from frameworks.release import Release

NAME, TP_MODE, STEPS = "optimizer", "muon-tp-mode", "muon-num-ns-steps"


def optimizer_arguments(workload: Workload) -> Arguments:
    """Arguments of another optimizer than the default."""
    optimizer = workload.training.optimizer
    if optimizer == ADAM:
        return {}
    of_muon: Arguments = {TP_MODE: optimizer.tp_mode.value, STEPS: optimizer.ns_steps}
    return {NAME: optimizer.name} | (of_muon if optimizer.rules.orthogonalises else {})


def read_optimizer(release: Release, value: Callable[[str], Any]) -> Optimizer:
    """The optimizer of arguments; ``value`` gives that of one. A name that is not priced counts as the default."""
    name = str(value(NAME))
    if name not in OPTIMIZERS:
        return ADAM
    if not OPTIMIZERS[name].orthogonalises or TP_MODE not in release.arguments:
        return Optimizer(name)
    return Optimizer(name, TpMode(str(value(TP_MODE))), int(value(STEPS) or NS_STEPS))
