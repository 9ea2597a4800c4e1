"""The result of a search and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cost_models.shapes.workload import Workload
from documents.said import Said
from search.explain.space_report import SpaceReport
from search.feasibility.infeasible import Infeasible
from search.plans.plan import DeploymentPlan, recommended_of
from search.ranking.proof import Proof
from search.ranking.recommendation import recommendation
from search.ranking.ties import PairedError
from search.results.refinement import Refinement
from search.space.enumeration import Rejections
from search.tensor_choice.tensor_refinement import TensorRefinement


@dataclass(frozen=True)
class Counts:
    """``enumerated`` = ``legal`` + the sum of the rejections. ``None``: the search does not count it.

    ``estimated`` strategies had their memory counted, or were ruled out by their weights and states alone; those that fit were
    timed. The other legal ones were ruled out earlier by a lower bound on layer time. These, and those that fit and were not
    simulated, are ``pruned_by_bound``. ``fits_memory`` counts estimated strategies. ``lattice`` is the number of
    strategies to enumerate in all, without the memory-saving forms of those that do not fit, and ``lattice_legal`` of them break
    no rule. These two depend on the job alone. All others are what the search had to look at: more for a longer list. ``forms``
    of ``enumerated`` are memory-saving forms.
    """

    enumerated: int
    legal: int
    fits_memory: int
    estimated: int
    pruned_by_bound: int = 0
    simulated: int | None = None
    sampled: int | None = None
    lattice: int | None = None
    lattice_legal: int | None = None
    forms: int | None = None


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
    refine_s: float | None = None  # trials of a refinement, and tensors chosen one by one

    def to_mapping(self) -> dict[str, float | None]:
        """``estimate_s`` covers enumeration, legality and pricing."""
        return {"estimate_s": self.enumerate_s + self.legality_s + self.price_s, **asdict(self)}


@dataclass(frozen=True)
class BaselineComparison:
    """The baseline, and the gain of the best plan over it.

    ``speedup_fraction`` is the baseline's step time over that of the plan to run, minus 1 (``None`` without a plan).
    ``rank_group`` is the group of listed plans that the baseline would be in. It is ``None`` in none of them, for a
    baseline that cannot run or does not fit, and where memory ranks. ``error_fraction`` is the paired error of the two times
    (``None`` without evidence). ``publication`` is the source of a published recipe.
    """

    source: str  # given | published | rule_of_thumb
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]
    violations: tuple[str, ...]
    speedup_fraction: float | None
    why: str
    rank_group: int | None = None
    error_fraction: float | None = None
    publication: Mapping[str, str | int] | None = None


@dataclass(frozen=True)
class BrokenRule:
    """A rule of a framework, and a sentence on how a strategy breaks it."""

    rule: str
    sentence: str


@dataclass(frozen=True)
class PhysicsBest:
    """The best plan of the physics alone, for comparison with plans that a framework must take.

    ``difference_fraction`` is the step time of the proved plan over its own, minus 1 (``None`` without one); ``why`` explains it.
    ``rules`` keep it from being launched; they are empty where it is the proved plan. It is ``proved_best`` over the
    ``num_refused`` strategies that the framework refuses, ``simulated`` of which were simulated, unless ``stopped_by`` is set.
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
        """The plan as JSON."""
        return {**vars(self), "rules": [asdict(rule) for rule in self.rules]}


@dataclass(frozen=True)
class NearestLaunchable:
    """The nearest strategy that a framework takes in place of a plan of the physics alone.

    ``replaced`` lists the changes and their reasons. ``strategy`` and ``estimate`` are ``None`` where even that breaks ``rules``
    or trains another model. ``difference_fraction`` is its step time over the plan's, minus 1.
    """

    target: str
    strategy: Mapping[str, Any] | None
    estimate: Mapping[str, Any] | None
    difference_fraction: float | None
    why: str
    replaced: tuple[str, ...]
    rules: tuple[BrokenRule, ...]

    def to_mapping(self) -> dict[str, Any]:
        """The record as JSON."""
        return {**vars(self), "replaced": list(self.replaced), "rules": [asdict(rule) for rule in self.rules]}


@dataclass(frozen=True)
class SearchResult:
    """Plans in the order of the objective, with counts, rejections, proof and timing. ``nearest`` is a hint where nothing fits.

    ``physics_best`` is set for a target, ``nearest_launchable`` and ``by_tensor`` for the physics alone, ``refinement`` on
    request. ``infeasible`` explains an exhaustive search without a plan.
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
    pareto: tuple[DeploymentPlan, ...] = ()  # Pareto front of all compared plans, if there are several objectives

    @property
    def recommended(self) -> DeploymentPlan | None:
        """The plan to run."""
        return recommended_of(self.plans)

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
            "recommended": None if self.recommended is None else asdict(recommendation(self.recommended)),
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
    """Rejections with their counts, the largest first."""
    listed = [
        Rejection(name, count, rejections.examples[name][0].sentence(workload, rejections.examples[name][1]))
        for name, count in rejections.counts.items()
    ]
    return tuple(sorted(listed, key=lambda rejection: (-rejection.count, rejection.rule)))
