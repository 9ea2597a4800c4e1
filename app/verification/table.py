"""A verification for a person."""

from __future__ import annotations

from rich.console import Console

from app.text.terminal import plain_table
from app.verification.schemas import Row, VerificationDocument
from documents.sentences import Sentence, word

SHOWN_TENSORS = 12
NAMES = {
    "parameters": Sentence("parameters"),
    "weights": Sentence("weights"),
    "gradients": Sentence("gradients"),
    "master": Sentence("master weights"),
    "moments": Sentence("moments"),
    "kept by a layer": Sentence("kept by a layer"),
    "held between passes": Sentence("held between passes"),
    "peak": Sentence("peak"),
    "forward": Sentence("forward"),
    "optimizer": Sentence("optimizer"),
    "sent": Sentence("sent"),
}


def print_verification(console: Console, document: VerificationDocument) -> None:
    """Rank by rank, largest disagreement first."""
    console.print(
        Sentence(
            "{} ran {} pipeline ranks of this plan without data: a step of {} micro batches in {:,.0f} s (PyTorch {}).",
            document.framework,
            len(document.ranks),
            document.num_microbatches,
            document.seconds,
            document.torch or "",
        ),
        markup=False,
    )
    for rank in document.ranks:
        console.print()
        table = plain_table(
            "count", ">counted", ">predicted", ">ratio", "", title=Sentence("pipeline rank {}", rank.pipeline_rank)
        )
        for row in rank.rows:
            ratio = "-" if row.ratio is None else f"{row.ratio:.4f}"
            table.add_row(_name(row), _number(row, row.counted), _number(row, row.predicted), ratio, "" if row.within else "!")
        console.print(table)
        for check in rank.checks:
            if not check.passed:
                console.print(Sentence("The run itself is in doubt: {}", check.sentence), markup=False)
        if rank.left_out:
            largest = rank.left_out[0]
            total = sum(row.counted for row in rank.left_out)
            console.print(
                Sentence("Not priced: {:,.3g} MB sent in small calls, the most as {}.", total / 1e6, word(largest.detail)),
                markup=False,
            )
    for kind, tensors in document.layers.items():
        console.print()
        table = plain_table("tensor", ">bytes", title=Sentence("kept by a layer ({}), as counted", kind))
        for tensor in tensors[:SHOWN_TENSORS]:
            table.add_row(tensor.label, f"{tensor.bytes:,}")
        console.print(table)
    console.print()
    wrong = sum(not row.within for rank in document.ranks for row in rank.rows)
    if document.passed:
        console.print(
            Sentence("Every count agrees: integers are equal, bytes within 0.5 %, held bytes within 1 %, peaks within 3 %.")
        )
    elif wrong:
        console.print(Sentence("{} counts disagree.", wrong))
    else:
        console.print(Sentence("The counts agree, but the run itself failed a check."))


def _name(row: Row) -> str:
    name = NAMES[row.quantity]
    return name if not row.detail else Sentence("{} ({})", name, word(row.detail))


def _number(row: Row, value: float) -> str:
    if row.unit == "FLOPs":
        return f"{value:.6e} FLOP"
    return f"{value:,.0f}" if row.unit == "parameters" else f"{value / 1e6:,.3f} MB"
