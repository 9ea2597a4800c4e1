"""A client of the REST API: submit a job, follow it, read its plans."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Literal
from uuid import uuid4

import httpx

DEFAULT_URL = "http://127.0.0.1:8765"
FINISHED = ("completed", "failed", "cancelled")
PAGE = 200
WHOLE_LISTS = ("/v1/models", "/v1/hardware")  # in one page
ATTEMPTS = 4
FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 5.0  # that a server may ask for; a quota's is longer, and told
SILENCE_S = 60.0  # a stream that says nothing for this long is lost: the server sends something every 15 s
MAX_LOST_STREAMS = 20  # in a row, about half a minute
RUNS_A_REQUEST = 50  # of at most 64 KiB each, in a body of at most 4 MiB
FIT_TIMEOUT_S = 150.0  # a server gives a fit 120 s
SWEEP_TIMEOUT_S = 120.0  # a server gives a sweep 60 s, and others may be before it

Visibility = Literal["private", "link", "public"]
State = Literal["queued", "running", "completed", "failed", "cancelled"]
JsonObject = dict[str, Any]


class MeshplanError(Exception):
    """The server's refusal. ``status`` is 0 where no server answered.

    ``detail`` says in one sentence what is wrong, ``pointer`` where in the request, ``hint`` what would do.
    """

    def __init__(self, status: int, detail: str, *, hint: str | None = None, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.pointer = status, detail, hint, pointer


@dataclass(frozen=True)
class Study:
    """A search on the server. ``document`` is all that the server says about it."""

    id: str
    state: State
    progress: JsonObject | None
    result: JsonObject | None
    error: str | None
    document: JsonObject

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen unless somebody resumes it."""
        return self.state in FINISHED


@dataclass(frozen=True)
class Event:
    """Something that happened to a study: ``kind`` is ``state`` or ``progress``."""

    sequence: int
    kind: str
    data: JsonObject


@dataclass(frozen=True)
class Plan:
    """A ranked way to lay the job out."""

    rank: int
    plan_id: str
    strategy: JsonObject
    estimate: JsonObject
    explanation: JsonObject
    document: JsonObject

    @property
    def step_time_s(self) -> float:
        """Predicted duration of one training step. [s]"""
        return float(self.estimate["step_time_s"])


@dataclass(frozen=True)
class Calibration:
    """Constants fitted to a server's stored runs. ``id`` goes into a job as ``software.calibration``.

    ``errors`` are those before, left out and fitted; ``file`` is what ``--calibration`` takes; ``document`` is all of it.
    """

    id: str
    hardware: str
    stack: str
    num_runs: int
    errors: JsonObject
    warnings: list[str]
    file: JsonObject
    document: JsonObject


class Client:
    """A connection to one server; use it in a ``with`` statement or close it. Safe to share between threads.

    A request that finds no server is repeated a few times; submitting is safe to repeat, because every submission
    carries an idempotency key. Every method raises ``MeshplanError``.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, transport=transport)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise MeshplanError(0, f"{url!r} is not the URL of a server: {error}.") from None
        if self._http.base_url.scheme not in ("http", "https") or not self._http.base_url.host:
            raise MeshplanError(0, f"{url!r} is not the URL of a server.", hint=f"Give one such as {DEFAULT_URL}.")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._http.close()

    def submit(
        self,
        job: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        visibility: Visibility = "private",
        priority: int = 0,
    ) -> Study:
        """Queues the search that ``job`` describes: the mapping that a job file holds, with files of this machine inlined.

        ``visibility`` is to other owners' keys; ``priority``, -10 to 10, is among the studies of the same owner.
        """
        headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
        shared: dict[str, str | int] = {"visibility": visibility, "priority": priority}
        return _study(self._request("POST", "/v1/studies", job, headers, shared).json())

    def change(self, study_id: str, *, visibility: Visibility | None = None, priority: int | None = None) -> Study:
        """Shares a study with other owners' keys, or moves it among its owner's that wait."""
        changes = {"visibility": visibility, "priority": priority}
        given = {name: value for name, value in changes.items() if value is not None}
        return _study(self._json("PATCH", f"/v1/studies/{study_id}", given))

    def study(self, study_id: str) -> Study:
        """The study as it is now."""
        return _study(self._json("GET", f"/v1/studies/{study_id}"))

    def studies(
        self, *, state: State | None = None, model: str | None = None, hardware: str | None = None
    ) -> Iterator[JsonObject]:
        """Summaries of all studies, newest first."""
        return self._items("/v1/studies", {"state": state, "model": model, "hardware": hardware})

    def wait(self, study_id: str, *, timeout_s: float | None = None) -> Study:
        """The study once it has finished; ``TimeoutError`` if it has not by then."""
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s = FIRST_PAUSE_S / 2
        while True:
            study = self.study(study_id)
            if study.is_finished:
                return study
            if ends_s is not None and time.monotonic() >= ends_s:
                raise TimeoutError(f"study {study_id} is still {study.state} after {timeout_s:g} s")
            left_s = pause_s if ends_s is None else max(ends_s - time.monotonic(), 0.0)
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, 2.0)

    def events(self, study_id: str, *, after: int = 0) -> Iterator[Event]:
        """What happens to the study, as it happens, until it has finished; survives a server that restarts."""
        failures = 0
        while True:
            before = after
            try:
                for event in self._stream(f"/v1/studies/{study_id}/events", after):
                    after, failures = event.sequence, 0
                    yield event
            except httpx.TransportError as error:
                failures += 1
                if failures > MAX_LOST_STREAMS:
                    raise _unreachable(self._http, error) from error
                time.sleep(min(FIRST_PAUSE_S * 2**failures, 2.0))
                continue
            if after == before:
                if self.study(study_id).is_finished:
                    return
                time.sleep(FIRST_PAUSE_S)

    def plans(self, study_id: str) -> list[Plan]:
        """The ranked plans, best first; none where no plan is feasible, or not yet."""
        return [_plan(item) for item in self._items(f"/v1/studies/{study_id}/plans")]

    def trials(self, study_id: str) -> Iterator[JsonObject]:
        """What a sampler evaluated, in order; nothing for an exhaustive search."""
        return self._items(f"/v1/studies/{study_id}/trials")

    def rejections(self, study_id: str) -> list[JsonObject]:
        """Rules that strategies broke, each with a count and an example."""
        return list(self._items(f"/v1/studies/{study_id}/rejections"))

    def launch(self, study_id: str, plan_id: str) -> JsonObject:
        """Launch arguments of a plan by framework."""
        return self._json("GET", f"/v1/studies/{study_id}/plans/{plan_id}/launch")

    def timeline(self, study_id: str, plan_id: str) -> JsonObject:
        """The plan's step played task by task: bars and memory of every pipeline rank as columns, idle time by rank."""
        return self._json("GET", f"/v1/studies/{study_id}/plans/{plan_id}/timeline")

    def trace(self, study_id: str, plan_id: str) -> str:
        """The same as trace events: a file for Perfetto and MindStudio Insight."""
        path = f"/v1/studies/{study_id}/plans/{plan_id}/timeline"
        return self._request("GET", path, parameters={"format": "chrome"}).text

    def report(self, study_id: str, *, form: str = "html", language: str = "en") -> str:
        """A finished study as one page: ``html``, ``pdf-ready`` or ``markdown``, in English or Chinese (``zh``)."""
        parameters = {"format": form, "language": language}
        return self._request("GET", f"/v1/studies/{study_id}/report", parameters=parameters).text

    def cancel(self, study_id: str) -> Study:
        """Stops a study; what it found is kept."""
        return _study(self._json("POST", f"/v1/studies/{study_id}:cancel"))

    def resume(self, study_id: str) -> Study:
        """Queues a cancelled or failed study again, from its last checkpoint."""
        return _study(self._json("POST", f"/v1/studies/{study_id}:resume"))

    def delete(self, study_id: str) -> None:
        """Deletes a study that does not run, with everything it found."""
        self._request("DELETE", f"/v1/studies/{study_id}")

    def estimate(self, job: Mapping[str, Any], *, simulate: bool = False, advise: bool = True) -> JsonObject:
        """Time and memory of the job's ``strategy``: ``{job, assumptions, warnings, strategy, estimate}``.

        ``simulate`` plays the step task by task, and adds what that shows as ``simulation``. Where measured runs are far,
        ``next_runs`` says which to make unless ``advise`` is false, which is several times as fast.
        """
        given = {**({"simulate": True} if simulate else {}), **({} if advise else {"advise": False})}
        return self._json("POST", "/v1/estimates", {**job, **given})

    def estimates(
        self, job: Mapping[str, Any], strategies: Sequence[Mapping[str, Any]], *, simulate: bool = False
    ) -> list[JsonObject]:
        """One estimate a strategy (up to 10,000), in order; ``{refused, rule}`` for one that cannot run."""
        document = {**{key: value for key, value in job.items() if key != "strategy"}, "strategies": list(strategies)}
        entries: list[JsonObject] = self.estimate(document, simulate=simulate)["estimates"]
        return entries

    def check(
        self,
        job: Mapping[str, Any],
        *,
        budget: Mapping[str, Any] | None = None,
        baseline: Mapping[str, Any] | None = None,
        pin: bool = False,
    ) -> JsonObject:
        """The job held against a budget, an earlier answer or both; ``status`` and ``exit_code`` as of ``meshplan check``."""
        given = {"budget": budget, "baseline": baseline}
        parts = {name: part for name, part in given.items() if part is not None}
        return self._json("POST", "/v1/checks", {**job, **parts, "pin": pin})

    def goodput(self, job: Mapping[str, Any], *, delivery: Mapping[str, Any] | None = None) -> JsonObject:
        """What the job's strategy delivers on a site whose nodes fail; ``delivery`` is the site, as of ``meshplan goodput``."""
        return self._json("POST", "/v1/goodput", {**job, "delivery": {**(delivery or {})}})

    def serving(self, job: Mapping[str, Any]) -> JsonObject:
        """What a service of a model gives, by pool; ``job`` is a serving job, as of ``meshplan serving estimate``."""
        return self._json("POST", "/v1/serving/estimates", job)

    def sweep(self, job: Mapping[str, Any], **tried: Any) -> JsonObject:
        """The job at many sizes; ``tried`` are values of its ``sweep``, as in ``devices=[512, 1024]``. What 60 s allow."""
        body = {**job, "sweep": {**job.get("sweep", {}), **tried}}
        return self._json("POST", "/v1/sweeps", body, timeout_s=max(self._timeout_s, SWEEP_TIMEOUT_S))

    def add_runs(self, records: Iterable[Mapping[str, Any]]) -> list[JsonObject]:
        """Each measured run predicted beside what it measured, or ``refused`` with a sentence, in order.

        Those that are not refused are stored, equal ones once, so that repeating it is safe.
        """
        rows: list[JsonObject] = []
        waiting = iter(records)
        while some := list(islice(waiting, RUNS_A_REQUEST)):
            rows += self._json("POST", "/v1/runs", {"runs": some})["items"]
        return rows

    def runs(self) -> Iterator[JsonObject]:
        """The stored runs, newest first; ``record`` is the run as it was given."""
        return self._items("/v1/runs")

    def calibrate(self, hardware: str, stack: str) -> Calibration:
        """Fits the shipped constants to the newest stored runs of both; may take two minutes. The same runs give the same id."""
        body = {"hardware": hardware, "stack": stack}
        return _calibration(self._json("POST", "/v1/calibrations", body, timeout_s=max(self._timeout_s, FIT_TIMEOUT_S)))

    def calibrations(self) -> Iterator[JsonObject]:
        """Summaries of the stored calibrations, newest first."""
        return self._items("/v1/calibrations")

    def calibration(self, calibration_id: str) -> Calibration:
        """One stored calibration."""
        return _calibration(self._json("GET", f"/v1/calibrations/{calibration_id}"))

    def models(self) -> list[JsonObject]:
        """The model presets."""
        return list(self._items("/v1/models"))

    def model(self, name: str) -> JsonObject:
        """One preset with its sources."""
        return self._json("GET", f"/v1/models/{name}")

    def hardware(self) -> list[JsonObject]:
        """The hardware profiles."""
        return list(self._items("/v1/hardware"))

    def hardware_profile(self, name: str) -> JsonObject:
        """One profile, every number with its source."""
        return self._json("GET", f"/v1/hardware/{name}")

    def _items(self, path: str, query: Mapping[str, str | None] | None = None) -> Iterator[JsonObject]:
        parameters: dict[str, str | int] = {name: value for name, value in (query or {}).items() if value is not None}
        if path not in WHOLE_LISTS:
            parameters["limit"] = PAGE
        while True:
            page = self._request("GET", path, parameters=parameters).json()
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            parameters["cursor"] = page["next_cursor"]

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> JsonObject:
        document: JsonObject = self._request(method, path, body, headers, timeout_s=timeout_s).json()
        return document

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str | int] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        timeout = self._timeout_s if timeout_s is None else timeout_s
        for attempt in range(ATTEMPTS):
            try:
                response = self._http.request(method, path, json=body, headers=headers, params=parameters, timeout=timeout)
                pause_s = _pause_s(response)
                if pause_s is None or attempt == ATTEMPTS - 1:
                    return _checked(response)
            except httpx.TimeoutException as error:
                raise MeshplanError(0, f"{self._http.base_url} did not answer in time.") from error
            except httpx.TransportError as error:
                if attempt == ATTEMPTS - 1:
                    raise _unreachable(self._http, error) from error
                pause_s = 0.0
            time.sleep(max(pause_s, FIRST_PAUSE_S * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def _stream(self, path: str, after: int) -> Iterator[Event]:
        timeout = httpx.Timeout(self._timeout_s, read=max(self._timeout_s, SILENCE_S))
        with self._http.stream("GET", path, headers={"Last-Event-ID": str(after)}, timeout=timeout) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                _checked(response)
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                    continue
                if "data" in fields and "id" in fields:
                    yield Event(int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"]))
                fields = {}


def _pause_s(response: httpx.Response) -> float | None:
    """Until the request is worth repeating; None where it is not."""
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return 0.0
    if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return None
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isdigit() and float(asked) <= MAX_PAUSE_S else None


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        problem = response.json()
        detail, hint, pointer = problem["detail"], problem.get("hint"), problem.get("pointer")
    except (ValueError, KeyError, TypeError, AttributeError):
        detail, hint, pointer = f"{response.url} answered {response.status_code}, and not as meshplan does.", None, None
    raise MeshplanError(response.status_code, detail, hint=hint, pointer=pointer)


def _unreachable(http: httpx.Client, error: Exception) -> MeshplanError:
    return MeshplanError(0, f"no server answers at {http.base_url} ({error}).", hint="Start one with `meshplan serve`.")


def _study(document: JsonObject) -> Study:
    named = {name: document[name] for name in ("id", "state", "progress", "result", "error")}
    return Study(**named, document=document)


def _plan(document: JsonObject) -> Plan:
    named = {name: document[name] for name in ("rank", "plan_id", "strategy", "estimate", "explanation")}
    return Plan(**named, document=document)


def _calibration(document: JsonObject) -> Calibration:
    named = {name: document[name] for name in ("id", "hardware", "stack", "num_runs", "errors", "warnings")}
    return Calibration(**named, file=document["calibration"], document=document)
