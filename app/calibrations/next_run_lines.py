"""The runs to make next, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from app.calibrations.next_run import NextRun
from documents.quantities import percent, seconds
from documents.sentences import Sentence

SECONDS_PER_HOUR = 3600


def print_next_runs(console: Console, runs: Sequence[NextRun]) -> None:
    """Print the next runs, a line for each, and the uncertainty after them; nothing without runs."""
    if not runs:
        return
    for number, run in enumerate(runs, start=1):
        cost = Sentence("{:,.2g} device-hours", run.device_s / SECONDS_PER_HOUR)
        console.print(
            Sentence("  {}. {}: {} steps of {}, {}", number, run.title, run.num_steps, seconds(run.step_time_s), cost),
            markup=False,
        )
    before, after = runs[0].spread_before, runs[-1].spread_after
    console.print(
        Sentence(
            "  `meshplan calibrate` on them leaves {} of the {} that constants and site are off by; "
            "`meshplan calibrate --suggest JOB --json` has them as jobs.",
            percent(after),
            percent(before),
        ),
        markup=False,
    )
