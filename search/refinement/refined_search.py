"""A search of the lattice followed by a refinement of its best plans; saved and continued as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cost_models.step.priced_keys import LayerPrices
from documents.sentences import Sentence
from search.errors import SearchError
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import placed_values, strategy_from_values
from search.ranking.leaderboard import RankedStrategy
from search.refinement.draft_choices import ELITES, DraftChoices
from search.refinement.refinement_report import reported
from search.refinement.refinement_trials import RefinementSettings, Stage
from search.results.search_result import SearchResult
from search.session.progress import REFINE, Clock, Progress
from search.session.runner import SteppedSearch
from search.trials.trial import Trial

SHARE = 0.1  # share of the progress that the refinement takes


class RefinedSearch:
    """The search ``whole``, then trials around the best plans of ``lattice``, which is ``whole`` or its ranked part.

    ``request.options`` of the lattice give the number of trials. ``checkpoint`` and ``trials`` (as JSON) continue a search of the
    same request.
    """

    def __init__(
        self,
        whole: SteppedSearch,
        lattice: LatticeSearch,
        *,
        checkpoint: Mapping[str, Any] | None = None,
        trials: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        request, options = lattice.request, lattice.request.options
        self._whole, self._lattice = whole, lattice
        self._space, self._limits = request.space, request.limits
        self._settings = RefinementSettings(options.refine, options.seed, options.refine_front)
        self._now: Clock = request.clock or (lambda: 0.0)
        self._prices = LayerPrices(lattice.workload, lattice.constants)
        self._elites: tuple[RankedStrategy, ...] = ()
        self._stage: Stage | None = None
        self._elapsed_s = 0.0
        if checkpoint is not None:
            self._continue(checkpoint, trials)

    @staticmethod
    def part(checkpoint: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The checkpoint of ``whole``. Raises ``SearchError`` for the checkpoint of another kind of search."""
        if checkpoint is None:
            return None
        try:
            found: Mapping[str, Any] = checkpoint["whole"]
        except (KeyError, TypeError):
            raise SearchError(Sentence("checkpoint: not one that a search of this version with a refinement wrote.")) from None
        return found

    def _continue(self, checkpoint: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> None:
        saved = checkpoint.get("elites")
        if saved is None:
            return
        try:
            self._elapsed_s = float(checkpoint["elapsed_s"])
            elites = tuple(
                RankedStrategy(strategy_from_values(values, layout), float(seconds), float(peak))
                for values, layout, seconds, peak in saved
            )
            self._begin(elites, trials)
        except (KeyError, TypeError, ValueError) as error:
            raise SearchError(Sentence("checkpoint: not one that a search of this version wrote ({}).", error)) from None

    def _begin(self, elites: Sequence[RankedStrategy], trials: Sequence[Mapping[str, Any]] = ()) -> None:
        lattice = self._lattice
        self._elites = tuple(elites)
        choices = DraftChoices(lattice.workload, self._space, self._limits, [elite.strategy for elite in elites])
        self._stage = Stage(self._prices, lattice.simulator, choices, elites, self._settings, trials)

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials of the refinement so far."""
        return () if self._stage is None else self._stage.trials

    def advance(self) -> bool:
        """One more step of the lattice, or one more batch of trials once that has ended with a plan."""
        if self._stage is None and self._whole.advance():
            return True
        begun_s = self._now()
        if self._stage is None:
            elites = self._lattice.ranked()[:ELITES]
            if elites:
                self._begin(elites)
            self._elapsed_s += self._now() - begun_s
            return bool(elites)
        is_more = self._stage.advance()
        self._elapsed_s += self._now() - begun_s
        return is_more

    @property
    def progress(self) -> Progress:
        """The progress of the lattice, then of the trials, with the best time of both."""
        first = self._whole.progress
        if self._stage is None:
            return replace(first, done_fraction=(1.0 - SHARE) * first.done_fraction)
        tried = len(self._stage.trials) / self._settings.max_trials
        times = [time_s for time_s in (first.best_step_time_s, self._stage.best_s) if time_s is not None]
        return replace(
            first,
            phase=REFINE,
            done_fraction=1.0 - SHARE * (1.0 - tried),
            best_step_time_s=min(times, default=None),
            elapsed_s=first.elapsed_s + self._elapsed_s,
            sampled=len(self._stage.trials),
        )

    def checkpoint(self) -> dict[str, Any]:
        """The state of the lattice, and the elites. The trials are saved separately."""
        elites = [(*placed_values(one.strategy), one.step_time_s, one.peak_memory_bytes) for one in self._elites]
        begun = {} if self._stage is None else {"elites": elites, "elapsed_s": self._elapsed_s}
        return {"whole": self._whole.checkpoint(), **begun}

    def result(self, stopped_by: str | None = None) -> SearchResult:
        """The result of the lattice, with the refinement."""
        stage = self._stage
        found = self._whole.result(stopped_by if stage is None else None)
        if stage is None:
            return found
        begun_s = self._now()
        refinement = reported(self._prices, self._lattice.simulator, stage, self._elites[0], stopped_by)
        refine_s = self._elapsed_s + self._now() - begun_s
        timing = replace(
            found.timing, refine_s=(found.timing.refine_s or 0.0) + refine_s, total_s=found.timing.total_s + refine_s
        )
        return replace(found, timing=timing, refinement=refinement)
