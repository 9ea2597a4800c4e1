"""Arguments of the Megatron family that balance the router [megatron-0.12, router.py; megatron-0.19, router.py]."""

from __future__ import annotations

from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.workload import Workload
from frameworks.megatron_lm.arguments import BARE
from frameworks.model_facts import Arguments
from frameworks.release import Release
from frameworks.router_balance import balance_note, chosen_balance, loss_for

LOSS, BIAS, FORCE = "moe-router-load-balancing-type", "moe-router-enable-expert-bias", "moe-router-force-load-balancing"
FORCING = (FORCE, "fix-router")  # the second is MindSpeed's [mindspeed, moe_fix_router.py]
LOSSES = {
    "aux_loss": RouterBalance.MICRO_BATCH,
    "seq_aux_loss": RouterBalance.SEQUENCE,
    "global_aux_loss": RouterBalance.LOSS_FREE,
}


def balance_arguments(release: Release, workload: Workload) -> Arguments:
    """Arguments for the job's balancing method, if it differs from the model's default."""
    balance = chosen_balance(workload)
    if balance is RouterBalance.FORCED and FORCE in release.arguments:
        return {FORCE: BARE}
    loss = loss_for(release, LOSS, LOSSES, balance)
    return {} if loss is None else {LOSS: loss}


def balance_notes(name: str, release: Release, workload: Workload) -> tuple[str, ...]:
    """Notes on the settings of the balancing method that the user must add."""
    told = "".join(f"--{argument}" for argument in balance_arguments(release, workload))
    return balance_note(name, workload, told=told, weight="--moe-aux-loss-coeff")
