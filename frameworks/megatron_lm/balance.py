"""What balances the router, as arguments of the Megatron family [megatron-0.12, router.py; megatron-0.19, router.py]."""

from __future__ import annotations

from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.workload import Workload
from frameworks.megatron_lm.arguments import BARE
from frameworks.model_facts import Arguments
from frameworks.release import Release
from frameworks.router_balance import balance_note, chosen_balance, loss_for

LOSS, BIAS, FORCE = "moe-router-load-balancing-type", "moe-router-enable-expert-bias", "moe-router-force-load-balancing"
LOSSES = {
    "aux_loss": RouterBalance.MICRO_BATCH,
    "seq_aux_loss": RouterBalance.SEQUENCE,
    "global_aux_loss": RouterBalance.LOSS_FREE,
}


def balance_arguments(release: Release, workload: Workload) -> Arguments:
    """What tells the release to balance as the job says, where that is not usual of the model."""
    balance = chosen_balance(workload)
    if balance is RouterBalance.FORCED and FORCE in release.arguments:
        return {FORCE: BARE}
    loss = loss_for(release, LOSS, LOSSES, balance)
    return {} if loss is None else {LOSS: loss}


def balance_notes(name: str, release: Release, workload: Workload) -> tuple[str, ...]:
    """What the arguments leave to the user."""
    told = "".join(f"--{argument}" for argument in balance_arguments(release, workload))
    return balance_note(name, workload, told=told, weight="--moe-aux-loss-coeff")
