"""Studies as people keep them: names, tags, notes, what is put away, and finding them again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.http import keys
from app.server.application import create_app
from app.storage.session import Database
from app.studies.labels import MAX_NAME, MAX_NOTE, MAX_TAG, MAX_TAGS
from tests.api.conftest import JOB, LOCAL
from tests.api.test_rl_requests import JOB as RL_JOB
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]
LABELS: dict[str, Any] = {
    "name": "Tender 2027, variant B",
    "tags": ["atlas", "tender 2027"],
    "note": "Asked by Li Wei.\nNot before March.",
    "archived": True,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def submitted(api: TestClient, **given: Any) -> str:
    response = api.post("/v1/studies", json=JOB, params=given)
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def listed(api: TestClient, **query: Any) -> list[str]:
    return [item["id"] for item in api.get("/v1/studies", params=query).json()["items"]]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/studies", JOB),
        ("/v1/sweeps/studies", {**JOB, "sweep": {"devices": [8]}}),
        ("/v1/rl/studies", {**RL_JOB, "rollout": {"tp": 1}}),
    ],
)
def test_a_study_of_any_kind_is_named_when_it_is_submitted(api: TestClient, path: str, body: dict[str, Any]) -> None:
    given = {"name": "  first try ", "tag": ["b", "a", "b"], "note": "why\nand how\n"}
    study = api.post(path, json=body, params=given).json()
    said = {"name": "first try", "tags": ["a", "b"], "note": "why\nand how", "archived": False}
    for document in (study, api.get(f"/v1/studies/{study['id']}").json()):
        assert {name: document[name] for name in said} == said
    (item,) = api.get("/v1/studies").json()["items"]
    assert (item["name"], item["tags"], item["archived"]) == ("first try", ["a", "b"], False)
    assert "note" not in item  # of two thousand studies that would be megabytes


def test_a_study_without_labels_says_so(api: TestClient) -> None:
    study = api.get(f"/v1/studies/{submitted(api)}").json()
    assert (study["name"], study["tags"], study["note"], study["archived"]) == ("", [], "", False)


def test_labels_are_changed_kept_and_taken_away(api: TestClient, refused: Refused) -> None:
    path = f"/v1/studies/{submitted(api)}"
    before = api.get(path).headers["etag"]
    changed = api.patch(path, json=LABELS, headers={"If-Match": before})
    assert {name: changed.json()[name] for name in LABELS} == LABELS
    assert changed.headers["etag"] != before
    refused(api.patch(path, json={"name": "late"}, headers={"If-Match": before}), 412, "stale")
    same = api.patch(path, json={**LABELS, "tags": [*reversed(LABELS["tags"])]})
    assert same.headers["etag"] == changed.headers["etag"]  # nothing has changed
    assert api.patch(path, json={"name": None}).json()["name"] == LABELS["name"]
    emptied = api.patch(path, json={"name": "", "tags": [], "note": "", "archived": False}).json()
    assert (emptied["name"], emptied["tags"], emptied["note"], emptied["archived"]) == ("", [], "", False)
    assert api.get(path).json() == emptied


def test_what_is_put_away_is_in_no_list_that_does_not_ask_for_it(api: TestClient) -> None:
    first, second = submitted(api), submitted(api)
    api.patch(f"/v1/studies/{first}", json={"archived": True})
    assert listed(api) == listed(api, archived="false") == [second]
    assert listed(api, archived="true") == [first]
    assert listed(api, archived="any") == [second, first]
    assert api.get(f"/v1/studies/{first}").status_code == 200


def test_studies_are_found_by_their_tags(api: TestClient) -> None:
    both, one = submitted(api, tag=["a", "b"]), submitted(api, tag="a")
    assert listed(api, tag="a") == [one, both]
    assert listed(api, tag=["b", "a"]) == [both]
    assert listed(api, tag="A") == listed(api, tag=["a", "c"]) == []
    assert api.delete(f"/v1/studies/{both}").status_code == 204
    assert listed(api, tag="b") == []


@pytest.mark.parametrize("part", ["Tender", "li wei", "LAMPE 2027", "llama", "800t", "variant%", "备选"])
def test_studies_are_found_by_words_of_all_that_they_are_known_by(api: TestClient, part: str) -> None:
    labels = {"name": "Tender, variant%_b 备选", "tags": ["Lampe", "2027"], "note": "asked by Li Wei"}
    study, other = submitted(api), submitted(api, name="variant")
    api.patch(f"/v1/studies/{study}", json=labels)
    found = listed(api, text=part)
    assert study in found
    assert (other in found) == (part in ("llama", "800t"))  # what both have; `%` stands for itself
    assert listed(api, text=study[3:9]) == [study]
    assert listed(api, text=f"{part} nowhere") == []


def test_pages_of_what_a_filter_leaves_follow_one_another(api: TestClient) -> None:
    ids = [submitted(api, **({"tag": "odd"} if number % 2 else {})) for number in range(9)]
    api.patch(f"/v1/studies/{ids[3]}", json={"archived": True})
    wanted = [ids[number] for number in (7, 5, 1)]
    found: list[str] = []
    query, cursor = {"tag": "odd", "text": "llama", "limit": 1}, None
    for _ in wanted:
        page = api.get("/v1/studies", params={**query, **({"cursor": cursor} if cursor else {})}).json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert (found, cursor) == (wanted, None)


@pytest.mark.parametrize(
    ("body", "pointer", "told"),
    [
        ({"name": "x" * (MAX_NAME + 1)}, "#/name", "at most 120 characters"),
        ({"name": "two\nlines"}, "#/name", "one line without control characters"),
        ({"name": 7}, "#/name", "text"),
        ({"note": "x" * (MAX_NOTE + 1)}, "#/note", "at most 2,000 characters"),
        ({"tags": [f"t{number}" for number in range(MAX_TAGS + 1)]}, "#/tags", "16"),
        ({"tags": ["x" * (MAX_TAG + 1)]}, "#/tags/0", "at most 40 characters"),
        ({"tags": ["fine", "a,b"]}, "#/tags/1", "without a comma"),
        ({"tags": [" "]}, "#/tags/0", "without a comma"),
        ({"tags": "one"}, "#/tags", "a list"),
        ({"archived": "yes"}, "#/archived", "true or false"),
        ({"label": "x"}, "#/label", "unknown key"),
    ],
)
def test_labels_that_cannot_be_kept_are_refused(
    api: TestClient, refused: Refused, body: dict[str, Any], pointer: str, told: str
) -> None:
    path = f"/v1/studies/{submitted(api)}"
    before = api.get(path).json()
    problem = refused(api.patch(path, json=body), 422, "invalid-input")
    assert problem["pointer"] == pointer
    assert told in problem["detail"]
    assert api.get(path).json() == before


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"name": "x" * (MAX_NAME + 1)}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"note": "x" * (MAX_NOTE + 1)}, "note"),
        ({"tag": ["fine", "a,b"]}, "tag"),
        ({"tag": [f"t{number}" for number in range(MAX_TAGS + 1)]}, "tag"),
    ],
)
def test_labels_of_a_new_study_are_held_to_the_same_bounds(
    api: TestClient, refused: Refused, query: dict[str, Any], parameter: str
) -> None:
    problem = refused(api.post("/v1/studies", json=JOB, params=query), 422, "invalid-input")
    assert problem["parameter"] == parameter
    assert not problem["detail"].endswith("..")
    assert listed(api, archived="any") == []


@pytest.mark.parametrize(
    ("query", "parameter"), [({"archived": "maybe"}, "archived"), ({"text": "\x00"}, "text"), ({"tag": ","}, "tag")]
)
def test_a_list_that_cannot_be_asked_for_is_told(
    api: TestClient, refused: Refused, query: dict[str, str], parameter: str
) -> None:
    assert refused(api.get("/v1/studies", params=query), 422, "invalid-input")["parameter"] == parameter


def test_a_full_note_is_taken_with_the_job(api: TestClient) -> None:
    note = "备" * MAX_NOTE  # nine bytes each on the way
    assert api.get(f"/v1/studies/{submitted(api, note=note)}").json()["note"] == note


@pytest.fixture
def guarded(database: Database) -> Iterator[Callable[..., TestClient]]:
    app = create_app(database, keys_required=True, keep_studies_days=30)

    def client(name: str, *scopes: keys.Scope) -> TestClient:
        with database.write() as session:
            secret = keys.create_key(session, name, scopes or keys.USUAL_SCOPES, None)[1]
        return TestClient(app, base_url="https://planner.example", headers={"Authorization": f"Bearer {secret}"})

    with TestClient(app):
        yield client


def test_labels_are_changed_by_who_may_and_written_down(guarded: Callable[..., TestClient], refused: Refused) -> None:
    ada, bob, reader, root = guarded("ada"), guarded("bob"), guarded("reader", "read"), guarded("root", "admin")
    path = f"/v1/studies/{submitted(ada, name='mine', tag='t')}"
    for stranger, status, kind in ((bob, 404, "not-found"), (reader, 403, "forbidden")):
        refused(stranger.patch(path, json={"name": "theirs"}), status, kind)
    ada.patch(path, json={"visibility": "public"})
    refused(bob.patch(path, json={"name": "theirs"}), 403, "forbidden")
    assert listed(bob, tag="t", text="mine") == [path.rpartition("/")[2]]
    assert root.patch(path, json={"name": "tidied"}).json()["name"] == "tidied"
    (first, *_) = root.get("/v1/audit").json()["items"]
    assert (first["action"], first["owner"], first["status"]) == (f"PATCH {path}", "root", 200)


def test_words_find_nothing_that_the_caller_may_not_know_of(guarded: Callable[..., TestClient]) -> None:
    ada, bob = guarded("ada"), guarded("bob")
    submitted(ada, name="secret plan", tag="secret")
    assert listed(bob, text="secret", archived="any") == listed(bob, tag="secret", archived="any") == []


def test_everybody_is_told_what_holds_for_them(guarded: Callable[..., TestClient], database: Database) -> None:
    assert guarded("reader", "read").get("/v1/terms").json() == {"owner": "reader", "scopes": ["read"], "keep_studies_days": 30}
    assert guarded("root", "admin").get("/v1/terms").json()["scopes"] == ["read", "write", "metrics", "admin"]
    with TestClient(create_app(database), base_url=LOCAL) as local:
        terms = local.get("/v1/terms").json()
    assert terms == {"owner": None, "scopes": ["read", "write", "metrics", "admin"], "keep_studies_days": 0}
