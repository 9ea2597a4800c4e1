"""The price of legal strategies, and the document of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.answers.assumptions import MAX_VIRTUAL_STAGES
from app.answers.provenance import about, priced_with
from app.answers.schemas import EstimateDocument
from app.answers.simulation import check_cost, simulation_document
from app.calibrations.constants import constants_for
from app.calibrations.next_runs import next_runs
from app.jobs.job import Job
from calibration.files import Calibration, calibration_for
from calibration.intervals import Interval
from calibration.memory_intervals import MemoryEvidence
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from documents.errors import InfeasibleStrategyError, InputError
from frameworks.legality import violations
from search.plan import estimates_to_mappings, strategy_to_mapping


def fill_intervals(workload: Workload, document: Any, own: Sequence[Calibration] = ()) -> Any:
    """The document, with the interval of the step time and the evidence in every estimate inside it."""
    calibration = calibration_for(workload, own)
    _fill(document, calibration.interval(workload, 1.0), calibration.memory_evidence(workload))
    return document


def _fill(document: Any, share: Interval, memory: MemoryEvidence) -> None:
    """``share`` is the interval of a step of one second; all estimates of a workload have the same in proportion."""
    if isinstance(document, dict):
        if "step_time_low_s" in document:
            step_time_s = document["step_time_s"]
            document["step_time_low_s"], document["step_time_high_s"] = step_time_s * share.low_s, step_time_s * share.high_s
            for name, found in (("evidence", share), ("memory_evidence", memory)):
                document[name] = {
                    "num_runs": found.num_runs,
                    "max_devices": found.max_devices,
                    "extrapolated": list(found.extrapolated),
                }
        else:
            for value in document.values():
                _fill(value, share, memory)
    elif isinstance(document, list | tuple):
        for value in document:
            _fill(value, share, memory)


def priced(workload: Workload, batch: StrategyBatch, own: Sequence[Calibration] = (), *, simulated: bool = False) -> Estimate:
    """Legal strategies with their breakdown; ``InputError`` where a job is so extreme that a price is no finite number."""
    with np.errstate(all="ignore"):
        found = (simulate if simulated else estimate)(workload, batch, constants_for(workload, own), breakdown=True)
        assert found.breakdown is not None
        totals = found.step_time_s + found.peak_memory_bytes + sum(found.breakdown.masked_s.values())
    if not np.isfinite(totals).all():
        raise InputError("job: its numbers lead to times or sizes beyond 1e308; check cluster.inter_node_bytes_per_s first.")
    return found


def estimate_document(
    job: Job,
    strategy: ParallelStrategy,
    own: Sequence[Calibration] = (),
    *,
    simulated: bool = False,
    replayed: bool = True,
    advised: bool = False,
) -> EstimateDocument:
    """The document that ``meshplan schema estimate`` describes; ``InputError`` for a strategy that cannot run.

    A simulated one also says what the replay of its tasks shows, unless ``replayed`` is false; one that is ``advised`` says which
    runs would bring measured ones nearer, where these are far.
    """
    broken = violations(job.workload, strategy)
    if broken:
        raise InfeasibleStrategyError(f"strategy: {broken[0].sentence.rstrip('.')} ({broken[0].rule}).")
    workload, batch = job.workload, StrategyBatch.of([strategy])
    if simulated:
        check_cost(workload, [strategy], "strategy")
    numbers = priced(workload, batch, own, simulated=simulated)
    found = fill_intervals(workload, estimates_to_mappings(workload, numbers)[0], own)
    document: dict[str, Any] = {
        **about(job, own, strategy, "strategy" if strategy is job.strategy else "search"),
        "priced_with": priced_with(workload, own),
        "strategy": strategy_to_mapping(workload, strategy),
        "estimate": found,
    }
    if advised and found["evidence"]["extrapolated"] and strategy.pp * strategy.vpp <= MAX_VIRTUAL_STAGES:
        document["next_runs"] = next_runs(job, strategy, own)
    if simulated and replayed:
        closed_form_s = float(priced(workload, batch, own).step_time_s[0])
        constants = constants_for(workload, own)
        document["simulation"] = simulation_document(workload, strategy, constants, numbers, closed_form_s)
    return EstimateDocument.model_validate(document)
