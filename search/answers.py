"""Turns the best strategies into plans: breakdown, explanation, comparison, launch arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from frameworks.framework import Framework
from frameworks.launch import launch_block
from frameworks.legality import launchable_on, violations
from frameworks.registry import FRAMEWORKS
from frameworks.target import ANY
from search.baseline import default_baseline
from search.enumeration import Rejections, charge_illegal, chunks, option_rules, refusals
from search.explanation import GIB, Estimator, best_change, bound_by, changes, compared, one_change
from search.fillable import fillable_device_counts
from search.limits import SearchLimits
from search.plan import DeploymentPlan, estimates_to_mappings, plan_id, strategy_to_mapping
from search.ranking import RankedStrategy
from search.recompute_modes import recompute_mode
from search.result import BaselineComparison, BrokenRule, NearestLaunchable
from search.space import SearchSpace, search_space

MAX_CLUSTER_GROWTH = 64  # times as many devices, when looking for a cluster that would do


@dataclass(frozen=True)
class Answers:
    """Explains strategies of one search."""

    workload: Workload
    space: SearchSpace
    constants: Constants
    estimate: Estimator

    def plans(self, ranked: Sequence[RankedStrategy]) -> tuple[DeploymentPlan, ...]:
        """Plans in the given order, each compared with the next; the first also with its neighbours in the space."""
        if not ranked:
            return ()
        estimates = self.estimates([entry.strategy for entry in ranked])
        plans = []
        for place, (entry, priced) in enumerate(zip(ranked, estimates, strict=True)):
            explanation: dict[str, Any] = {"bound_by": bound_by(priced), "against_best": None, "next_plan": None}
            if place > 0:
                explanation["against_best"] = compared("This plan", priced, estimates[0], "plan 1")
            if place + 1 < len(ranked):
                explanation["next_plan"] = compared(f"Plan {place + 2}", estimates[place + 1], priced, "this plan")
            if place == 0:
                neighbouring = one_change(self.workload, self.space, entry.strategy, self.constants, self.estimate)
                explanation["one_change"] = best_change(neighbouring, priced["memory_limit_bytes"])
                explanation["neighbours"] = neighbouring
            plans.append(
                DeploymentPlan(
                    rank=place + 1,
                    plan_id=plan_id(self.workload, entry.strategy),
                    parallel=entry.strategy,
                    strategy=strategy_to_mapping(self.workload, entry.strategy),
                    estimate=priced,
                    explanation=explanation,
                    launchable_on=launchable_on(self.workload, entry.strategy),
                    launch=launch_block(self.workload, entry.strategy),
                    variants=tuple(self._variant(entry.strategy, variant) for variant in entry.variants),
                )
            )
        return tuple(plans)

    def compared_with(self, given: ParallelStrategy | None, best: DeploymentPlan | None) -> BaselineComparison | None:
        """The best plan against the given one, else against the rule of thumb's, if that finds any."""
        measure = given or default_baseline(self.workload, self.constants, self.estimate)
        return None if measure is None else self.baseline(measure, best, given=given is not None)

    def baseline(self, strategy: ParallelStrategy, best: DeploymentPlan | None, *, given: bool) -> BaselineComparison:
        """The best plan against the plan to beat. An illegal baseline is priced where that is possible, with its violations."""
        strategy = canonical(self.workload, strategy)
        workload = self.workload
        broken = tuple(f"{violation.rule}: {violation.sentence}" for violation in violations(workload, strategy))
        source = "given" if given else "rule_of_thumb"
        described = strategy_to_mapping(self.workload, strategy)
        if violations(workload, strategy, ANY):
            return BaselineComparison(source, described, {}, broken, None, f"The baseline cannot run: {broken[0]}.")
        (priced,) = self.estimates([strategy])
        if best is None:
            return BaselineComparison(source, described, priced, broken, None, bound_by(priced))
        speedup = priced["step_time_s"] / best.estimate["step_time_s"] - 1.0
        why = compared("The baseline", priced, best.estimate, "plan 1")
        why += _too_large(priced)
        if broken:
            why += f" {workload.software.target} refuses the baseline: {broken[0]}."
        return BaselineComparison(source, described, priced, broken, speedup, why)

    def nearest_launchable(self, plan: DeploymentPlan) -> tuple[NearestLaunchable, ...]:
        """What each framework of these devices takes in place of a plan of the physics alone; nothing beside a target's."""
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
            why = f"{target.label} takes nothing near plan 1: {broken[0].sentence}."
            return NearestLaunchable(target.label, None, None, None, why, replaced, rules)
        if untold := framework.untold(workload):
            return NearestLaunchable(target.label, None, None, None, untold[0], replaced, ())
        (priced,) = self.estimates([strategy])
        difference = priced["step_time_s"] / plan.estimate["step_time_s"] - 1.0
        why = f"{target.label} takes plan 1 as it is."
        if strategy != plan.parallel:
            why = compared(f"The nearest on {target.label}", priced, plan.estimate, "plan 1") + _too_large(priced)
        described = strategy_to_mapping(workload, strategy)
        return NearestLaunchable(target.label, described, priced, difference, why, replaced, ())

    def nearest(self, rejections: Rejections, leanest: tuple[float, ParallelStrategy] | None) -> str:
        """One or two sentences on what stands between this search and a plan."""
        if leanest is None:
            return self._nothing_legal(rejections)
        peak, strategy = leanest
        (priced,) = self.estimates([strategy])
        shortfall = (peak - priced["memory_limit_bytes"]) / GIB
        described = ", ".join(f"{name} {getattr(strategy, name)}" for name in ("tp", "pp", "cp", "ep", "dp"))
        sentence = (
            f"No legal strategy fits: the leanest ({described}) needs {peak / GIB:.1f} GiB of device memory, "
            f"{shortfall:.1f} GiB more than the {priced['memory_limit_bytes'] / GIB:.1f} GiB that can be used."
        )
        num_devices = self._enough_devices()
        if num_devices == self.workload.cluster.num_devices:
            return f"{sentence} Without the limits on the search it fits on these {num_devices} devices."
        if num_devices is not None:
            return f"{sentence} {num_devices} devices are enough."
        return f"{sentence} Not even {MAX_CLUSTER_GROWTH} times as many devices are enough at this batch."

    def _nothing_legal(self, rejections: Rejections) -> str:
        num_devices = self.workload.cluster.num_devices
        counts = fillable_device_counts(self.workload, num_devices)
        if not rejections.counts:
            return "The search space is empty: its limits leave no strategy to try."
        if refused := refusals(self.workload):
            why = "; ".join(rule.sentence(self.workload, ParallelStrategy()).rstrip(".") for rule in refused)
            return f"{self.workload.software.target} takes no strategy of this job: {why}."
        rule = max(rejections.counts, key=lambda name: (rejections.counts[name], name))
        broken, example = rejections.examples[rule]
        sentence = f"No strategy is legal; most often: {broken.sentence(self.workload, example)}."
        if num_devices in counts:
            sentence += f" {num_devices} devices can be filled: the limits on the search or its target stand in the way."
        elif counts:
            sentence += f" Nearest device counts that can be filled: {' and '.join(map(str, counts))}."
        return sentence

    def _enough_devices(self) -> int | None:
        """The smallest of 1, 2, 4, ... times the devices on which a memory-saving strategy fits, limits aside."""
        limits = SearchLimits(
            vpp=(1,),
            micro_batch_size=(1,),
            recompute=(recompute_mode("full"),),
            switches={Feature.SWAP_OPTIMIZER: (True,)},
        )
        num_devices = self.workload.cluster.num_devices
        factor = 1
        while factor <= MAX_CLUSTER_GROWTH:
            cluster = replace(self.workload.cluster, num_devices=num_devices * factor)
            workload = replace(self.workload, cluster=cluster)
            for chunk in chunks(workload, search_space(workload, limits), Rejections()):
                legal = charge_illegal(workload, chunk.batch, option_rules(workload), Rejections())
                if len(legal) and np.any(self.estimate(workload, legal, self.constants).fits):
                    return cluster.num_devices
            factor *= 2
        return None

    def estimates(self, strategies: Sequence[ParallelStrategy]) -> list[dict[str, Any]]:
        """Prices with their parts, in order, as JSON."""
        priced = self.estimate(self.workload, StrategyBatch.of(strategies), self.constants, breakdown=True)
        return estimates_to_mappings(self.workload, priced)

    def _variant(self, best: ParallelStrategy, variant: RankedStrategy) -> Mapping[str, Any]:
        return {
            "plan_id": plan_id(self.workload, variant.strategy),
            "change": changes(best, variant.strategy),
            "strategy": strategy_to_mapping(self.workload, variant.strategy),
            "step_time_s": variant.step_time_s,
            "peak_memory_bytes": variant.peak_memory_bytes,
        }


def _too_large(priced: Mapping[str, Any]) -> str:
    return "" if priced["fits"] else f" It also needs {-priced['headroom_bytes'] / GIB:.1f} GiB more device memory than there is."
