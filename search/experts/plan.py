"""The plan for the experts of a job: for each layer the placement with the largest gain after its moves, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from search.experts.ageing import FRESH, Ageing, ageing
from search.experts.forecasting import Forecast, forecast, held_back_steps
from search.experts.packing import Floats, Ints
from search.experts.placement import Moves, Placement, exchanged, in_order, moves, placed_anew, shared_slots

LEVELS_DIFFER = 0.01  # a load factor this far above the best possible: further candidates are tried
MAX_EXTRA_SLOTS = 8
MAX_VALID_STEPS = 1_000_000


@dataclass(frozen=True)
class Prices:
    """The value of balance, and the costs of moving and copying. Seconds of the step of one job.

    ``load_s``: the cost of one layer whose fullest rank has twice the mean load. ``move_*_s``: for the weights and optimizer
    states of an expert over the link of a pair of ranks, inside a node and between nodes. All pairs send at once; a rank's port
    carries ``ports_*`` times what a link does, each way, and ``tiers_at_once`` both kinds of moves together. ``share_*_s``: to
    add up the gradients of an expert over its copies in a step. ``expert_bytes`` are sent with a move; each copy holds
    ``copy_bytes``; ``spare_copies`` fit in each layer.
    """

    load_s: float
    move_inside_s: float
    move_between_s: float
    share_inside_s: float
    share_between_s: float
    expert_bytes: float
    copy_bytes: float
    spare_copies: int
    stage_of_layer: Ints
    ports_inside: float = 1.0
    ports_between: float = 1.0
    tiers_at_once: bool = False

    def moved_s(self, moved: Moves) -> Floats:
        """The time of the moves of each layer: that of the fullest link, or of the fullest port."""
        inside_s = self.move_inside_s * np.maximum(moved.inside_of_pair, moved.inside_of_rank / self.ports_inside)
        between_s = self.move_between_s * np.maximum(moved.between_of_pair, moved.between_of_rank / self.ports_between)
        found: Floats = np.maximum(inside_s, between_s) if self.tiers_at_once else inside_s + between_s
        return found

    @property
    def parallel(self) -> float:
        """The fullest stage's share of the layers: stages move their experts at the same time."""
        return float(np.bincount(self.stage_of_layer).max() / len(self.stage_of_layer))

    def of_stages(self, layers_s: Floats) -> float:
        """The cost of layers in a step, where each stage works after the other."""
        return float(np.bincount(self.stage_of_layer, weights=layers_s).max())


@dataclass(frozen=True)
class Terms:
    """The terms of a plan: nodes, steps, and the largest number of copies."""

    num_nodes: int
    valid_steps: int
    max_extra_slots: int
    held_back: int | None = None


@dataclass(frozen=True)
class Change:
    """A new placement compared with the current one; all columns are ``[layer]``."""

    placement: Placement
    load_factors: Floats
    moved: Moves
    move_s: Floats
    share_s: Floats  # a step, of copies
    net_s: Floats  # gained over all steps, moves paid


@dataclass(frozen=True)
class ExpertPlan:
    """The plan and its reasons; ``change.placement`` is the current one where nothing pays.

    ``realised_fraction``: the part of its forecast gain that a plan has over its steps, if it ages as one made before the
    held-back steps did in them (``ages``); 1 without any. ``held_back_load_factors`` are the mean over layers there, before and
    after.
    """

    coming: Forecast
    ages: Ageing
    realised_fraction: float
    held_back_load_factors: tuple[float, float] | None
    current: Placement
    change: Change

    @property
    def triggered(self) -> list[bool]:
        """Whether each layer changes."""
        if self.change.placement.slots != self.current.slots:
            return [True] * len(self.current.experts)
        moved: list[bool] = (self.change.moved.inside + self.change.moved.between > 0).tolist()
        return moved


def expected(counts: Floats, terms: Terms) -> Forecast:
    """Forecast for the steps that follow the steps of ``counts`` ``[step, layer, expert]``."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    return forecast(shares, held_back_steps(len(shares), terms.valid_steps, terms.held_back), terms.valid_steps)


def plan(coming: Forecast, current: Placement, prices: Prices, terms: Terms) -> ExpertPlan:
    """The plan for the steps of a forecast."""
    ages, seen = _backtest(coming, current)
    realised = ages.mean(terms.valid_steps)
    before = current.load_factors(coming.shares)
    stay = best = _change(current, current, coming.shares, before, prices, terms, realised)
    plain = current.slots * current.num_ranks == coming.shares.shape[1]
    for extra in range(1 + min(terms.max_extra_slots, prices.spare_copies)):
        if extra and best.load_factors.mean() <= 1.0 + LEVELS_DIFFER:
            break  # an upper bound on the gain of copies
        found = _cheapest(coming.shares, current, stay if plain and not extra else None, prices, terms, extra, realised)
        if gain_s(before, found, prices, terms, realised) > gain_s(before, best, prices, terms, realised):
            best = found
    return ExpertPlan(coming, ages, realised, seen, current, best)


def unchanged(found: ExpertPlan, prices: Prices, terms: Terms) -> ExpertPlan:
    """Copy of the plan without any change."""
    shares, current = found.coming.shares, found.current
    before = current.load_factors(shares)
    return replace(found, change=_change(current, current, shares, before, prices, terms, found.realised_fraction))


@dataclass(frozen=True)
class Replan:
    """The trigger of the next plan.

    ``above_excess``: the load of the fullest rank over the mean, beyond what the hottest expert alone makes, mean of layers,
    above which as many moves again pay within the steps of a plan; ``above_load`` is that load if the hottest experts stay.
    ``after_steps``: when loads that drift as in the held-back steps reach it; ``None`` if these do not drift.
    """

    above_excess: float
    above_load: float
    after_steps: float | None


def replan(found: ExpertPlan, prices: Prices, terms: Terms) -> Replan | None:
    """When to plan again; ``None`` where nothing moved."""
    if found.change.placement is found.current or prices.load_s <= 0.0:
        return None
    shares, after = found.coming.shares, found.change.load_factors
    lost = prices.of_stages(found.change.move_s) / (terms.valid_steps * len(after) * prices.load_s)
    promised = float((found.current.load_factors(shares) - after).mean())
    return Replan(
        float(found.change.placement.avoidable_loads(shares).mean()) + lost,
        float(after.mean()) + lost,
        found.ages.age_of_loss(lost / promised) if promised > 0.0 else None,  # below a step where moves cost almost nothing
    )


def gain_s(before: Floats, change: Change, prices: Prices, terms: Terms, realised: float) -> float:
    """The gain over all steps, less the moves. Stages move at the same time."""
    a_step_s = prices.load_s * float((before - change.load_factors).sum()) * realised - prices.of_stages(change.share_s)
    return terms.valid_steps * a_step_s - prices.of_stages(change.move_s)


def _candidates(shares: Floats, current: Placement, num_nodes: int, extra: int) -> Iterator[Placement]:
    """Candidate placements, those that move least first. The list ends with a balanced one."""
    reachable = np.maximum(1.0, shares.max(axis=1) * current.num_ranks / (shares.sum(axis=1) * (1 + extra)))
    if not extra and current.slots * current.num_ranks == shares.shape[1]:
        if num_nodes > 1:
            yield exchanged(shares, current, num_nodes)
        exchanges = exchanged(shares, current, 1)
        yield exchanges
        if not (exchanges.load_factors(shares) > reachable * (1.0 + LEVELS_DIFFER)).any():
            return
    levels = placed_anew(shares, current, num_nodes, extra)
    yield levels
    behind = levels.load_factors(shares) > reachable * (1.0 + LEVELS_DIFFER)
    if num_nodes > 1 and behind.any():
        flat = levels.experts.copy()
        flat[behind] = placed_anew(shares[behind], Placement(current.experts[behind]), 1, extra).experts
        yield Placement(flat)


def _cheapest(
    shares: Floats, current: Placement, stay: Change | None, prices: Prices, terms: Terms, extra: int, realised: float
) -> Change:
    """Choose for each layer the candidate that gains most, or the current placement; with ``extra`` slots, only candidates."""
    before = current.load_factors(shares)
    changes = [] if stay is None else [stay]
    changes += [
        _change(current, candidate, shares, before, prices, terms, realised)
        for candidate in _candidates(shares, current, terms.num_nodes, extra)
    ]
    best = np.argmax([change.net_s for change in changes], axis=0)
    experts = np.stack([change.placement.experts for change in changes])[best, np.arange(len(best))]
    return _change(current, Placement(experts), shares, before, prices, terms, realised)


def _change(
    current: Placement, after: Placement, shares: Floats, before: Floats, prices: Prices, terms: Terms, realised: float
) -> Change:
    num_experts = shares.shape[1]
    factors = after.load_factors(shares)
    moved = moves(current, after, num_experts, terms.num_nodes)
    move_s = prices.moved_s(moved)
    inside, between = shared_slots(after, num_experts, terms.num_nodes)
    share_s = inside * prices.share_inside_s + between * prices.share_between_s
    a_step_s = prices.load_s * (before - factors) * realised - share_s * prices.parallel
    return Change(after, factors, moved, move_s, share_s, terms.valid_steps * a_step_s - move_s * prices.parallel)


def _backtest(coming: Forecast, current: Placement) -> tuple[Ageing, tuple[float, float] | None]:
    """Backtest: what held-back steps left of the gain of a plan made before them, and load factors before and after."""
    if coming.earlier is None:
        return FRESH, None
    earlier, later = coming.earlier, coming.all_shares[-coming.held_back :]
    num_layers, num_experts = earlier.shape
    extra = current.slots - num_experts // current.num_ranks
    starts = [current] if extra else [current, in_order(num_layers, num_experts, current.num_ranks)]
    ages, loads = FRESH, None
    for start in starts:  # a placement that is still good promises nothing, and shows no ageing
        placed = placed_anew(earlier, start, 1, extra) if extra else exchanged(earlier, start, 1)
        promised = float((start.load_factors(earlier) - placed.load_factors(earlier)).mean())
        before, after = start.load_factors(later).mean(axis=1), placed.load_factors(later).mean(axis=1)
        loads = loads or (float(before.mean()), float(after.mean()))
        if promised > LEVELS_DIFFER:
            ages = ageing((before - after) / promised)
            break
    return ages, loads
