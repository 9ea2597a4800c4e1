"""The Python client against scripted answers: what it repeats, and what it makes of refusals and broken streams."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from meshplan import client as module
from meshplan import request_steps
from meshplan.client import Client, Event, MeshplanError

ROOT = Path(__file__).resolve().parents[3]
STUDY = {"id": "s1", "state": "queued", "progress": None, "result": None, "error": None}
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    return pauses


def client_of(*handlers: Handler, api_key: str | None = None) -> tuple[Client, list[httpx.Request]]:
    """A client whose n-th request is answered by the n-th handler, the last one from then on."""
    requests: list[httpx.Request] = []
    chosen = itertools.chain(handlers, itertools.repeat(handlers[-1]))

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return next(chosen)(request)

    return Client("http://planner", api_key=api_key, transport=httpx.MockTransport(answer)), requests


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def answering(document: Any, status: int = 200) -> Handler:
    return lambda request: httpx.Response(status, json=document)


def test_a_submission_is_repeated_under_one_key_until_the_server_answers(no_pauses: list[float]) -> None:
    client, requests = client_of(unreachable, answering({"detail": "starting"}, 503), answering(STUDY, 202))
    assert client.submit({"model": "x"}).id == "s1"
    assert len(requests) == 3
    keys = {request.headers["idempotency-key"] for request in requests}
    assert len(keys) == 1
    assert no_pauses == [0.25, 0.5]  # 0.25 s, doubled each time
    client.submit({"model": "x"})
    assert requests[-1].headers["idempotency-key"] not in keys


def test_a_server_that_is_not_there_is_said_so_after_four_attempts() -> None:
    client, requests = client_of(unreachable)
    with pytest.raises(MeshplanError, match=r"no server answers at http://planner.*connection refused") as caught:
        client.models()
    assert (caught.value.status, len(requests)) == (0, 4)
    assert caught.value.hint == "Start one with `meshplan serve`."


def test_a_request_that_ran_out_of_time_is_not_repeated() -> None:
    def slow(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow", request=request)

    client, requests = client_of(slow)
    with pytest.raises(MeshplanError, match="did not answer in time"):
        client.estimate({})
    assert len(requests) == 1


def test_a_refusal_carries_what_the_server_said() -> None:
    problem = {"detail": "tp: 3 is wrong.", "hint": "Give 4.", "pointer": "#/strategy/tp"}
    client, _ = client_of(answering(problem, 422))
    with pytest.raises(MeshplanError, match="tp: 3 is wrong") as caught:
        client.estimate({})
    assert (caught.value.status, caught.value.hint, caught.value.pointer) == (422, "Give 4.", "#/strategy/tp")


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}"])
def test_the_error_page_of_something_else_is_no_surprise(content: bytes) -> None:
    client, _ = client_of(lambda request: httpx.Response(502, content=content))
    with pytest.raises(MeshplanError, match="answered 502, and not as meshplan does"):
        client.study("s1")


@pytest.mark.parametrize("url", ["planner:8765", "http://", "ftp://planner", "http://\x00"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(MeshplanError, match="not the URL of a server"):
        Client(url)


def test_pages_are_followed_to_the_end() -> None:
    def page(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("cursor")
        following = {None: "b", "b": "c", "c": None}[cursor]
        return httpx.Response(200, json={"items": [{"rule": cursor or "a"}], "next_cursor": following})

    client, requests = client_of(page)
    assert [item["rule"] for item in client.rejections("s1")] == ["a", "b", "c"]
    assert {request.url.params["limit"] for request in requests} == {"200"}


def test_filters_and_keys_are_sent() -> None:
    client, requests = client_of(answering({"items": [], "next_cursor": None}), api_key="mp_secret")
    assert list(client.studies(state="running", model="llama-2-7b")) == []
    assert dict(requests[0].url.params) == {"state": "running", "model": "llama-2-7b", "limit": "200"}
    assert requests[0].headers["authorization"] == "Bearer mp_secret"


def test_answers_are_asked_for_in_the_language_that_is_wanted() -> None:
    sent: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("accept-language"))
        return httpx.Response(200, json={"items": [], "next_cursor": None})

    for language in ("en", "zh"):
        list(Client("http://planner", language=language, transport=httpx.MockTransport(answer)).studies())
    assert sent == [None, "zh"]
    with pytest.raises(MeshplanError, match="'fr' is no language of answers"):
        Client("http://planner", language="fr")  # type: ignore[arg-type]


LABELLED = {
    "id": "s1", "state": "queued", "progress": None, "result": None, "error": None,
    "name": "Tender", "tags": ["a", "b"], "note": "why", "archived": True,
}  # fmt: skip


def test_labels_are_sent_and_read() -> None:
    client, requests = client_of(answering(LABELLED))
    study = client.submit({"model": "m"}, name="Tender", tags=["b", "a"], note="why")
    assert (study.name, study.tags, study.note, study.is_archived) == ("Tender", ["a", "b"], "why", True)
    sent = requests[0].url.params
    assert (sent["name"], sent.get_list("tag"), sent["note"]) == ("Tender", ["b", "a"], "why")
    client.submit({"model": "m"})
    assert dict(requests[1].url.params) == {"visibility": "private", "priority": "0"}
    client.change("s1", name="", tags=(), archived=False)
    assert json.loads(requests[2].content) == {"name": "", "tags": [], "archived": False}


@pytest.mark.parametrize(("archived", "sent"), [(False, {}), (True, {"archived": "true"}), (None, {"archived": "any"})])
def test_a_list_is_asked_for_by_labels(archived: bool | None, sent: dict[str, str]) -> None:
    client, requests = client_of(answering({"items": [], "next_cursor": None}))
    assert list(client.studies(owner="ada", tags=["a", "b"], archived=archived, text="x y")) == []
    asked = requests[0].url.params
    assert asked.get_list("tag") == ["a", "b"]
    assert {name: asked[name] for name in asked if name != "tag"} == {"owner": "ada", "text": "x y", "limit": "200", **sent}


class Broken(httpx.SyncByteStream):
    """Some events, and then the connection is gone."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __iter__(self) -> Iterator[bytes]:
        yield self.text.encode()
        raise httpx.ReadError("connection lost")


def event(number: int, **data: Any) -> str:
    return f"event: progress\ndata: {json.dumps(data)}\nid: {number}\n\n"


def test_a_stream_that_breaks_goes_on_after_the_last_event() -> None:
    client, requests = client_of(
        lambda request: httpx.Response(
            200, stream=Broken(": ping\n\n" + event(7, done=0.1) + event(9, done=0.5) + "event: prog")
        ),
        unreachable,
        lambda request: httpx.Response(200, text=event(12, done=1.0)),
        lambda request: httpx.Response(200, text=""),
        answering({**STUDY, "state": "completed"}),
    )
    events = list(client.events("s1"))
    assert events == [Event(n, "progress", {"done": done}) for n, done in ((7, 0.1), (9, 0.5), (12, 1.0))]
    assert [request.headers.get("last-event-id") for request in requests] == ["0", "9", "9", "12", None]


def test_a_stream_that_never_comes_back_ends_in_an_error() -> None:
    client, requests = client_of(unreachable)
    with pytest.raises(MeshplanError, match="no server answers"):
        list(client.events("s1"))
    assert len(requests) == request_steps.MAX_LOST_STREAMS + 1


def test_the_events_of_an_unknown_study_are_a_refusal() -> None:
    client, _ = client_of(answering({"detail": "There is no study s1.", "hint": "", "pointer": None}, 404))
    with pytest.raises(MeshplanError, match=r"There is no study s1\.") as caught:
        list(client.events("s1"))
    assert caught.value.status == 404


def test_waiting_ends_with_the_study_or_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    client, requests = client_of(answering(STUDY), answering(STUDY), answering({**STUDY, "state": "failed", "error": "why"}))
    assert client.wait("s1").error == "why"
    assert len(requests) == 3
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    client, _ = client_of(answering(STUDY))
    with pytest.raises(TimeoutError, match="still queued after 5 s"):
        client.wait("s1", timeout_s=5)


def test_a_list_of_strategies_takes_the_place_of_the_strategy() -> None:
    client, requests = client_of(answering({"estimates": [{"step_time_s": 1.0}]}))
    assert client.estimates({"model": "x", "strategy": {"tp": 1}}, [{"tp": 8}]) == [{"step_time_s": 1.0}]
    assert json.loads(requests[0].content) == {"model": "x", "strategies": [{"tp": 8}]}


def test_runs_are_sent_in_requests_that_a_server_takes() -> None:
    def stored(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"items": [{"id": run["id"]} for run in json.loads(request.content)["runs"]]})

    client, requests = client_of(stored)
    rows = client.add_runs({"id": f"run-{number}"} for number in range(120))
    assert [row["id"] for row in rows] == [f"run-{number}" for number in range(120)]
    assert [len(json.loads(request.content)["runs"]) for request in requests] == [50, 50, 20]
    assert client.add_runs([]) == []
    assert len(requests) == 3


def test_a_fit_may_take_longer_than_other_requests() -> None:
    document = {"id": "0123456789ab", "hardware": "h", "stack": "s", "num_runs": 2, "errors": {}, "warnings": ["w"]}
    client, requests = client_of(answering({**document, "calibration": {"family": "ascend"}}, 201))
    found = client.calibrate("h", "s")
    assert (found.id, found.num_runs, found.warnings, found.file) == ("0123456789ab", 2, ["w"], {"family": "ascend"})
    assert json.loads(requests[0].content) == {"hardware": "h", "stack": "s"}
    assert requests[0].extensions["timeout"]["read"] > 120
    client.calibration(found.id)
    assert requests[1].extensions["timeout"]["read"] == 60
    assert requests[1].url.path == "/v1/calibrations/0123456789ab"


def test_lists_of_runs_and_calibrations_are_read_to_their_end() -> None:
    pages = [answering({"items": [{"n": 1}], "next_cursor": "c"}), answering({"items": [{"n": 2}], "next_cursor": None})]
    for path in ("runs", "calibrations"):
        client, requests = client_of(*pages)
        assert [item["n"] for item in getattr(client, path)()] == [1, 2]
        assert [request.url.path for request in requests] == [f"/v1/{path}"] * 2
        assert requests[0].url.params["limit"] == "200"
        assert requests[1].url.params["cursor"] == "c"


def test_a_check_sends_what_it_was_given() -> None:
    client, requests = client_of(answering({"status": "passed"}))
    assert client.check({"model": "x"}, budget={"fits": {"min": 1}})["status"] == "passed"
    assert json.loads(requests[0].content) == {"model": "x", "budget": {"fits": {"min": 1}}, "pin": False}


def test_a_check_is_kept_with_its_change_and_listed_by_what_is_wanted() -> None:
    client, requests = client_of(answering({"id": "k"}), answering({"items": [{"id": "k"}], "next_cursor": None}))
    budget = {"step_time_s": {"max": 1}}
    taken = {"commit": "CI_COMMIT_SHA"}
    kept = client.keep_check({"model": "x"}, "a.yaml", budget=budget, commit="0a", taken_from=taken, idempotency_key="k1")
    assert kept == {"id": "k"}
    assert (requests[0].url.path, requests[0].headers["idempotency-key"]) == ("/v1/checks:keep", "k1")
    history = {"name": "a.yaml", "visibility": "private", "taken_from": taken, "commit": "0a"}
    assert json.loads(requests[0].content) == {"model": "x", "budget": budget, "pin": False, "history": history}
    assert list(client.checks(name="a.yaml", status="broken", archived=None)) == [{"id": "k"}]
    assert dict(requests[1].url.params) == {"name": "a.yaml", "status": "broken", "archived": "any", "limit": "200"}


def test_the_client_loads_none_of_the_server_s_packages() -> None:
    code = (
        "import sys; from meshplan import Client; Client().close();"
        "sys.exit(bool({'app', 'search', 'cost_models', 'numpy', 'fastapi', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def limited(seconds: str) -> Handler:
    return lambda request: httpx.Response(429, json={"detail": "Too often."}, headers={"Retry-After": seconds})


def test_who_asks_too_often_waits_as_long_as_the_server_says(no_pauses: list[float]) -> None:
    client, requests = client_of(limited("3"), limited("1"), answering(STUDY))
    assert client.study("s1").id == "s1"
    assert (len(requests), no_pauses) == (3, [3.0, 1.0])


@pytest.mark.parametrize("seconds", ["60", "soon", ""])
def test_a_quota_is_told_at_once(no_pauses: list[float], seconds: str) -> None:
    client, requests = client_of(limited(seconds))
    with pytest.raises(MeshplanError, match="Too often") as refused:
        client.submit({"model": "x"})
    assert (refused.value.status, len(requests), no_pauses) == (429, 1, [])


def test_a_study_is_shared_at_its_submission_and_later() -> None:
    client, requests = client_of(answering(STUDY, 202))
    client.submit({"model": "x"}, visibility="link", priority=3)
    assert dict(requests[0].url.params) == {"visibility": "link", "priority": "3"}
    client.change("s1", visibility="public")
    assert (requests[1].method, json.loads(requests[1].content)) == ("PATCH", {"visibility": "public"})
