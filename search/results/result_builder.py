"""Builds the result of a search from its best strategies: breakdown, explanation, comparison, launch arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.memory.fit import FitRule, fit_rule
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined, word
from frameworks.framework import Framework
from frameworks.launch import launch_blocks
from frameworks.legality import launchable_each, violations
from frameworks.registry import FRAMEWORKS
from frameworks.target import ANY
from search.explain.explanation import GIB, best_change, bound_by, changes, compared, one_change, shortfall, where_shards_lie
from search.explain.space_report import SpaceReport, space_report
from search.feasibility.infeasible import MAX_CLUSTER_GROWTH, Infeasible, infeasible
from search.heartbeat import beat
from search.objectives.objective import Criterion, Objective, Value
from search.objectives.step_time import STEP_TIME
from search.placement.placer import Placer
from search.plans.baseline import PublishedPlan, default_baseline, published_baseline
from search.plans.estimator import Estimator
from search.plans.plan import DeploymentPlan, PlanIds, estimates_to_mappings, recommended_of, strategy_to_mapping
from search.ranking.criteria import RankingCriteria
from search.ranking.leaderboard import RankedStrategy
from search.ranking.recommendation import COMPARED, Candidate, recommended_place, why_recommended
from search.ranking.ties import PairedError, group_of, rank_groups, tie_sentences
from search.results.search_result import BaselineComparison, BrokenRule, NearestLaunchable
from search.space.enumeration import Rejections, refusals
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace

EXPLAINED_AT_ONCE = 96  # plans with breakdown; takes about half a second where they share pipelines
WORTH_A_WORD = 0.005  # fraction of the step: smaller gains are not mentioned
NAMED_RULES = 2  # broken rules that are named
NOTHING_WOULD_DO = Sentence("No single change was found that makes one fit, up to {} times as many devices.", MAX_CLUSTER_GROWTH)

RULE_OF_THUMB = Sentence(
    " No recipe that runs is published for such a job: the baseline is the plan with the least model parallelism that fits, with "
    "full recompute and one sample a micro batch."
)


@dataclass(frozen=True)
class ResultBuilder:
    """Orders and explains the strategies of one search. ``paired_error`` decides which of them tie, where time ranks them.

    ``limits`` are the user's limits; they may be the reason why no plan is left.
    """

    workload: Workload
    space: SearchSpace
    constants: Constants
    estimate: Estimator
    objective: Objective = STEP_TIME
    paired_error: PairedError = field(default_factory=PairedError)
    criteria: RankingCriteria | None = None
    limits: SearchLimits = field(default_factory=SearchLimits)
    published: Sequence[PublishedPlan] = ()

    @cached_property
    def _plan_ids(self) -> PlanIds:
        return PlanIds(self.workload)

    @property
    def _time_ranks(self) -> bool:
        by_time = self.objective.orders_lattice_by is Criterion.STEP_TIME
        return by_time and (self.criteria is None or self.criteria.is_of_lattice)

    @property
    def rule(self) -> FitRule:
        """The rule that decides which strategies fit."""
        return fit_rule(self.workload, self.constants)

    def plans(self, best_first: Sequence[RankedStrategy], listed: int | None = None) -> tuple[DeploymentPlan, ...]:
        """The plans in the order of the objective, with their ties. Each is compared with the next one.

        ``listed`` is the number of places to list (default: all). The plan to run is one of the ``COMPARED`` first, whatever
        ``listed`` is; behind the last place it is listed too, with its own rank. It is compared with its neighbours in the space.
        """
        if not best_first:
            return ()
        found: Sequence[Mapping[str, Any]] = self.estimates([entry.strategy for entry in best_first])
        values: Sequence[Mapping[str, Value]] = [{}] * len(found)
        if self.criteria is not None:
            best_first, found, values = self._valued(self.criteria, best_first, found)
        if not best_first:
            return ()
        num_listed = min(len(best_first) if listed is None else listed, len(best_first))
        launchable = launchable_each(self.workload, StrategyBatch.of([entry.strategy for entry in best_first]))
        times_s = [entry.step_time_s for entry in best_first]
        groups = self._groups(times_s)
        candidates = [
            Candidate(
                entry.strategy,
                priced,
                takers,
                [(variant.step_time_s, variant.peak_memory_bytes) for variant in entry.variants],
                strategy_to_mapping(self.workload, entry.strategy)["noop_layers"] / self.workload.model.num_layers,
            )
            for entry, priced, takers in zip(best_first[:COMPARED], found, launchable, strict=False)
        ]
        chosen = recommended_place(candidates, groups[:COMPARED]) if self._time_ranks else 0
        ties = tie_sentences(times_s[:num_listed], groups[:num_listed], self.paired_error)
        plans = []
        shown = (*range(num_listed), *([chosen] if chosen >= num_listed else []))
        launches = self._launches([best_first[place].strategy for place in shown], [launchable[place] for place in shown])
        for place, launch in zip(shown, launches, strict=True):
            beat()
            entry, priced = best_first[place], found[place]
            explanation: dict[str, Any] = {
                "bound_by": bound_by(priced),
                "shards": where_shards_lie(self.workload, entry.strategy),
                "tie": ties[place] if place < num_listed else None,
                "against_best": None,
                "next_plan": None,
            }
            if place > 0:
                explanation["against_best"] = compared(Sentence("This plan"), priced, found[0], Sentence("plan {}", 1))
            if place + 1 < num_listed:
                explanation["next_plan"] = compared(
                    Sentence("Plan {}", place + 2), found[place + 1], priced, Sentence("this plan")
                )
            valued = values[place]
            if self.criteria is not None and not self.criteria.is_of_lattice:
                faster = sum(time_s < entry.step_time_s for time_s in times_s)
                explanation["objective"] = Sentence("{}; {}.", valued[self.criteria.first.name].text, _by_time(faster))
            if place == chosen:
                neighbouring = one_change(self.workload, self.space, entry.strategy, self.constants, self.estimate)
                explanation["one_change"] = best_change(neighbouring, self.rule)
                explanation["neighbours"] = neighbouring
            plans.append(
                DeploymentPlan(
                    rank=place + 1,
                    rank_group=groups[place],
                    fastest=place == times_s.index(min(times_s)),
                    plan_id=self._plan_ids.of(entry.strategy),
                    parallel=entry.strategy,
                    strategy=strategy_to_mapping(self.workload, entry.strategy),
                    estimate=priced,
                    explanation=explanation,
                    launchable_on=launchable[place],
                    launch=launch,
                    variants=tuple(self._variant(entry.strategy, variant) for variant in entry.variants),
                    values={name: each.shown for name, each in valued.items()},
                    ordered_by={name: each.value for name, each in valued.items()},
                    why_recommended=self._why(candidates, groups[:COMPARED], place) if place == chosen else None,
                )
            )
        return tuple(plans)

    def _launches(
        self, strategies: Sequence[ParallelStrategy], launchable: Sequence[tuple[str, ...]]
    ) -> Iterator[Mapping[str, Any]]:
        """The launch block of each strategy; rules are checked for many strategies at once."""
        for first in range(0, len(strategies), EXPLAINED_AT_ONCE):
            some = slice(first, first + EXPLAINED_AT_ONCE)
            yield from launch_blocks(self.workload, strategies[some], launchable[some])

    def _valued(
        self, criteria: RankingCriteria, best_first: Sequence[RankedStrategy], found: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[RankedStrategy], list[Mapping[str, Any]], Sequence[Mapping[str, Value]]]:
        """The plans within the limits and their values, ordered by the first objective unless it orders the lattice."""
        valued = criteria.values([entry.strategy for entry in best_first], found)
        kept = [(row, values) for row, values in enumerate(valued) if values is not None]
        if not criteria.is_of_lattice:
            kept.sort(key=lambda each: (each[1][criteria.first.name].value, each[0]))
        rows, values = [row for row, _ in kept], [each for _, each in kept]
        told = len(criteria.objectives) > 1 or not criteria.is_of_lattice
        return [best_first[row] for row in rows], [dict(found[row]) for row in rows], values if told else [{}] * len(rows)

    def why_beyond_limits(self, ranked: Sequence[RankedStrategy]) -> str:
        """Why no plan is within all limits."""
        assert self.criteria is not None
        strategies = [entry.strategy for entry in ranked]
        return self.criteria.why_none(strategies, self.estimates(strategies))

    def _groups(self, times_s: Sequence[float]) -> list[int]:
        """The group of each plan. If time does not rank them, each is a separate group."""
        if not self._time_ranks:
            return [place + 1 for place in range(len(times_s))]
        return rank_groups(times_s, self.paired_error.fraction)

    def _why(self, candidates: Sequence[Candidate], groups: Sequence[int], place: int) -> str:
        if not self._time_ranks:
            return Sentence("plan {} is the best by {}", place + 1, word(self._objective_name))
        return why_recommended(candidates, groups, place, self.paired_error.fraction)

    @property
    def _objective_name(self) -> str:
        return self.objective.name if self.criteria is None else self.criteria.first.name

    def best_of(self, plans: Sequence[DeploymentPlan]) -> DeploymentPlan | None:
        """The plan that is best by the objective alone, without ties."""
        if not self._time_ranks:
            return plans[0] if plans else None
        return next((plan for plan in plans if plan.fastest), None)

    def compared_with(self, given: ParallelStrategy | None, plans: Sequence[DeploymentPlan]) -> BaselineComparison | None:
        """The plan to run compared with the given strategy, or else with a published recipe, or else with the rule of thumb."""
        if given is not None:
            return self.baseline(given, plans, "given")
        recipe = published_baseline(self.workload, self.constants, self.published)
        if recipe is not None:
            return self.baseline(recipe.strategy, plans, "published", recipe)
        measure = default_baseline(self.workload, self.constants)
        return None if measure is None else self.baseline(measure, plans, "rule_of_thumb")

    def baseline(
        self, strategy: ParallelStrategy, plans: Sequence[DeploymentPlan], source: str, recipe: PublishedPlan | None = None
    ) -> BaselineComparison:
        """The plan to run compared with the baseline. An illegal baseline is priced where possible, with its violations."""
        best = recommended_of(plans)
        strategy = canonical(self.workload, strategy)
        workload = self.workload
        broken = tuple(Sentence("{}: {}", violation.rule, violation.sentence) for violation in violations(workload, strategy))
        described, published = strategy_to_mapping(self.workload, strategy), None if recipe is None else recipe.publication()
        if violations(workload, strategy, ANY):
            return BaselineComparison(source, described, {}, broken, None, Sentence("The baseline cannot run: {}.", broken[0]))
        (priced,) = self.estimates([strategy])
        if best is None:
            return BaselineComparison(source, described, priced, broken, None, bound_by(priced), publication=published)
        speedup = priced["step_time_s"] / best.estimate["step_time_s"] - 1.0
        why = compared(Sentence("The baseline"), priced, best.estimate, Sentence("plan {}", best.rank))
        if source == "rule_of_thumb":
            why += RULE_OF_THUMB
        why += self._too_large(priced) + self._better_placed(strategy, priced)
        if broken:
            why += Sentence(" {} refuses the baseline: {}.", workload.software.target, broken[0])
        group = self._group_among(priced, plans) if priced["fits"] and not broken else None
        if group == 1:
            why += Sentence(" It is in the first group: not measurably slower (paired error {:.1%}).", self.paired_error.fraction)
        error = self.paired_error.fraction if self._time_ranks and self.paired_error.num_pairs else None
        return BaselineComparison(source, described, priced, broken, speedup, why, group, error, published)

    def _better_placed(self, strategy: ParallelStrategy, priced: Mapping[str, Any]) -> str:
        """The gain from moving layers alone, where it is worth mentioning."""
        by_stage = strategy.recompute_layers_per_stage is not None or strategy.tensor_plan is not None
        if strategy.pp == 1 or not self._time_ranks or by_stage:
            return ""  # a plan by stage holds for the layers where they are
        (moved,) = Placer(self.workload).best(self.constants, [strategy])
        (found,) = self.estimates([moved])
        gain = 1.0 - found["step_time_s"] / priced["step_time_s"]
        if gain < WORTH_A_WORD or found["fits"] < priced["fits"] or violations(self.workload, moved):
            return ""
        return Sentence(" Moving layers alone would make it {:.1%} shorter: {}.", gain, changes(strategy, moved))

    def _group_among(self, priced: Mapping[str, Any], plans: Sequence[DeploymentPlan]) -> int | None:
        if not self._time_ranks:
            return None
        leaders: dict[int, float] = {}
        for plan in plans:
            leaders[plan.rank_group] = min(plan.estimate["step_time_s"], leaders.get(plan.rank_group, float("inf")))
        return group_of(priced["step_time_s"], list(leaders.values()), self.paired_error.fraction)

    def space_report(self, best: DeploymentPlan | None) -> SpaceReport:
        """The switches that were tried, and the effect of the others on this plan."""
        parallel = None if best is None else best.parallel
        return space_report(self.workload, self.space, parallel, self.constants)

    def nearest_launchable(self, plan: DeploymentPlan) -> tuple[NearestLaunchable, ...]:
        """The nearest strategy that each framework takes, for a search without a target; otherwise empty."""
        if self.workload.software.target != ANY.name:
            return ()
        family = self.workload.cluster.profile.family
        return tuple(self._nearest_on(framework, plan) for framework in FRAMEWORKS if family in framework.target.families)

    def _nearest_on(self, framework: Framework, plan: DeploymentPlan) -> NearestLaunchable:
        workload, target = self.workload, framework.target
        drafted, replaced = framework.nearest(workload, plan.parallel)
        strategy = canonical(workload, drafted)
        if broken := violations(workload, strategy, target):
            rules = tuple(BrokenRule(violation.rule, violation.sentence) for violation in broken)
            refusal = Sentence("{} takes nothing near plan {}: {}.", target.label, plan.rank, broken[0].sentence)
            return NearestLaunchable(target.label, None, None, None, refusal, replaced, rules)
        if untold := framework.untold(workload):
            return NearestLaunchable(target.label, None, None, None, untold[0], replaced, ())
        (priced,) = self.estimates([strategy])
        difference = priced["step_time_s"] / plan.estimate["step_time_s"] - 1.0
        why: str = Sentence("{} takes plan {} as it is.", target.label, plan.rank)
        if strategy != plan.parallel:
            why = compared(
                Sentence("The nearest on {}", target.label), priced, plan.estimate, Sentence("plan {}", plan.rank)
            ) + self._too_large(priced)
        described = strategy_to_mapping(workload, strategy)
        return NearestLaunchable(target.label, described, priced, difference, why, replaced, ())

    def infeasible(self, leanest: tuple[float, ParallelStrategy] | None) -> Infeasible:
        """The reasons why there is no plan, and changes of the job that would help."""
        return infeasible(self.workload, self.limits, self.constants, self.estimate, leanest, self.rule.fit_limit_bytes)

    def nearest(self, rejections: Rejections, story: Infeasible) -> str:
        """Sentences on why this search has no plan, and on changes that would help."""
        changes = joined("; ", (change.change for change in story.changes))
        would_do = Sentence("What would do, each checked with a plan that fits: {}.", changes) if changes else NOTHING_WOULD_DO
        peak, strategy = story.peak_memory_bytes, story.leanest
        if peak is None or strategy is None:
            return Sentence("{} {}", self._nothing_legal(rejections, story), would_do)
        described = joined(", ", (Sentence("{} {}", name, strategy[name]) for name in ("tp", "pp", "cp", "ep", "dp")))
        return Sentence(
            "No legal strategy fits: the leanest ({}) needs {:.1f} GiB of device memory, {}. {}",
            described,
            peak / GIB,
            shortfall(peak, self.rule),
            would_do,
        )

    def _nothing_legal(self, rejections: Rejections, story: Infeasible) -> str:
        if not rejections.counts:
            return Sentence("The search space is empty: its limits leave no strategy to try.")
        if refused := refusals(self.workload):
            why = joined("; ", (rule.sentence(self.workload, ParallelStrategy()).rstrip(".") for rule in refused))
            return Sentence("{} takes no strategy of this job: {}.", self.workload.software.target, why)
        if story.rules:
            first = joined("; ", (one.sentence.rstrip(".") for one in story.rules[:NAMED_RULES]))
            more = len(story.rules) - NAMED_RULES
            others = Sentence(" (and {} more rules)", more) if more > 0 else ""
            return Sentence("No strategy is legal; what comes nearest breaks: {}{}.", first, others)
        rule = max(rejections.counts, key=lambda name: (rejections.counts[name], name))
        broken, example = rejections.examples[rule]
        return Sentence("No strategy is legal; most often: {}.", broken.sentence(self.workload, example))

    def estimates(self, strategies: Sequence[ParallelStrategy]) -> list[dict[str, Any]]:
        """The estimates of strategies with their breakdowns, as JSON. Those of one pipeline are priced at once."""
        found: dict[int, dict[str, Any]] = {}
        places = sorted(range(len(strategies)), key=lambda place: _pipeline(strategies[place]))
        for first in range(0, len(places), EXPLAINED_AT_ONCE):
            some = places[first : first + EXPLAINED_AT_ONCE]
            batch = StrategyBatch.of([strategies[place] for place in some])
            priced = self.estimate(self.workload, batch, self.constants, breakdown=True)
            found.update(zip(some, estimates_to_mappings(self.workload, priced), strict=True))
            beat()
        return [found[place] for place in range(len(strategies))]

    def _variant(self, best: ParallelStrategy, variant: RankedStrategy) -> Mapping[str, Any]:
        return {
            "plan_id": self._plan_ids.of(variant.strategy),
            "change": changes(best, variant.strategy),
            "strategy": strategy_to_mapping(self.workload, variant.strategy),
            "step_time_s": variant.step_time_s,
            "peak_memory_bytes": variant.peak_memory_bytes,
            "headroom_bytes": self.rule.memory_limit_bytes - variant.peak_memory_bytes,
            "fits_probability": float(self.rule.probability(np.array(variant.peak_memory_bytes))),
        }

    def _too_large(self, priced: Mapping[str, Any]) -> str:
        if priced["fits"]:
            return ""
        peak_bytes = priced["peak_memory_bytes"]
        return Sentence(" It also needs {:.1f} GiB of device memory, {}.", peak_bytes / GIB, shortfall(peak_bytes, self.rule))


def _by_time(faster: int) -> str:
    if not faster:
        return Sentence("the fastest of those compared, too")
    return Sentence("{} of those compared {} a shorter step", faster, "has" if faster == 1 else "have")


def _pipeline(strategy: ParallelStrategy) -> tuple[int, ...]:
    """Orders strategies so that those whose pipelines are priced together are neighbours."""
    sequences_at_once = strategy.dp * strategy.micro_batch_size
    return strategy.pp, strategy.vpp, strategy.schedule.value, sequences_at_once, strategy.tp, strategy.ep
