"""Schemas of a request for an expert plan, and of the plan."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.answers.schemas import Answer, PricedWith
from app.answers.strategies import StrategyDocument
from app.jobs.fields import JobDocument
from app.text.json_documents import Document
from cost_models.shapes.expert_spread import NUM_DOMAINS
from documents.bounds import MAX_TRACE_STEPS
from documents.checking import Section
from documents.said import Said
from search.experts.plan import MAX_EXTRA_SLOTS, MAX_VALID_STEPS

MAX_SERVED_TEXT = 4 * 2**20
MAX_DOMAINS = 256
MAX_SEED = 2**32 - 1
MAX_DRIFT_STEPS = 100_000_000
GENERATED_STEPS = 50
VALID_STEPS = 50  # between two plans of MindSpeed's own, expert_placement_freq [mindspeed-expert-placement]


class GeneratedLoads(Section):
    """A trace as routers of the job's balance would log it."""

    steps: int = Field(default=GENERATED_STEPS, ge=1, le=MAX_TRACE_STEPS)
    domains: int = Field(default=NUM_DOMAINS, ge=1, le=MAX_DOMAINS, description="domains of the data in a step")
    early: bool = Field(default=False, description="the first 5,000 steps of a training, in which loads drift")
    seed: int = Field(default=0, ge=0, le=MAX_SEED)


class Loads(Section):
    """Tokens by step, layer and expert: one of the three."""

    counts: list[Any] | None = Field(
        default=None, description="by layer and expert, or by step, layer and expert", max_length=MAX_TRACE_STEPS
    )
    text: Annotated[str, Field(min_length=1, max_length=MAX_SERVED_TEXT)] | None = Field(
        default=None, description="of a log: CSV, JSON of MindSpeed-RL or EPLB, or what MindSpeed's print_expert_load prints"
    )
    generated: GeneratedLoads | None = None


class PlanTerms(Section):
    """Settings of an expert plan."""

    valid_steps: int = Field(
        default=VALID_STEPS, ge=1, le=MAX_VALID_STEPS, description="steps that pay for the moves: until the next plan"
    )
    steps_held_back: int | None = Field(
        default=None, ge=1, le=MAX_TRACE_STEPS, description="last steps that judge a plan; default: valid_steps, or half the log"
    )
    max_copies: int = Field(
        default=1, ge=0, le=MAX_EXTRA_SLOTS, description="slots that each rank may get for copies of hot experts"
    )


class ExpertPlanRequest(JobDocument):
    """A job with a strategy, and the token counts of its experts."""

    loads: Loads
    terms: PlanTerms = PlanTerms()
    placement: dict[str, Any] | None = Field(
        default=None, description="where experts lie now, as MindSpeed's or EPLB's map; default: in order"
    )


class ForecastDocument(Document):
    """Forecast of the loads of future steps, and its errors."""

    num_steps: int = Field(description="in the counts")
    num_held_back: int
    method: str = Field(
        description="mean, persistence, window, exponential_average, autoregression, line, damped_trend: the least rolling error"
    )
    errors: dict[str, float] = Field(description="share of tokens given to the wrong experts on held-back steps, by method")
    rolling_errors: dict[str, float] | None = Field(
        description="the same where each method forecasts from several steps of the log; it chooses the method; null without any"
    )
    horizon_steps: int = Field(description="steps that are forecast and over which the gain counts: valid_steps")
    realised_fraction: float = Field(
        description="of a promised gain, what a plan has over horizon_steps if it ages as in the held-back steps; 1 without any"
    )
    realised_held_back_fraction: float | None = Field(
        description="the same in the held-back steps alone, for a plan made before them"
    )
    held_back_load_before: float | None = Field(description="load factor of the held-back steps, mean of layers")
    held_back_load_after: float | None = Field(description="the same under a plan made before them")


class MovesDocument(Document):
    """Expert moves, which happen once before the plan is used."""

    num_inside: int = Field(description="experts sent inside a node, in all layers")
    num_between: int = Field(description="experts sent between nodes")
    bytes_per_expert: float = Field(description="weights, master copy and moments")
    total_bytes: float = Field(description="of one expert-parallel group")
    time_s: float = Field(description="stages at the same time, each layer after the other")
    per_step_s: float = Field(description="spread over the steps until the next plan")
    break_even_steps: float | None = Field(description="after which the moves are paid; null where nothing moves")


class ReplanDocument(Document):
    """The trigger of the next plan."""

    above_excess: float = Field(
        description="load factor beyond that of the hottest expert alone, mean of layers, above which as many moves again pay"
    )
    above_load: float = Field(description="that load factor if the hottest experts stay")
    after_steps: float | None = Field(description="when loads that drift as in the held-back steps reach it; null: no drift seen")


class CopiesDocument(Document):
    """Slots for copies of experts."""

    slots_per_rank: int
    bytes_per_rank: float = Field(description="held on the fullest stage; in the memory that is free")
    step_time_s: float = Field(description="adding up their gradients, of a step; part of step_time_after_s")


class LayerPlan(Document):
    """Plan of one MoE layer; ``layer`` is its number among all layers of the model."""

    layer: int
    is_changed: bool
    load_before: float = Field(description="load of the fullest rank over the mean, forecast")
    load_after: float
    exposed_before_s: float = Field(description="that a step waits for the fullest rank")
    exposed_after_s: float
    num_moves: int
    move_s: float
    net_s: float = Field(description="gained until the next plan, moves paid")


class ExpertPlanDocument(Answer):
    """Response of `POST /v1/experts/plans`, and output of `meshplan experts plan --json`."""

    version: str
    priced_with: PricedWith
    strategy: StrategyDocument
    num_ranks: int = Field(description="of an expert-parallel group")
    num_nodes: int = Field(description="or supernodes, over which a group lies")
    num_experts: int
    valid_steps: int
    is_worth: bool
    reason: Said
    step_time_balanced_s: float = Field(description="with every rank alike")
    step_time_before_s: float
    step_time_after_s: float
    load_before: float = Field(description="load factor, mean of layers, forecast")
    load_after: float
    load_bound: float = Field(description="below which no placement with these slots comes")
    forecast: ForecastDocument
    moves: MovesDocument
    copies: CopiesDocument
    replan: ReplanDocument | None = Field(description="when to plan again; null where nothing moves")
    layers: list[LayerPlan]
    relative_loads_before: list[list[float]] = Field(description="load of each rank over the mean, by layer")
    relative_loads_after: list[list[float]]
    placement: list[list[list[int]]] = Field(description="experts by layer, rank and slot")


class DriftTerms(Section):
    """Settings of the simulation of a training."""

    steps: int | None = Field(
        default=None, ge=1, le=MAX_DRIFT_STEPS, description="of the training; default: those of training.train_tokens, or 20,000"
    )
    valid_steps: int = Field(default=VALID_STEPS, ge=1, le=MAX_VALID_STEPS, description="between two looks at the loads")
    max_copies: int = Field(default=1, ge=0, le=MAX_EXTRA_SLOTS, description="slots that each rank may get for copies")
    domains: int = Field(default=NUM_DOMAINS, ge=1, le=MAX_DOMAINS, description="domains of the data in a step")
    seed: int = Field(default=0, ge=0, le=MAX_SEED)


class PlacedDocument(Document):
    """A training under one way to place experts."""

    step_time_s: float = Field(description="mean of the training, with copies and moves")
    load: float = Field(description="load of the fullest rank over the mean, mean of layers and steps")
    gain_fraction: float = Field(description="speed, over experts in order")


class DriftInterval(Document):
    """Load of the fullest rank over the mean, mean of layers, in one interval."""

    first_step: int
    in_order: float
    planned_once: float
    replanned: float
    is_planned: bool = Field(description="whether a plan moved experts at its end")


class ExpertDriftDocument(Answer):
    """Output of `meshplan experts simulate --json`."""

    version: str
    priced_with: PricedWith
    strategy: StrategyDocument
    num_steps: int
    interval_steps: int = Field(description="between two looks at the loads")
    step_time_balanced_s: float = Field(description="with every rank alike")
    placed: dict[str, PlacedDocument] = Field(description="in_order, planned_once, and replanned where the trigger asks for it")
    num_plans: int = Field(description="that moved experts")
    moves_s: float = Field(description="of all plans together")
    intervals_of_steps: list[DriftInterval]
