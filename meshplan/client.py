"""A client of the REST API: submit a job, follow it, read its plans."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx

from meshplan.answers import EventPieces, read_answer, read_answer_async
from meshplan.check_methods import CheckMethods
from meshplan.client_methods import call, listing
from meshplan.connections import DEFAULT_URL, AsyncConnection, Connection, connected
from meshplan.errors import MeshplanError as MeshplanError
from meshplan.request_steps import (
    FIRST_PAUSE_S,
    Flow,
    Pages,
    Pause,
    calibration_of,
    checked,
    listed,
    plan_of,
    present,
    reading,
    study_of,
    text_of,
)
from meshplan.server_records import (
    Calibration,
    Event,
    JsonObject,
    Kind,
    Language,
    Plan,
    State,
    Visibility,
)
from meshplan.server_records import Study as Study

RUNS_A_REQUEST = 50  # runs in a request: each at most 64 KiB, in a body of at most 4 MiB
SWEEP_TIMEOUT_S = 120.0  # a server gives a sweep or a search of placements 60 s, and other requests may run first
FIT_TIMEOUT_S = 150.0  # a server gives a fit 120 s

SUBMITTED_TO: dict[Kind, str] = {"search": "/v1/studies", "sweep": "/v1/sweeps/studies", "rl": "/v1/rl/studies"}


def _chosen(tags: Sequence[str], archived: bool | None) -> dict[str, str | list[str] | None]:
    """Tags and archive as parameters of a list of studies."""
    return {"tag": list(tags) or None, "archived": {None: "any", True: "true"}.get(archived)}


class _Methods(CheckMethods):
    """The methods of both clients."""

    @call
    def submit(
        self,
        job: Mapping[str, Any],
        *,
        kind: Kind = "search",
        idempotency_key: str | None = None,
        visibility: Visibility = "private",
        priority: int = 0,
        name: str = "",
        tags: Sequence[str] = (),
        note: str = "",
    ) -> Flow[Study]:
        """Queues the search that ``job`` describes: the content of a job file, with files of this machine inlined.

        ``kind="sweep"`` queues the sweep of a job with ``sweep``, ``kind="rl"`` the placement search of a post-training job; the
        ``result`` of such a study is the document of the command. ``visibility`` applies to the keys of other owners.
        ``priority``, -10 to 10, orders the studies of one owner. Lists find a study by ``name``, ``tags`` and ``note``.
        """
        headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
        labels = {"name": name or None, "tag": list(tags) or None, "note": note or None}
        said = present({"visibility": visibility, "priority": priority, **labels})
        return reading(study_of, self._json("POST", SUBMITTED_TO[kind], job, headers, said))

    @call
    def change(
        self,
        study_id: str,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        note: str | None = None,
        archived: bool | None = None,
        visibility: Visibility | None = None,
        priority: int | None = None,
    ) -> Flow[Study]:
        """Changes name, tags, note, visibility or priority of a study, or archives it.

        None leaves a value unchanged, an empty value removes it. Lists show archived studies only on request; age does not delete
        them.
        """
        said = {"name": name, "note": note, "archived": archived, "visibility": visibility, "priority": priority}
        labels = present({**said, "tags": None if tags is None else list(tags)})
        return reading(study_of, self._json("PATCH", f"/v1/studies/{study_id}", labels))

    @call
    def study(self, study_id: str) -> Flow[Study]:
        """The current study."""
        return reading(study_of, self._json("GET", f"/v1/studies/{study_id}"))

    @listing
    def studies(
        self,
        *,
        state: State | None = None,
        kind: Kind | None = None,
        model: str | None = None,
        hardware: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        archived: bool | None = False,
        text: str | None = None,
    ) -> Pages[JsonObject]:
        """Summaries of studies, newest first: those with all of ``tags`` and each word of ``text``.

        Words are looked for in name, tags, note, id, model, hardware and error. ``archived`` True lists the archived, None all.
        """
        named = {"state": state, "kind": kind, "model": model, "hardware": hardware, "owner": owner, "text": text}
        return self._items("/v1/studies", {**named, **_chosen(tags, archived)})

    @call
    def study_counts(
        self,
        *,
        kind: Kind | None = None,
        model: str | None = None,
        hardware: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        archived: bool | None = False,
        text: str | None = None,
    ) -> Flow[dict[str, int]]:
        """Number of studies by state, of all that ``studies`` lists with the same choice; states without one are absent."""
        named = {"kind": kind, "model": model, "hardware": hardware, "owner": owner, "text": text, "limit": 1, "counts": "true"}
        said = present({**named, **_chosen(tags, archived)})
        return reading(lambda page: dict(page["counts"]), self._json("GET", "/v1/studies", parameters=said))

    @call
    def terms(self) -> Flow[JsonObject]:
        """The caller's ``owner`` and ``scopes``, and for how many days the server keeps studies."""
        return self._json("GET", "/v1/terms")

    @call
    def wait(self, study_id: str, *, timeout_s: float | None = None) -> Flow[Study]:
        """Waits until the study has finished and returns it; ``TimeoutError`` after ``timeout_s``."""
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s = FIRST_PAUSE_S / 2
        while True:
            study = study_of((yield from self._json("GET", f"/v1/studies/{study_id}")))
            if study.is_finished:
                return study
            if ends_s is not None and time.monotonic() >= ends_s:
                raise TimeoutError(f"study {study_id} is still {study.state} after {timeout_s:g} s")
            left_s = pause_s if ends_s is None else max(ends_s - time.monotonic(), 0.0)
            yield Pause(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, 2.0)

    @call
    def plans(self, study_id: str) -> Flow[list[Plan]]:
        """The ranked plans, best first; empty if no plan is feasible, or none is known yet."""
        return listed(self._items(f"/v1/studies/{study_id}/plans", read=plan_of))

    @listing
    def points(self, study_id: str) -> Pages[JsonObject]:
        """The finished points of a sweep, in order, also while it runs."""
        return self._items(f"/v1/studies/{study_id}/points")

    @listing
    def trials(self, study_id: str) -> Pages[JsonObject]:
        """The trials of a sampler, in order; empty for an exhaustive search."""
        return self._items(f"/v1/studies/{study_id}/trials")

    @call
    def queue_place(self, study_id: str) -> Flow[JsonObject]:
        """The number of studies that are taken before a queued one (``num_ahead``), and of those that run (``num_running``)."""
        return self._json("GET", f"/v1/studies/{study_id}/queue")

    @call
    def rejections(self, study_id: str) -> Flow[list[JsonObject]]:
        """Rules that strategies broke, each with a count and an example."""
        return listed(self._items(f"/v1/studies/{study_id}/rejections"))

    @call
    def launch(self, study_id: str, plan_id: str) -> Flow[JsonObject]:
        """Launch arguments of a plan by framework."""
        return self._json("GET", f"/v1/studies/{study_id}/plans/{plan_id}/launch")

    @call
    def timeline(self, study_id: str, plan_id: str) -> Flow[JsonObject]:
        """The plan's step, simulated task by task: bars and memory of every pipeline rank as columns, idle time by rank."""
        return self._json("GET", f"/v1/studies/{study_id}/plans/{plan_id}/timeline")

    @call
    def trace(self, study_id: str, plan_id: str) -> Flow[str]:
        """The timeline as trace events: a file for Perfetto and MindStudio Insight."""
        path = f"/v1/studies/{study_id}/plans/{plan_id}/timeline"
        return reading(text_of, self._request("GET", path, parameters={"format": "chrome"}))

    @call
    def verification(self, study_id: str, plan_id: str) -> Flow[JsonObject]:
        """Counts of the framework beside the price of a plan, as they were kept; ``verification`` is null if there are none."""
        return self._json("GET", f"/v1/studies/{study_id}/plans/{plan_id}/verification")

    @call
    def keep_verification(self, study_id: str, plan_id: str, counts: Mapping[str, Any]) -> Flow[JsonObject]:
        """Keeps counts of `meshplan verify --save-counts` with a plan; the server holds them against its price."""
        return self._json("PUT", f"/v1/studies/{study_id}/plans/{plan_id}/verification", body=counts)

    @call
    def report(self, study_id: str, *, form: str = "html", language: str = "en") -> Flow[str]:
        """A finished study as one page: ``html``, ``pdf-ready`` or ``markdown``, in English or Chinese (``zh``)."""
        parameters = {"format": form, "language": language}
        return reading(text_of, self._request("GET", f"/v1/studies/{study_id}/report", parameters=parameters))

    @call
    def cancel(self, study_id: str) -> Flow[Study]:
        """Stops a study; its results are kept."""
        return reading(study_of, self._json("POST", f"/v1/studies/{study_id}:cancel"))

    @call
    def resume(self, study_id: str) -> Flow[Study]:
        """Queues a cancelled or failed study again, from its last checkpoint."""
        return reading(study_of, self._json("POST", f"/v1/studies/{study_id}:resume"))

    @call
    def delete(self, study_id: str) -> Flow[None]:
        """Deletes a study and its results, unless it runs."""
        yield from self._request("DELETE", f"/v1/studies/{study_id}")

    @call
    def estimate(
        self, job: Mapping[str, Any], *, simulate: bool = False, advise: bool = True, explain: Sequence[str] | None = None
    ) -> Flow[JsonObject]:
        """Time and memory of the job's ``strategy``: ``{job, assumptions, warnings, strategy, estimate}``.

        ``simulate`` simulates the step task by task and adds ``simulation``. If no measured run is near, ``next_runs`` names runs
        that would help. ``advise=False`` leaves ``next_runs`` and ``software`` out. ``explain`` names the parts to answer
        (``assumptions``, ``software``, ``next_runs``) in place of all; an empty list is the fastest by far.
        """
        given = {**({"simulate": True} if simulate else {}), **({} if advise else {"advise": False})}
        parts = {} if explain is None else {"explain": list(explain) or ["none"]}
        return self._json("POST", "/v1/estimates", {**job, **given}, None, parts)

    @call
    def estimates(
        self, job: Mapping[str, Any], strategies: Sequence[Mapping[str, Any]], *, simulate: bool = False
    ) -> Flow[list[JsonObject]]:
        """One estimate for each strategy (up to 10,000), in order; ``{refused, rule}`` for a strategy that cannot run."""
        document = {**{key: value for key, value in job.items() if key != "strategy"}, "strategies": list(strategies)}
        found = yield from self._json("POST", "/v1/estimates", document | ({"simulate": True} if simulate else {}))
        return list(found["estimates"])

    @call
    def goodput(self, job: Mapping[str, Any], *, delivery: Mapping[str, Any] | None = None) -> Flow[JsonObject]:
        """Delivered rate of the job's strategy with node failures (``meshplan goodput``); ``delivery`` is the site."""
        return self._json("POST", "/v1/goodput", {**job, "delivery": {**(delivery or {})}})

    @call
    def serving(self, job: Mapping[str, Any]) -> Flow[JsonObject]:
        """Throughput and latency of an inference service, by pool; ``job`` is the job of ``meshplan serving estimate``."""
        return self._json("POST", "/v1/serving/estimates", job)

    @call
    def explain(self, job: Mapping[str, Any]) -> Flow[JsonObject]:
        """Compares time and memory of the job's strategy with the best of a search; without a strategy, explains the best."""
        return self._json("POST", "/v1/explanations", job, timeout_s=max(self._timeout_s, FIT_TIMEOUT_S))

    @call
    def plan_experts(
        self, job: Mapping[str, Any], loads: Mapping[str, Any], *, placement: Any = None, terms: Mapping[str, Any] | None = None
    ) -> Flow[JsonObject]:
        """Which experts to move or copy for the job's strategy, and the gain, as ``meshplan experts plan`` finds them.

        ``loads`` has ``counts`` by (step,) layer and expert, the ``text`` of a log, or ``generated``.
        ``placement`` is the current map; ``terms`` have ``valid_steps``, ``steps_held_back`` and ``max_copies``.
        """
        said = present({"loads": loads, "placement": placement, "terms": terms})
        return self._json("POST", "/v1/experts/plans", {**job, **said})

    @call
    def plan_sequences(
        self,
        job: Mapping[str, Any],
        *,
        lengths: Sequence[int] | None = None,
        histogram: Mapping[int, int] | None = None,
        terms: Mapping[str, Any] | None = None,
    ) -> Flow[JsonObject]:
        """The cost of the order of sequences, and the gain of a better order, as ``meshplan sequences plan`` finds them.

        ``lengths`` are those of samples in their order, ``histogram`` counts samples by length; ``terms``: ``steps``, ``seed``.
        """
        by_length = None if histogram is None else {str(length): count for length, count in histogram.items()}
        given = {"lengths": None if lengths is None else list(lengths), "histogram": by_length, "terms": terms}
        return self._json("POST", "/v1/sequences/plans", {**job, **present(given)})

    @call
    def sweep(self, /, job: Mapping[str, Any], **tried: Any) -> Flow[JsonObject]:
        """The job at many sizes; ``tried`` are values of its ``sweep``, as in ``devices=[512, 1024]``. Stops after 60 s."""
        body = {**job, "sweep": {**job.get("sweep", {}), **tried}}
        return self._json("POST", "/v1/sweeps", body, timeout_s=max(self._timeout_s, SWEEP_TIMEOUT_S))

    @call
    def rl_estimate(self, job: Mapping[str, Any]) -> Flow[JsonObject]:
        """The time and memory of a post-training step, as ``meshplan rl estimate`` answers."""
        return self._json("POST", "/v1/rl/estimates", job)

    @call
    def rl_search(self, job: Mapping[str, Any]) -> Flow[JsonObject]:
        """Placements of a post-training job, as ``meshplan rl search`` finds them in 60 s; ``submit`` has no limit."""
        return self._json("POST", "/v1/rl/searches", job, timeout_s=max(self._timeout_s, SWEEP_TIMEOUT_S))

    @call
    def rl_recipe(self, /, recipe: str, hardware: str, mean_answer: float, **stated: Any) -> Flow[JsonObject]:
        """The job of a recipe of verl or MindSpeed-RL, its text, and what is assumed of it.

        ``mean_answer``: tokens of an answer. ``stated`` are other fields of the body of ``POST /v1/rl/recipes``.
        """
        return self._json(
            "POST", "/v1/rl/recipes", {"recipe": recipe, "hardware": hardware, "mean_answer": mean_answer, **stated}
        )

    @call
    def add_runs(self, records: Iterable[Mapping[str, Any]]) -> Flow[list[JsonObject]]:
        """Prediction and measurement of each run, in order, or ``refused`` with a sentence.

        Accepted runs are stored. Equal runs are stored once, so that a repeated call is safe.
        """
        rows: list[JsonObject] = []
        waiting = iter(records)
        while some := list(islice(waiting, RUNS_A_REQUEST)):
            rows += (yield from self._json("POST", "/v1/runs", {"runs": some}))["items"]
        return rows

    @listing
    def runs(self) -> Pages[JsonObject]:
        """The stored runs, newest first; ``record`` is the run as you sent it."""
        return self._items("/v1/runs")

    @call
    def calibrate(self, hardware: str, stack: str) -> Flow[Calibration]:
        """Fits the shipped constants to the newest stored runs of this hardware and stack; may take two minutes.

        The same runs give the same id.
        """
        body, timeout_s = {"hardware": hardware, "stack": stack}, max(self._timeout_s, FIT_TIMEOUT_S)
        return reading(calibration_of, self._json("POST", "/v1/calibrations", body, timeout_s=timeout_s))

    @listing
    def calibrations(self) -> Pages[JsonObject]:
        """Summaries of the stored calibrations, newest first."""
        return self._items("/v1/calibrations")

    @call
    def calibration(self, calibration_id: str) -> Flow[Calibration]:
        """One stored calibration."""
        return reading(calibration_of, self._json("GET", f"/v1/calibrations/{calibration_id}"))

    @call
    def models(self) -> Flow[list[JsonObject]]:
        """The model presets."""
        return listed(self._items("/v1/models"))

    @call
    def model(self, name: str) -> Flow[JsonObject]:
        """One preset with its sources."""
        return self._json("GET", f"/v1/models/{name}")

    @call
    def hardware(self) -> Flow[list[JsonObject]]:
        """The hardware profiles."""
        return listed(self._items("/v1/hardware"))

    @call
    def hardware_profile(self, name: str) -> Flow[JsonObject]:
        """One profile, every number with its source."""
        return self._json("GET", f"/v1/hardware/{name}")


class Client(Connection, _Methods):
    """A connection to one server; use it in a ``with`` statement or close it. Safe to share between threads.

    A request that reaches no server is repeated a few times. Every submission carries an idempotency key, so that repeating it is
    safe. Every method raises ``MeshplanError``, also for an answer of more than 256 MiB. With ``language="zh"`` the server
    answers in Chinese.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        language: Language = "en",
        timeout_s: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._http = connected(httpx.Client, url, api_key, language, timeout_s, transport)
        self._url = str(self._http.base_url)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._http.close()

    def events(self, study_id: str, *, after: int = 0) -> Iterator[Event]:
        """Events of the study as they happen, until it has finished; goes on after a restart of the server."""
        failures = 0
        while True:
            before = after
            try:
                with self._http.stream(**self._stream(study_id, after)) as response:
                    if not response.is_success:
                        checked(read_answer(response))
                    stream = EventPieces(response)
                    for event in chain.from_iterable(map(stream.events, response.iter_bytes())):
                        after, failures = event.sequence, 0
                        yield event
            except httpx.TransportError as error:
                failures += 1
                time.sleep(self._lost(failures, error))
                continue
            if after == before:
                if self.study(study_id).is_finished:
                    return
                time.sleep(FIRST_PAUSE_S)


class AsyncClient(AsyncConnection, _Methods):
    """Client whose methods are awaited, or iterated with ``async for`` if they return a list; use it in ``async with``."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        language: Language = "en",
        timeout_s: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._http = connected(httpx.AsyncClient, url, api_key, language, timeout_s, transport)
        self._url = str(self._http.base_url)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection."""
        await self._http.aclose()

    async def events(self, study_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Events of the study as they happen, until it has finished; goes on after a restart of the server."""
        failures = 0
        while True:
            before = after
            try:
                async with self._http.stream(**self._stream(study_id, after)) as response:
                    if not response.is_success:
                        checked(await read_answer_async(response))
                    stream = EventPieces(response)
                    async for piece in response.aiter_bytes():
                        for event in stream.events(piece):
                            after, failures = event.sequence, 0
                            yield event
            except httpx.TransportError as error:
                failures += 1
                await asyncio.sleep(self._lost(failures, error))
                continue
            if after == before:
                if (await self.study(study_id)).is_finished:
                    return
                await asyncio.sleep(FIRST_PAUSE_S)
