"""The exhaustive search: all legal strategies are priced in closed form, and those that could be best are simulated.

Nothing is sampled. Memory is bounded: one chunk, the leaderboard and the open candidates. A search that is too large for its time
limit is cut, and the result says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate_priced
from documents.sentences import Sentence
from frameworks.target import ANY
from search.executors.executor import SERIAL, Executor, Piece, work_off
from search.exhaustive.chunk_pipeline import ChunkPricing, ChunkRecipe, climbed_in, found_in
from search.exhaustive.chunk_queue import MOST_AHEAD, MOST_QUEUED, ChunkResult, QueuedChunk, num_known
from search.exhaustive.first_plans import LONG, MOST_PIPELINES, first_plans
from search.exhaustive.lattice_state import Incumbents, LatticeState
from search.exhaustive.layer_climb import climbed
from search.exhaustive.open_candidates import OpenCandidates, simulated_rows
from search.heartbeat import beat
from search.objectives.objective import Criterion
from search.placement.placed_pricing import Pricer
from search.placement.placer import placements_text
from search.plans.estimator import Estimator
from search.plans.plan import DeploymentPlan, recommended_of
from search.ranking.leaderboard import Leaderboard, RankedStrategy, Scored, fastest_placed, joined
from search.ranking.proof import Proof
from search.results.result_builder import ResultBuilder
from search.results.search_result import Counts, SearchResult, Timing, listed_rejections
from search.session.progress import ENUMERATE, SEARCHED, SIMULATE, Clock, Progress, ProgressCallback
from search.session.request import MOST_CLIMBED, SearchRequest
from search.session.runner import check_time_limit, explained_result, run_to_end
from search.space.enumeration import Chunk, Rejections, charge_illegal, chunks
from search.space.lattice_size import lattice_size
from search.tensor_choice.tensor_refinement import TensorRefinement, refined
from search.trials.trial import Trial

GRAIN = Sentence("the values of space.dimensions; a value between them is outside of the proof")
SHOWN_AT_ONCE = 256  # rows that are simulated for display alone: a second


class LatticeSearch:
    """A search of the lattice, a chunk at a time; between chunks it can be saved and continued by another process.

    ``state`` continues a search of the same request where it was saved: the result equals that of one run except in timings.
    ``refused_by``: only rows that this target refuses are considered. ``executor`` takes chunks and the last moves of layers;
    the result is the same. ``pricer`` prices a batch (as ``cost_models.step.composition.estimate_priced``), ``simulator`` one
    of candidates (as ``cost_models.simulation.step_times.simulate``).
    """

    trials: Sequence[Trial] = ()  # a lattice is counted, not listed
    least_rows = 4096  # legal rows of the first chunk from which good plans are looked for before the enumeration

    def __init__(
        self,
        request: SearchRequest,
        *,
        state: LatticeState | None = None,
        refused_by: str | None = None,
        executor: Executor = SERIAL,
        pricer: Pricer = estimate_priced,
        simulator: Estimator = simulate,
    ) -> None:
        self.request = request
        self.workload, self.constants = request.workload, request.constants
        self.baseline, self._criteria = request.baseline, request.criteria
        self.state = state or LatticeState(Leaderboard(request.criterion, request.top), candidates=OpenCandidates(request.top))
        self._builder = ResultBuilder(
            request.workload,
            request.space,
            request.constants,
            simulator,
            request.objective,
            request.paired_error,
            request.criteria,
            request.limits,
            request.published,
        )
        self.simulator = simulator
        self._max_simulations, self._refines = request.options.max_simulations, request.options.by_tensor
        self._now: Clock = request.clock or (lambda: 0.0)
        self._started_s = self._now() - self.state.elapsed_s
        self._recipe = ChunkRecipe(request.workload, request.space, request.constants, self._proves_by_time, pricer, refused_by)
        self._pricing = ChunkPricing(self._recipe)
        self._stream = self._continued()
        self._size = lattice_size(request.workload, request.space)
        self._climbs: dict[RankedStrategy, Piece[RankedStrategy]] = {}
        self._has_begun = False
        self._executor, self._entered = executor, deque[QueuedChunk]()
        self._final: tuple[Scored | None, tuple[RankedStrategy, ...]] | None = None

    def _begin(self) -> None:
        """The times that the first chunks must beat: one that is known from elsewhere, or those of good plans."""
        state, begun_s = self.state, self._now()
        if self._proves_by_time and not state.num_chunks:
            if not np.isfinite(state.bar_s) and self._recipe.refused_by is None:
                state.first = self._first_plans()
            state.history = [Incumbents(state.bar_s, state.history[-1].least_bytes)]
        state.price_s += self._now() - begun_s

    def _first_plans(self) -> Scored | None:
        """Good plans of the first pipelines, or of all for a long list, in one step: no limit ends it earlier.

        ``None`` where the lattice is so small that looking for them takes as long as it saves.
        """
        batches = self._legal_batches()
        first = next(batches, None)
        if first is None or len(first) < self.least_rows:
            return None
        most = None if self.request.top >= LONG else MOST_PIPELINES
        return first_plans(islice(chain([first], batches), most), self._pricing, self.simulator, self.request.top)

    def _legal_batches(self) -> Iterator[StrategyBatch]:
        """The legal rows of each chunk that has some."""
        for chunk in chunks(self.workload, self.request.space, Rejections()):
            batch = charge_illegal(self.workload, chunk.batch, self._pricing.rules, Rejections())
            batch = self._pricing.placer.charge_unplaceable(batch, Rejections())
            beat()
            if len(batch):
                yield batch

    def _continued(self) -> Iterator[tuple[Chunk, Rejections]]:
        """Chunks that are still to be priced, with their rejections. Earlier chunks are enumerated again, which is cheap."""
        rejected = Rejections()
        for number, chunk in enumerate(chunks(self.workload, self.request.space, rejected)):
            found = rejected.taken()
            if number >= self.state.num_chunks:
                yield chunk, found

    def advance(self) -> bool:
        """Price one more chunk or simulate more candidates; ``False`` once there are none."""
        state, now = self.state, self._now
        if not self._has_begun:
            self._begin()
            self._has_begun = True
        self._look_ahead()
        if not self._entered:
            state.is_enumerated = 1
            candidates = state.candidates.next_batch(self._max_simulations - state.candidates.num_simulated)
            if candidates is not None:
                self._settle(candidates)
            state.elapsed_s = now() - self._started_s
            return candidates is not None
        begun_s = now()
        first = self._entered[0]
        if first.piece is None or first.piece.is_done:
            self._take_first()
        elif (place := next((at for at, entered in enumerate(self._entered) if self._is_free(entered)), None)) is not None:
            entered = self._entered[place]
            piece = self._piece(entered.batch, entered.incumbents)
            piece.here()
            self._entered[place] = entered._replace(piece=piece)
            state.price_s += now() - begun_s
        else:
            first.piece.waited()
            state.price_s += now() - begun_s
        state.elapsed_s = now() - self._started_s
        return True

    def _look_ahead(self) -> None:
        """Queue the next chunk. Where other processes work too, queue all chunks whose times to beat are known."""
        state, now = self.state, self._now
        room = self._executor.room
        while not self._entered or (len(self._entered) < MOST_QUEUED and (room or self._entered[0].piece is not None)):
            place = state.num_priced + sum(len(entered.batch) > 0 for entered in self._entered)
            if num_known(place) > state.num_priced:
                break
            begun_s = now()
            chunk, rejected = next(self._stream, (None, None))
            state.enumerate_s += now() - begun_s
            if chunk is None or rejected is None:
                break
            begun_s = now()
            batch = charge_illegal(self.workload, chunk.batch, self._pricing.rules, rejected)
            batch = self._pricing.placer.charge_unplaceable(batch, rejected)
            state.legality_s += now() - begun_s
            entered = QueuedChunk(batch, rejected, chunk.num_enumerated, chunk.done_fraction, self._incumbents(place))
            if len(batch) and room and any(map(self._is_free, self._entered)):  # this process keeps the chunk that it begins with
                piece = self._piece(batch, entered.incumbents)
                piece.give(self._executor)
                entered = entered._replace(piece=piece)
            self._entered.append(entered)
            room = self._executor.room

    def _piece(self, batch: StrategyBatch, incumbents: Incumbents) -> Piece[ChunkResult]:
        return Piece(found_in, self._recipe, batch, incumbents, own=lambda: self._pricing.found_in(batch, incumbents))

    def _is_free(self, entered: QueuedChunk) -> bool:
        return entered.piece is None and len(entered.batch) > 0

    def _take_first(self) -> None:
        state, entered = self.state, self._entered[0]
        found = None if entered.piece is None else entered.piece.result()
        state.rejections.add(entered.rejections)
        state.lattice_refused += entered.rejections.total
        state.enumerated += entered.num_enumerated
        if found is None:
            self._consider(entered.batch)
        else:
            self._take(found)
        state.done_fraction = entered.done_fraction
        state.num_chunks += 1
        self._entered.popleft()

    def _incumbents(self, place: int) -> Incumbents:
        """The times that the chunk at a place must beat."""
        return self.state.history[num_known(place) - self.state.num_priced - 1]

    def _consider(self, batch: StrategyBatch) -> None:
        """Price legal rows and the memory-saving forms of those that do not fit."""
        if not len(batch):
            return
        begun_s = self._now()
        found = self._pricing.found_in(batch, self._incumbents(self.state.num_priced))
        self.state.price_s += self._now() - begun_s
        self._take(found)

    def _take(self, found: ChunkResult) -> None:
        """Add the result of a chunk to the counts and the leaderboard."""
        state, begun_s = self.state, self._now()
        state.rejections.add(found.rejections)
        state.forms += found.enumerated
        for name in ("legal", "ruled_out", "enumerated"):
            setattr(state, name, getattr(state, name) + getattr(found, name))
        if found.leanest is not None and (state.leanest is None or found.leanest[0] < state.leanest[0]):
            state.leanest = found.leanest
        if (rows := found.rows) is not None:
            ordinal = state.placed + np.arange(len(rows.batch))
            scored = Scored(rows.batch, rows.step_time_s, rows.peak_memory_bytes, ordinal)
            state.placed += len(ordinal)
            state.fits_memory += found.fits
            state.leaderboard.add(scored.take(fastest_placed(scored, self.request.criterion)))
            if self._proves_by_time:
                state.candidates.consider(scored, rows.bound_s)
        state.rank_s += self._now() - begun_s
        # A good time early keeps the pool small.
        promising = state.candidates.most_promising(self._max_simulations - state.candidates.num_simulated)
        if promising is not None:
            self._settle(promising)
        state.num_priced += 1
        to_beat = state.bar_s if self._proves_by_time else state.leaderboard.worst_that_counts
        least_bytes = float("inf") if state.leanest is None else state.leanest[0]
        state.history = [*state.history[-MOST_AHEAD:], Incumbents(to_beat, least_bytes)]

    @property
    def _proves_by_time(self) -> bool:
        """Whether step time orders the lattice. Memory needs no simulation: it is the same in closed form."""
        return self.request.criterion is Criterion.STEP_TIME

    def _settle(self, scored: Scored) -> None:
        begun_s = self._now()
        self.state.candidates.settle(simulated_rows(scored, self.simulator, self._pricing.prices))
        self.state.simulate_s += self._now() - begun_s

    def _shown(self, *, is_cut: bool) -> Scored | None:
        """The rows of the leaderboard and all candidates, in simulated time. The state does not change.

        Of a search that is cut, only the best of the rows that are not simulated yet: the user waits for them.
        """
        candidates, kept = self.state.candidates, self.state.leaderboard.kept
        if kept is None:
            return None
        unseen = candidates.unseen(kept)
        if self._proves_by_time and self.is_closed:  # only variants of listed structures can be shown
            unseen = unseen.take(candidates.listed(unseen))
        shown = candidates.simulated
        for first in range(0, SHOWN_AT_ONCE if is_cut and len(unseen) else len(unseen), SHOWN_AT_ONCE):
            rows = unseen.take(np.arange(first, min(first + SHOWN_AT_ONCE, len(unseen))))
            simulated = simulated_rows(rows, self.simulator, self._pricing.prices)
            shown = simulated if shown is None else joined(shown, simulated)
            beat()
        return shown

    @property
    def progress(self) -> Progress:
        """Progress of the search."""
        state = self.state
        return Progress(
            state.done_fraction,
            state.enumerated,
            state.legal,
            state.fits_memory,
            state.candidates.best_s if state.candidates.num_simulated else state.leaderboard.best_step_time_s,
            state.elapsed_s,
            simulated=state.candidates.num_simulated,
            lattice=self._size,
            phase=SIMULATE if state.is_enumerated == 1 else ENUMERATE,
        )

    def checkpoint(self) -> dict[str, Any]:
        """The state as JSON, for ``LatticeState.from_mapping``."""
        return self.state.to_mapping()

    def result(self, stopped_by: str | None = None) -> SearchResult:
        """The explained plans, compared with the baseline. A search that was cut is not searched further."""
        state = self.state
        # After an interrupt in the middle of a chunk, only its priced rows count.
        enumerated = state.enumerated if stopped_by is None else state.legal + state.rejections.total
        begun_s = self._now()
        shown, ranked = self._found(is_cut=stopped_by is not None)
        simulated_s = self._now()
        criteria, listed = self._criteria, self.request.listed
        compared = self._builder.plans(ranked, None if criteria else listed)
        plans = tuple(plan for plan in compared if listed is None or plan.rank <= listed or plan.why_recommended is not None)
        num_simulated = 0 if shown is None else len(shown)
        waiting = 0 if shown is None or state.candidates.pool is None else len(state.candidates.pool)
        if shown is not None and waiting:
            assert state.candidates.pool is not None
            waiting -= int(np.isin(state.candidates.pool.ordinal, shown.ordinal).sum())
        comparison = self._builder.compared_with(self.baseline, plans)
        chosen = recommended_of(plans)
        launchable = () if chosen is None else self._builder.nearest_launchable(chosen)
        story = None if ranked or stopped_by else self._builder.infeasible(state.leanest)
        nearest = None if story is None else self._builder.nearest(state.rejections, story)
        if ranked and not plans:
            nearest = self._builder.why_beyond_limits(ranked)
        explain_s = self._now() - simulated_s
        by_tensor = self._by_tensor(ranked) if stopped_by is None else ()
        refine_s = self._now() - simulated_s - explain_s if self._refines else None
        return SearchResult(
            counts=Counts(
                enumerated,
                state.legal,
                state.fits_memory,
                estimated=state.legal - state.ruled_out,
                pruned_by_bound=state.ruled_out + state.fits_memory - num_simulated - waiting,
                simulated=num_simulated,
                lattice=self._size,
                lattice_legal=self._size - state.lattice_refused if state.is_enumerated else None,
                forms=state.forms,
            ),
            rejections=listed_rejections(self.workload, state.rejections),
            proof=self._ranked_proof(stopped_by, plans, ranked),
            timing=self._timing(simulated_s - begun_s, explain_s, refine_s),
            plans=plans,
            baseline=comparison,
            nearest=nearest,
            infeasible=story,
            nearest_launchable=launchable,
            by_tensor=by_tensor,
            paired_error=self._builder.paired_error,
            space=self._builder.space_report(chosen),
            pareto=() if criteria is None else tuple(criteria.front(list(compared))),
        )

    def best(self) -> tuple[RankedStrategy | None, Timing]:
        """The first plan without an explanation, and the time of the search so far.

        ``None`` also where the search began with a time to beat and has proved that nothing is below it.
        """
        begun_s = self._now()
        # Once the proof is closed, no candidate without a simulation has a bound below the best time.
        proved = self._proves_by_time and self.is_closed
        ranked = self._climbed(self._ranked(self.state.candidates.simulated if proved else self._shown(is_cut=False)))
        return ranked[0] if ranked else None, self._timing(self._now() - begun_s, 0.0)

    def ranked(self) -> tuple[RankedStrategy, ...]:
        """The best structures in simulated time. Of the first ones, single layers are moved while that helps."""
        return self._found(is_cut=False)[1]

    def _found(self, *, is_cut: bool) -> tuple[Scored | None, tuple[RankedStrategy, ...]]:
        """The rows that are shown, and the best of them. The same again once the search is over."""
        if self._final is not None:
            return self._final
        is_cut = is_cut and not self._has_best
        shown = self._shown(is_cut=is_cut)
        first = None if self.is_closed else self.state.first  # rows that are slower than these were left out
        ranked = self._ranked(first if shown is None else shown if first is None else joined(shown, first))
        found = shown, ranked if is_cut else self._climbed(ranked)
        if self.is_closed:
            self._final = found
        return found

    def _ranked(self, shown: Scored | None) -> tuple[RankedStrategy, ...]:
        final = Leaderboard(self.request.criterion, self.request.top)
        if shown is not None:
            final.add(shown.take(fastest_placed(shown, self.request.criterion)))
        return final.plans()

    def _climbed(self, ranked: Sequence[RankedStrategy]) -> tuple[RankedStrategy, ...]:
        """The plans, fastest first. Of the first ones, single layers are moved while that helps."""
        if not self._proves_by_time:
            return tuple(ranked)
        first, others = ranked[:MOST_CLIMBED], ranked[MOST_CLIMBED:]
        for plan in first:  # after an interrupt, go on with the pieces that exist
            self._climbs.setdefault(plan, Piece(climbed_in, self._recipe, self.simulator, plan, own=self._climb(plan)))
        pieces = [self._climbs[plan] for plan in first]
        work_off(self._executor, pieces, beat)
        return tuple(sorted((*(piece.result() for piece in pieces), *others), key=lambda plan: plan.step_time_s))

    def _climb(self, plan: RankedStrategy) -> Callable[[], RankedStrategy]:
        return lambda: climbed(self._pricing.prices, self._pricing.placer, self.simulator, plan)

    def _by_tensor(self, ranked: Sequence[RankedStrategy]) -> tuple[TensorRefinement, ...]:
        """The listed plans with tensors chosen one by one, the fastest first; the proof does not cover them."""
        if not (self._proves_by_time and self._refines):
            return ()
        given = self.workload, self.request.space, self.constants, self.simulator
        pieces = [Piece(refined, *given, plan.strategy, plan.step_time_s) for plan in ranked[: self.request.listed]]
        work_off(self._executor, pieces, beat)
        return tuple(sorted((each for piece in pieces for each in piece.result()), key=lambda each: each.estimate["step_time_s"]))

    def _timing(self, simulate_s: float, explain_s: float, refine_s: float | None = None) -> Timing:
        """Times of all steps so far, including the steps of the result."""
        state = self.state
        return Timing(
            **{name: getattr(state, name) for name in ("enumerate_s", "legality_s", "price_s", "rank_s")},
            explain_s=explain_s,
            total_s=state.elapsed_s + simulate_s + explain_s + (refine_s or 0.0),
            simulate_s=state.simulate_s + simulate_s,
            refine_s=refine_s,
        )

    @property
    def _has_best(self) -> bool:
        """Whether the first place is proved. Other places may still be open."""
        return self.state.is_enumerated == 1 and (not self._proves_by_time or self.state.candidates.num_proved > 0)

    @property
    def is_closed(self) -> bool:
        """Whether no open candidate could beat the best time."""
        is_open = self._proves_by_time and np.isfinite(self.state.candidates.open_bound_s)
        return self.state.is_enumerated == 1 and not is_open

    def _ranked_proof(self, stopped_by: str | None, plans: Sequence[DeploymentPlan], ranked: Sequence[RankedStrategy]) -> Proof:
        best, candidates = self._builder.best_of(plans), self.state.candidates
        proof = self._proof(stopped_by, best, plans)
        if self._criteria is None:
            return proof
        first_is_kept = any(plan.parallel == ranked[0].strategy for plan in plans)
        return self._criteria.proof(proof, best, min(candidates.best_s, candidates.open_bound_s), first_is_kept=first_is_kept)

    def _proof(self, stopped_by: str | None, best: DeploymentPlan | None, plans: Sequence[DeploymentPlan]) -> Proof:
        candidates, target = self.state.candidates, self.workload.software.target
        enumerated = self.state.is_enumerated == 1
        num_proved, gap = 0, None
        if enumerated and best is not None:
            num_proved = candidates.num_proved if self._proves_by_time else plans[-1].rank
            gap = 0.0 if num_proved else max(0.0, 1.0 - candidates.open_bound_s / best.estimate["step_time_s"])
            stopped_by = None if num_proved else stopped_by or "max_simulations"
        return Proof(
            exhaustive=enumerated,
            proved_best=num_proved > 0,
            places=sum(plan.rank <= num_proved for plan in plans),
            scope=Sentence("lattice, simulated") if target == ANY.name else Sentence("lattice of {}, simulated", target),
            objective=self.request.objective.name,
            optimality_gap_fraction=gap,
            stopped_by=stopped_by,
            plan_id=None if best is None else best.plan_id,
            placements=placements_text(self.workload.model.num_layers, self.request.space.pp, self.request.space.vpp),
            grain=GRAIN,
        )


def search(
    request: SearchRequest,
    *,
    time_limit_s: float | None = None,
    memory_limit_bytes: int | None = None,
    on_progress: ProgressCallback | None = None,
    executor: Executor = SERIAL,
    pricer: Pricer = estimate_priced,
    simulator: Estimator = simulate,
) -> SearchResult:
    """The best plans of the lattice that fit the device, with counts, reasons and proof.

    ``on_progress`` is called after every chunk and stops the search by returning ``False``; so does ``KeyboardInterrupt``. A
    search that is stopped returns what it has, with ``proof.stopped_by``. Limits are those of ``run_to_end``. Raises
    ``SearchError`` for a bad one, and for a time limit without a clock.
    """
    check_time_limit(time_limit_s, request.clock)
    lattice = LatticeSearch(request, executor=executor, pricer=pricer, simulator=simulator)
    stopped_by = run_to_end(
        lattice, time_limit_s, on_progress, SEARCHED, memory_limit_bytes=memory_limit_bytes, executor=executor
    )
    return explained_result(lattice, stopped_by, on_progress, request.clock)
