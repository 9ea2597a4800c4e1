"""Runs a sweep point by point: the best plan of each, then what they say together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from app.answers.costs import draw_of, price_of
from app.answers.delivery import LEAST_RATE, delivered_of
from app.answers.price import fill_intervals
from app.answers.provenance import priced_with
from app.answers.site import failing_site
from app.answers.targets import with_usual_target
from app.calibrations.constants import calibration_sentence, constants_for
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from app.sweeps.points import Point, Source, job_of, points_of
from app.sweeps.schemas import SweepDocument, SweepPoint
from app.sweeps.summary import assumptions_of, summary
from app.text.documents import plain
from calibration.files import Calibration
from cost_models.constants import Constants
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload, WorkloadError
from cost_models.simulation.step_times import simulate
from documents.errors import InfeasibleError, InputError
from meshplan import __version__
from search.answers import Answers
from search.lattice_state import placed_values, strategy_from_values
from search.plan import plan_id, strategy_to_mapping
from search.result import Progress
from search.space import search_space
from search.stepwise import run_to_end
from search.sweep.point import PointSearch

DEFAULT_TOKENS = 1e12

OwnCalibrations = Callable[[Job], Sequence[Calibration]]


class Fitted(NamedTuple):
    """What runs taught about a job: calibrations that say how sure its prices are, and the constants that make them."""

    own: Sequence[Calibration]
    constants_of: Callable[[Workload], Constants]


@dataclass(frozen=True)
class SweepProgress(Progress):
    """How far a sweep is in all, and what the search of the point at work counts."""

    num_done: int = 0
    num_points: int = 0


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

    def fitted_of(job: Job) -> Fitted:
        check(job)
        own = own_of(job)
        return Fitted(own, lambda workload: constants_for(workload, own))

    run = SweepRun(source, fitted_of, time_limit_s)
    return run.document(run_to_end(run, run.time_limit_s, on_progress))


class SweepRun:
    """A sweep at work, a step of a point's search at a time. What it has found so far is an answer at any moment.

    ``checkpoint`` and the ``records`` of an earlier run of the same source continue it: the answer is that of one run.
    """

    def __init__(
        self,
        source: Source,
        fitted_of: Callable[[Job], Fitted],
        time_limit_s: float | None = None,
        *,
        checkpoint: Mapping[str, Any] | None = None,
        records: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.source, self._fitted_of, self._time_limit_s = source, fitted_of, time_limit_s
        self.asked: list[Point] = points_of(source)
        self.points: list[SweepPoint] = []
        self._starts: list[list[Any]] = []  # the plan of each point from which others start
        self._known: dict[tuple[Any, ...], list[ParallelStrategy]] = {}
        self._jobs: dict[int, tuple[Job, Fitted]] = {}
        self._refusal: InputError | WorkloadError | None = None
        self._search: PointSearch | None = None  # of the point at work
        for record in records:
            self._restore(SweepPoint.model_validate(record["document"]), record["start"])
        self._begun_s = time.perf_counter() - (0.0 if checkpoint is None else checkpoint["elapsed_s"])
        if checkpoint is not None and checkpoint["point"] is not None:
            self._search = self._begun(checkpoint["point"])

    @property
    def time_limit_s(self) -> float | None:
        """Of all points together: the caller's, or the job's where that is shorter."""
        section = self.source.document.get("search")
        given = section.get("time_limit_s") if isinstance(section, Mapping) else None
        limits = [limit for limit in (given, self._time_limit_s) if isinstance(limit, int | float)]
        return min(limits, default=None)

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to answer with."""
        return bool(self.points) or self._search is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds of all runs of this sweep so far."""
        return time.perf_counter() - self._begun_s

    @property
    def progress(self) -> SweepProgress:
        """How far the sweep has come."""
        at_work = _IDLE if self._search is None else self._search.progress
        number, total = len(self.points), len(self.asked)
        changes = {"done_fraction": (number + at_work.done_fraction) / total, "elapsed_s": self.elapsed_s}
        return SweepProgress(**{**vars(at_work), **changes}, num_done=number, num_points=total)

    def checkpoint(self) -> dict[str, Any]:
        """What is not in the records, as JSON."""
        return {"elapsed_s": self.elapsed_s, "point": None if self._search is None else self._search.checkpoint()}

    def records(self, start: int) -> list[dict[str, Any]]:
        """Of each point from there on: what the answer says of it, and the plan from which others start."""
        rows = zip(self.points[start:], self._starts[start:], strict=True)
        return [{"number": point.point, "document": plain(point), "start": begins} for point, begins in rows]

    def advance(self) -> bool:
        """One more step of the point at work, or the first of the next; ``False`` once there is none."""
        if len(self.points) == len(self.asked):
            return False
        try:
            if self._search is None:
                self._search = self._begun(None)
            if not self._search.advance():
                start = self._search.before_climbing
                self._add(self._best(self._search, None), [] if start is None else list(placed_values(start)))
        except (InputError, InfeasibleError, WorkloadError) as error:
            if self._refusal is None and not isinstance(error, InfeasibleError):
                self._refusal = error
            self._add(self._refused(self.asked[len(self.points)], error), [])
        return True

    def _restore(self, point: SweepPoint, start: list[Any]) -> None:
        if start:
            workload = job_of(self.source, self.asked[len(self.points)]).workload
            workload = replace(workload, software=replace(workload.software, target=point.target))
            self._known.setdefault(_kind(workload), []).append(strategy_from_values(*start))
        self.points.append(point)
        self._starts.append(start)

    def _add(self, point: SweepPoint, start: list[Any]) -> None:
        if start and self._search is not None:
            self._known.setdefault(_kind(self._search.workload), []).append(strategy_from_values(*start))
        self.points.append(point)
        self._starts.append(start)
        self._search = None

    def _job(self, place: int) -> tuple[Job, Fitted]:
        if place not in self._jobs:
            job = job_of(self.source, self.asked[place])
            fitted = self._fitted_of(job)
            self._jobs[place] = with_usual_target(job, fitted.own), fitted
        return self._jobs[place]

    def _begun(self, checkpoint: Mapping[str, Any] | None) -> PointSearch:
        """The search of the next point."""
        job, fitted = self._job(len(self.points))
        workload = job.workload
        return PointSearch(
            workload,
            search_space(workload, job.limits),
            fitted.constants_of(workload),
            known=self._known.get(_kind(workload), ()),
            clock=time.perf_counter,
            checkpoint=checkpoint,
        )

    def _best(self, search: PointSearch, stopped_by: str | None) -> SweepPoint:
        """What the search of the next point has found."""
        job, (own, constants_of) = self._job(len(self.points))
        workload = job.workload
        found, _ = search.best()
        if found is None:
            if stopped_by is None:
                return self._point(job, state="infeasible", reason=search.why_nothing())
            reason = f"stopped by {stopped_by.replace('_', ' ')} before a plan was found"
            return self._point(job, state="found", reason=reason)
        space = search_space(workload, job.limits)
        (numbers,) = Answers(workload, space, constants_of(workload), simulate).estimates([found.strategy])
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

    def document(self, stopped_by: str | None = None) -> SweepDocument:
        """What has been found so far, the point at work among it; ``stopped_by`` says why that is not all."""
        points = [*self.points, *([] if self._search is None else [self._best(self._search, stopped_by)])]
        jobs = [self._job(place) for place, point in enumerate(points) if point.state != "refused"]
        if not jobs:
            raise self._refusal or InputError("sweep: stopped before the first of its points.")
        job, (own, _) = jobs[0]
        cut = "max_simulations" if any(point.state == "found" for point in self.points) else None
        stopped_by = cut if len(self.points) == len(self.asked) else stopped_by or cut
        kinds = {(each.workload.cluster.profile.name, each.workload.software.stack): (each, its) for each, its in jobs}
        section = self.source.document.get("sweep")
        named = () if job.calibration is None else own
        return SweepDocument.model_validate(
            {
                "schema_version": 1,
                "job": {**job.document, **({} if section is None else {"sweep": dict(section)})},
                "assumptions": [*assumptions_of([each for each, _ in jobs]), *map(calibration_sentence, named)],
                "warnings": list(dict.fromkeys(warning for each, _ in jobs for warning in each.warnings)),
                "version": __version__,
                "priced_with": [priced_with(each.workload, its.own) for each, its in kinds.values()],
                "tokens": tokens_of(job),
                "num_points": len(self.asked),
                "num_done": len(points),
                "stopped_by": stopped_by,
                "site": None if (site := failing_site(job)) is None else site.model_dump(),
                "elapsed_s": self.elapsed_s,
                **summary(job, points),
            }
        )


def _kind(workload: Workload) -> tuple[Any, ...]:
    """Points of one kind start from each other's plans."""
    return workload.cluster.profile.name, workload.software


_IDLE = Progress(0.0, 0, 0, 0, None, 0.0)
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
