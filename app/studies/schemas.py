"""Studies as the API shows them."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, create_model

from app.answers.effort import Counts, Timing
from app.answers.schemas import (
    Baseline,
    ByTensorDocument,
    EstimateNumbers,
    InfeasibleDocument,
    NearestLaunchableDocument,
    ParetoPlan,
    PhysicsBestDocument,
    PlanAsStored,
    RefinementDocument,
    Space,
)
from app.answers.strategies import StrategyDocument
from app.http.ownership import Visibility
from app.http.paging import Listing
from app.rl.schemas import RlStudyResult
from app.studies.labels import NameText, NoteText, Tags
from app.studies.queue_order import MAX_PRIORITY
from app.sweeps.schemas import SweepDocument, SweepPoint
from app.text.json_documents import DescribedBy, Document
from documents.checking import Section
from documents.late_methods import dataclass
from documents.said import Said
from documents.sentences import Sentence
from search.ranking.proof import Proof
from search.ranking.recommendation import Recommendation
from search.ranking.ties import PairedError

Item = TypeVar("Item")
KindName = Literal["search", "sweep", "rl"]
State = Literal["queued", "running", "completed", "failed", "cancelled"]


class StudySummary(Document):
    """A study on one line. Times are seconds since 1970."""

    id: str
    kind: KindName = Field(description="what was asked: the best plans of a job, a job at many sizes, or a post-training search")
    state: State
    owner: str | None = Field(description="whose key submitted it; null: everybody's")
    visibility: Visibility = Field(description="to other keys: `link` is read by whoever knows its id, `public` is listed too")
    priority: int = Field(description="among its owner's that wait: the highest first")
    name: str = Field(description="what its owner calls it; empty where it has none")
    tags: list[str] = Field(description="words under which its owner finds it")
    archived: bool = Field(description="out of lists that do not ask for it, and not deleted for its age")
    model: str
    hardware: str = Field(description="of a sweep all that it tries, between commas")
    num_devices: int = Field(description="of a sweep the largest count")
    objective: str
    sampler: str
    created_at_s: float
    started_at_s: float | None
    finished_at_s: float | None
    cancel_requested: bool
    attempts: int = Field(description="how often a worker took it up")
    error: Said | None = Field(description="why it failed")
    progress: dict[str, Any] | None
    etag_version: int = Field(default=0, exclude=True)  # version in the ETag; no part of the answer


class StudyChanges(Section):
    """Changes to a study. Fields that are left out keep their values; empty fields are cleared."""

    visibility: Visibility | None = None
    priority: int | None = Field(default=None, ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    name: NameText | None = Field(default=None, description="one line; empty takes it away")
    tags: Tags | None = Field(default=None, description="in place of those that it has")
    note: NoteText | None = Field(default=None, description="plain text; empty takes it away")
    archived: bool | None = Field(default=None, description="out of lists that do not ask for it, and not deleted for its age")


class BestPlan(Document):
    """The plan that a study recommends, on one line."""

    plan_id: str
    step_time_s: float
    step_time_low_s: float | None
    step_time_high_s: float | None
    tokens_per_s: float
    mfu_fraction: float | None
    peak_memory_bytes: float
    memory_limit_bytes: float
    fit_limit_bytes: float | None = Field(description="null in studies of earlier versions")
    headroom_bytes: float


class ListedStudy(StudySummary):
    """A study in a list, with its best plan; null until it has finished, and without a feasible plan."""

    best: BestPlan | None
    proved_best: bool | None = Field(description="null until it has finished")


class StudyListing(Listing[ListedStudy]):
    """Studies, newest first."""

    counts: dict[State, int] | None = Field(
        description="with `?counts=true` the number of all studies that match, by state, on whatever page they are; else null"
    )


class PlanListing(Listing[PlanAsStored]):
    """Plans, best first."""


class PointListing(Listing[Annotated[dict[str, Any], DescribedBy(SweepPoint)]]):
    """Points of a sweep, in order."""


COMPARED = (
    "step_time_s", "step_time_lower_bound_s", "step_time_low_s", "step_time_high_s", "tokens_per_s", "tokens_per_s_per_device",
    "mfu_fraction", "peak_memory_bytes", "memory_limit_bytes", "fit_limit_bytes", "headroom_bytes", "fits_probability", "fits",
    "time_breakdown_s", "bottleneck", "fidelity",
)  # fmt: skip
_FIELDS: dict[str, Any] = {name: (EstimateNumbers.model_fields[name].annotation, ...) for name in COMPARED}
for _later in ("fits_probability", "fit_limit_bytes"):
    _FIELDS[_later] = (float | None, Field(default=None, description="null in studies of earlier versions"))
RankedEstimate: type[Document] = create_model(
    "RankedEstimate",
    __base__=Document,
    __doc__=Sentence("The numbers by which plans are compared, with the names of an estimate."),
    **_FIELDS,
)


class RankedVariant(Document):
    """A variant of a plan, without its strategy."""

    plan_id: str
    change: Said
    step_time_s: float
    peak_memory_bytes: float


class RankedPlan(Document):
    """A plan in a ranking: a fifth of the whole one, without launch arguments and explanation."""

    rank: int
    rank_group: int | None = Field(description="plans that share one cannot be told apart; null in a study of an earlier version")
    fastest: bool | None
    plan_id: str
    strategy: Annotated[dict[str, Any], DescribedBy(StrategyDocument)]
    estimate: Annotated[dict[str, Any], DescribedBy(RankedEstimate)]
    launchable_on: list[str]
    variants: list[RankedVariant]


class StudyResult(Document):
    """Result of a search without its plans and rejections, which have separate endpoints."""

    counts: Counts
    proof: Proof
    timing: Timing
    recommended: Recommendation | None = Field(
        default=None, description="the plan to run; null without a plan, and in studies of earlier versions, which list it first"
    )
    baseline: Baseline | None
    nearest: Said | None
    physics_best: PhysicsBestDocument | None = None
    nearest_launchable: list[NearestLaunchableDocument] = Field(default_factory=list)
    paired_error: PairedError | None = None
    space: Space | None = None
    by_tensor: list[ByTensorDocument] = Field(default_factory=list)
    refinement: RefinementDocument | None = None
    infeasible: InfeasibleDocument | None = None
    pareto: list[ParetoPlan] = Field(default_factory=list)


class StudyDocument(StudySummary):
    """A study with the inputs to run it again."""

    note: str = Field(description="what its owner wrote about it; empty where nothing")
    job: dict[str, Any]
    assumptions: list[Said]
    warnings: list[Said]
    version: str
    seed: int
    space: dict[str, Any]
    hardware_profile: dict[str, Any]
    calibration: dict[str, Any]
    result: Annotated[dict[str, Any], DescribedBy(StudyResult | SweepDocument | RlStudyResult)] | None = Field(
        description="null until it has finished; of a sweep as `sweep --json` prints it, of kind `rl` as `rl search --json`"
    )


class QueuePlace(Document):
    """The place of a study in the queue."""

    num_ahead: int | None = Field(description="queued studies that are taken before it, of any owner; null unless it is queued")
    num_running: int = Field(description="studies that run now, of any owner")


class FinishedStudyDocument(StudyDocument):
    """The answer to a request that waited for the result."""

    plans: list[PlanAsStored]


class Trial(Document):
    """A stored trial of a sampler or a refinement. A trial that a bound ruled out in a refinement has no step time."""

    number: int
    strategy: Annotated[dict[str, Any], DescribedBy(StrategyDocument | dict[str, Any])]
    outcome: Literal["fits", "too_large", "illegal"]
    rule: str | None
    step_time_s: float | None
    peak_memory_bytes: float | None
    value: float | None
    best_value: float | None
    duplicate_of: int | None
    source: Literal["baseline", "sampled", "seed"]


@dataclass(frozen=True)
class EventView:
    sequence: int
    kind: str  # state | progress
    data: dict[str, Any]
    at_s: float


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A page of a list; ``next_after`` is the start of the next page, None at the end."""

    items: tuple[Item, ...]
    next_after: int | None
