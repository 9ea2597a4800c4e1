"""Prices the strategies of a request: one with its whole document, a list as columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from app.answers.batches import OF_ESTIMATE
from app.answers.memory_plan import memory_plan_document
from app.answers.open_fields import open_fields, warnings_of
from app.answers.parts import Part
from app.answers.price import estimate_document, fill_intervals, priced
from app.answers.provenance import job_fields
from app.answers.schemas import (
    MAX_STRATEGIES,
    EstimateDocument,
    EstimateNumbers,
    EstimateRequest,
    EstimatesDocument,
    RefusedStrategy,
)
from app.answers.simulation import check_cost
from app.calibrations.stored import stored_calibrations
from app.jobs.fields import StrategySection
from app.jobs.job import Job
from app.jobs.requests import check_keys, parse_request
from app.jobs.strategy import strategy_from_section
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from documents.checking import check
from documents.errors import InputError, show
from documents.sentences import Sentence
from frameworks.legality import RULES, first_violation
from search.plans.plan import estimates_to_mappings

if TYPE_CHECKING:
    from app.storage.session import Database


# What one request may cost: distinct pipelines are composed one by one, each in the square of its virtual stages, and
# every strategy keeps numbers for every stage. All fit 512 pipelines and 10,000 strategies of 128 virtual stages.
MAX_PIPELINES = 512
VIRTUAL_STAGES = 128
MAX_SQUARED_STAGES = MAX_PIPELINES * VIRTUAL_STAGES**2
MAX_STAGES = MAX_STRATEGIES * VIRTUAL_STAGES


def estimates(document: Mapping[str, Any], parts: Collection[Part], database: Database) -> EstimateDocument | EstimatesDocument:
    """The answer to a request body, with these parts; ``InputError`` where it cannot be priced."""
    check_keys(document, EstimateRequest.model_fields)
    given, simulated, planned = (document.get(name) for name in ("strategies", "simulate", "memory_plan"))
    for name, switch in (("simulate", simulated), ("memory_plan", planned)):
        if not isinstance(switch, bool | None):
            raise InputError(Sentence("{}: {} is not allowed; give true or false.", name, show(switch)))
    job = parse_request({key: value for key, value in document.items() if key not in OF_ESTIMATE})
    own = stored_calibrations(database, job)
    if given is None:
        if job.strategy is None:
            raise InputError(Sentence("strategy: missing; give one strategy, or up to {:,} in strategies.", MAX_STRATEGIES))
        answer = estimate_document(job, job.strategy, own, simulated=bool(simulated), explained=parts)
        return answer.model_copy(update={"memory_plan": memory_plan_document(job, job.strategy, own)}) if planned else answer
    if planned:
        raise InputError(Sentence("memory_plan: belongs to one strategy; ask for it beside strategy."))
    if job.strategy is not None:
        raise InputError(Sentence("strategies: given beside strategy; give one of the two."))
    entries, fastest = _entries(job, own, _sections(given), simulated=bool(simulated))
    effects_of = fastest if "assumptions" in parts else None
    return EstimatesDocument(**job_fields(job, own, effects_of, doubts=warnings_of(job)), estimates=entries)


def _sections(given: object) -> list[StrategySection]:
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_STRATEGIES:
        shown = Sentence("a list of {:,}", len(given)) if isinstance(given, list) else show(given)
        raise InputError(Sentence("strategies: {} is not allowed; give a list of 1 to {:,} strategies.", shown, MAX_STRATEGIES))
    sections = [check(StrategySection, value, f"strategies[{index}]") for index, value in enumerate(given)]
    _check_cost(sections)
    return sections


def _check_cost(sections: Sequence[StrategySection]) -> None:
    pipelines = {_pipeline(section) for section in sections}
    costs = (
        (
            len(pipelines),
            MAX_PIPELINES,
            Sentence("distinct pipelines (pp, vpp, layer layout, MTP stage, recompute or tensors by stage)"),
        ),
        (
            sum((pp * vpp) ** 2 for pp, vpp, *_ in pipelines),
            MAX_SQUARED_STAGES,
            Sentence("squared virtual stages of distinct pipelines"),
        ),
        (sum(section.pp * section.vpp for section in sections), MAX_STAGES, Sentence("virtual stages of all strategies")),
    )
    for cost, limit, what in costs:
        if cost > limit:
            raise InputError(
                Sentence("strategies: {:,} {} are more than the {:,} of one request; send fewer at a time.", cost, what, limit)
            )


def _pipeline(section: StrategySection) -> tuple[int, int, int, str]:
    recompute = None if isinstance(section.recompute, str) else section.recompute.layers_per_stage
    layers = (section.layer_layout, section.layer_offset, section.noop_layers, section.tensor_plan, recompute)
    return section.pp, section.vpp, section.mtp_before_head, "" if set(map(type, layers)) == {type(None)} else repr(layers)


def _entries(
    job: Job, own: Sequence[Calibration], sections: Sequence[StrategySection], *, simulated: bool
) -> tuple[list[dict[str, Any]], ParallelStrategy | None]:
    """An estimate or a refusal a section, in order, and the strategy with the shortest step."""
    fastest = None
    entries: dict[int, dict[str, Any]] = {}
    strategies: dict[int, ParallelStrategy] = {}
    for index, section in enumerate(sections):
        try:
            strategies[index] = strategy_from_section(section, job.workload)
        except InputError as error:
            entries[index] = plain(RefusedStrategy(refused=str(error), rule=None))
    if strategies:
        rows = np.fromiter(strategies, dtype=np.int64)
        batch = StrategyBatch.of(list(strategies.values()))
        broken = first_violation(job.workload, batch)
        for row in np.flatnonzero(broken >= 0).tolist():
            rule, index = RULES[broken[row]], int(rows[row])
            sentence = Sentence("{}.", rule.sentence(job.workload, strategies[index]).rstrip("."))
            entries[index] = plain(RefusedStrategy(refused=sentence, rule=rule.name))
        legal = np.flatnonzero(broken < 0)
        if len(legal):
            if simulated:
                check_cost(job.workload, (strategies[int(row)] for row in rows[legal]), "strategies")
            found = priced(job.workload, batch.take(legal), own, simulated=simulated)
            fastest = strategies[int(rows[legal[found.step_time_s.argmin()]])]
            legal_ones = [strategies[int(row)] for row in rows[legal]]
            numbers = fill_intervals(job.workload, estimates_to_mappings(job.workload, found), own, legal_ones)
            for each, doubts in zip(numbers, open_fields(job, legal_ones, own), strict=True):
                doubts.widen(each)
            EstimateNumbers.model_validate(numbers[0])  # all are rows of the same columns
            entries.update(zip(rows[legal].tolist(), numbers, strict=True))
    return [entries[index] for index in range(len(sections))], fastest
