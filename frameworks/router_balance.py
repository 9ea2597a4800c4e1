"""What balances the router, in words of launch arguments: the losses that span so much, and what no release can be told."""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.release import Release, accepts

# A router has these without an argument: as the model is, or a loss that nobody says more of.
_SAID_ALREADY = frozenset({RouterBalance.AUXILIARY_LOSS, RouterBalance.GROUP})


def chosen_balance(workload: Workload) -> RouterBalance | None:
    """The balance of a job that another one takes the place of in its model; None: the usual one, counts or a factor."""
    spread, usual, moe = workload.training.expert_spread, workload.model.expert_spread(), workload.model.moe
    if moe is None or moe.capacity_factor or spread is None or usual is None or spread.balance is usual.balance:
        return None
    return None if spread.balance in _SAID_ALREADY else spread.balance


def loss_for(release: Release, argument: str, losses: Mapping[str, RouterBalance], balance: RouterBalance | None) -> str | None:
    """The value of ``argument`` that says a balance, if the release takes one."""
    if argument not in release.arguments:
        return None
    return next(
        (name for name, is_it in losses.items() if is_it is balance and accepts(release.arguments[argument], (name,))), None
    )


def balance_note(name: str, workload: Workload, *, told: str, weight: str) -> tuple[str, ...]:
    """A sentence about a balance that ``told`` says and ``weight`` weighs, or that nothing says."""
    balance = chosen_balance(workload)
    if balance is None:
        return ()
    if not told:
        return (
            Sentence("{} has no argument for router_balance {}: experts are priced as even as it makes them.", name, balance),
        )
    return () if balance is RouterBalance.FORCED else (Sentence("{} weighs the loss of {}, and is yours to give.", weight, told),)
