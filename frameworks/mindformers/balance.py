"""Options of MindFormers that balance the router [mindformers-1.8, router.py]."""

from __future__ import annotations

from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence
from frameworks.mindformers.reader import Reading
from frameworks.mindformers.table import MODEL, RELEASE
from frameworks.options import Options
from frameworks.router_balance import balance_note, chosen_balance, loss_for

LOSS, WEIGHT = f"{MODEL}.moe_router_load_balancing_type", f"{MODEL}.moe_aux_loss_coeff"
LOSSES = {
    "seq_aux_loss": RouterBalance.SEQUENCE,
    "sub_seq_aux_loss": RouterBalance.SEQUENCE,  # balances a device's part of the sequence
    "gbs_aux_loss": RouterBalance.LOSS_FREE,
}


def balance_options(workload: Workload) -> Options:
    """Options for the job's balancing method, if it differs from the model's default."""
    loss = loss_for(RELEASE, LOSS, LOSSES, chosen_balance(workload))
    return {} if loss is None else {LOSS: loss}


def balance_notes(workload: Workload) -> tuple[str, ...]:
    """Notes on the settings of the balancing method that the user must add."""
    return balance_note(
        Sentence("MindFormers {}", RELEASE.version), workload, told=", ".join(balance_options(workload)), weight=WEIGHT
    )


def read_balance(reading: Reading, model: ModelShape) -> str | None:
    """The balancing method, if a loss has a weight and the model has no bias that balances already."""
    if model.moe is None or model.constants.router.expert_bias or not reading.value(WEIGHT):
        return None
    return LOSSES.get(str(reading.value(LOSS)))
