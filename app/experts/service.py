"""Plans for a job's experts, as documents for the command line and for requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from app.answers.price import priced
from app.answers.provenance import job_fields, priced_with
from app.answers.schemas import PricedWith
from app.answers.strategies import StrategyDocument
from app.calibrations.constants import constants_for
from app.calibrations.stored import stored_calibrations
from app.experts.counts import checked, model_experts, parse_counts
from app.experts.maps import placement_of
from app.experts.schemas import (
    CopiesDocument,
    ExpertPlanDocument,
    ExpertPlanRequest,
    ForecastDocument,
    GeneratedLoads,
    LayerPlan,
    Loads,
    MovesDocument,
    PlanTerms,
    ReplanDocument,
)
from app.jobs.job import Job
from app.jobs.requests import check_keys, parse_request
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from documents.checking import check
from documents.errors import InfeasibleStrategyError, InputError, show
from documents.sentences import Sentence, joined
from frameworks.legality import violations
from meshplan import __version__
from search.experts.generated import generated_counts
from search.experts.packing import Floats
from search.experts.placement import Placement, in_order
from search.experts.plan import Terms, replan
from search.experts.priced import PricedPlan, nodes_of_group, priced_plan
from search.plans.plan import strategy_to_mapping

if TYPE_CHECKING:
    from app.storage.session import Database


MAX_PLACES = 50_000_000  # limit on layers x experts x ranks, the size of a plan's tables
MAX_MATCHED = 5 * 10**9  # limit on layers x ranks^3, the work of matching new placements to old ones
MAX_GENERATED_COUNTS = 20_000_000  # limit for all domains: seconds of work


def expert_strategy(job: Job) -> ParallelStrategy:
    """The job's strategy; ``InputError`` if it has none with experts on several ranks."""
    strategy = job.strategy
    if strategy is None:
        raise InputError(Sentence("strategy: missing; give one with ep above 1."))
    broken = violations(job.workload, strategy)
    if broken:
        raise InfeasibleStrategyError(Sentence("strategy: {} ({}).", broken[0].sentence.rstrip("."), broken[0].rule))
    num_experts = model_experts(job.workload.model, "model")[1]
    if strategy.ep < 2 or num_experts % strategy.ep:
        raise InputError(
            Sentence(
                "strategy.ep: {} is not allowed; give expert-parallel ranks that divide {:,} experts.", strategy.ep, num_experts
            )
        )
    return strategy


def generated(job: Job, given: GeneratedLoads) -> Floats:
    """Generate a trace with the spread of the job's router, or the usual one of its model."""
    model, training = job.workload.model, job.workload.training
    num_layers, num_experts = model_experts(model, "model")
    most = max(MAX_GENERATED_COUNTS // (num_layers * num_experts * given.domains), 1)
    if given.steps > most:
        raise InputError(
            Sentence(
                "loads.generated.steps: {:,} is not allowed; with {} domains give at most {:,} for {}.",
                given.steps,
                given.domains,
                most,
                model.name,
            )
        )
    spread = training.expert_spread or model.expert_spread()
    assert spread is not None
    assert model.moe is not None
    copies = training.seq_length * training.global_batch_size * model.moe.top_k
    return generated_counts(
        spread, num_layers, given.steps, min(copies, 2**62), num_domains=given.domains, early=given.early, seed=given.seed
    )


def expert_plan_document(
    job: Job, counts: Floats, terms: PlanTerms, current: Placement | None = None, own: Sequence[Calibration] = ()
) -> ExpertPlanDocument:
    """The plan for the experts of a job with these ``counts`` ``[step, layer, expert]``."""
    workload, strategy = job.workload, expert_strategy(job)
    num_experts = counts.shape[2]
    held_back = terms.steps_held_back
    if held_back is not None and held_back > len(counts) - 2:
        raise InputError(
            Sentence(
                "terms.steps_held_back (--steps-held-back): {:,} of {:,} steps; leave at least two before them.",
                held_back,
                len(counts),
            )
        )
    num_layers, num_ranks = counts.shape[1], strategy.ep
    if num_layers * num_experts * num_ranks > MAX_PLACES or num_layers * num_ranks**3 > MAX_MATCHED:
        raise InputError(
            Sentence(
                "strategy.ep: {:,} ranks of {:,} layers of {:,} experts are more than a plan takes.",
                num_ranks,
                num_layers,
                num_experts,
            )
        )
    current = current or in_order(counts.shape[1], num_experts, strategy.ep)
    num_nodes = nodes_of_group(workload, strategy, num_experts)

    def estimate(given: Workload, batch: StrategyBatch, constants: Constants) -> Estimate:
        return priced(given, batch, own)

    found = priced_plan(
        workload,
        strategy,
        constants_for(workload, own),
        estimate,
        counts,
        current,
        Terms(num_nodes, terms.valid_steps, terms.max_copies, held_back),
    )
    return _document(job, strategy, found, counts, terms, num_nodes, own)


def _document(
    job: Job,
    strategy: ParallelStrategy,
    found: PricedPlan,
    counts: Floats,
    terms: PlanTerms,
    num_nodes: int,
    own: Sequence[Calibration],
) -> ExpertPlanDocument:
    plan, prices, num_experts = found.plan, found.prices, counts.shape[2]
    change, shares = plan.change, plan.coming.shares
    before, after = plan.current.relative_loads(shares), change.placement.relative_loads(shares)
    extra = change.placement.slots - num_experts // strategy.ep
    held = plan.held_back_load_factors or (None, None)
    trigger = replan(plan, prices, Terms(num_nodes, terms.valid_steps, terms.max_copies))
    inside, between = int(change.moved.inside.sum()), int(change.moved.between.sum())
    return ExpertPlanDocument(
        **job_fields(job, own, strategy, "strategy"),
        version=__version__,
        priced_with=PricedWith(**priced_with(job.workload, own)),
        strategy=StrategyDocument.model_validate(strategy_to_mapping(job.workload, strategy)),
        num_ranks=strategy.ep,
        num_nodes=num_nodes,
        num_experts=num_experts,
        valid_steps=terms.valid_steps,
        is_worth=found.is_worth,
        reason=_reason(found, terms),
        step_time_balanced_s=found.balanced_s,
        step_time_before_s=found.before_s,
        step_time_after_s=found.after_s,
        load_before=float(before.max(axis=1).mean()),
        load_after=float(after.max(axis=1).mean()),
        load_bound=float(_bound(shares, strategy.ep, extra).mean()),
        forecast=ForecastDocument(
            num_steps=len(counts),
            num_held_back=plan.coming.held_back,
            method=plan.coming.method,
            errors=dict(plan.coming.errors),
            rolling_errors=None if plan.coming.rolling_errors is None else dict(plan.coming.rolling_errors),
            horizon_steps=terms.valid_steps,
            realised_fraction=plan.realised_fraction,
            realised_held_back_fraction=plan.ages.mean(plan.coming.held_back) if plan.coming.held_back else None,
            held_back_load_before=held[0],
            held_back_load_after=held[1],
        ),
        moves=MovesDocument(
            num_inside=inside,
            num_between=between,
            bytes_per_expert=prices.expert_bytes,
            total_bytes=(inside + between) * prices.expert_bytes,
            time_s=found.move_s,
            per_step_s=found.move_s / terms.valid_steps,
            break_even_steps=found.break_even_steps,
        ),
        copies=CopiesDocument(
            slots_per_rank=extra,
            bytes_per_rank=extra * prices.copy_bytes * int(np.bincount(prices.stage_of_layer).max()),
            step_time_s=found.share_s,
        ),
        replan=None if trigger is None else ReplanDocument.model_validate(asdict(trigger)),
        layers=_layers(job, found, before, after),
        relative_loads_before=_rounded(before),
        relative_loads_after=_rounded(after),
        placement=change.placement.experts.tolist(),
    )


def _layers(job: Job, found: PricedPlan, before: Floats, after: Floats) -> list[LayerPlan]:
    change = found.plan.change
    numbers = [layer for layer, is_moe in enumerate(job.workload.model.moe_layers()) if is_moe]
    columns = zip(
        numbers,
        found.plan.triggered,
        before.max(axis=1).tolist(),
        after.max(axis=1).tolist(),
        found.exposed_before_s.tolist(),
        found.exposed_after_s.tolist(),
        (change.moved.inside + change.moved.between).tolist(),
        change.move_s.tolist(),
        change.net_s.tolist(),
        strict=True,
    )
    names = list(LayerPlan.model_fields)
    return [LayerPlan(**dict(zip(names, row, strict=True))) for row in columns]


def _bound(shares: Floats, num_ranks: int, extra: int) -> Floats:
    """Lower bound of the fullest rank's load over the mean: 1, or the hottest expert on a rank with the coldest ones.

    With copies on each rank, it is 1.
    """
    if extra:
        return np.ones(len(shares))
    ordered = np.sort(shares, axis=1)
    heaviest = ordered[:, -1] + ordered[:, : shares.shape[1] // num_ranks - 1].sum(axis=1)
    bound: Floats = np.maximum(1.0, heaviest * num_ranks / shares.sum(axis=1))
    return bound


def _rounded(loads: Floats) -> list[list[float]]:
    rounded: list[list[float]] = np.round(loads, 4).tolist()
    return rounded


def _reason(found: PricedPlan, terms: PlanTerms) -> str:
    plan = found.plan
    if found.is_worth:
        changed, layers = sum(plan.triggered), len(plan.triggered)
        return Sentence(
            "{} of {} layers change: what they gain in {:,} steps is more than their moves cost.",
            changed,
            layers,
            terms.valid_steps,
        )
    if found.before_s <= found.balanced_s:
        return Sentence("Nothing changes: the step is not longer for its experts' loads.")
    if not plan.realised_fraction:
        return Sentence("Nothing changes: a plan of the earlier steps gained nothing in those that were held back.")
    return Sentence("Nothing changes: no placement gains more in {:,} steps than its moves cost.", terms.valid_steps)


def plan_request(document: Mapping[str, Any], database: Database) -> ExpertPlanDocument:
    """The answer to a request body; ``InputError`` if nothing can be planned."""
    check_keys(document, ExpertPlanRequest.model_fields)
    if document.get("loads") is None:
        raise InputError(Sentence("loads: missing; give counts, text or generated."))
    loads = check(Loads, document["loads"], "loads")
    terms = check(PlanTerms, document.get("terms") or {}, "terms")
    placement = document.get("placement")
    if not isinstance(placement, Mapping | None):
        raise InputError(Sentence("placement: {} is not allowed; give a mapping.", show(placement)))
    job = parse_request({key: value for key, value in document.items() if key not in ("loads", "terms", "placement")})
    strategy = expert_strategy(job)
    counts = counts_of(job, loads)
    current = None if placement is None else placement_of(placement, job.workload.model, strategy.ep, "placement")
    return expert_plan_document(job, counts, terms, current, stored_calibrations(database, job))


def counts_of(job: Job, loads: Loads) -> Floats:
    """The counts of a request, in whichever form they come."""
    given = [name for name in Loads.model_fields if getattr(loads, name) is not None]
    if len(given) != 1:
        shown = joined(" and ", given) or Sentence("nothing")
        raise InputError(Sentence("loads: {} given; give one of counts, text and generated.", shown))
    model = job.workload.model
    if loads.generated is not None:
        return generated(job, loads.generated)
    return checked(loads.counts, model, "loads.counts") if loads.text is None else parse_counts(loads.text, model, "loads.text")
