"""A server for several people: whose a study is, who sees it, how much each may ask, and what is written down."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.http import audit, keys, ownership
from app.http.keys import KeyLimits
from app.server.application import create_app
from app.storage.session import Database
from app.studies import access, queue
from app.studies.queue_order import MAX_PRIORITY
from tests.api.conftest import LOCAL
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]
LIMITS = KeyLimits(requests_a_minute=6000, max_unfinished=3, max_stored=5)
STUDY_PATHS = (
    "",
    "/plans",
    "/ranking",
    "/trials",
    "/rejections",
    "/queue",
    "/events",
    "/plans/p",
    "/plans/p/launch",
    "/plans/p/analysis",
    "/plans/p/timeline",
    "/plans/p/verification",
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def guarded(database: Database) -> Iterator[TestClient]:
    app = create_app(database, keys_required=True, limits=LIMITS)
    with TestClient(app, base_url="https://planner.example", raise_server_exceptions=False) as client:
        yield client


def _another_waits(session: Session) -> bool:
    """Whether another connection waits for a lock; SQLite, which has one writer, cannot say."""
    if session.get_bind().dialect.name != "postgresql":
        return False
    session.execute(text("select pg_stat_clear_snapshot()"))
    others = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    return bool(session.scalar(text(others)))


AtOnce = Callable[[Sequence[Callable[[], Any]]], list[int]]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    """Status codes of two requests. Unless a lock keeps them apart, both count what the owner has before either adds to it."""
    callers: defaultdict[int, int] = defaultdict(int)  # by number of conditions: one quota each
    count = ownership.num_owned

    def counted(session: Session, *arguments: Any) -> int:
        number = count(session, *arguments)
        callers[len(arguments)] += 1
        until_s = time.monotonic() + (30.0 if session.get_bind().dialect.name == "postgresql" else 1.0)
        while callers[len(arguments)] < 2 and time.monotonic() < until_s and not _another_waits(session):
            time.sleep(0.02)
        return number

    def ask(requests: Sequence[Callable[[], Any]]) -> list[int]:
        monkeypatch.setattr(ownership, "num_owned", counted)
        monkeypatch.setattr(access, "num_owned", counted)
        with ThreadPoolExecutor(len(requests)) as threads:
            return [answer.result().status_code for answer in [threads.submit(request) for request in requests]]

    return ask


@dataclass
class Person:
    """Asks with a key of their own."""

    client: TestClient
    secret: str

    def __call__(self, method: str, path: str, **given: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}", **given.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **given)

    def submits(self, job: dict[str, Any], query: str = "") -> str:
        response = self("POST", f"/v1/studies{query}", json=job)
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def lists(self, query: str = "") -> list[str]:
        return [item["id"] for item in self("GET", f"/v1/studies{query}").json()["items"]]


@pytest.fixture
def person(guarded: TestClient, database: Database) -> Callable[..., Person]:
    def make(name: str, scopes: tuple[keys.Scope, ...] = keys.USUAL_SCOPES, **limits: int) -> Person:
        with database.write() as session:
            owner = name.partition("/")[0]
            return Person(guarded, keys.create_key(session, name, scopes, None, owner=owner, limits=dict(limits))[1])

    return make


def test_a_study_is_its_owners_whichever_key_asks(person: Callable[..., Person], job: dict[str, Any]) -> None:
    ada, too, bob = person("ada/tool"), person("ada/laptop", ("read",)), person("bob")
    study = ada.submits(job)
    document = too("GET", f"/v1/studies/{study}").json()
    assert (document["owner"], document["visibility"], document["priority"]) == ("ada", "private", 0)
    assert too.lists() == ada.lists() == [study]
    assert bob.lists() == bob.lists("?owner=ada") == []


@pytest.mark.parametrize("path", STUDY_PATHS)
def test_anothers_study_is_not_there_whatever_is_asked_of_it(
    person: Callable[..., Person], job: dict[str, Any], refused: Refused, path: str
) -> None:
    ada, bob = person("ada"), person("bob")
    study = ada.submits(job)
    told = [refused(bob("GET", f"/v1/studies/{name}{path}"), 404, "not-found") for name in (study, "0123456789abcdef")]
    assert told[0]["detail"].replace(study, "") == told[1]["detail"].replace("0123456789abcdef", "")
    for method, tail, body in (("POST", ":cancel", {}), ("POST", ":resume", {}), ("DELETE", "", None), ("PATCH", "", {})):
        refused(bob(method, f"/v1/studies/{study}{tail}", json=body), 404, "not-found")
    assert ada("GET", f"/v1/studies/{study}").json()["state"] == "queued"


def test_a_shared_study_is_read_by_others_and_changed_by_its_owner_alone(
    person: Callable[..., Person], job: dict[str, Any], refused: Refused
) -> None:
    ada, bob = person("ada"), person("bob")
    study = ada.submits(job)
    assert ada("PATCH", f"/v1/studies/{study}", json={"visibility": "link"}).json()["visibility"] == "link"
    assert bob("GET", f"/v1/studies/{study}").status_code == 200
    assert bob("HEAD", f"/v1/studies/{study}").status_code == 200
    assert bob.lists() == []
    ada("PATCH", f"/v1/studies/{study}", json={"visibility": "public"})
    assert bob.lists() == [study]
    for method, tail in (("POST", ":cancel"), ("DELETE", ""), ("PATCH", "")):
        problem = refused(bob(method, f"/v1/studies/{study}{tail}", json={}), 403, "forbidden")
        assert problem["detail"] == "The study belongs to 'ada'; you may read it."
    ada("PATCH", f"/v1/studies/{study}", json={"visibility": "private"})
    refused(bob("GET", f"/v1/studies/{study}"), 404, "not-found")
    shared = ada.submits(job, "?visibility=public&priority=3")
    assert bob("GET", f"/v1/studies/{shared}").json()["priority"] == 3


def test_an_admin_sees_and_changes_all(person: Callable[..., Person], job: dict[str, Any]) -> None:
    ada, root = person("ada"), person("root", ("admin",))
    study = ada.submits(job)
    assert root.lists() == root.lists("?owner=ada") == [study]
    assert root.lists("?owner=bob") == []
    assert root("POST", f"/v1/studies/{study}:cancel").json()["state"] == "cancelled"
    assert root("DELETE", f"/v1/studies/{study}").status_code == 204


def test_what_came_without_a_key_is_everybodys(
    person: Callable[..., Person], database: Database, job: dict[str, Any], refused: Refused
) -> None:
    with TestClient(create_app(database), base_url=LOCAL) as local:
        study = local.post("/v1/studies?visibility=private", json=job).json()
        theirs = person("ada").submits(job)
        assert [item["id"] for item in local.get("/v1/studies").json()["items"]] == [theirs, study["id"]]
    assert (study["owner"], study["visibility"]) == (None, "public")
    bob = person("bob")
    refused(bob("PATCH", f"/v1/studies/{study['id']}", json={"visibility": "private"}), 409, "conflict")
    assert bob("POST", f"/v1/studies/{study['id']}:cancel").json()["state"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"visibility": "secret"}, "#/visibility"),
        ({"priority": MAX_PRIORITY + 1}, "#/priority"),
        ({"priority": "1"}, "#/priority"),
        ({"state": "completed"}, "#/state"),
    ],
)
def test_what_cannot_be_changed_is_told(
    person: Callable[..., Person], job: dict[str, Any], refused: Refused, body: dict[str, Any], pointer: str
) -> None:
    ada = person("ada")
    study = ada.submits(job)
    assert refused(ada("PATCH", f"/v1/studies/{study}", json=body), 422, "invalid-input")["pointer"] == pointer
    tag = ada("GET", f"/v1/studies/{study}").headers["etag"]
    changed = ada("PATCH", f"/v1/studies/{study}", json={"priority": 2}, headers={"If-Match": tag})
    assert (changed.json()["priority"], changed.headers["etag"] != tag) == (2, True)
    refused(ada("PATCH", f"/v1/studies/{study}", json={"priority": 4}, headers={"If-Match": tag}), 412, "stale")


def test_who_asks_too_often_is_told_when_to_come_back(
    person: Callable[..., Person], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty, calm, now_s = person("hasty", requests_a_minute=30), person("calm"), [0.0]
    monkeypatch.setattr(hasty.client.app.state.server.rates, "_clock", lambda: now_s[0])
    answers = [hasty("GET", "/v1/models/llama-2-7b") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3  # ten seconds' worth at once
    assert "30 times a minute" in refused(answers[-1], 429, "rate-limited")["detail"]
    assert answers[-1].headers["retry-after"] == "2"
    assert calm("GET", "/v1/models/llama-2-7b").status_code == 200
    now_s[0] = 2.0
    assert [hasty("GET", "/v1/models/llama-2-7b").status_code for _ in range(2)] == [200, 429]
    probe = person("probe", ("metrics",))
    assert 'meshplan_limited_requests_total{reason="requests"}' in probe("GET", "/metrics").text


def test_who_guesses_keys_is_shut_out_and_a_neighbour_is_not(
    person: Callable[..., Person], guarded: TestClient, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, new, now_s = person("ada"), person("new"), [0.0]
    monkeypatch.setattr(guarded.app.state.server.rates, "_clock", lambda: now_s[0])
    assert ada("GET", "/v1/hardware").status_code == 200
    guesses = [Person(guarded, f"mp_{number}")("GET", "/v1/hardware") for number in range(300)]
    assert [guess.status_code for guess in guesses] == [401] * 30 + [429] * 270
    assert guesses[-1].headers["retry-after"] == "2"
    refused(guesses[-1], 429, "rate-limited")
    assert ada("GET", "/v1/hardware").status_code == 200  # was right before
    assert new("GET", "/v1/hardware").status_code == 429  # a guess as any other, until a while has passed
    now_s[0] = 2.0
    assert new("GET", "/v1/hardware").status_code == 200


def test_an_owner_has_so_many_studies_and_no_more(person: Callable[..., Person], job: dict[str, Any], refused: Refused) -> None:
    ada, too, bob = person("ada/tool"), person("ada/laptop"), person("bob")
    ids = [(ada, too)[number % 2].submits(job) for number in range(3)]
    response = too("POST", "/v1/studies", json=job, headers={"Idempotency-Key": "fourth"})
    assert refused(response, 429, "quota-exceeded")["detail"] == "3 studies of 'ada' wait or run already."
    assert response.headers["retry-after"] == "60"
    bob.submits(job)
    ada("POST", f"/v1/studies/{ids[0]}:cancel")
    ids.append(too.submits(job))
    refused(ada("POST", f"/v1/studies/{ids[0]}:resume"), 429, "quota-exceeded")
    for study in ids[1:3]:
        ada("POST", f"/v1/studies/{study}:cancel")
    ids.append(ada.submits(job))
    response = ada("POST", "/v1/studies", json=job)
    assert refused(response, 429, "quota-exceeded")["detail"] == "5 studies of 'ada' are stored already."
    roomy = person("ada/more", max_stored=6)
    ids.append(roomy.submits(job))
    ada("POST", f"/v1/studies/{ids[-1]}:cancel")
    assert ada("DELETE", f"/v1/studies/{ids[0]}").status_code == 204
    assert ada("POST", f"/v1/studies/{ids[1]}:resume").json()["state"] == "queued"  # no new one
    probe = person("probe", ("metrics",))
    assert 'meshplan_limited_requests_total{reason="quota"} 3.0' in probe("GET", "/metrics").text


@pytest.mark.parametrize("quota", ["max_unfinished", "max_stored"])
def test_two_requests_at_once_do_not_share_the_last_place(
    person: Callable[..., Person], job: dict[str, Any], at_once: AtOnce, quota: str
) -> None:
    people = [person(f"ada/{label}", **{quota: 2}) for label in ("laptop", "server")]
    people[0].submits(job)
    assert sorted(at_once([lambda one=one: one("POST", "/v1/studies", json=job) for one in people])) == [202, 429]
    assert len(people[0]("GET", "/v1/studies").json()["items"]) == 2


def test_two_checks_at_once_do_not_share_the_last_place(
    person: Callable[..., Person], job: dict[str, Any], at_once: AtOnce
) -> None:
    people = [person(f"ada/{label}", max_stored=1) for label in ("laptop", "server")]
    body = {**job, "strategy": {"tp": 8}, "budget": {"step_time_s": {"max": 60}}, "history": {"name": "jobs/a.yaml"}}
    assert sorted(at_once([lambda one=one: one("POST", "/v1/checks:keep", json=body) for one in people])) == [201, 429]


def test_owners_take_turns(person: Callable[..., Person], database: Database, job: dict[str, Any]) -> None:
    ada, bob = person("ada", max_unfinished=100, max_stored=100), person("bob")
    first = [ada.submits(job) for _ in range(6)]
    second = [bob.submits(job, f"?priority={priority}") for priority in (-1, 2)]
    root = person("root", ("admin",))
    assert root("PATCH", f"/v1/studies/{first[4]}", json={"priority": 1}).status_code == 200
    order = []
    for _ in range(8):
        with database.write() as session:
            lease = queue.claim(session, "test", 10.0)
            assert lease is not None
        order.append(lease.study_id)
    assert order == [first[4], second[1], first[0], second[0], first[1], first[2], first[3], first[5]]


def test_a_rotated_key_keeps_its_owner_and_studies_and_both_secrets_work_for_a_while(
    person: Callable[..., Person], database: Database, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, guarded: TestClient
) -> None:
    old = person("ada")
    study = old.submits(job)
    created = old("POST", "/v1/studies", json=job, headers={"Idempotency-Key": "one"}).json()["id"]
    with database.write() as session:
        new = Person(guarded, keys.rotate_key(session, "ada", 1, None)[1])
    assert new.lists() == old.lists() == [created, study]
    replayed = new("POST", "/v1/studies", json=job, headers={"Idempotency-Key": "one"})
    assert (replayed.json()["id"], replayed.headers["idempotency-replayed"]) == (created, "true")
    now_s = time.time()
    monkeypatch.setattr(keys.time, "time", lambda: now_s + keys.SECONDS_PER_HOUR + 1)
    assert (old("GET", "/v1/studies").status_code, new("GET", "/v1/studies").status_code) == (401, 200)
    with database.write() as session:
        newest = Person(guarded, keys.rotate_key(session, "ada", 0, 1)[1])
    assert (new("GET", "/v1/studies").status_code, newest("GET", "/v1/studies").status_code) == (401, 200)
    with database.write() as session:
        keys.revoke_key(session, "ada")
    assert newest("GET", "/v1/studies").status_code == 401


def test_a_rotated_key_lives_as_long_as_the_one_before_which_dies_when_it_would_have(database: Database) -> None:
    with database.write() as session:
        key, _ = keys.create_key(session, "ada", keys.USUAL_SCOPES, 2)
        end_s = key.expires_at_s
        keys.rotate_key(session, "ada", 72, None)
        assert key.previous_until_s == end_s
        assert key.expires_at_s == pytest.approx(time.time() + 2 * keys.SECONDS_PER_DAY, abs=60.0)


def test_what_keys_change_and_are_refused_is_read_by_admins(
    person: Callable[..., Person], database: Database, job: dict[str, Any], refused: Refused
) -> None:
    ada, root, reader = person("ada"), person("root", ("admin",)), person("bob", ("read",))
    study = ada("POST", "/v1/studies", json=job, headers={"X-Request-ID": "req-1"}).json()["id"]
    ada("GET", f"/v1/studies/{study}")
    ada("POST", "/v1/estimates", json={**job, "strategy": {"tp": 8}})
    refused(reader("POST", "/v1/studies", json=job), 403, "forbidden")
    refused(ada("GET", "/v1/audit"), 403, "forbidden")
    root("DELETE", f"/v1/studies/{study}")
    items = root("GET", "/v1/audit").json()["items"]
    assert [(item["owner"], item["action"], item["status"]) for item in items] == [
        ("root", f"DELETE /v1/studies/{study}", 204),
        ("ada", "GET /v1/audit", 403),
        ("bob", "POST /v1/studies", 403),
        ("ada", f"POST /v1/studies: /v1/studies/{study}", 202),
    ]
    assert items[-1]["request_id"] == "req-1"
    assert [item["owner"] for item in root("GET", "/v1/audit?owner=bob").json()["items"]] == ["bob"]
    page = root("GET", "/v1/audit?limit=3").json()
    assert [item["action"] for item in root("GET", f"/v1/audit?cursor={page['next_cursor']}").json()["items"]] == [
        items[-1]["action"]
    ]
    with database.write() as session:
        assert audit.forget(items[0]["at_s"], session, 100) == 3
    with database.read() as session:
        assert [record.action for record in audit.list_records(session, None, None, 10)] == [items[0]["action"]]


def test_without_keys_there_are_no_limits_and_no_log(database: Database, job: dict[str, Any]) -> None:
    app = create_app(database, limits=KeyLimits(1, 1, 1), wrong_keys_a_minute=1)
    with TestClient(app, base_url=LOCAL) as local:
        for _ in range(4):
            assert local.post("/v1/studies", json=job).status_code == 202
        assert local.get("/v1/audit").json() == {"items": [], "next_cursor": None}
