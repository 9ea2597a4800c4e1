"""The request of a search: one record, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.target import ANY
from search.errors import SearchError
from search.objectives.objective import Criterion, Objective
from search.objectives.step_time import STEP_TIME
from search.objectives.table import OF_LATTICE
from search.ranking.criteria import RankingCriteria
from search.ranking.recommendation import COMPARED
from search.ranking.ties import PairedError
from search.session.progress import Clock
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace

if TYPE_CHECKING:
    from search.plans.baseline import PublishedPlan

MAX_SIMULATIONS = 200_000
SAMPLERS = ("tpe", "nsga2", "random")


@dataclass(frozen=True)
class SearchOptions:
    """Options that not every mode of a search reads. ``refine`` is a number of trials around the best plans.

    ``seed`` is the seed of a sampler or a refinement. ``max_simulations`` limits the simulations of the proof.
    """

    sampler: str | None = None
    max_trials: int | None = None
    seed: int = 0
    refine: int = 0
    refine_front: bool = False
    by_tensor: bool = False
    max_simulations: int = MAX_SIMULATIONS


class Mode(Enum):
    """The modes of a search, each with the options that it reads."""

    EXHAUSTIVE = frozenset({"max_simulations", "by_tensor", "refine"})
    TARGET = frozenset({"max_simulations", "refine"})
    SAMPLED = frozenset({"sampler", "max_trials", "seed"})


# The sentence for an option that is given and not read.
_REFUSALS = {
    "sampler": Sentence("search.sampler: only a search by a sampler reads it; leave it out."),
    "max_trials": Sentence("search.max_trials: only a sampler reads it; give search.sampler, or leave it out."),
    "seed": Sentence(
        "search.seed: only a sampler or a refinement reads it; give search.sampler or search.refine, or leave it out."
    ),
    "refine": Sentence(
        "search.refine: only plans of an exhaustive search by step time are refined; leave it out, or other objectives, "
        "limits of days or cost, and the sampler."
    ),
    "refine_front": Sentence(
        "search.refine_front: only a refinement reads it; give search.refine, the number of trials, or leave it out."
    ),
    "by_tensor": Sentence(
        "search.by_tensor: tensors are chosen where no framework must take the plan, by an exhaustive search by step "
        "time; give software.target any without a sampler, or leave it out."
    ),
    "max_simulations": Sentence("search.max_simulations: only an exhaustive search reads it; leave it or the sampler out."),
}


MOST_CLIMBED = COMPARED  # plans whose layers are moved: that takes as long as all else of a plan


@dataclass(frozen=True)
class SearchRequest:
    """Request of a search: the space, the ranking and limits of its plans, and the mode.

    ``objective`` orders the lattice, of which ``top`` structures are compared. With ``listed`` the answer has that many of them,
    and ``top`` is ``MOST_CLIMBED`` at least, so that a short list begins as a long one does and recommends the same plan.
    ``criteria`` rank plans too and then decide these. ``physics`` is the space of the same limits without a target: with it, the
    search also finds the best plan that the target refuses. ``limits`` are the limits of ``space``; they explain an empty
    result. ``baseline`` is the strategy to beat (default: the first of ``published`` that runs, else ``default_baseline``).
    ``paired_error`` decides which plans tie. ``clock`` returns seconds; without it timings are zero. Raises ``SearchError`` for
    an unknown or unusable value, and for an option that the mode does not read.
    """

    workload: Workload
    space: SearchSpace
    constants: Constants
    objective: Objective = STEP_TIME
    top: int = 20
    listed: int | None = None
    criteria: RankingCriteria | None = None
    physics: SearchSpace | None = None
    limits: SearchLimits = field(default_factory=SearchLimits)
    baseline: ParallelStrategy | None = None
    published: Sequence[PublishedPlan] = ()
    paired_error: PairedError = field(default_factory=PairedError)
    clock: Clock | None = None
    options: SearchOptions = field(default_factory=SearchOptions)

    def __post_init__(self) -> None:
        if self.criteria is not None:
            object.__setattr__(self, "objective", self.criteria.of_lattice)
            object.__setattr__(self, "top", self.criteria.considered)
            object.__setattr__(self, "listed", self.criteria.top)
        elif self.listed is not None:
            object.__setattr__(self, "top", max(self.listed, MOST_CLIMBED))
        options = self.options
        if self.objective.orders_lattice_by is None:
            raise SearchError(Sentence("objective: {!r} is not one of {}.", self.objective.name, joined(", ", OF_LATTICE)))
        if self.top < 1:
            raise SearchError(Sentence("top: {} is below 1.", self.top))
        if options.sampler not in (None, *SAMPLERS):
            raise SearchError(Sentence("sampler: {!r} is not one of {}.", options.sampler, joined(", ", SAMPLERS)))
        if options.sampler is not None and (options.max_trials is None or options.max_trials < 1):
            raise SearchError(Sentence("max_trials: {} is below 1.", options.max_trials))
        if self.criteria is not None and self.mode(options) is not Mode.EXHAUSTIVE:
            raise RuntimeError("criteria rank the plans of an exhaustive search of one space")
        for name in self.unread(options):
            raise SearchError(_REFUSALS[name])

    def mode(self, options: SearchOptions) -> Mode:
        """The mode of the search with these options."""
        if options.sampler is not None:
            return Mode.SAMPLED
        return Mode.EXHAUSTIVE if self.physics is None else Mode.TARGET

    @property
    def criterion(self) -> Criterion:
        """The criterion that orders the lattice."""
        assert self.objective.orders_lattice_by is not None  # checked
        return self.objective.orders_lattice_by

    def reads(self, options: SearchOptions) -> frozenset[str]:
        """The names of the options that the search reads."""
        names = set(self.mode(options).value)
        if self.criterion is not Criterion.STEP_TIME:
            names -= {"by_tensor", "refine"}
        if self.criteria is not None:
            names -= {"refine"}
        if self.workload.software.target != ANY.name:
            names -= {"by_tensor"}
        if "refine" in names and options.refine:
            names |= {"seed", "refine_front"}
        return frozenset(names)

    def unread(self, options: SearchOptions) -> tuple[str, ...]:
        """The names of the options that are given and that the search does not read."""
        default, reads = SearchOptions(), self.reads(options)
        given = (each.name for each in fields(SearchOptions) if getattr(options, each.name) != getattr(default, each.name))
        return tuple(name for name in given if name not in reads)

    def with_stored(self, options: SearchOptions) -> SearchRequest:
        """The request with the options of a stored job, without those that it does not read: earlier versions accepted them."""
        default = SearchOptions()
        return replace(self, options=replace(options, **{name: getattr(default, name) for name in self.unread(options)}))

    def of_physics(self) -> SearchRequest:
        """The request of the same search without a target, for one plan alone."""
        assert self.physics is not None
        return replace(self, workload=on_physics(self.workload), space=self.physics, physics=None, top=1, baseline=None)


def on_physics(workload: Workload) -> Workload:
    """Copy of the workload without a target."""
    return replace(workload, software=replace(workload.software, target=ANY.name))
