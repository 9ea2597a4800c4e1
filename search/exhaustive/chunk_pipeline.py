"""Prices one chunk of the lattice: its legal rows, and memory-saving forms of the rows that do not fit."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import IntColumn, StrategyBatch, concatenate
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import peaks
from cost_models.step.placing import Least, least_step_times_s, work
from cost_models.step.priced_groups import priced_by
from cost_models.step.priced_keys import LayerPrices
from frameworks.legality import refused_mask
from search.exhaustive.chunk_queue import ChunkResult
from search.exhaustive.lattice_state import Under
from search.exhaustive.layer_climb import climbed
from search.placement.placed_pricing import PricedRows, Pricer, joined_rows, placed_rows
from search.placement.placer import Placer
from search.plans.estimator import Estimator
from search.ranking.leaderboard import RankedStrategy
from search.space.enumeration import legal_rows, option_rules
from search.space.memory_saving_forms import least_memory_form, memory_saving_forms
from search.space.search_space import SearchSpace


@dataclass(frozen=True)
class ChunkRecipe:
    """All that the price of a chunk depends on beside the chunk and the times that it must beat.

    ``proves_by_time``: rows count by their step time, so that slow rows need no price. ``refused_by``: only rows that this
    target refuses count.
    """

    workload: Workload
    space: SearchSpace
    constants: Constants
    proves_by_time: bool
    pricer: Pricer
    refused_by: str | None


class ChunkPricing:
    """Prices chunks, each under the times that are known of the others."""

    def __init__(self, recipe: ChunkRecipe) -> None:
        workload, constants = recipe.workload, recipe.constants
        self.workload, self._space, self._price = workload, recipe.space, recipe.pricer
        self._refused_by, self._proves_by_time = recipe.refused_by, recipe.proves_by_time
        self.rules, self.placer, self.prices = option_rules(workload), Placer(workload), LayerPrices(workload, constants)
        self._fit_limit_bytes = fit_rule(workload, constants).fit_limit_bytes
        self._found = ChunkResult(Under())

    def found_in(self, batch: StrategyBatch, under: Under) -> ChunkResult:
        """The result for legal rows. It depends on ``under`` alone, not on what other chunks have found by now."""
        self._found = found = ChunkResult(under)
        parts = self._priced(batch, np.arange(len(batch)))
        parts += [forms for part in parts for forms in self._leaner(part)]
        if self._refused_by is not None:
            parts = [part.take(refused_mask(self.workload, part.batch, self._refused_by)) for part in parts]
        found.legal += sum(len(part.batch) for part in parts)
        found.ruled_out += sum(int(part.ruled_out.sum()) for part in parts)
        if parts:
            fitting = [part.take(part.fits) for part in parts]
            order = np.argsort(np.concatenate([part.origin for part in fitting]), kind="stable")  # structures stay together
            found.rows = joined_rows(fitting).take(order)
        return found

    def _priced(self, batch: StrategyBatch, origin: IntColumn) -> list[PricedRows]:
        """Rows that could be listed, priced. A lower bound on layer time rules out the others before their memory is counted."""
        found, usual = self._found, priced_by(self.prices, batch)
        least = least_step_times_s(usual, work(usual))
        open_rows = least.step_s < self._to_beat_s
        if not open_rows.all():
            closed = batch.take(~open_rows)
            refused = None if self._refused_by is None else refused_mask(self.workload, closed, self._refused_by)
            number = len(closed) if refused is None else int(refused.sum())
            found.legal, found.ruled_out = found.legal + number, found.ruled_out + number
            if len(closed) == len(batch):
                return []
            usual, origin = usual.take(open_rows), origin[open_rows]
            least = Least(*(seconds[open_rows] for seconds in least))
        least_bytes = found.least_bytes
        priced = placed_rows(self.prices, self.placer, usual, origin, least, self._price, self._to_beat_s, least_bytes)
        row = int(np.argmin(priced.peak_memory_bytes))
        peak = float(priced.peak_memory_bytes[row])
        if peak < least_bytes:
            found.leanest = (peak, priced.batch.row(row))
        return [priced]

    @property
    def _to_beat_s(self) -> float:
        """The step time that a row must be below to be listed."""
        return self._found.under.to_beat if self._proves_by_time else float("inf")

    def _leaner(self, as_it_is: PricedRows) -> list[PricedRows]:
        """Memory-saving forms of rows that could still be listed. No form of a row is faster than the row itself."""
        model, switches, found = self.workload.model, self._space.leaner, self._found
        if not switches:
            return []
        could = self._could_matter(as_it_is)
        enough_bytes = self._fit_limit_bytes if self._proves_by_time else found.under.to_beat
        could &= as_it_is.kept_bytes <= enough_bytes
        if could.any():
            could[could] = self._can_be_lean(as_it_is.batch.take(could), enough_bytes)
        if self._proves_by_time:
            alone = as_it_is.batch.pp == 1  # the default placement says nothing of the placement of a memory-saving form
            as_it_is.time(np.flatnonzero(could & alone & ~as_it_is.timed), self.prices, self._price)
            could &= self._could_matter(as_it_is)
        forms = memory_saving_forms(model, as_it_is.batch.take(could), switches)
        if forms is None:
            return []
        batch, origin = forms
        legal = legal_rows(self.workload, batch, self.rules, found.rejections)
        found.enumerated += len(batch)
        return self._priced(batch.take(legal), as_it_is.origin[could][origin[legal]]) if legal.any() else []

    def _could_matter(self, as_it_is: PricedRows) -> NDArray[np.bool_]:
        """Rows whose memory-saving forms could be listed, by what is known of their time."""
        if not self._proves_by_time:
            return np.ones(len(as_it_is.batch), dtype=np.bool_)
        could: NDArray[np.bool_] = ~as_it_is.fits & (as_it_is.bound_s < self._to_beat_s)
        return could

    def _can_be_lean(self, batch: StrategyBatch, enough_bytes: float) -> NDArray[np.bool_]:
        """Whether the form of each row with least memory needs at most ``enough_bytes``."""
        model, switches = self.workload.model, self._space.leaner
        most, unswapped = (least_memory_form(model, batch, chosen) for chosen in (switches, switches & ~Feature.SWAP_ATTENTION))
        others = np.flatnonzero(unswapped.features != most.features)
        both = concatenate([most, unswapped.take(others)])  # one call for both: a few rows cost little more than one
        lean = peaks(priced_by(self.prices, both), enough_bytes).peak_bytes <= enough_bytes
        found = lean[: len(batch)]
        found[others] |= lean[len(batch) :]
        return found


def found_in(recipe: ChunkRecipe, batch: StrategyBatch, under: Under) -> ChunkResult:
    """``ChunkPricing.found_in`` in another process, which keeps the pricing of a recipe for further chunks."""
    return _made(pickle.dumps(recipe)).found_in(batch, under)


def climbed_in(recipe: ChunkRecipe, simulate: Estimator, plan: RankedStrategy) -> RankedStrategy:
    """``climbed`` in another process, with the prices that this process has for chunks of the same recipe."""
    pricing = _made(pickle.dumps(recipe))
    return climbed(pricing.prices, pricing.placer, simulate, plan)


@lru_cache(maxsize=2)  # one for the target, one for the rows that it refuses
def _made(recipe: bytes) -> ChunkPricing:
    return ChunkPricing(pickle.loads(recipe))  # noqa: S301  # our own
