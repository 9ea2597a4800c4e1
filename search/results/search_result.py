"""What a search returns, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cost_models.shapes.workload import Workload
from documents.said import Said
from search.explain.space_report import SpaceReport
from search.feasibility.infeasible import Infeasible
from search.plans.plan import DeploymentPlan
from search.ranking.proof import Proof
from search.ranking.ties import PairedError
from search.results.refinement import Refinement
from search.space.enumeration import Rejections
from search.tensor_choice.tensor_refinement import TensorRefinement


@dataclass(frozen=True)
class Counts:
    """``enumerated`` = ``legal`` + the sum of the rejections. ``None``: this release does not do that.

    ``estimated`` have their memory counted, or were ruled out by their weights and states alone, and their time priced where they
    fit. The other legal ones were ruled out by what their layers take at least, before that; they and those that fit and were not
    simulated are ``pruned_by_bound``. ``fits_memory`` is of those estimated.
    """

    enumerated: int
    legal: int
    fits_memory: int
    estimated: int
    pruned_by_bound: int = 0
    simulated: int | None = None
    sampled: int | None = None


@dataclass(frozen=True)
class Rejection:
    """Strategies charged to one legality rule, with the sentence for the first of them."""

    rule: str
    count: int
    example: Said


@dataclass(frozen=True)
class Timing:
    """Wall time by phase, in seconds of the caller's clock."""

    enumerate_s: float
    legality_s: float
    price_s: float
    rank_s: float
    explain_s: float
    total_s: float
    simulate_s: float | None = None
    refine_s: float | None = None  # trials around the best plans and tensors chosen one by one, beside the search itself

    def to_mapping(self) -> dict[str, float | None]:
        """``estimate_s`` covers enumeration, legality and pricing."""
        return {"estimate_s": self.enumerate_s + self.legality_s + self.price_s, **asdict(self)}


@dataclass(frozen=True)
class BaselineComparison:
    """The plan to beat and what the best plan gains over it.

    ``speedup_fraction`` is the baseline's step time over plan 1's, minus 1 (``None`` without a plan). ``rank_group`` is the group
    of the listed plans in which it falls: ``None`` behind the last, where it cannot run or does not fit, or where memory ranks.
    """

    source: str  # given | rule_of_thumb
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]
    violations: tuple[str, ...]
    speedup_fraction: float | None
    why: str
    rank_group: int | None = None


@dataclass(frozen=True)
class BrokenRule:
    """A rule of a framework, and what of a strategy breaks it."""

    rule: str
    sentence: str


@dataclass(frozen=True)
class PhysicsBest:
    """The best of all that physics allows, beside plans that a framework must take.

    ``difference_fraction`` is the step time of the plan that is proved best over its own, minus 1 (``None`` without one), ``why``
    what makes it, and ``rules`` keep it from being launched; none where it is that plan. Over the ``num_refused`` strategies that
    the framework refuses, of which ``simulated`` were played, it is ``proved_best``, unless ``stopped_by`` says otherwise.
    """

    plan_id: str
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]
    difference_fraction: float | None
    why: str
    rules: tuple[BrokenRule, ...]
    num_refused: int
    simulated: int
    proved_best: bool
    stopped_by: str | None

    def to_mapping(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "rules": [asdict(rule) for rule in self.rules]}


@dataclass(frozen=True)
class NearestLaunchable:
    """What a framework takes in place of a plan of the physics alone.

    ``replaced`` says what was changed and why. ``strategy`` and ``estimate`` are ``None`` where even that breaks ``rules``, or
    trains another model; ``difference_fraction`` is its step time over the plan's, minus 1.
    """

    target: str
    strategy: Mapping[str, Any] | None
    estimate: Mapping[str, Any] | None
    difference_fraction: float | None
    why: str
    replaced: tuple[str, ...]
    rules: tuple[BrokenRule, ...]

    def to_mapping(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "replaced": list(self.replaced), "rules": [asdict(rule) for rule in self.rules]}


@dataclass(frozen=True)
class SearchResult:
    """Plans, best first, with the account of how they were found. ``nearest`` is a hint where nothing fits.

    ``physics_best`` stands beside plans for a target, ``nearest_launchable`` and ``by_tensor`` beside those of the physics alone,
    ``refinement`` beside those of either where it is asked for. Without a plan of an exhaustive search, ``infeasible`` says why.
    """

    counts: Counts
    rejections: tuple[Rejection, ...]
    proof: Proof
    timing: Timing
    plans: tuple[DeploymentPlan, ...]
    baseline: BaselineComparison | None
    nearest: str | None
    physics_best: PhysicsBest | None = None
    nearest_launchable: tuple[NearestLaunchable, ...] = ()
    paired_error: PairedError = field(default_factory=PairedError)
    space: SpaceReport | None = None
    by_tensor: tuple[TensorRefinement, ...] = ()
    refinement: Refinement | None = None
    infeasible: Infeasible | None = None
    pareto: tuple[DeploymentPlan, ...] = ()  # of all plans that were compared, where there are several objectives

    @property
    def best(self) -> DeploymentPlan | None:
        """The plan that the proof is about."""
        return next((plan for plan in self.plans if plan.plan_id == self.proof.plan_id), None)

    def to_mapping(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "counts": asdict(self.counts),
            "rejections": [asdict(rejection) for rejection in self.rejections],
            "proof": asdict(self.proof),
            "timing": self.timing.to_mapping(),
            "plans": [plan.to_mapping() for plan in self.plans],
            "baseline": None if self.baseline is None else {**vars(self.baseline), "violations": list(self.baseline.violations)},
            "nearest": self.nearest,
            "infeasible": None if self.infeasible is None else self.infeasible.to_mapping(),
            "physics_best": None if self.physics_best is None else self.physics_best.to_mapping(),
            "space": None if self.space is None else self.space.to_mapping(),
            "nearest_launchable": [nearest.to_mapping() for nearest in self.nearest_launchable],
            "by_tensor": [each.to_mapping() for each in self.by_tensor],
            "refinement": None if self.refinement is None else self.refinement.to_mapping(),
            "paired_error": asdict(self.paired_error),
            "pareto": [
                {"plan_id": plan.plan_id, "values": dict(plan.values), "strategy": dict(plan.strategy)} for plan in self.pareto
            ],
        }


def listed_rejections(workload: Workload, rejections: Rejections) -> tuple[Rejection, ...]:
    """Reasons with their counts, the largest first."""
    listed = [
        Rejection(name, count, rejections.examples[name][0].sentence(workload, rejections.examples[name][1]))
        for name, count in rejections.counts.items()
    ]
    return tuple(sorted(listed, key=lambda rejection: (-rejection.count, rejection.rule)))
