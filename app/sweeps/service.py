"""Runs a sweep point by point: the best plan of each, then what they say together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.answers.costs import draw_of, price_of
from app.answers.delivery import LEAST_RATE, delivered_of
from app.answers.price import fill_intervals
from app.answers.provenance import priced_with
from app.answers.site import failing_site
from app.answers.targets import with_usual_target
from app.calibrations.constants import calibration_sentence, constants_for
from app.jobs.delivery import DeliverySection
from app.jobs.fields import EXHAUSTIVE
from app.jobs.job import Job
from app.sweeps.points import Point, Source, job_of, points_of
from app.sweeps.schemas import SweepDocument, SweepPoint
from app.sweeps.summary import assumptions_of, constraints_of, summary
from calibration.files import Calibration
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import WorkloadError
from cost_models.simulation.step_times import simulate
from documents.errors import InfeasibleError, InputError
from meshplan import __version__
from search.answers import Answers
from search.plan import plan_id, strategy_to_mapping
from search.result import Progress
from search.space import search_space
from search.stepwise import run_to_end
from search.sweep.point import PointSearch

DEFAULT_TOKENS = 1e12

OwnCalibrations = Callable[[Job], Sequence[Calibration]]


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is: points that are done, of how many, and the search of the one at work."""

    num_done: int
    num_points: int
    search: Progress
    elapsed_s: float


OnProgress = Callable[[SweepProgress], bool | None]


def sweep_document(
    source: Source,
    own_of: OwnCalibrations = lambda job: (),
    *,
    on_progress: OnProgress | None = None,
    time_limit_s: float | None = None,
    check: Callable[[Job], None] = lambda job: None,
) -> SweepDocument:
    """The document that ``meshplan schema sweep`` describes; ``InputError`` where no point of it is a job.

    ``time_limit_s`` is of all points together, beside the one that the job itself gives; ``check`` refuses jobs.
    """
    run = SweepRun(source, own_of, on_progress, time_limit_s, check)
    run.to_end()
    return run.document()


@dataclass
class SweepRun:
    """A sweep at work. What it has found so far is an answer at any moment."""

    source: Source
    own_of: OwnCalibrations
    on_progress: OnProgress | None = None
    time_limit_s: float | None = None
    check: Callable[[Job], None] = lambda job: None
    points: list[SweepPoint] = field(default_factory=list)
    jobs: list[tuple[Job, Sequence[Calibration]]] = field(default_factory=list)
    stopped_by: str | None = None
    _known: dict[tuple[Any, ...], list[ParallelStrategy]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.asked: list[Point] = points_of(self.source)
        self._begun_s = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._begun_s

    def to_end(self) -> None:
        """All points in their order, until a limit or an interrupt."""
        refusal: InputError | WorkloadError | None = None
        for point in self.asked:
            try:
                job = self._job(point)
                self.points.append(self._best(job))
            except KeyboardInterrupt:
                self.stopped_by = "interrupt"
            except (InputError, InfeasibleError, WorkloadError) as error:
                refusal = refusal or (error if isinstance(error, InputError | WorkloadError) else None)
                self.points.append(self._refused(point, error))
            if self.stopped_by in ("interrupt", "time_limit"):
                return
        if not self.jobs and refusal is not None:
            raise refusal

    def _job(self, point: Point) -> Job:
        job = job_of(self.source, point)
        self.check(job)
        if job.settings.sampler != EXHAUSTIVE:
            raise InputError("search.sampler: a sweep prices every strategy; leave it out.")
        limit_s = job.settings.time_limit_s
        if limit_s is not None:
            self.time_limit_s = limit_s if self.time_limit_s is None else min(limit_s, self.time_limit_s)
        if constraints_of(job) and job.workload.training.train_tokens is None:
            raise InputError("search: a deadline or a budget is for how many tokens? Give training.train_tokens.")
        own = self.own_of(job)
        job = with_usual_target(job, own)
        self.jobs.append((job, own))
        return job

    def _best(self, job: Job) -> SweepPoint:
        workload, (_, own) = job.workload, self.jobs[-1]
        constants, space = constants_for(workload, own), search_space(workload, job.limits)
        kind = (workload.cluster.profile.name, workload.software)
        known = self._known.setdefault(kind, [])
        search = PointSearch(workload, space, constants, known=known, clock=time.perf_counter)
        left_s = None if self.time_limit_s is None else max(self.time_limit_s - self.elapsed_s, 1e-3)
        stopped_by = run_to_end(search, left_s, self._progress)
        found, _ = search.best()
        self.stopped_by = stopped_by or self.stopped_by
        if found is None:
            reason = (
                search.why_nothing()
                if stopped_by is None
                else f"stopped by {stopped_by.replace('_', ' ')} before a plan was found"
            )
            return self._point(job, state="infeasible" if stopped_by is None else "found", reason=reason)
        if not search.is_closed:
            self.stopped_by = self.stopped_by or "max_simulations"
        known.append(search.before_climbing or found.strategy)
        (numbers,) = Answers(workload, space, constants, simulate).estimates([found.strategy])
        fill_intervals(workload, numbers, own, [found.strategy])
        return self._point(
            job,
            state="proved" if search.is_closed else "found",
            reason=None,
            plan_id=plan_id(workload, found.strategy),
            strategy=strategy_to_mapping(workload, found.strategy),
            **{name: numbers[name] for name in _NUMBERS},
            **self._days_and_costs(job, found.strategy, numbers, own),
        )

    def _progress(self, progress: Progress) -> bool | None:
        if self.on_progress is None:
            return None
        return self.on_progress(SweepProgress(len(self.points), len(self.asked), progress, self.elapsed_s))

    def _point(self, job: Job, **values: Any) -> SweepPoint:
        workload = job.workload
        return SweepPoint.model_validate(
            {
                **_NO_PLAN,
                "point": len(self.points) + 1,
                "hardware": workload.cluster.profile.name,
                "stack": workload.software.stack,
                "target": workload.software.target,
                "num_devices": workload.cluster.num_devices,
                "global_batch_size": workload.training.global_batch_size,
                "seq_length": workload.training.seq_length,
                **values,
            }
        )

    def _refused(self, point: Point, error: Exception) -> SweepPoint:
        document = self.source.document
        parts: list[dict[str, Any]] = [dict(part) if isinstance(part := document.get(name), dict) else {} for name in _PARTS]
        cluster, training, software = parts
        return SweepPoint.model_validate(
            {
                **_NO_PLAN,
                "point": len(self.points) + 1,
                "hardware": str(point.hardware or cluster.get("hardware") or ""),
                "stack": str((point.software or software).get("stack") or ""),
                "target": "",
                "num_devices": _count(point.devices, cluster.get("num_devices")),
                "global_batch_size": _count(point.global_batch_size, training.get("global_batch_size")),
                "seq_length": _count(point.seq_length, training.get("seq_length")),
                "state": "refused",
                "reason": str(error),
            }
        )

    def _days_and_costs(
        self, job: Job, strategy: ParallelStrategy, numbers: dict[str, Any], own: Sequence[Calibration]
    ) -> dict[str, Any]:
        workload = job.workload
        section, rate, running, spares = job.delivery or DeliverySection(), 1.0, 1.0, 0
        found: dict[str, Any] = {}
        failing = failing_site(job)
        if failing is not None:
            delivered, site = delivered_of(job, failing, strategy, numbers["step_time_s"], own)
            rate, spares = delivered.rate, site.num_spares
            running = delivered.supply.rate * (delivered.effective.useful + delivered.effective.repeated)
            found["effective_time_fraction"] = rate
        if rate < LEAST_RATE:
            return found
        days = tokens_of(job) / (numbers["tokens_per_s"] * rate * DAY_S)
        draw = draw_of(workload, section, numbers, running=running, num_spares=spares)
        price = price_of(workload, section, draw, num_spares=spares)
        return {
            **found,
            "days": days,
            "device_days": days * workload.cluster.num_devices,
            "energy_kwh": None if draw is None else draw.kwh_per_day * days,
            "cost_usd": None if price is None else price.usd_per_day * days,
        }

    def document(self) -> SweepDocument:
        """What has been found so far."""
        if not self.jobs:
            raise InputError("sweep: stopped before the first of its points.")
        job, own = self.jobs[0]
        told = summary(job, self.points)
        kinds = {(each.workload.cluster.profile.name, each.workload.software.stack): (each, its) for each, its in self.jobs}
        section = self.source.document.get("sweep")
        return SweepDocument.model_validate(
            {
                "schema_version": 1,
                "job": {**job.document, **({} if section is None else {"sweep": dict(section)})},
                "assumptions": [*assumptions_of([each for each, _ in self.jobs]), *map(calibration_sentence, own)],
                "warnings": list(dict.fromkeys(warning for each, _ in self.jobs for warning in each.warnings)),
                "version": __version__,
                "priced_with": [priced_with(each.workload, its) for each, its in kinds.values()],
                "tokens": tokens_of(job),
                "num_points": len(self.asked),
                "num_done": len(self.points),
                "stopped_by": self.stopped_by,
                "site": None if (site := failing_site(job)) is None else site.model_dump(),
                "elapsed_s": self.elapsed_s,
                **told,
            }
        )


_NO_PLAN = {name: None for name, field in SweepPoint.model_fields.items() if not field.is_required()}
_PARTS = ("cluster", "training", "software")
_NUMBERS = (
    "step_time_s",
    "step_time_low_s",
    "step_time_high_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "mfu_fraction",
    "peak_memory_bytes",
    "headroom_bytes",
    "bottleneck",
)


def tokens_of(job: Job) -> float:
    """The budget behind days and costs."""
    return job.workload.training.train_tokens or DEFAULT_TOKENS


def _count(*given: Any) -> int:
    return next((value for value in given if isinstance(value, int)), 0)
