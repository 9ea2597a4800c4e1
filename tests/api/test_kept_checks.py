"""Checks that are kept: judged by the server, told by whoever asks, owned like studies."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from app.http import keys
from app.http.keys import KeyLimits
from app.server.application import create_app
from app.storage.session import Database
from app.storage.tables import KeptCheck
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]
BUDGET = {"step_time_s": {"max": 60}, "headroom_bytes": {"min": 1e9}}
TOO_STRICT = {"step_time_s": {"max": 1}}
ENTRY = {"name": "jobs/a.yaml", "commit": "0a1b2c3", "branch": "fast", "change_url": "https://git.example/a/-/merge_requests/7"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def body(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "strategy": {"tp": 8}, "budget": BUDGET}


def keep(api: TestClient, body: dict[str, Any], key: str | None = None, **entry: Any) -> dict[str, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    response = api.post("/v1/checks:keep", json={**body, "history": {"name": "jobs/a.yaml", **entry}}, headers=headers)
    assert response.status_code == 201, response.text
    kept: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/checks/{kept['id']}"
    return kept


def names(api: TestClient, **query: Any) -> list[str]:
    return [item["name"] for item in api.get("/v1/checks", params=query).json()["items"]]


def test_what_is_kept_is_what_a_check_answers(api: TestClient, body: dict[str, Any]) -> None:
    answered = api.post("/v1/checks", json=body).json()
    assert api.get("/v1/checks").json() == {"items": [], "next_cursor": None}
    kept = keep(api, body, **ENTRY, taken_from={"commit": "CI_COMMIT_SHA"})
    assert kept["check"] == answered
    assert {name: kept[name] for name in ENTRY} == ENTRY
    assert kept["taken_from"] == {"commit": "CI_COMMIT_SHA"}
    assert (kept["status"], kept["model"], kept["hardware"], kept["num_devices"]) == ("passed", "llama-2-7b", "atlas-800t-a2", 8)
    assert kept["lines"] == answered["checks"]
    assert kept["priced_with"] == answered["priced_with"]
    for metric in ("step_time_s", "tokens_per_s", "peak_memory_bytes", "headroom_bytes"):
        assert kept["metrics"][metric] == answered["estimate"][metric]
    assert kept["moved"] is None
    found = api.get(f"/v1/checks/{kept['id']}")
    assert found.json() == kept
    (item,) = api.get("/v1/checks").json()["items"]
    assert item == {name: value for name, value in kept.items() if name != "check"}


def test_what_moved_against_a_baseline_is_in_the_list(api: TestClient, body: dict[str, Any]) -> None:
    baseline = api.post("/v1/checks", json=body).json()
    slower = {**body, "strategy": {"tp": 8, "recompute": "full"}, "baseline": baseline}
    kept = keep(api, slower)
    assert kept["status"] == "broken"
    (item,) = api.get("/v1/checks", params={"status": "broken"}).json()["items"]
    moved = item["moved"]
    (step,) = (m for m in moved["movements"] if m["metric"] == "step_time_s")
    assert step["job_fraction"] > 0 == step["tool_fraction"]
    assert 0 < len(moved["time_parts"]) <= 3
    assert moved["time_parts"] == kept["check"]["baseline"]["time_parts"][: len(moved["time_parts"])]
    assert [change for change in moved["job_changes"] if "recompute" in change]


def test_the_same_job_has_the_same_hash_however_it_is_searched(api: TestClient, body: dict[str, Any]) -> None:
    first = keep(api, body)
    other_search = keep(api, {**body, "search": {"tp": [8]}})
    other_batch = keep(api, {**body, "training": {**body["training"], "global_batch_size": 128}})
    other_plan = keep(api, {**body, "strategy": {"tp": 4}})
    assert first["job_sha256"] == other_search["job_sha256"]
    assert len({kept["job_sha256"] for kept in (first, other_batch, other_plan)}) == 3


def test_a_strategy_that_cannot_run_is_kept_without_numbers(api: TestClient, body: dict[str, Any]) -> None:
    kept = keep(api, {**body, "strategy": {"tp": 3}})
    assert (kept["status"], kept["metrics"], kept["job_sha256"], kept["model"]) == ("infeasible", {}, None, None)
    assert kept["lines"][0]["status"] == "failed"


def test_histories_are_counted_and_the_newest_stands_first(api: TestClient, body: dict[str, Any]) -> None:
    for name, budget in (("a", BUDGET), ("b", TOO_STRICT), ("a", TOO_STRICT), ("c", BUDGET)):
        keep(api, {**body, "budget": budget}, name=name)
    items = api.get("/v1/histories").json()["items"]
    assert [(item["name"], item["num_checks"], item["num_not_passed"]) for item in items] == [
        ("c", 1, 0),
        ("a", 2, 1),
        ("b", 1, 1),
    ]
    assert items[1]["last"]["status"] == "broken"
    assert items[1]["first_at_s"] <= items[1]["last"]["created_at_s"]
    page = api.get("/v1/histories", params={"limit": 2}).json()
    rest = api.get("/v1/histories", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [item["name"] for item in page["items"] + rest["items"]] == ["c", "a", "b"]
    assert rest["next_cursor"] is None


def test_lists_are_filtered_and_walked_page_by_page(api: TestClient, body: dict[str, Any]) -> None:
    for name, branch in (("a", "main"), ("a", "fast"), ("b", "fast")):
        keep(api, body, name=name, branch=branch)
    assert names(api) == ["b", "a", "a"]
    assert names(api, name="a") == ["a", "a"]
    assert names(api, branch="fast") == ["b", "a"]
    assert names(api, name="a", branch="fast") == ["a"]
    assert names(api, status="broken") == names(api, name="no such") == []
    page = api.get("/v1/checks", params={"limit": 2}).json()
    rest = api.get("/v1/checks", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [len(page["items"]), len(rest["items"]), rest["next_cursor"]] == [2, 1, None]


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        ({}, "#/history/name"),
        ({"name": " "}, "#/history/name"),
        ({"name": "x" * 121}, "#/history/name"),
        ({"name": "a\tb"}, "#/history/name"),
        ({"nam": "x"}, "#/history/nam"),
        ({"name": "x", "commit": "a b"}, "#/history/commit"),
        ({"name": "x", "commit": "a" * 65}, "#/history/commit"),
        ({"name": "x", "branch": ""}, "#/history/branch"),
        ({"name": "x", "branch": "b" * 201}, "#/history/branch"),
        ({"name": "x", "change_url": "javascript:alert(1)"}, "#/history/change_url"),
        ({"name": "x", "change_url": "https://" + "x" * 500}, "#/history/change_url"),
        ({"name": "x", "taken_from": {"commit": "é"}}, "#/history/taken_from/commit"),
        ({"name": "x", "visibility": "secret"}, "#/history/visibility"),
        ("a name", "#/history"),
        (None, "#/history"),
    ],
)
def test_an_entry_that_cannot_be_kept_is_refused_in_one_sentence(
    api: TestClient, body: dict[str, Any], refused: Refused, entry: Any, pointer: str
) -> None:
    response = api.post("/v1/checks:keep", json={**body, "history": entry})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer
    assert names(api) == []


def test_who_only_asks_names_no_history(api: TestClient, body: dict[str, Any], refused: Refused) -> None:
    assert refused(api.post("/v1/checks", json={**body, "history": ENTRY}), 422, "invalid-input")["pointer"] == "#/history"
    assert refused(api.post("/v1/checks:keep", json={**body, "history": ENTRY, "pni": True}), 422, "invalid-input")["pointer"]
    del body["budget"]
    assert refused(api.post("/v1/checks:keep", json={**body, "history": ENTRY}), 422, "invalid-input")["pointer"] == "#/budget"


def test_a_repeated_request_is_kept_once(api: TestClient, body: dict[str, Any], refused: Refused) -> None:
    first = keep(api, body, "k1")
    again = api.post("/v1/checks:keep", json={**body, "history": {"name": "jobs/a.yaml"}}, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (201, first, "true")
    assert len(names(api)) == 1
    other = api.post("/v1/checks:keep", json={**body, "history": {"name": "b"}}, headers={"Idempotency-Key": "k1"})
    refused(other, 422, "key-reused")
    assert api.delete(f"/v1/checks/{first['id']}").status_code == 204
    assert keep(api, body, "k1")["id"] != first["id"]  # the record went with the check


def test_tags_guard_changes_and_deletion(api: TestClient, body: dict[str, Any], refused: Refused) -> None:
    kept = keep(api, body)
    path = f"/v1/checks/{kept['id']}"
    tag = api.get(path).headers["etag"]
    assert api.get(path, headers={"If-None-Match": tag}).status_code == 304
    changed = api.patch(path, json={"archived": True}, headers={"If-Match": tag})
    assert (changed.json()["archived"], changed.headers["etag"] != tag) == (True, True)
    assert api.patch(path, json={"archived": True}).headers["etag"] == changed.headers["etag"]
    refused(api.patch(path, json={"archived": False}, headers={"If-Match": tag}), 412, "stale")
    refused(api.delete(path, headers={"If-Match": tag}), 412, "stale")
    refused(api.patch(path, json={"status": "passed"}), 422, "invalid-input")
    refused(api.patch(path, json={"visibility": "private"}), 409, "conflict")  # without keys it is everybody's
    assert names(api) == [] != names(api, archived="true") == names(api, archived="any")
    assert api.get("/v1/histories").json()["items"] == []
    assert api.delete(path, headers={"If-Match": changed.headers["etag"]}).status_code == 204
    refused(api.get(path), 404, "not-found")
    refused(api.delete(path), 404, "not-found")


@pytest.fixture
def guarded(database: Database) -> Iterator[Callable[..., TestClient]]:
    app = create_app(database, keys_required=True, limits=KeyLimits(max_stored=2))

    def client(name: str, *scopes: keys.Scope) -> TestClient:
        with database.write() as session:
            secret = keys.create_key(session, name, scopes or keys.USUAL_SCOPES, None)[1]
        return TestClient(app, base_url="https://planner.example", headers={"Authorization": f"Bearer {secret}"})

    with TestClient(app):
        yield client


def test_checks_belong_to_their_owner(guarded: Callable[..., TestClient], body: dict[str, Any], refused: Refused) -> None:
    ada, bob, reader, root = guarded("ada"), guarded("bob"), guarded("reader", "read"), guarded("root", "admin")
    refused(reader.post("/v1/checks:keep", json={**body, "history": ENTRY}), 403, "forbidden")
    assert reader.post("/v1/checks", json=body).status_code == 200
    mine, shared = keep(ada, body), keep(ada, body, name="b", visibility="link")
    assert (mine["owner"], mine["visibility"]) == ("ada", "private")
    assert names(ada) == names(root) == ["b", "jobs/a.yaml"]
    assert names(bob) == []
    refused(bob.get(f"/v1/checks/{mine['id']}"), 404, "not-found")
    refused(bob.delete(f"/v1/checks/{mine['id']}"), 404, "not-found")
    assert bob.get(f"/v1/checks/{shared['id']}").status_code == 200
    refused(bob.delete(f"/v1/checks/{shared['id']}"), 403, "forbidden")
    refused(bob.patch(f"/v1/checks/{shared['id']}", json={"archived": True}), 403, "forbidden")
    assert ada.patch(f"/v1/checks/{mine['id']}", json={"visibility": "public"}).status_code == 200
    assert names(bob) == ["jobs/a.yaml"] == [item["name"] for item in bob.get("/v1/histories").json()["items"]]
    made = [record["action"] for record in root.get("/v1/audit").json()["items"] if ":keep" in record["action"]]
    assert f"POST /v1/checks:keep: /v1/checks/{mine['id']}" in made


def test_histories_of_two_owners_under_one_name_are_two(guarded: Callable[..., TestClient], body: dict[str, Any]) -> None:
    ada, bob, root = guarded("ada"), guarded("bob"), guarded("root", "admin")
    keep(ada, body)
    keep(bob, body)
    items = root.get("/v1/histories").json()["items"]
    assert [(item["owner"], item["num_checks"]) for item in items] == [("bob", 1), ("ada", 1)]
    assert names(root, owner="ada") == ["jobs/a.yaml"]


def test_an_owner_keeps_no_more_than_the_key_allows(
    guarded: Callable[..., TestClient], body: dict[str, Any], refused: Refused
) -> None:
    ada = guarded("ada")
    ids = [keep(ada, body)["id"] for _ in range(2)]
    problem = refused(ada.post("/v1/checks:keep", json={**body, "history": ENTRY}), 429, "quota-exceeded")
    assert problem["detail"] == "2 checks of 'ada' are kept already."
    assert ada.delete(f"/v1/checks/{ids[0]}").status_code == 204
    keep(ada, body)
    keep(guarded("bob"), body)  # another's are not counted


def test_sentences_are_read_in_the_readers_language(api: TestClient, body: dict[str, Any], database: Database) -> None:
    kept = keep(api, body)
    with database.write() as session:
        session.execute(update(KeptCheck).values(name="Nothing is stored."))  # an owner's words stay as they are
    chinese = api.get(f"/v1/checks/{kept['id']}", headers={"Accept-Language": "zh"}).json()
    assert chinese["name"] == "Nothing is stored."
    assert chinese["lines"][0]["sentence"] != kept["lines"][0]["sentence"]
