"""The price of legal strategies, and the document of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from app.answers.assumptions import MAX_VIRTUAL_STAGES, Asked, Measured, Price, prices_of
from app.answers.delivery import delivery_summary
from app.answers.numbers import numbers_of
from app.answers.open_fields import OpenFields, open_fields, warnings_of
from app.answers.parts import USUAL, Part
from app.answers.provenance import head, priced_with
from app.answers.schemas import EstimateDocument
from app.answers.simulation import check_cost, simulation_document
from app.answers.software import software_documents
from app.calibrations.constants import constants_for
from app.calibrations.doubts import doubts_routing, with_doubts
from app.calibrations.next_runs import next_runs
from app.jobs.job import Job
from calibration.files.calibrations import Calibration, calibration_for
from calibration.intervals.memory import MemoryEvidence
from calibration.intervals.step_time import Interval
from calibration.splits.mechanisms import plan_mechanisms, strategy_mechanisms
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Software, Workload
from cost_models.step.priced_groups import KnownPipelines
from cost_models.step.result import Estimate
from documents.errors import InfeasibleStrategyError, InputError
from documents.sentences import Sentence, joined
from frameworks.legality import first_violation, violations
from frameworks.registry import FRAMEWORKS, parse_target, releases_of
from frameworks.rule import Mask
from search.plans.plan import estimates_to_mappings, strategy_to_mapping

_ON_HOST = Sentence("switch {}", "optimizer_cpu_offload")
_NOT_FINITE = Sentence("job: its numbers lead to times or sizes beyond 1e308; check cluster.inter_node_bytes_per_s first.")


def fill_intervals(
    workload: Workload, document: Any, own: Sequence[Calibration] = (), strategies: Sequence[ParallelStrategy] = ()
) -> Any:
    """Add the interval of the step time and its evidence to every estimate in the document.

    An estimate belongs to the ``strategy`` in the same mapping. ``strategies`` are for a list of estimates without that key, or
    for one such estimate.
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
    """Intervals of a step of one second, by the mechanisms of a plan, since plans with equal mechanisms share them."""

    def __init__(self, workload: Workload, calibration: Calibration) -> None:
        self.workload = workload
        self.memory: MemoryEvidence = calibration.memory_evidence(workload)
        self._calibration = calibration
        self._known: dict[frozenset[str], Interval] = {}

    def of(self, used: frozenset[str]) -> Interval:
        """The interval of a plan with these mechanisms."""
        if used not in self._known:
            self._known[used] = self._calibration.interval(self.workload, 1.0, used)
        return self._known[used]


def _fill(document: Any, shares: _Shares, used: frozenset[str]) -> None:
    if isinstance(document, dict):
        if "step_time_low_s" in document:
            step_time_s, share = document["step_time_s"], shares.of(used)
            uneven_s = document.get("uneven_experts_s", 0.0) if doubts_routing(shares.workload) else 0.0
            on_host_s = document["time_breakdown_s"]["optimizer"] if _ON_HOST in used else 0.0
            low, high = with_doubts(
                shares.workload,
                (share.low_s, share.high_s),
                uneven_fraction=uneven_s / step_time_s,
                on_host_fraction=on_host_s / step_time_s,
            )
            document["step_time_low_s"], document["step_time_high_s"] = step_time_s * low, step_time_s * high
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
    """Mechanisms of a strategy, from its mapping (``strategy_to_mapping``)."""
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
    """Estimates of legal strategies with breakdowns; ``InputError`` if a job is so extreme that a price is not finite."""
    with np.errstate(all="ignore"):
        found = numbers_of(workload, batch, own, simulated=simulated)
    if not _is_finite(found).all():
        raise InputError(_NOT_FINITE)
    return found


def _is_finite(found: Estimate) -> Mask:
    assert found.breakdown is not None
    with np.errstate(all="ignore"):
        finite: Mask = np.isfinite(found.step_time_s + found.peak_memory_bytes + sum(found.breakdown.masked_s.values()))
    return finite


def _memory_of_ranks(found: Estimate, row: int, num_ranks: int) -> list[dict[str, float]]:
    """Memory of each pipeline rank of one strategy; ``found`` has its breakdown."""
    columns = {
        "peak_memory_bytes": found.stage_peak_memory_bytes,
        "allocated_peak_bytes": found.stage_allocated_peak_bytes,
        "allocated_first_iteration_bytes": found.stage_allocated_first_iteration_bytes,
        "allocated_after_step_bytes": found.stage_allocated_after_step_bytes,
    }
    return [
        {"rank": rank} | {name: float(column[rank, row]) for name, column in columns.items() if column is not None}
        for rank in range(num_ranks)
    ]


class JobPrices:
    """Prices of one job's strategies. Shared parts are computed once, and strategies of one call are priced together.

    A strategy in ``job`` is ignored.
    """

    def __init__(self, job: Job, own: Sequence[Calibration] = ()) -> None:
        self.job, self._own = job, own
        self._measured = Measured(job, own)
        self._shares = _Shares(job.workload, calibration_for(job.workload, own))
        self._priced_with = priced_with(job.workload, own)
        # Known pipelines of the job's software, and of the software with each option switched.
        self._known: dict[Software, KnownPipelines] = defaultdict(KnownPipelines)

    def documents(
        self, asked: Sequence[tuple[Job, ParallelStrategy]], *, explained: Collection[Part]
    ) -> list[EstimateDocument | InputError]:
        """The document of each strategy of the job, or the reason why there is none."""
        workload = self.job.workload
        whole = StrategyBatch.of([strategy for _, strategy in asked])
        refused: dict[int, InputError] = {}
        for row in np.flatnonzero(first_violation(workload, whole) >= 0).tolist():
            refused[row] = refusal(workload, asked[row][1])
        legal = [row for row in range(len(asked)) if row not in refused]
        found: dict[int, EstimateDocument | InputError] = {**refused}
        if legal:
            with np.errstate(all="ignore"):
                numbers = numbers_of(workload, whole.take(np.array(legal)), self._own, known=self._known[workload.software])
            finite = np.flatnonzero(_is_finite(numbers)).tolist()
            rows = estimates_to_mappings(workload, numbers)
            told = [(legal[index], rows[index]) for index in finite]
            known = prices_of(numbers)
            found |= {row: InputError(_NOT_FINITE) for row in legal}
            found |= self._told(
                [(*asked[row], of_row) for row, of_row in told],
                [row for row, _ in told],
                [known[index] for index in finite],
                self._software([asked[legal[index]][1] for index in finite], numbers, finite)
                if "software" in explained
                else [None] * len(finite),
                [_memory_of_ranks(numbers, index, asked[legal[index]][1].pp) for index in finite],
                explained=explained,
            )
        return [found[row] for row in range(len(asked))]

    def _told(
        self,
        priced: Sequence[tuple[Job, ParallelStrategy, dict[str, Any]]],
        rows: Sequence[int],
        known: Sequence[Price],
        software: Sequence[dict[str, Any] | None],
        memory: Sequence[list[dict[str, float]]],
        *,
        explained: Collection[Part],
    ) -> dict[int, EstimateDocument]:
        sentences = self._assumptions([_asked(job, strategy) for job, strategy, _ in priced], known, explained)
        doubts = open_fields(self.job, [strategy for _, strategy, _ in priced], self._own)
        told = zip(priced, sentences, software, memory, doubts, strict=True)
        documents = (
            self.document(*one, texts, moved, of_ranks, found, explained=explained) for one, texts, moved, of_ranks, found in told
        )
        return {row: EstimateDocument.model_validate(document) for row, document in zip(rows, documents, strict=True)}

    def _assumptions(
        self, asked: Sequence[Asked], known: Sequence[Price] | None, explained: Collection[Part]
    ) -> Sequence[Sequence[str]]:
        return self._measured.sentences(asked, known) if "assumptions" in explained else [self._measured.unmeasured] * len(asked)

    def _software(
        self, strategies: Sequence[ParallelStrategy], numbers: Estimate, rows: Sequence[int]
    ) -> list[dict[str, Any] | None]:
        """Effects of the software's options, for strategies whose price is fast enough."""
        short = [index for index, one in enumerate(strategies) if one.pp * one.vpp <= MAX_VIRTUAL_STAGES]
        found: list[dict[str, Any] | None] = [None] * len(strategies)
        if short:
            chosen = [strategies[index] for index in short]
            places = [rows[index] for index in short]
            documents = software_documents(self.job.workload, chosen, numbers, places, self._own, self._known)
            for index, document in zip(short, documents, strict=True):
                found[index] = document
        return found

    def document(
        self,
        job: Job,
        strategy: ParallelStrategy,
        numbers: dict[str, Any],
        told: Sequence[str],
        software: dict[str, Any] | None,
        memory: list[dict[str, float]],
        doubts: OpenFields,
        *,
        explained: Collection[Part],
    ) -> dict[str, Any]:
        """The document around the numbers of one strategy."""
        _fill(numbers, self._shares, strategy_mechanisms(job.workload, strategy))
        doubts.widen(numbers)
        document: dict[str, Any] = {
            **head(job, told, warnings_of(job)),
            "priced_with": self._priced_with,
            "strategy": strategy_to_mapping(job.workload, strategy),
            "estimate": numbers,
            "memory_of_ranks": memory,
        }
        if software is not None:
            document["software"] = software
        if job.delivery is not None:
            document["delivery"] = delivery_summary(job, strategy, numbers, self._own)
        if "next_runs" in explained and _is_far(numbers["evidence"]["extrapolated"], strategy):
            document["next_runs"] = next_runs(job, strategy, self._own)
        return document

    def simulated(self, job: Job, strategy: ParallelStrategy, *, replayed: bool, explained: Collection[Part]) -> EstimateDocument:
        """The document of one strategy whose step is simulated task by task; ``InputError`` if it cannot be."""
        workload, batch = job.workload, StrategyBatch.of([strategy])
        if first_violation(workload, batch)[0] >= 0:
            raise refusal(workload, strategy)
        check_cost(workload, [strategy], "strategy")
        numbers = priced(workload, batch, self._own, simulated=True)
        (told,) = self._assumptions([_asked(job, strategy)], None, explained)
        (row,) = estimates_to_mappings(workload, numbers)
        (moved,) = self._software([strategy], numbers, [0]) if "software" in explained else [None]
        memory = _memory_of_ranks(numbers, 0, strategy.pp)
        (doubts,) = open_fields(job, [strategy], self._own)
        document = self.document(job, strategy, row, told, moved, memory, doubts, explained=explained)
        if replayed:
            closed_form_s = float(priced(workload, batch, self._own).step_time_s[0])
            constants = constants_for(workload, self._own)
            document["simulation"] = simulation_document(workload, strategy, constants, numbers, closed_form_s)
        return EstimateDocument.model_validate(document)


def is_far(document: EstimateDocument, strategy: ParallelStrategy) -> bool:
    """Whether the strategy is so far from measured runs that new runs are advised."""
    return _is_far(document.estimate.evidence.extrapolated, strategy)


def _is_far(extrapolated: Sequence[str], strategy: ParallelStrategy) -> bool:
    return bool(extrapolated) and strategy.pp * strategy.vpp <= MAX_VIRTUAL_STAGES


def _asked(job: Job, strategy: ParallelStrategy) -> Asked:
    return Asked(strategy, job.section, "strategy" if strategy is job.strategy else "search")


def refusal(workload: Workload, strategy: ParallelStrategy, *, is_script: bool = False) -> InputError:
    """Why the strategy cannot run; first what no other strategy of the job changes. A script is not read for other frameworks."""
    broken = violations(workload, strategy)
    first = next((each for each in broken if each.job_only), broken[0])
    reason = Sentence("{} ({})", first.sentence.rstrip("."), first.rule)
    if not first.job_only:
        return InfeasibleStrategyError(Sentence("strategy: {}.", reason))
    releases = _other_releases(workload, strategy)
    if others := joined(", ", releases or _other_frameworks(workload, strategy), " or "):
        if is_script and not releases:
            return InfeasibleStrategyError(Sentence("strategy: {}; a job for {} is taken.", reason, others))
        return InfeasibleStrategyError(Sentence("strategy: {}; --target {} takes the job.", reason, others))
    return InfeasibleStrategyError(Sentence("strategy: {}.", reason))


def _other_releases(workload: Workload, strategy: ParallelStrategy) -> list[str]:
    """Other releases of the target's framework that take the strategy."""
    target = parse_target(workload.software.target)
    releases = (each.target.label for each in releases_of(target.name))
    return [label for label in releases if label != target.label and not violations(workload, strategy, label)]


def _other_frameworks(workload: Workload, strategy: ParallelStrategy) -> list[str]:
    """Releases of other frameworks on the devices that take the strategy."""
    family, name = workload.cluster.profile.family, parse_target(workload.software.target).name
    others = [each.target for each in FRAMEWORKS if each.name != name and family in each.target.families]
    return [target.label for target in others if not violations(workload, strategy, target)]


def estimate_document(
    job: Job,
    strategy: ParallelStrategy,
    own: Sequence[Calibration] = (),
    *,
    simulated: bool = False,
    replayed: bool = True,
    explained: Collection[Part] = USUAL,
) -> EstimateDocument:
    """Estimate of one strategy, as ``meshplan estimate --json`` prints it. Raises ``InputError`` if the strategy cannot run.

    A simulated one includes the replay of its tasks unless ``replayed`` is false. ``explained``: see ``app.answers.parts``.
    """
    prices = JobPrices(job, own)
    if simulated:
        return prices.simulated(job, strategy, replayed=replayed, explained=explained)
    (found,) = prices.documents([(job, strategy)], explained=explained)
    if isinstance(found, InputError):
        raise found
    return found
