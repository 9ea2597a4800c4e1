"""A sweep, point by point: the best plan of each, then a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from app.answers.open_fields import warnings_of
from app.answers.provenance import priced_with
from app.answers.site import failing_site
from app.answers.targets import with_usual_target
from app.calibrations.constants import calibration_sentence, constants_for
from app.jobs.job import Job
from app.jobs.precision import leaves_recipe_open
from app.sweeps.best import Reached, best_plan, reached, tokens_of
from app.sweeps.points import Point, Source, job_of, points_of, refuse_unread, section_of
from app.sweeps.schemas import SweepDocument, SweepPoint
from app.sweeps.summary import assumptions_of, summary
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload, WorkloadError
from documents.errors import InfeasibleError, InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from meshplan import __version__
from search.executors.executor import SERIAL, Executor, Piece
from search.exhaustive.lattice_state import placed_values, strategy_from_values
from search.session.progress import EXPLAIN, Progress, while_searching
from search.session.runner import run_to_end
from search.space.search_space import search_space
from search.sweep.point_search import PointSearch
from search.sweep.start_points import num_known

OwnCalibrations = Callable[[Job], Sequence[Calibration]]


class Fitted(NamedTuple):
    """The calibration of a job, for its intervals, and its constants."""

    own: Sequence[Calibration]
    constants_of: Callable[[Workload], Constants]


@dataclass(frozen=True)
class SweepProgress(Progress):
    """Progress of a sweep, and of the search of the current point."""

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
    executor: Executor = SERIAL,
) -> SweepDocument:
    """Result of a sweep, as ``meshplan sweep --json`` prints it. Raises ``InputError`` if no point is a job.

    ``time_limit_s`` limits all points together, in addition to the job's own limit; ``check`` refuses jobs. The answer does not
    depend on the ``executor``.
    """

    def fitted_of(job: Job) -> Fitted:
        check(job)
        refuse_unread(job)
        own = own_of(job)
        return Fitted(own, lambda workload: constants_for(workload, own))

    run = SweepRun(source, fitted_of, time_limit_s, executor=executor)
    return run.document(run_to_end(run, run.time_limit_s, on_progress))


class SweepRun:
    """A running sweep; each step is a step of a point's search. The results so far are an answer at any time.

    ``checkpoint`` and the ``records`` of an earlier run of the same source continue it; the answer is the same as of one run.
    Points that the ``executor`` takes are in them only when all earlier points are done.
    """

    def __init__(
        self,
        source: Source,
        fitted_of: Callable[[Job], Fitted],
        time_limit_s: float | None = None,
        *,
        checkpoint: Mapping[str, Any] | None = None,
        records: Sequence[Mapping[str, Any]] = (),
        executor: Executor = SERIAL,
    ) -> None:
        self.source, self._fitted_of, self._time_limit_s = source, fitted_of, time_limit_s
        self.asked: list[Point] = points_of(source)
        self.points: list[SweepPoint] = []
        self._starts: list[list[Any]] = []  # plan of each point from which others start
        self._of_kind: dict[tuple[Any, ...], list[int]] = {}
        self._known_by: dict[int, list[int]] = {}  # points whose plans each reached point starts from
        self._jobs: dict[int, tuple[Job, Fitted]] = {}
        self._executor = executor
        self._taken: dict[int, Piece[Reached]] = {}
        self._done: dict[int, tuple[SweepPoint, list[Any]]] = {}  # finished points after an unfinished one
        self._refusal: InputError | WorkloadError | None = None
        self._search: PointSearch | None = None  # search of the current point
        self._is_searched = False  # whether its best plan must still be explained
        self._place = 0  # number of the current point
        for record in records:
            self._restore(SweepPoint.model_validate(record["document"]), record["start"])
        self._begun_s = time.perf_counter() - (0.0 if checkpoint is None else checkpoint["elapsed_s"])
        if checkpoint is not None and checkpoint["point"] is not None:
            self._place = len(self.points)
            self._search = self._begun(checkpoint["point"])

    @property
    def time_limit_s(self) -> float | None:
        """Time limit of all points together: the shorter of the caller's and the job's."""
        section = self.source.document.get("search")
        given = section.get("time_limit_s") if isinstance(section, Mapping) else None
        limits = [limit for limit in (given, self._time_limit_s) if isinstance(limit, int | float)]
        return min(limits, default=None)

    @property
    def has_begun(self) -> bool:
        """Whether there is any result."""
        return bool(self.points or self._done) or self._search is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds of all runs of this sweep so far."""
        return time.perf_counter() - self._begun_s

    @property
    def progress(self) -> SweepProgress:
        """Progress of the sweep."""
        at_work = _IDLE if self._search is None else while_searching(self._search.progress)
        if self._is_searched:
            at_work = replace(at_work, phase=EXPLAIN)
        number, total = len(self.points) + len(self._done), len(self.asked)
        changes = {"done_fraction": (number + at_work.done_fraction) / total, "elapsed_s": self.elapsed_s}
        return SweepProgress(**{**vars(at_work), **changes}, num_done=number, num_points=total)

    def checkpoint(self) -> dict[str, Any]:
        """State that is not in the records, as JSON."""
        return {"elapsed_s": self.elapsed_s, "point": None if self._search is None else self._search.checkpoint()}

    def records(self, start: int) -> list[dict[str, Any]]:
        """Records of the points from number ``start``: part of the answer, and the plan from which others start."""
        rows = zip(self.points[start:], self._starts[start:], strict=True)
        return [{"number": point.point, "document": plain(point), "start": begins} for point, begins in rows]

    def advance(self) -> bool:
        """Run one more step of the current point, or the first of the next; ``False`` at the end."""
        if len(self.points) == len(self.asked):
            return False
        self._give()
        self._collect()
        if self._search is None:
            place = self._free_place()
            if place is None:
                self._wait()
                return True
            self._place = place
        try:
            if self._search is None:
                self._search = self._begun(None)
            if not self._is_searched:
                self._is_searched = not self._search.advance()  # the explanation is a step of its own, announced first
                return True
            job, (own, constants_of) = self._job(self._place)
            values = best_plan(job, own, constants_of(job.workload), self._search, None)
            self._add(self._place, self._point(self._place, values), self._search.before_climbing)
        except (InputError, InfeasibleError, WorkloadError) as error:
            self._refuse(self._place, error)
        self._search, self._is_searched = None, False
        return True

    def _give(self) -> None:
        """Submit points while the executor has room."""
        while self._executor.room and (place := self._free_place()) is not None:
            job, (own, constants_of) = self._job(place)
            left_s = None if self.time_limit_s is None else max(self.time_limit_s - self.elapsed_s, 1e-3)
            piece = Piece(reached, job, own, constants_of(job.workload), self._known(place), left_s)
            piece.give(self._executor)
            self._taken[place] = piece

    def _collect(self) -> None:
        for place in [place for place, piece in self._taken.items() if piece.is_done]:
            try:
                found = self._taken.pop(place).result()
                self._add(place, self._point(place, found.values), found.start)
            except (InputError, InfeasibleError, WorkloadError) as error:
                self._refuse(place, error)

    def _wait(self) -> None:
        """Wait for the first point in other processes, or for a moment."""
        for piece in self._taken.values():
            piece.waited()
            return

    def _free_place(self) -> int | None:
        """The first unassigned point whose starting points are all done."""
        for place in range(len(self.points), len(self.asked)):
            at_work = place in self._taken or (self._search is not None and place == self._place)
            if place in self._done or at_work:
                continue
            try:
                starts = self._starts_of(place)
            except (InputError, WorkloadError) as error:
                self._refuse(place, error)
                return self._free_place()
            return place if all(each < len(self.points) or each in self._done for each in starts) else None
        return None

    def _starts_of(self, place: int) -> list[int]:
        """Points from whose plans this one starts; they do not depend on the order of completion."""
        if place not in self._known_by:
            self._meet(place, _kind(self._job(place)[0].workload))
        return self._known_by[place]

    def _meet(self, place: int, kind: tuple[Any, ...]) -> None:
        alike = self._of_kind.setdefault(kind, [])
        self._known_by[place] = alike[: num_known(len(alike))]
        alike.append(place)

    def _known(self, place: int) -> list[ParallelStrategy]:
        starts = (self._starts[each] if each < len(self.points) else self._done[each][1] for each in self._starts_of(place))
        return [strategy_from_values(*start) for start in starts if start]

    def _restore(self, point: SweepPoint, start: list[Any]) -> None:
        if point.state != "refused":
            workload = job_of(self.source, self.asked[len(self.points)]).workload
            self._meet(len(self.points), _kind(replace(workload, software=replace(workload.software, target=point.target))))
        self.points.append(point)
        self._starts.append(start)

    def _add(self, place: int, point: SweepPoint, start: ParallelStrategy | None) -> None:
        self._done[place] = point, [] if start is None else list(placed_values(start))
        while len(self.points) in self._done:
            point, values = self._done.pop(len(self.points))
            self.points.append(point)
            self._starts.append(values)

    def _refuse(self, place: int, error: Exception) -> None:
        if self._refusal is None and isinstance(error, InputError | WorkloadError):
            self._refusal = error
        self._add(place, self._refused(place, error), None)

    def _job(self, place: int) -> tuple[Job, Fitted]:
        if place not in self._jobs:
            job = job_of(self.source, self.asked[place])
            fitted = self._fitted_of(job)
            self._jobs[place] = with_usual_target(job, fitted.own), fitted
        return self._jobs[place]

    def _begun(self, checkpoint: Mapping[str, Any] | None) -> PointSearch:
        """Start the search of the current point."""
        job, fitted = self._job(self._place)
        workload = job.workload
        return PointSearch(
            workload,
            search_space(workload, job.limits),
            fitted.constants_of(workload),
            known=self._known(self._place),
            clock=time.perf_counter,
            checkpoint=checkpoint,
        )

    def _point(self, place: int, values: Mapping[str, Any]) -> SweepPoint:
        workload = self._job(place)[0].workload
        return SweepPoint.model_validate(
            {
                **_NO_PLAN,
                "point": place + 1,
                "hardware": workload.cluster.profile.name,
                "stack": workload.software.stack,
                "target": workload.software.target,
                "num_devices": workload.cluster.num_devices,
                "global_batch_size": workload.training.global_batch_size,
                "seq_length": workload.training.seq_length,
                **values,
            }
        )

    def _refused(self, place: int, error: Exception) -> SweepPoint:
        point, document = self.asked[place], self.source.document
        parts: list[dict[str, Any]] = [dict(part) if isinstance(part := document.get(name), dict) else {} for name in _PARTS]
        cluster, training, software = parts
        return SweepPoint.model_validate(
            {
                **_NO_PLAN,
                "point": place + 1,
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

    def document(self, stopped_by: str | None = None) -> SweepDocument:
        """The results so far, including the current point; ``stopped_by`` is the reason for missing points."""
        ahead = {place: point for place, (point, _) in self._done.items()}
        if self._search is not None:
            job, (own, constants_of) = self._job(self._place)
            values = best_plan(job, own, constants_of(job.workload), self._search, None if self._is_searched else stopped_by)
            ahead[self._place] = self._point(self._place, values)
        points = [*self.points, *(ahead[place] for place in sorted(ahead))]
        jobs = [self._job(point.point - 1) for point in points if point.state != "refused"]
        if not jobs:
            raise self._refusal or InputError(Sentence("sweep: stopped before the first of its points."))
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
                "warnings": _warnings([each for each, _ in jobs], points),
                "version": __version__,
                "priced_with": [priced_with(each.workload, its.own) for each, its in kinds.values()],
                "tokens": tokens_of(job),
                "num_points": len(self.asked),
                "num_done": len(points),
                "stopped_by": stopped_by,
                "site": None if (site := failing_site(job)) is None else site.model_dump(),
                "elapsed_s": self.elapsed_s,
                **summary(job, points, section_of(self.source).deadline_confidence),
            }
        )


def _warnings(jobs: Sequence[Job], points: Sequence[SweepPoint]) -> list[str]:
    """Warnings of the jobs, each once, after those of what they leave open; ``points`` with their plans."""
    found = [warning for job in jobs for warning in (*warnings_of(job), *job.warnings)]
    doubted: dict[str, list[str]] = {}
    for job, point in zip(jobs, [point for point in points if point.state != "refused"], strict=True):
        peak_bytes, limit_bytes = point.peak_memory_bytes, point.fit_limit_bytes  # the limit is that of the widest recipe
        if leaves_recipe_open(job.workload) and peak_bytes is not None and limit_bytes is not None and peak_bytes > limit_bytes:
            doubted.setdefault(joined(", ", job.workload.device_traits.fp8_recipes), []).append(str(point.point))
    open_recipes = [
        Sentence(
            "training.fp8_recipe is not stated ({}): with some of them, the best plans of these points do not fit: {}.",
            recipes,
            joined(", ", numbers),
        )
        for recipes, numbers in doubted.items()
    ]
    return list(dict.fromkeys([*open_recipes, *found]))


def _kind(workload: Workload) -> tuple[Any, ...]:
    """Key of points that start from each other's plans."""
    return workload.cluster.profile.name, workload.software


_IDLE = Progress(0.0, 0, 0, 0, None, 0.0)
_NO_PLAN = {name: field.default for name, field in SweepPoint.model_fields.items() if not field.is_required()}
_PARTS = ("cluster", "training", "software")


def _count(*given: Any) -> int:
    return next((value for value in given if isinstance(value, int)), 0)
