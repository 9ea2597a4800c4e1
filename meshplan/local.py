"""Searches, estimates and explanations in this process, without a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from meshplan import drawings
from meshplan.application import TakenError, ours
from meshplan.errors import MeshplanError
from meshplan.server_records import Language

JsonObject = dict[str, Any]
Job = Mapping[str, Any] | str | PathLike[str]
Library = Literal["pandas", "polars"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")
Form = Literal["html", "pdf-ready", "markdown"]
REFUSED = 422


@dataclass(frozen=True)
class Drawing:
    """A picture that notebooks display; ``svg`` is its text, ``title`` describes it."""

    title: str
    svg: str = field(repr=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the picture to a file, best with the ending ``.svg``."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True)
class Timeline:
    """A step simulated task by task. ``tasks`` and ``memory`` are columns, ``bubble_s`` is idle time by pipeline rank."""

    step_time_s: float
    num_ranks: int
    tasks: dict[str, list[Any]]
    memory: dict[str, list[Any]]
    bubble_s: list[float]
    document: JsonObject
    trace: str = field(repr=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes ``trace``, trace events for Perfetto and MindStudio Insight, to a file."""
        Path(path).write_text(self.trace, encoding="utf-8")

    def plot(self) -> Drawing:
        """The bars of every rank and stream, as a picture."""
        return Drawing(*drawings.of_timeline(self.document))

    def plot_memory(self) -> Drawing:
        """Memory of every rank over the step."""
        return Drawing(*drawings.of_memory(self.document))

    def _repr_html_(self) -> str:
        return self.plot().svg

    def to_frame(self, library: Library | None = None) -> Any:
        """The bars as a data frame of pandas or polars, a row for each bar."""
        kinds, streams = self.document["kinds"], self.document["streams"]
        named = {"kind": [kinds[one] for one in self.tasks["kind"]], "stream": [streams[one] for one in self.tasks["stream"]]}
        return _frame({**self.tasks, **named}, library)


@dataclass(frozen=True, repr=False)
class Estimate:
    """Time and memory of one strategy: ``numbers``, and in ``document`` the whole answer of ``meshplan estimate --json``."""

    strategy: JsonObject
    numbers: JsonObject
    job: JsonObject
    document: JsonObject

    def __repr__(self) -> str:
        fits = "fits" if self.fits else "does not fit"
        return f"<{type(self).__name__}: {self.step_time_s:.6g} s a step, {self.peak_memory_bytes / 2**30:.1f} GiB, {fits}>"

    @property
    def step_time_s(self) -> float:
        """Predicted duration of one training step. [s]"""
        return float(self.numbers["step_time_s"])

    @property
    def peak_memory_bytes(self) -> float:
        """Peak memory of the fullest device. [bytes]"""
        return float(self.numbers["peak_memory_bytes"])

    @property
    def fits(self) -> bool:
        """Whether the peak leaves the free memory that the job requires."""
        return bool(self.numbers["fits"])

    @property
    def step_time_interval_s(self) -> tuple[float, float] | None:
        """Ends of the 80 % interval of the step time; None without measured runs. [s]"""
        low, high = self.numbers["step_time_low_s"], self.numbers["step_time_high_s"]
        return None if low is None or high is None else (float(low), float(high))

    @property
    def tokens_per_s(self) -> float:
        """Throughput of the whole job. [tokens/s]"""
        return float(self.numbers["tokens_per_s"])

    @property
    def mfu_fraction(self) -> float:
        """Model FLOPs of a step, over the FLOPs of all devices at their peak in the same time."""
        return float(self.numbers["mfu_fraction"])

    @property
    def time_breakdown_s(self) -> dict[str, float]:
        """Parts that sum to the step, by name. [s]"""
        return dict(self.numbers["time_breakdown_s"])

    @property
    def memory_breakdown_bytes(self) -> dict[str, float]:
        """Parts that sum to the peak of the fullest device, by name. [bytes]"""
        return dict(self.numbers["memory_breakdown_bytes"])

    @property
    def assumptions(self) -> list[str]:
        """A sentence for each value that the job did not give."""
        return list(self.document["assumptions"])

    @property
    def warnings(self) -> list[str]:
        """A sentence for each reason to doubt the numbers, such as a hardware profile without measurements."""
        return list(self.document["warnings"])

    def compare(self, other: Estimate) -> str:
        """One sentence that says how much slower or faster than another plan this one is, and which parts cause it."""
        sentence: str = _called("compared", self.numbers, other.numbers)
        return sentence

    def plot(self) -> Drawing:
        """Parts of the step time, as a picture."""
        return Drawing(*drawings.of_parts(self.numbers))

    def _repr_html_(self) -> str:
        return self.plot().svg

    def timeline(self) -> Timeline:
        """The step, simulated task by task."""
        return _timeline(self.job, self.strategy)

    def to_frame(self, library: Library | None = None) -> Any:
        """The parts of the step and of memory as a data frame: ``quantity``, ``part`` and ``value``, in seconds or bytes."""
        parts = [
            (quantity, part, value)
            for quantity in ("time_breakdown_s", "masked_s", "memory_breakdown_bytes")
            for part, value in self.numbers[quantity].items()
        ]
        columns = list(zip(*parts, strict=True))
        return _frame(dict(zip(("quantity", "part", "value"), map(list, columns), strict=True)), library)


@dataclass(frozen=True, repr=False)
class LocalPlan(Estimate):
    """A ranked plan of a search. ``launch`` has the arguments for each framework that can launch it."""

    rank: int
    plan_id: str
    explanation: JsonObject
    launch: JsonObject
    launchable_on: list[str]

    def files(self) -> dict[str, str]:
        """Files that start this plan, text by file name: its job, and the launch files of each framework that can launch it."""
        found: dict[str, str] = _called("files_of_plan", self.document, self.job)
        return found


@dataclass(frozen=True, repr=False)
class SearchResult:
    """The answer of a search: ``plans``, the fastest first; ``document`` is the whole answer of ``meshplan search --json``."""

    plans: list[LocalPlan]
    job: JsonObject
    document: JsonObject

    def __repr__(self) -> str:
        best = f", the first {self.plans[0].step_time_s:.6g} s a step" if self.plans else ""
        return f"<{type(self).__name__}: {len(self.plans)} plans{best}>"

    @property
    def best(self) -> LocalPlan:
        """The plan to run; raises a ``MeshplanError`` that names the nearest feasible input if there is none."""
        if not self.plans:
            raise MeshplanError(REFUSED, f"There is no plan: {self.document['nearest'] or 'nothing is legal and fits'}")
        named = self.document["recommended"]["plan_id"]
        return next(plan for plan in self.plans if plan.plan_id == named)

    @property
    def proved_best(self) -> bool:
        """Whether the first plan is proved to be the fastest of the search space."""
        return bool(self.document["proof"]["proved_best"])

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the folder of ``meshplan search --save-dir``: the answer, and the job and launch files of each plan."""
        _called("save", self.document, Path(folder), overwrite=overwrite)

    def report(self, form: Form = "html", language: Language = "en") -> str:
        """The answer as one page for a meeting, as ``meshplan report`` writes it: ``html``, ``pdf-ready`` or ``markdown``."""
        page: str = _called("reported", self.document, form, language)
        return page

    def plot(self) -> Drawing:
        """Step time against peak memory of the plans, with the memory limit."""
        limit = self.plans[0].numbers["memory_limit_bytes"] if self.plans else None
        rows = [(repr(plan), plan.step_time_s, plan.peak_memory_bytes) for plan in self.plans]
        return Drawing(*drawings.of_plans(rows, limit))

    def _repr_html_(self) -> str:
        return self.plot().svg

    def to_frame(self, library: Library | None = None) -> Any:
        """The plans as a data frame, a row for each: degrees, numbers, and parts of the step as ``time_NAME_s``."""
        return _frame(_columns([_row(plan) for plan in self.plans]), library)


@dataclass(frozen=True, repr=False)
class SweepResult:
    """The answer of a sweep: ``points`` as mappings; ``document`` is the whole answer of ``meshplan sweep --json``."""

    points: list[JsonObject]
    document: JsonObject

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.points)} points>"

    def to_frame(self, library: Library | None = None) -> Any:
        """The points as a data frame, a row for each, with the columns of ``meshplan sweep --output``."""
        return _frame(_called("columns_of_sweep", self.document), library)


def search(
    job: Job,
    *,
    on_progress: Callable[[Any], None] | None = None,
    executor: str = "serial",
    **fields: Any,
) -> SearchResult:
    """Scores every legal layout of a job and ranks the best, as ``meshplan search`` does.

    ``job`` is the content of a job file, the path of one, or a preset's name. ``fields`` replace its values: by name, as in
    ``hardware="atlas-800t-a2", devices=64, seq_length=4096, top=3``, or by section, as in ``search={"top": 3}``. ``executor``
    says where the work is done: ``serial``, ``process://N`` or ``dask://HOST:PORT``.
    """
    document = _asked("searched", job, fields, on_progress, executor=executor)
    shared = {"job": document["job"]}
    plans = [
        LocalPlan(
            **shared,
            **{name: plan[name] for name in ("strategy", "rank", "plan_id", "explanation", "launch", "launchable_on")},
            numbers=plan["estimate"],
            document={**document, **plan},
        )
        for plan in document["plans"]
    ]
    return SearchResult(plans, document["job"], document)


def estimate(job: Job, *, simulate: bool = False, **fields: Any) -> Estimate:
    """Time and memory of the job's strategy, as ``meshplan estimate`` answers; ``tp=8, pp=2`` gives a strategy."""
    return _estimate(_asked("estimated", job, fields, simulated=simulate))


def explain(job: Job, **fields: Any) -> Estimate:
    """The job's strategy compared with the best of a search, as ``meshplan explain`` answers; ``document`` has the explanation.

    Without a strategy, the best plan is compared with the next one of another structure.
    """
    return _estimate(_asked("explained", job, fields))


def goodput(job: Job, **fields: Any) -> Estimate:
    """Delivered rate of the job's strategy with node failures (``meshplan goodput``); ``document`` has the days and the losses.

    ``delivery={"mtbf_s": 2.6e5}`` describes the site. Without a strategy, the plan of a search that delivers most is taken.
    """
    return _estimate(_asked("delivered", job, fields))


def check(
    job: Job,
    *,
    budget: Mapping[str, Any] | None = None,
    baseline: Mapping[str, Any] | None = None,
    pin: bool = False,
    **fields: Any,
) -> JsonObject:
    """Compares the job with a budget, the ``document`` of an earlier answer or both (``meshplan check --format json``).

    ``status`` is ``passed``, ``broken``, ``infeasible`` or ``cut``; ``checks`` has a sentence for each.
    """
    return _asked("checked", job, fields, budget, baseline, pin=pin)


def sweep(job: Job, *, on_progress: Callable[[Any], None] | None = None, executor: str = "serial", **fields: Any) -> SweepResult:
    """The best plan at each of many sizes, as ``meshplan sweep`` finds them: ``devices=[256, 512], seq_length=[4096, 8192]``."""
    document = _asked("swept", job, fields, on_progress, executor=executor)
    return SweepResult(document["points"], document)


def _estimate(document: JsonObject) -> Estimate:
    return Estimate(document["strategy"], document["estimate"], document["job"], document)


def _asked(answer: str, job: Job, fields: Mapping[str, Any], *given: Any, **named: Any) -> JsonObject:
    source = fspath(job) if isinstance(job, PathLike) else job
    document: JsonObject = _called(answer, source, fields, *given, **named).model_dump(mode="json")
    return document


def _timeline(job: Mapping[str, Any], strategy: Mapping[str, Any]) -> Timeline:
    step = _called("played", job, strategy)
    document = _called("timeline", step).model_dump(mode="json")
    names = ("step_time_s", "num_ranks", "tasks", "memory", "bubble_s")
    return Timeline(**{name: document[name] for name in names}, document=document, trace=_called("trace", step))


def _called(name: str, *given: Any, **named: Any) -> Any:
    """Call a function of the application; a refusal becomes a ``MeshplanError``, as from a server."""
    try:
        errors, answers = ours("documents.errors"), ours("app.in_process.functions")
    except TakenError as error:
        hint = "Use meshplan.Client in this process, or call meshplan in one without that package."
        raise MeshplanError(0, f"{error}.", hint=hint) from None
    try:
        return getattr(answers, name)(*given, **named)
    except (errors.InputError, errors.InfeasibleError) as error:
        said = str(error)
        raise MeshplanError(REFUSED, said, hint=errors.hint_of(said), pointer=errors.pointer_of(said)) from None


def _row(plan: LocalPlan) -> JsonObject:
    plain = {name: value for name, value in plan.strategy.items() if isinstance(value, (int, float, str)) or value is None}
    names = ("step_time_s", "tokens_per_s", "mfu_fraction", "peak_memory_bytes", "fits")
    return {
        "rank": plan.rank,
        "plan_id": plan.plan_id,
        **{name: plan.numbers[name] for name in names},
        **plain,
        "recompute": json.dumps(plan.strategy.get("recompute")),
        "features": ",".join(plan.strategy.get("features", ())),
        **{f"time_{name}_s": value for name, value in plan.numbers["time_breakdown_s"].items()},
    }


def _columns(rows: Sequence[JsonObject]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _frame(columns: Mapping[str, list[Any]], library: Library | None) -> Any:
    wanted: Iterable[Library] = LIBRARIES if library is None else (library,)
    for name in wanted:
        if name not in LIBRARIES:
            raise MeshplanError(REFUSED, f"library: {name!r} is not allowed; give one of {', '.join(LIBRARIES)}.")
        try:
            return import_module(name).DataFrame(dict(columns))
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    missing = " or ".join(wanted)
    raise MeshplanError(0, f"to_frame needs {missing}, which is not installed.", hint=f"pip install {next(iter(wanted))}")
