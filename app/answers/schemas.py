"""Schemas of estimates and searches, for the output of commands, responses of the server, and stored studies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.answers.delivery_schemas import DeliverySummary
from app.answers.effort import Counts, Timing
from app.answers.publication import Publication
from app.answers.step_schemas import Simulation, SoftwareMoves, StageTensors, TensorPrice
from app.answers.strategies import StrategyDocument
from app.calibrations.next_run import NextRun
from app.jobs.fields import JobDocument, StrategySection
from app.text.json_documents import DescribedBy, Document
from documents.said import Said
from search.objectives.table import OBJECTIVES
from search.ranking.proof import Proof
from search.ranking.recommendation import Recommendation
from search.ranking.ties import PairedError
from search.results.search_result import Rejection

MAX_STRATEGIES = 10_000


class Evidence(Document):
    num_runs: int
    max_devices: int | None
    extrapolated: list[Said]


class EstimateNumbers(Document):
    """Time and memory of one strategy; a breakdown sums to its total."""

    step_time_s: float = Field(gt=0)
    step_time_lower_bound_s: float
    step_time_low_s: float | None = Field(description="lower end of the 80 % interval")
    step_time_high_s: float | None
    uneven_experts_s: float = Field(
        default=0.0,
        ge=0,
        description="what uneven experts add to a step: in step_time_s if the routing is stated, else only in step_time_high_s",
    )
    evidence: Evidence
    tokens_per_s: float
    tokens_per_s_per_device: float
    mfu_fraction: float | None
    mfu_convention: Said
    peak_memory_bytes: float = Field(description="device, worst rank: what it must hold, the allocator's pool at its least")
    peak_memory_low_bytes: float = Field(description="lower end of the 80 % interval")
    peak_memory_high_bytes: float
    memory_evidence: Evidence
    allocated_peak_bytes: float
    allocated_first_iteration_bytes: float
    allocated_after_step_bytes: float
    reserved_peak_bytes: float
    pooled_peak_bytes: float = Field(description="what a monitor of the device shows: the allocator keeps what is free")
    memory_limit_bytes: float
    headroom_bytes: float = Field(description="memory_limit_bytes - peak_memory_bytes")
    fit_limit_bytes: float = Field(description="largest peak that leaves search.min_headroom with search.fit_confidence")
    fits_probability: float | None = Field(
        description="that the true peak leaves search.min_headroom free; null where the price leaves out parts of a script"
    )
    fits: bool | None = Field(
        description="fits_probability is search.fit_confidence at least: the peak is within fit_limit_bytes; null as there"
    )
    time_breakdown_s: dict[str, float] = Field(description="exposed time on the critical rank; sums to step_time_s")
    masked_s: dict[str, float] = Field(description="time hidden behind it, outside that sum")
    memory_breakdown_bytes: dict[str, float] = Field(description="worst rank at its peak; sums to peak_memory_bytes")
    bottleneck: str
    fidelity: Literal["closed_form", "simulated"]


_DELIVERY = Field(default=None, description="where the job has a site (`delivery`); left out otherwise")


class Answer(Document):
    schema_version: Literal[1]
    job: dict[str, Any] = Field(description="the job with every default resolved; see `meshplan schema job`")
    assumptions: list[Said]
    warnings: list[Said]


class PricedWith(Document):
    """Version, calibration and hardware profile of a price. The hashes change with any number of the latter two."""

    version: str
    calibration: str | None = Field(description="null where a server priced with constants that this version does not ship")
    hardware_profile: str


class LaunchDocument(Document):
    target: str
    launchable: bool
    arguments: list[str] | None = Field(description="null where the framework cannot run the plan; notes say why")
    environment: dict[str, str]
    notes: list[Said]
    rules: list[BrokenRuleDocument] = Field(
        default_factory=list, description="of the framework, that the plan breaks; `arguments` are then the nearest it takes"
    )
    step_time_s: float | None = Field(
        default=None, description="of the launch file, where the framework is priced as another stack than the job's"
    )
    peak_memory_bytes: float | None = Field(default=None, description="of the file that has a step_time_s")
    fits_probability: float | None = Field(default=None, description="of the file that has a step_time_s")


class ExportDocument(Document):
    """What a framework's file can state of a plan by tensor: of all recompute and swap that it takes, the fastest that fits."""

    target: str
    why: Said = Field(description="what the file states in place of the plan, and what that costs; or why there is none")
    strategy: StrategyDocument | None
    estimate: EstimateNumbers | None = Field(description="of what the file states, simulated; null where nothing near it fits")
    difference_fraction: float | None = Field(description="its step time over that of the plan in the same release, minus 1")
    replaced: list[Said] = Field(description="settings beside recompute and swap that are not as planned, and why")
    launch: LaunchDocument | None


class MicroBatchPlan(Document):
    """The choice of tensors of least time that fits with one micro batch."""

    micro_batch_size: int
    refused: Said | None = Field(description="why there is none")
    strategy: StrategyDocument | None
    estimate: EstimateNumbers | None = Field(description="simulated")
    whole_step_time_s: float | None = Field(description="simulated with everything kept, whether that fits or not")
    saved_fraction: float | None = Field(description="of what the fullest rank's layers would keep from forward to backward")
    host_bytes: float | None = Field(description="that a device has on its host at most; what the host has is not known here")
    added_s: float | None = Field(description="of a micro batch, on the rank that pays most")
    gap_s: float | None = Field(description="at most so far above the least that makes it fit")
    stages: list[StageTensors] = Field(description="virtual stages that drop something")
    exports: list[ExportDocument] = Field(default_factory=list, description="where it drops something: its files by framework")


class MemoryPlanDocument(Document):
    """Recompute and swap by tensor: the tensors, and the choice for each micro batch size."""

    tensors: list[TensorPrice]
    micro_batches: list[MicroBatchPlan] = Field(description="the strategy's micro batch, twice and four times that")


class RankMemory(Document):
    """Memory of a pipeline rank, as in the estimate, which has that of the worst rank."""

    rank: int
    peak_memory_bytes: float
    allocated_peak_bytes: float
    allocated_first_iteration_bytes: float
    allocated_after_step_bytes: float


class EstimateDocument(Answer):
    """Response of `POST /v1/estimates` for one strategy, and output of `meshplan estimate --json`."""

    priced_with: PricedWith
    strategy: StrategyDocument
    estimate: EstimateNumbers
    memory_of_ranks: list[RankMemory] = Field(description="of each pipeline rank, the first one first")
    software: SoftwareMoves | None = Field(
        default=None,
        description="operator packs and host options, one at a time; left out for very long pipelines and without advice",
    )
    delivery: DeliverySummary | None = _DELIVERY
    simulation: Simulation | None = Field(default=None, description="where the step was simulated; left out otherwise")
    next_runs: list[NextRun] | None = Field(
        default=None,
        description="where `evidence` is extrapolated: the cheapest runs for `meshplan calibrate`; left out otherwise",
    )
    memory_plan: MemoryPlanDocument | None = Field(default=None, description="where it was asked for; left out otherwise")
    ignored: list[Said] | None = Field(
        default=None, description="arguments of a launch script that the price leaves out as asked; left out otherwise"
    )


class EstimateRequest(JobDocument):
    """A job with one strategy to price, or with a list of them."""

    strategies: Annotated[list[StrategySection], Field(min_length=1, max_length=MAX_STRATEGIES)] | None = Field(
        default=None, description="in place of strategy; answered in the same order"
    )
    simulate: bool = Field(default=False, description="plays each step task by task in place of the closed form")
    memory_plan: bool = Field(default=False, description="of one strategy: recompute and swap chosen tensor by tensor as well")
    advise: bool = Field(
        default=True,
        description="false: without `next_runs` and `software`; not beside the query parameter `explain`, which says more",
    )


class RefusedStrategy(Document):
    """Reason why a strategy cannot run, in place of its estimate. The other strategies are still priced."""

    refused: Said
    rule: str | None = Field(description="the legality rule that it breaks; null where its numbers contradict each other")


class EstimatesDocument(Answer):
    """Response of `POST /v1/estimates` for a list of strategies."""

    # Made of checked columns: ten thousand rows, each held against its schema, would cost a third of their price.
    estimates: list[Annotated[Any, DescribedBy(EstimateNumbers | RefusedStrategy)]] = Field(
        description="one entry a strategy, in the order of the request"
    )


class Variant(Document):
    """A plan of the same structure that is not the best of it."""

    plan_id: str
    change: Said
    strategy: StrategyDocument
    step_time_s: float
    peak_memory_bytes: float
    headroom_bytes: float
    fits_probability: float


class BrokenRuleDocument(Document):
    """A legality rule of a framework that a plan breaks."""

    rule: str
    sentence: Said


class Change(Document):
    change: Said
    step_time_s: float
    delta_fraction: float
    peak_memory_bytes: float
    fits_probability: float
    fits: bool


class Explanation(Document):
    """Explanation of a plan, one sentence in each field. Only the plan to run has `one_change` and `neighbours`."""

    bound_by: Said
    shards: Said | None = Field(default=None, description="tiers that join shards and copies of them; null without copies (HSDP)")
    tie: Said | None = Field(default=None, description="which other plans it cannot be told from, and why")
    against_best: Said | None
    next_plan: Said | None
    one_change: Said | None = None
    neighbours: list[Change] | None = None
    objective: Said | None = Field(
        default=None, description="its value and what makes it, where the lattice is not ordered by it"
    )


class Baseline(Document):
    source: Literal["given", "published", "rule_of_thumb"]
    strategy: StrategyDocument
    estimate: EstimateNumbers | dict[str, Any]
    violations: list[Said]
    speedup_fraction: float | None
    why: Said
    rank_group: int | None = Field(default=None, description="of the listed plans, in which it falls; null in none")
    error_fraction: float | None = Field(default=None, description="paired error of the two step times; null without evidence")
    publication: Publication | None = None


class PhysicsBestDocument(Document):
    """Best plan without the rules of the target framework."""

    plan_id: str
    strategy: StrategyDocument
    estimate: EstimateNumbers
    difference_fraction: float | None = Field(
        description="step time of the plan that is proved best over this one's, minus 1; null without"
    )
    why: Said
    rules: list[BrokenRuleDocument] = Field(
        description="of the target, which keep it from being launched; empty where it is the proved plan itself"
    )
    num_refused: int = Field(description="legal strategies that the target refuses: what this is the best of, beside `plans`")
    simulated: int
    proved_best: bool
    stopped_by: str | None


class NearestLaunchableDocument(Document):
    """Plan nearest to the plan to run that a framework can launch."""

    target: str
    strategy: StrategyDocument | None = Field(description="null where the framework takes nothing near it: `rules` say why")
    estimate: EstimateNumbers | None
    difference_fraction: float | None = Field(description="its step time over that of the plan to run, minus 1")
    why: Said
    replaced: list[Said] = Field(description="each setting that is replaced, by what, and why")
    rules: list[BrokenRuleDocument]


class ByTensorDocument(Document):
    """A plan with recompute and swap chosen for each tensor. The proof does not cover it; `exports` are what files can state."""

    of_plan_id: str = Field(description="the plan whose structure it has")
    plan_id: str
    micro_batch_size: int = Field(description="that of the plan, or twice that")
    strategy: StrategyDocument
    estimate: EstimateNumbers
    gain_fraction: float = Field(description="of the plan's step time")
    saved_fraction: float = Field(description="of what the fullest rank's layers would keep from forward to backward")
    added_s: float = Field(description="of a micro batch, on the rank that pays most")
    exports: list[ExportDocument] = Field(default_factory=list, description="its files by framework")


class NearestChangeDocument(Document):
    """A change of the job under which a plan fits, with a lean plan that shows it; a search finds faster ones."""

    change: Said
    fields: dict[str, Any] = Field(description="fields of the job by their path, as cluster.num_devices; null: leave it out")
    strategy: StrategyDocument
    estimate: EstimateNumbers


class InfeasibleDocument(Document):
    """Reason why there is no plan, and changes of the job under which one fits."""

    rules: list[BrokenRuleDocument] = Field(description="where no strategy is legal: what the strategies break that come nearest")
    leanest: StrategyDocument | None = Field(description="the legal strategy that needs the least memory")
    peak_memory_bytes: float | None = Field(description="what that needs")
    missing_bytes: float | None
    changes: list[NearestChangeDocument] = Field(description="of each way to change the job, the nearest that was found")


class RefinedPlanDocument(Document):
    """A plan that a refinement found, which the proof does not cover."""

    plan_id: str
    of_plan_id: str = Field(description="the proved plan that it is held against")
    change: Said
    strategy: StrategyDocument
    estimate: EstimateNumbers
    gain_fraction: float = Field(description="of the proved plan's step time")
    launchable_on: list[str]
    launch: dict[str, LaunchDocument | None]


class RefinementCountsDocument(Document):
    """Numbers of trials and of their distinct strategies."""

    trials: int
    distinct: int
    legal: int
    fits_memory: int
    pruned_by_bound: int = Field(description="fit, but cannot be better: not simulated")
    simulated: int


class RefinementDocument(Document):
    """Result of a refinement: trials around the best plans. The ranking and its proof do not cover them."""

    sampler: str
    seed: int
    max_trials: int
    stopped_by: str | None = Field(description="max_trials, stagnation, time_limit or interrupt")
    counts: RefinementCountsDocument
    gain_fraction: float = Field(description="of the proved plan's step time, by the first of `plans`; 0 where there is none")
    plans: list[RefinedPlanDocument] = Field(description="faster than the proved plan, the fastest first")
    front: list[RefinedPlanDocument] = Field(
        description="with `refine_front`: each faster than all that need less memory, the fastest first"
    )


class Plan(Document):
    rank: int = Field(description="place in the answer: by the objective, the predicted step time if there is no other")
    rank_group: int = Field(description="plans that share one cannot be told apart by time: see `paired_error`")
    fastest: bool = Field(description="predicted the fastest of those listed; the plan to run may be another: see `recommended`")
    plan_id: str
    strategy: StrategyDocument
    estimate: EstimateNumbers
    delivery: DeliverySummary | None = _DELIVERY
    explanation: Explanation
    launchable_on: list[str]
    launch: dict[str, LaunchDocument | None]
    variants: list[Variant]
    values: dict[str, float] | None = Field(
        default=None,
        description="by objective, where several or others than the step count: "
        + ", ".join(f"{name} [{entry.unit}]" for name, entry in OBJECTIVES.items())
        + "; device_hours, cost and energy are those of 1e12 tokens",
    )


class ParetoPlan(Document):
    """A plan that no other of those compared equals or beats in every objective."""

    plan_id: str
    values: dict[str, float] = Field(description="by objective, as of plans")
    strategy: StrategyDocument


# As a study holds it: checked when it was stored, perhaps by another version.
PlanAsStored = Annotated[dict[str, Any], DescribedBy(Plan)]


class LeftOut(Document):
    """A switch that the search did not try, and its effect on the plan to run."""

    name: str
    why: Said
    step_time_change_fraction: float | None = Field(description="null where that plan cannot have it, or no price depends on it")
    peak_memory_change_bytes: float | None


class Space(Document):
    """Values and switches that the search tried."""

    dimensions: dict[str, list[Any]] = Field(description="values of each dimension beside the switches")
    on: list[str] = Field(description="switches that are on wherever they act and the target takes them")
    where_it_does_not_fit: list[str] = Field(description="switches that are turned where a plan does not fit as it is")
    both_ways: list[str]
    left_out: list[LeftOut] = Field(description="switches of the target that were not tried, the largest saving first")


class SearchDocument(Answer):
    """Output of `meshplan search --json`. Without a feasible plan, ``plans`` is empty."""

    version: str
    priced_with: PricedWith
    counts: Counts
    rejections: list[Rejection]
    proof: Proof
    timing: Timing
    plans: list[Plan]
    recommended: Recommendation | None = Field(
        default=None, description="the plan to run; null without a plan, and in answers of earlier versions, which list it first"
    )
    baseline: Baseline | None
    nearest: Said | None = Field(description="without a plan: what stands in the way, and what would do")
    no_target_fits: bool = Field(
        default=False, description="the job names no target, and the usual one takes no plan that fits: target `any` was searched"
    )
    physics_best: PhysicsBestDocument | None = Field(
        default=None,
        description="null with target any, from a sampler, with several or other objectives than the lattice's own, with a "
        "deadline or a budget, and where the time ended before it was searched",
    )
    nearest_launchable: list[NearestLaunchableDocument] = Field(
        default_factory=list, description="with target any, for each framework of the devices"
    )
    paired_error: PairedError | None = Field(
        default=None, description="what decides a tie; null from a server of an earlier version"
    )
    space: Space | None = Field(default=None, description="null in answers of earlier versions")
    by_tensor: list[ByTensorDocument] = Field(
        default_factory=list,
        description="with target any: the first plans, recompute and swap chosen tensor by tensor, where faster",
    )
    infeasible: InfeasibleDocument | None = Field(
        default=None, description="null where there is a plan, or nobody looked for all"
    )
    refinement: RefinementDocument | None = Field(default=None, description="null unless `search.refine` asks for it")
    pareto: list[ParetoPlan] = Field(
        default_factory=list,
        description="with several objectives: the front of the plans that were compared, the best of each of the 50 structures "
        "(or `top`) that come first in the lattice; nothing is proved of it",
    )
