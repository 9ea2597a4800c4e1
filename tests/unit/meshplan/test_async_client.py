"""The asynchronous client: the same methods, which ask the same and make the same of the answers."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import httpx
import pytest

from meshplan import client as module
from meshplan.client import AsyncClient, Client, MeshplanError
from tests.coroutines import finished

T = TypeVar("T")
STUDY = {"id": "s1", "state": "completed", "progress": None, "result": None, "error": None}
PLAN = {"rank": 1, "plan_id": "p1", "strategy": {}, "estimate": {"step_time_s": 2.0}, "explanation": {}}
CALIBRATION = {
    "id": "c1", "hardware": "h", "stack": "s", "num_runs": 1, "errors": {}, "warnings": [], "calibration": {},
}  # fmt: skip
JOB = {"model": "m", "strategy": {"tp": 8}}
CALLS: dict[str, tuple[Any, ...]] = {
    "submit": (JOB,), "change": ("s1",), "study": ("s1",), "wait": ("s1",), "plans": ("s1",), "trials": ("s1",),
    "rejections": ("s1",), "launch": ("s1", "p1"), "timeline": ("s1", "p1"), "trace": ("s1", "p1"), "report": ("s1",),
    "cancel": ("s1",), "queue_place": ("s1",), "study_counts": (),
    "resume": ("s1",), "delete": ("s1",), "estimate": (JOB,), "estimates": (JOB, [{"tp": 4}]), "check": (JOB,),
    "goodput": (JOB,), "explain": (JOB,), "plan_experts": (JOB, {"generated": {}}), "add_runs": ([{"id": "r"}],),
    "plan_sequences": (JOB,), "sweep": (JOB,), "serving": (JOB,), "rl_estimate": (JOB,), "rl_search": (JOB,), "points": ("s1",),
    "rl_recipe": ("text", "h", 300.0),
    "calibrate": ("h", "s"), "calibration": ("c1",), "model": ("m",), "hardware_profile": ("h",),
    "models": (), "hardware": (), "studies": (), "terms": (), "runs": (), "calibrations": (), "events": ("s1",),
    "keep_check": (JOB, "a"), "kept_check": ("k1",), "change_check": ("k1",), "delete_check": ("k1",), "checks": (),
    "histories": (), "verification": ("s1", "p1"), "keep_verification": ("s1", "p1", {"protocol": 1}),
}  # fmt: skip
OWN = {"close"}
LISTS = {
    "plans",
    "points",
    "trials",
    "rejections",
    "models",
    "hardware",
    "studies",
    "runs",
    "calibrations",
    "checks",
    "histories",
}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(module.time, "sleep", waited.append)
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    return waited


def answer(request: httpx.Request) -> httpx.Response:
    """What a server would say, or near enough: two pages of every list."""
    path = request.url.path
    if path.endswith("/events"):
        done = request.headers["last-event-id"] != "0"
        line = json.dumps({"state": "completed"})
        return httpx.Response(200, text="" if done else f"id: 1\nevent: state\ndata: {line}\n\n")
    if path.endswith(("/timeline",)) and "format" in request.url.params:
        return httpx.Response(200, text="{}")
    if request.method == "GET" and path.rpartition("/")[2] in LISTS:
        item = PLAN if path.endswith("plans") else {"at": request.url.params.get("cursor")}
        return httpx.Response(
            200,
            json={"items": [item], "next_cursor": None if "cursor" in request.url.params else "next", "counts": {"queued": 3}},
        )
    if "/calibrations" in path:
        return httpx.Response(200, json=CALIBRATION)
    if path == "/v1/runs":
        return httpx.Response(200, json={"items": [{"id": "r"}]})
    return httpx.Response(200, json={**STUDY, "estimates": [{"fits": True}]})


def asked(handler: Callable[[httpx.Request], httpx.Response]) -> tuple[httpx.MockTransport, list[tuple[str, str, bytes]]]:
    requests: list[tuple[str, str, bytes]] = []

    def recorded(request: httpx.Request) -> httpx.Response:
        requests.append((request.method, str(request.url), request.content))
        return handler(request)

    return httpx.MockTransport(recorded), requests


def now(name: str, *, handler: Callable[[httpx.Request], httpx.Response] = answer) -> tuple[Any, list[tuple[str, str, bytes]]]:
    transport, requests = asked(handler)
    with Client("http://planner", transport=transport) as client:
        found = getattr(client, name)(*CALLS[name])
        return list(found) if isinstance(found, Iterator) else found, requests


def later(name: str, *, handler: Callable[[httpx.Request], httpx.Response] = answer) -> tuple[Any, list[tuple[str, str, bytes]]]:
    transport, requests = asked(handler)

    async def main() -> Any:
        async with AsyncClient("http://planner", transport=transport) as client:
            found = getattr(client, name)(*CALLS[name])
            if isinstance(found, AsyncIterator):
                return [item async for item in found]
            assert inspect.isawaitable(found)
            return await found

    return finished(main()), requests


def test_both_clients_have_every_method_and_each_is_tried_here() -> None:
    public = {name for name in dir(Client) if not name.startswith("_")}
    assert public == {name for name in dir(AsyncClient) if not name.startswith("_")}
    assert public - OWN == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_method_asks_the_same_and_makes_the_same_of_it(name: str) -> None:
    assert later(name) == now(name)


def test_a_server_that_is_away_is_asked_again_after_pauses(pauses: list[float]) -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    with pytest.raises(MeshplanError, match="no server answers at http://planner") as lost:
        later("study", handler=away)
    assert (lost.value.status, pauses) == (0, [0.25, 0.5, 1.0])


def test_a_refusal_says_what_is_wrong() -> None:
    problem = {"detail": "strategy.tp: 3 is not allowed.", "hint": "Give 4.", "pointer": "#/strategy/tp"}
    with pytest.raises(MeshplanError, match=r"strategy\.tp") as refusal:
        later("estimate", handler=lambda request: httpx.Response(422, json=problem))
    assert (refusal.value.status, refusal.value.hint, refusal.value.pointer) == (422, "Give 4.", "#/strategy/tp")


@pytest.mark.parametrize("url", ["planner", "http://", "ftp://planner"])
def test_a_url_of_no_server_is_refused_at_once(url: str) -> None:
    with pytest.raises(MeshplanError, match="is not the URL of a server"):
        AsyncClient(url)


def test_requests_of_one_client_run_beside_each_other() -> None:
    inside = most = 0

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(3):
            await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, int)
        inside -= 1
        return httpx.Response(200, json=STUDY)

    async def main() -> None:
        async with AsyncClient("http://planner", transport=httpx.MockTransport(slow)) as client:
            await asyncio.gather(*(client.study(f"s{number}") for number in range(4)))

    finished(main())
    assert most == 4
