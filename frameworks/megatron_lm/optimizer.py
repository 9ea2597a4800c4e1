"""Arguments of the Megatron family for the optimizer [megatron-0.19, arguments.py; mindspeed, muon_optimizer_feature.py]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cost_models.shapes.optimizers import ADAM, BF16_MOMENT_TYPES, NS_STEPS, OPTIMIZERS, Optimizer, StateTypes, TpMode
from cost_models.shapes.workload import Workload
from frameworks.megatron_lm import host_optimizer
from frameworks.model_facts import Arguments
from frameworks.release import Release

NAME, TP_MODE, STEPS = "optimizer", "muon-tp-mode", "muon-num-ns-steps"
TYPED = host_optimizer.AWARE
MAIN_GRADS = "main-grads-dtype"
STATES = ("main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype")


def optimizer_arguments(workload: Workload) -> Arguments:
    """Arguments of another optimizer than the default."""
    optimizer = workload.training.optimizer
    if optimizer.name == ADAM.name:
        return {}
    of_muon: Arguments = {TP_MODE: optimizer.tp_mode.value, STEPS: optimizer.ns_steps}
    return {NAME: optimizer.name} | (of_muon if optimizer.rules.orthogonalises else {})


def type_arguments(workload: Workload) -> Arguments:
    """Arguments of an Adam whose states have types of their own."""
    types = workload.training.optimizer.state_types
    if types is None:
        return {}
    return {TYPED: (), **dict(zip(STATES, (types.main_params, types.exp_avg, types.exp_avg_sq), strict=True))}


def is_typed(release: Release) -> bool:
    """Whether types of states are priced in a release. Core 0.12 has fewer of them, and holds master weights in any recipe."""
    moment = release.arguments.get(STATES[1])
    return moment is not None and "bf16" in moment.choices


def types_on_host(release: Release, value: Callable[[str], Any]) -> tuple[str, ...]:
    """Arguments of types in a script whose Adam runs on the host, where they are not priced."""
    if not is_typed(release) or not value(host_optimizer.SWITCH):
        return ()
    stated = [str(value(name)) for name in STATES]
    if StateTypes(*stated) == BF16_MOMENT_TYPES:
        return ()
    return tuple(name for name, each in zip(STATES, stated, strict=True) if each != "fp32")


def read_optimizer(release: Release, value: Callable[[str], Any]) -> Optimizer:
    """The optimizer of arguments; ``value`` gives that of one. A name that is not priced counts as the default."""
    name = str(value(NAME))
    if name not in OPTIMIZERS:
        return ADAM
    if name == ADAM.name:
        return Optimizer(state_types=read_types(release, value))
    if not OPTIMIZERS[name].orthogonalises or TP_MODE not in release.arguments:
        return Optimizer(name)
    return Optimizer(name, TpMode(str(value(TP_MODE))), int(value(STEPS) or NS_STEPS))


def read_types(release: Release, value: Callable[[str], Any]) -> StateTypes | None:
    """Types of states, without both moments in BF16 beside FP32 master weights, which are the switch ``BF16_MOMENTS``."""
    if not is_typed(release) or value(host_optimizer.SWITCH):
        return None
    types = StateTypes(*(str(value(name)) for name in STATES))
    return None if not value(TYPED) or types == BF16_MOMENT_TYPES else types
