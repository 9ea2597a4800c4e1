"""Progress of a search, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.language.choice import said
from app.text.terminal import messages
from documents.printable import printable
from documents.quantities import seconds
from documents.sentences import Sentence, word
from search.session.progress import ENUMERATE, EXPLAIN, PRICE, REFINE, SAMPLE, SIMULATE
from search.session.progress import Progress as SearchProgress

if TYPE_CHECKING:
    from app.sweeps.service import SweepProgress
    from search.post_training.search import PlacementProgress

SECONDS_BETWEEN_LINES = 10.0
MANY_STRATEGIES = 10_000_000  # of such a lattice the first line comes at once: its search may be cut


_DOING = {
    ENUMERATE: "enumerating and bounding",
    SIMULATE: "simulating",
    SAMPLE: "sampling",
    REFINE: "refining",
    PRICE: "pricing",
    EXPLAIN: "explaining",
}


def _text(progress: SearchProgress) -> str:
    tried = {SIMULATE: progress.simulated, SAMPLE: progress.sampled, REFINE: progress.sampled}.get(progress.phase)
    doing = word(_DOING[progress.phase]) if tried is None else Sentence("{} ({:,})", word(_DOING[progress.phase]), tried)
    best = Sentence(", best {} a step", seconds(progress.best_step_time_s)) if progress.best_step_time_s else ""
    counted = progress.enumerated, progress.legal, progress.fits_memory, best
    if progress.phase == ENUMERATE and progress.lattice is not None:
        return Sentence("{} a lattice of {:,}: {:,} enumerated, {:,} legal, {:,} fit{}", doing, progress.lattice, *counted)
    return Sentence("{}: {:,} enumerated, {:,} legal, {:,} fit{}", doing, *counted)


def _text_of_sweep(progress: SweepProgress) -> str:
    return Sentence("{} of {} points; {}", progress.num_done, progress.num_points, _text(progress))


@contextmanager
def search_progress() -> Iterator[Callable[[SearchProgress], None]]:
    """Show a bar on a terminal; elsewhere an occasional line, none for a short search."""
    with _shown(_text) as show:
        yield show


@contextmanager
def sweep_progress() -> Iterator[Callable[[SweepProgress], None]]:
    """Like ``search_progress``, with the finished points."""
    with _shown(_text_of_sweep) as show:
        yield show


def _text_of_placements(progress: PlacementProgress) -> str:
    best = Sentence(", best {} a step", seconds(progress.best_step_time_s)) if progress.best_step_time_s else ""
    return Sentence("{} of {} splits: {:,} choices priced{}", progress.num_done, progress.num_splits, progress.enumerated, best)


@contextmanager
def placement_progress() -> Iterator[Callable[[PlacementProgress], None]]:
    """Like ``search_progress``, with the finished splits."""
    with _shown(_text_of_placements) as show:
        yield show


@contextmanager
def _shown(text: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
    if not sys.stderr.isatty():
        yield _lines(text)
        return
    columns = (BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=messages(), transient=True) as bar:
        task = bar.add_task(said("starting"), total=1.0)

        def show(progress: Any) -> None:
            bar.update(task, completed=progress.done_fraction, description=said(text(progress)))

        yield show


def _lines(text: Callable[[Any], str]) -> Callable[[Any], None]:
    due_s = SECONDS_BETWEEN_LINES

    def show(progress: Any) -> None:
        nonlocal due_s
        is_first = due_s == SECONDS_BETWEEN_LINES and (getattr(progress, "lattice", None) or 0) >= MANY_STRATEGIES
        if progress.elapsed_s >= due_s or is_first:
            due_s = progress.elapsed_s + SECONDS_BETWEEN_LINES
            sys.stderr.write(f"{progress.done_fraction:.0%}: {printable(said(text(progress)))}\n")

    return show
