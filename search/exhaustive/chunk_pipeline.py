"""Prices one chunk of the lattice: its legal rows, and memory-saving forms of the rows that do not fit."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, StrategyBatch, concatenate
from cost_models.shapes.switches import PRICED, Feature, Place
from cost_models.shapes.workload import Workload
from cost_models.step.composition import peaks
from cost_models.step.placing import least_step_times_s, work
from cost_models.step.priced_groups import PricedBatch, priced_by
from cost_models.step.priced_keys import LayerPrices
from frameworks.legality import refused_mask
from search.exhaustive.chunk_queue import ChunkResult
from search.exhaustive.lattice_state import Incumbents
from search.exhaustive.layer_climb import climbed
from search.placement.leanest_room import can_be_lean
from search.placement.placed_pricing import PricedRows, Pricer
from search.placement.placer import CouldFit, Placed, Placer
from search.plans.estimator import Estimator
from search.ranking.leaderboard import RankedStrategy
from search.space.enumeration import legal_rows, option_rules
from search.space.memory_saving_forms import memory_saving_forms
from search.space.search_space import SearchSpace

TIGHT = 0.25  # fraction of rows that fit, below which their leanest forms are looked at first: these rule out most rows
MANY = 2_048  # rows of a chunk from which the bound on their exchange saves more than it costs
AT_ONCE = 8_192  # rows that are placed or priced in one call: a row takes 20 kB while it is priced
OF_TASKS = Feature(PRICED[Place.LAYER] | PRICED[Place.PIPELINE])  # switches that change how long tasks take, or their order


@dataclass(frozen=True)
class ChunkRecipe:
    """All inputs to the price of a chunk, except the chunk and the times that it must beat.

    ``proves_by_time``: rows count by their step time, so that slow rows need no price. ``refused_by``: only rows that this
    target refuses count.
    """

    workload: Workload
    space: SearchSpace
    constants: Constants
    proves_by_time: bool
    pricer: Pricer
    refused_by: str | None


class Fitting(NamedTuple):
    """Rows ``[n]`` under candidate placements with room, the chunk's rows that they are made from, and their peaks."""

    batch: StrategyBatch
    origin: IntColumn
    peak_bytes: Floats


class ChunkPricing:
    """Prices chunks, each under the times that are known of the others."""

    def __init__(self, recipe: ChunkRecipe) -> None:
        workload, constants = recipe.workload, recipe.constants
        self.workload, self.space, self.price = workload, recipe.space, recipe.pricer
        self._refused_by, self._proves_by_time = recipe.refused_by, recipe.proves_by_time
        self.rules, self.placer, self.prices = option_rules(workload), Placer(workload), LayerPrices(workload, constants)
        self.fit_limit_bytes = fit_rule(workload, constants).fit_limit_bytes
        self._result = ChunkResult(Incumbents())
        self._is_tight = False  # few rows of the last chunk fitted; decides in which order rows are ruled out, not which

    def found_in(self, batch: StrategyBatch, incumbents: Incumbents) -> ChunkResult:
        """Price legal rows against these incumbents; later results do not count."""
        self._result = result = ChunkResult(incumbents)
        origin = np.arange(len(batch))
        could_fit = self._could_fit if self._is_tight and self._proves_by_time and self.space.leaner else None
        parts, cramped, roomy = self._placed(batch, origin, could_fit)
        self._is_tight = result.fits < TIGHT * (result.legal - result.ruled_out)
        cramped = np.concatenate([cramped, roomy[self._has_form_elsewhere(batch.take(roomy))]])
        if could_fit is None and len(cramped) and self.space.leaner:
            cramped = cramped[self._could_fit(batch.take(cramped))]
        parts += self._leaner(batch.take(cramped), origin[cramped])
        if parts:  # one call for all: those of a placement are priced together
            batches, origins, peaks_bytes = zip(*parts, strict=True)
            placed = concatenate(batches)
            times = [self._times_s(placed.take(some)) for some in _in_parts(len(placed))]
            time_s, bound_s = map(np.concatenate, zip(*times, strict=True))
            rows = PricedRows(placed, np.concatenate(origins), time_s, bound_s, np.concatenate(peaks_bytes))
            result.rows = rows.take(np.argsort(rows.origin, kind="stable"))  # structures stay together
        return result

    def _times_s(self, placed: StrategyBatch) -> tuple[Floats, Floats]:
        """Step times of placed rows and their lower bounds. [s], ``[n]`` each"""
        found = self.price(priced_by(self.prices, placed), memory=False)
        return found.step_time_s, found.step_time_lower_bound_s

    def _placed(
        self, batch: StrategyBatch, origin: IntColumn, could_fit: CouldFit | None = None
    ) -> tuple[list[Fitting], IntColumn, IntColumn]:
        """Rows that fit and could be listed, if any; the places of those that lack room where they could be; and of the others.

        What its layers take rules out a row before anything else is counted. Rows that ``could_fit`` rules out are in neither.
        """
        result, usual = self._result, priced_by(self.prices, batch)
        can_be = np.flatnonzero(self._least_s(usual) < self._to_beat_s)
        placed = self.placer.fastest_that_fit(usual.take(can_be), self._to_beat_s, could_fit) if len(can_be) else None
        is_open = np.zeros(len(batch), dtype=np.bool_)
        if placed is not None:
            is_open[can_be] = placed.is_open
        counted = np.ones(len(batch), dtype=np.bool_)
        if self._refused_by is not None:
            counted = refused_mask(self.workload, batch, self._refused_by)
        if placed is not None and self._refused_by is not None:
            refused = refused_mask(self.workload, placed.priced.batch, self._refused_by)
            counted[can_be[placed.origin]] = False
            counted[can_be[placed.origin[refused]]] = True
            kept = placed.priced.take(refused), placed.origin[refused], placed.peak_bytes[refused]
            placed = Placed(*kept, *placed[3:])
        result.legal += int(counted.sum())
        result.ruled_out += int((counted & ~is_open).sum())
        if placed is None:
            return [], can_be, can_be
        fitting = Fitting(placed.priced.batch, origin[can_be][placed.origin], placed.peak_bytes)
        self._note_leanest(usual.take(can_be), fitting)
        result.fits += len(np.unique(placed.origin))
        parts = [fitting] if len(fitting.origin) else []
        if not self._proves_by_time:
            return parts, np.arange(len(batch)), np.zeros(0, dtype=np.int64)
        return parts, can_be[placed.is_cramped], can_be[placed.is_open & ~(placed.is_cramped | placed.is_hopeless)]

    def _has_form_elsewhere(self, batch: StrategyBatch) -> NDArray[np.bool_]:
        """Whether a leaner form of a row may be listed under a candidate placement that is none of the row's. ``[n]``

        Only switches that change the tasks are turned: the others leave every pace as it is.
        """
        found = np.zeros(len(batch), dtype=np.bool_)
        is_piped = bool((batch.pp > 1).any())  # else there is one placement
        made = memory_saving_forms(self.workload, batch, self.space.leaner & OF_TASKS) if is_piped else None
        if made is not None:
            forms, of_row = priced_by(self.prices, made[0]), made[1]
            can_be = np.flatnonzero(self._least_s(forms) < self._to_beat_s)
            if len(can_be):
                rows = priced_by(self.prices, batch)
                elsewhere = self.placer.lies_elsewhere(forms.take(can_be), rows, of_row[can_be], self._to_beat_s)
                found[of_row[can_be[elsewhere]]] = True
        return found

    def _note_leanest(self, usual: PricedBatch, fitting: Fitting) -> None:
        """Record the strategy that needs least memory under the default placement, until some strategy fits."""
        result = self._result
        if len(fitting.origin):
            row = int(np.argmin(fitting.peak_bytes))
            peak, batch = float(fitting.peak_bytes[row]), fitting.batch
        elif result.least_bytes > self.fit_limit_bytes:
            found, batch = peaks(usual, result.least_bytes).peak_bytes, usual.batch
            row = int(np.argmin(found))
            peak = float(found[row])
        else:
            return
        if peak < result.least_bytes:
            result.leanest = (peak, batch.row(row))

    @staticmethod
    def _least_s(priced: PricedBatch) -> Floats:
        """Lower bound on the step time of each row under any placement. [s], ``[n]``"""
        return least_step_times_s(priced, work(priced), exchanges=len(priced.batch) >= MANY).step_s

    @property
    def _to_beat_s(self) -> float:
        """The step time that a row must be below to be listed."""
        return self._result.incumbents.to_beat if self._proves_by_time else float("inf")

    def _could_fit(self, batch: StrategyBatch) -> NDArray[np.bool_]:
        """Whether any form of each row, turned or not, has room under some placement. ``[n]``"""
        to_beat = float("inf") if self._proves_by_time else self._result.incumbents.to_beat
        enough_bytes = min(self.fit_limit_bytes, to_beat)
        return can_be_lean(self.placer, batch, self.space.leaner, partial(priced_by, self.prices), enough_bytes)

    def _leaner(self, batch: StrategyBatch, origin: IntColumn) -> list[Fitting]:
        """The leaner forms of rows that lack room under a candidate placement of theirs or of a form.

        Under one placement no leaner form is faster than the row itself. If the row fits there, its leaner forms are not tried.
        """
        result = self._result
        found = memory_saving_forms(self.workload, batch, self.space.leaner) if len(batch) and self.space.leaner else None
        if found is None:
            return []
        forms, of_row = found
        legal = np.flatnonzero(legal_rows(self.workload, forms, self.rules, result.rejections))
        result.enumerated += len(forms)
        legal = legal[np.argsort(of_row[legal], kind="stable")]  # forms of one pipeline stay together
        parts = (self._placed(forms.take(legal[some]), origin[of_row[legal[some]]])[0] for some in _in_parts(len(legal)))
        return [part for of_some in parts for part in of_some]


def _in_parts(number: int) -> list[IntColumn]:
    """The numbers from 0, in parts of at most ``AT_ONCE``."""
    return [np.arange(first, min(first + AT_ONCE, number)) for first in range(0, number, AT_ONCE)]


def found_in(recipe: ChunkRecipe, batch: StrategyBatch, incumbents: Incumbents) -> ChunkResult:
    """``ChunkPricing.found_in`` in another process, which keeps the pricing of a recipe for further chunks."""
    return _made(pickle.dumps(recipe)).found_in(batch, incumbents)


def climbed_in(recipe: ChunkRecipe, simulate: Estimator, plan: RankedStrategy) -> RankedStrategy:
    """``climbed`` in another process, with the prices that this process has for chunks of the same recipe."""
    pricing = _made(pickle.dumps(recipe))
    return climbed(pricing.prices, pricing.placer, simulate, plan)


@lru_cache(maxsize=2)  # one for the target, one for the rows that it refuses
def _made(recipe: bytes) -> ChunkPricing:
    return ChunkPricing(pickle.loads(recipe))  # noqa: S301  # our own
