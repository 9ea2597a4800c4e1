"""The price of legal strategies, and the document of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.answers.assumptions import MAX_VIRTUAL_STAGES
from app.answers.delivery import delivery_summary
from app.answers.provenance import about, priced_with
from app.answers.schemas import EstimateDocument
from app.answers.simulation import check_cost, simulation_document
from app.answers.software import software_document
from app.calibrations.constants import constants_for
from app.calibrations.next_runs import next_runs
from app.jobs.job import Job
from calibration.files import Calibration, calibration_for
from calibration.intervals import Interval
from calibration.mechanisms import plan_mechanisms, strategy_mechanisms
from calibration.memory_intervals import MemoryEvidence
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from documents.errors import InfeasibleStrategyError, InputError
from frameworks.legality import violations
from search.plan import estimates_to_mappings, strategy_to_mapping


def fill_intervals(
    workload: Workload, document: Any, own: Sequence[Calibration] = (), strategies: Sequence[ParallelStrategy] = ()
) -> Any:
    """The document, with the interval of the step time and the evidence in every estimate inside it.

    An estimate beside a ``strategy`` is of that one; ``strategies`` are those of a list of estimates without, or of one.
    """
    shares = _Shares(workload, calibration_for(workload, own))
    if strategies:
        listed = document if isinstance(document, list) else [document]
        for numbers, strategy in zip(listed, strategies, strict=True):
            _fill(numbers, shares, strategy_mechanisms(workload, strategy))
    else:
        _fill(document, shares, frozenset())
    return document


class _Shares:
    """The interval of a step of one second, by what a plan exercises: estimates that exercise the same have the same share."""

    def __init__(self, workload: Workload, calibration: Calibration) -> None:
        self.workload = workload
        self.memory: MemoryEvidence = calibration.memory_evidence(workload)
        self._calibration = calibration
        self._known: dict[frozenset[str], Interval] = {}

    def of(self, used: frozenset[str]) -> Interval:
        """The interval of a plan that exercises these."""
        if used not in self._known:
            self._known[used] = self._calibration.interval(self.workload, 1.0, used)
        return self._known[used]


def _fill(document: Any, shares: _Shares, used: frozenset[str]) -> None:
    if isinstance(document, dict):
        if "step_time_low_s" in document:
            step_time_s, share = document["step_time_s"], shares.of(used)
            document["step_time_low_s"], document["step_time_high_s"] = step_time_s * share.low_s, step_time_s * share.high_s
            for name, found in (("evidence", share), ("memory_evidence", shares.memory)):
                document[name] = {
                    "num_runs": found.num_runs,
                    "max_devices": found.max_devices,
                    "extrapolated": list(found.extrapolated),
                }
        else:
            plan = document.get("strategy")
            used = _exercised(shares.workload, plan) if isinstance(plan, dict) and "features" in plan else used
            for value in document.values():
                _fill(value, shares, used)
    elif isinstance(document, list | tuple):
        for value in document:
            _fill(value, shares, used)


def _exercised(workload: Workload, plan: dict[str, Any]) -> frozenset[str]:
    """What a strategy exercises, from its mapping (``strategy_to_mapping``)."""
    return plan_mechanisms(
        workload,
        schedule=plan["schedule"],
        cp_algo=plan["cp_algo"],
        dispatcher=plan["moe_dispatcher"],
        recompute=plan["recompute"]["granularity"],
        zero_stage=plan["zero_stage"],
        features=plan["features"],
    )


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
    found = fill_intervals(workload, estimates_to_mappings(workload, numbers)[0], own, [strategy])
    document: dict[str, Any] = {
        **about(job, own, strategy, "strategy" if strategy is job.strategy else "search"),
        "priced_with": priced_with(workload, own),
        "strategy": strategy_to_mapping(workload, strategy),
        "estimate": found,
    }
    if strategy.pp * strategy.vpp <= MAX_VIRTUAL_STAGES:
        document["software"] = software_document(workload, strategy, numbers, own)
    if job.delivery is not None:
        document["delivery"] = delivery_summary(job, strategy, found, own)
    if advised and found["evidence"]["extrapolated"] and strategy.pp * strategy.vpp <= MAX_VIRTUAL_STAGES:
        document["next_runs"] = next_runs(job, strategy, own)
    if simulated and replayed:
        closed_form_s = float(priced(workload, batch, own).step_time_s[0])
        constants = constants_for(workload, own)
        document["simulation"] = simulation_document(workload, strategy, constants, numbers, closed_form_s)
    return EstimateDocument.model_validate(document)
