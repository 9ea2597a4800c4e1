"""``/v1/studies``: from the queue to its pages, with every refusal."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers.schemas import Plan
from app.http.paging import MAX_LIMIT, Listing
from app.server.application import create_app
from app.storage.session import Database
from app.studies import idempotency
from app.studies.schemas import FinishedStudyDocument, ListedStudy, RankedPlan, StudyDocument, StudyResult, Trial
from app.text.json_documents import plain
from search.results.search_result import Rejection
from tests.api.conftest import LOCAL
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]
Finish = Callable[[str], None]
MISSING = "0" * 32


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def created(api: TestClient, job: dict[str, Any], **headers: str) -> dict[str, Any]:
    response = api.post("/v1/studies", json=job, headers=headers)
    assert response.status_code == 202, response.text
    study: dict[str, Any] = response.json()
    return study


def test_a_job_becomes_a_queued_study_that_embeds_everything(api: TestClient, job: dict[str, Any]) -> None:
    response = api.post("/v1/studies", json=job)
    assert response.status_code == 202
    study = StudyDocument.model_validate(response.json())
    assert (study.state, study.model, study.hardware, study.num_devices) == ("queued", "llama-2-7b", "atlas-800t-a2", 8)
    assert study.job["training"]["global_batch_size"] == 64
    assert study.hardware_profile["name"] == "atlas-800t-a2"
    assert study.result is None
    assert response.headers["location"] == f"/v1/studies/{study.id}"
    assert api.get(response.headers["location"]).json() == response.json()


def test_a_list_shows_the_best_plan_of_each_study_that_has_one(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    finished, waiting = created(api, job)["id"], created(api, job)["id"]
    finish(finished)
    newest, oldest = (ListedStudy.model_validate(item) for item in api.get("/v1/studies").json()["items"])
    assert (newest.id, newest.best, newest.proved_best) == (waiting, None, None)
    plan = api.get(f"/v1/studies/{finished}/plans?limit=1").json()["items"][0]
    assert oldest.best is not None
    best = plain(oldest.best)
    assert best == {"plan_id": plan["plan_id"], **{name: plan["estimate"][name] for name in best if name != "plan_id"}}
    assert oldest.proved_best is api.get(f"/v1/studies/{finished}").json()["result"]["proof"]["proved_best"] is True


def test_lists_are_newest_first_filtered_and_paged_without_loss(api: TestClient, job: dict[str, Any]) -> None:
    ids = [created(api, job)["id"] for _ in range(5)]
    other = created(api, {**job, "model": "llama-2-13b"})["id"]
    api.post(f"/v1/studies/{ids[0]}:cancel")
    seen, cursor = [], ""
    for _ in range(10):
        page = api.get(f"/v1/studies?limit=2{cursor}").json()
        seen += [ListedStudy.model_validate(item).id for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        assert len(page["items"]) == 2
    assert seen == [other, *reversed(ids)]
    assert [item["id"] for item in api.get("/v1/studies?model=llama-2-13b").json()["items"]] == [other]
    assert [item["id"] for item in api.get("/v1/studies?state=cancelled").json()["items"]] == [ids[0]]
    assert len(api.get("/v1/studies?hardware=atlas-800t-a2&state=queued").json()["items"]) == 5
    assert api.get("/v1/studies?hardware=h100-sxm-80gb").json() == {"items": [], "next_cursor": None, "counts": None}


def test_all_that_match_are_counted_on_whatever_page(api: TestClient, job: dict[str, Any]) -> None:
    ids = [created(api, job)["id"] for _ in range(5)]
    created(api, {**job, "model": "llama-2-13b"})
    api.post(f"/v1/studies/{ids[0]}:cancel")
    first = api.get("/v1/studies?limit=2&counts=true").json()
    last = api.get(f"/v1/studies?limit=5&counts=true&cursor={first['next_cursor']}").json()
    assert [len(first["items"]), len(last["items"])] == [2, 4]
    assert first["counts"] == last["counts"] == {"queued": 5, "cancelled": 1}
    for chosen, counts in [
        ("model=llama-2-13b", {"queued": 1}),
        ("kind=search&state=cancelled", {"cancelled": 1}),
        ("kind=rl", {}),
        (f"text={ids[1]}", {"queued": 1}),
        ("hardware=atlas-800t-a2&archived=true", {}),
    ]:
        assert api.get(f"/v1/studies?counts=true&{chosen}").json()["counts"] == counts, chosen


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        (f"limit={MAX_LIMIT + 1}", "limit"),
        ("limit=many", "limit"),
        ("cursor=nonsense", "cursor"),
        ("cursor=YWZ0ZXI6LTE", "cursor"),  # after:-1
        ("cursor=YWZ0ZXI6OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "cursor"),  # after:99999999999999999999
        ("state=done", "state"),
        ("kind=hunt", "kind"),
        ("counts=perhaps", "counts"),
        ("model=%00", "model"),
    ],
)
def test_a_bad_query_is_422_and_names_the_parameter(api: TestClient, refused: Refused, query: str, parameter: str) -> None:
    assert refused(api.get(f"/v1/studies?{query}"), 422, "invalid-input")["parameter"] == parameter


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", ":cancel"),
        ("POST", ":resume"),
        ("GET", "/plans"),
        ("GET", "/plans/0123456789ab"),
        ("GET", "/ranking"),
        ("GET", "/plans/0123456789ab/launch"),
        ("GET", "/points"),
        ("GET", "/trials"),
        ("GET", "/rejections"),
        ("GET", "/queue"),
        ("GET", "/events"),
    ],
)
@pytest.mark.parametrize("study_id", [MISSING, "x" * 300, "%00", "é"])
def test_an_unknown_study_is_404(api: TestClient, refused: Refused, method: str, path: str, study_id: str) -> None:
    refused(api.request(method, f"/v1/studies/{study_id}{path}"), 404, "not-found")


def test_an_unknown_plan_is_404(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    study = created(api, job)["id"]
    for plan_id in ("0123456789ab", "%00", "x" * 100):
        refused(api.get(f"/v1/studies/{study}/plans/{plan_id}"), 404, "not-found")
        refused(api.get(f"/v1/studies/{study}/plans/{plan_id}/launch"), 404, "not-found")


def test_states_forbid_what_makes_no_sense(api: TestClient, refused: Refused, job: dict[str, Any], finish: Finish) -> None:
    study = created(api, job)["id"]
    refused(api.post(f"/v1/studies/{study}:resume"), 409, "conflict")  # it is queued
    assert api.post(f"/v1/studies/{study}:cancel").json()["state"] == "cancelled"
    assert api.post(f"/v1/studies/{study}:cancel").json()["state"] == "cancelled"  # twice is once
    assert api.post(f"/v1/studies/{study}:resume").json()["state"] == "queued"
    finish(study)
    refused(api.post(f"/v1/studies/{study}:cancel"), 409, "conflict")
    refused(api.post(f"/v1/studies/{study}:resume"), 409, "conflict")


def test_entity_tags_save_traffic_and_guard_deletion(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    path = f"/v1/studies/{created(api, job)['id']}"
    old = api.get(path).headers["etag"]
    assert old.startswith('"')
    unchanged = api.get(path, headers={"If-None-Match": old})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    new = api.post(f"{path}:cancel").headers["etag"]
    assert new != old
    assert api.get(path, headers={"If-None-Match": old}).status_code == 200
    refused(api.delete(path, headers={"If-Match": old}), 412, "stale")
    refused(api.delete(path, headers={"If-Match": "W/" + new}), 412, "stale")  # If-Match compares strongly
    assert api.get(path).status_code == 200
    assert api.delete(path, headers={"If-Match": new}).status_code == 204
    refused(api.get(path), 404, "not-found")


def test_a_repeated_request_is_carried_out_once(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    key = {"Idempotency-Key": "plan-2026-11"}
    first = api.post("/v1/studies", json=job, headers=key)
    api.post(f"{first.headers['location']}:cancel")  # the answer is that of the first time all the same
    reordered = dict(reversed(job.items()))
    again = api.post("/v1/studies", json=reordered, headers=key)
    assert (again.status_code, again.json(), again.headers["location"]) == (202, first.json(), first.headers["location"])
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    refused(api.post("/v1/studies", json={**job, "model": "llama-2-13b"}, headers=key), 422, "key-reused")
    assert len(api.get("/v1/studies").json()["items"]) == 1


def test_a_refused_request_uses_up_no_key(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    key = {"Idempotency-Key": "k"}
    refused(api.post("/v1/studies", json={**job, "model": "none"}, headers=key), 422, "invalid-input")
    assert api.post("/v1/studies", json=job, headers=key).status_code == 202


@pytest.mark.parametrize("key", ["x" * 256, "with space"])
def test_an_unusable_key_is_refused(api: TestClient, refused: Refused, job: dict[str, Any], key: str) -> None:
    problem = refused(api.post("/v1/studies", json=job, headers={"Idempotency-Key": key}), 422, "invalid-input")
    assert problem["parameter"].lower() == "idempotency-key"


def test_a_second_request_is_told_to_wait_while_the_first_runs(
    api: TestClient, refused: Refused, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, inside, go_on = {"Idempotency-Key": "slow"}, threading.Event(), threading.Event()
    remember = idempotency.remember

    def slow(*arguments: Any) -> None:
        inside.set()
        assert go_on.wait(20)
        remember(*arguments)

    monkeypatch.setattr(idempotency, "remember", slow)
    answers: list[Any] = []
    first = threading.Thread(target=lambda: answers.append(api.post("/v1/studies", json=job, headers=key)))
    first.start()
    try:
        assert inside.wait(20)
        second = api.post("/v1/studies", json=job, headers=key)
        refused(second, 409, "request-in-progress")
        assert second.headers["retry-after"] == "1"
    finally:
        go_on.set()
        first.join()
    assert answers[0].status_code == 202
    third = api.post("/v1/studies", json=job, headers=key)
    assert third.json() == answers[0].json()


def test_two_processes_with_one_key_make_one_study(
    api: TestClient, database: Database, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second server looks before the first has stored its answer, and finds the key taken when it stores its own."""
    key = {"Idempotency-Key": "shared"}
    first = api.post("/v1/studies", json=job, headers=key)
    replayed, asked = idempotency.replayed, []

    def blind_once(*arguments: Any) -> Any:
        asked.append(arguments)
        return None if len(asked) == 1 else replayed(*arguments)

    monkeypatch.setattr(idempotency, "replayed", blind_once)
    with TestClient(create_app(database), base_url=LOCAL) as other:
        second = other.post("/v1/studies", json=job, headers=key)
    assert len(asked) == 2
    assert second.json() == first.json()
    assert len(api.get("/v1/studies").json()["items"]) == 1


def test_a_finished_study_has_plans_rejections_and_a_result(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    study = created(api, job)["id"]
    finish(study)
    document = StudyDocument.model_validate(api.get(f"/v1/studies/{study}").json())
    assert document.state == "completed"
    result = StudyResult.model_validate(document.result)
    plans = [Plan.model_validate(item) for item in pages(api, f"/v1/studies/{study}/plans")]
    assert [plan.rank for plan in plans] == list(range(1, len(plans) + 1))
    found = {"items": pages(api, f"/v1/studies/{study}/rejections"), "next_cursor": None}
    rejections = Listing[Rejection].model_validate(found).items
    assert result.counts.enumerated == result.counts.legal + sum(rejection.count for rejection in rejections)
    assert api.get(f"/v1/studies/{study}/trials").json() == {"items": [], "next_cursor": None}
    launch = api.get(f"/v1/studies/{study}/plans/{plans[0].plan_id}/launch").json()
    assert launch["plan_id"] == plans[0].plan_id
    assert launch["launchable_on"] == plans[0].launchable_on


def test_a_search_that_names_no_target_is_for_the_usual_framework_and_stands_beside_physics(
    api: TestClient, job: dict[str, Any], finish: Finish
) -> None:
    study = StudyDocument.model_validate(created(api, job))
    target = study.job["software"]["target"]
    assert target.startswith("mindspeed-llm@")
    assert any(sentence.startswith(f"software.target = {target} (usual") for sentence in study.assumptions)
    finish(study.id)
    document = StudyDocument.model_validate(api.get(f"/v1/studies/{study.id}").json())
    result = StudyResult.model_validate(document.result)
    assert result.physics_best is not None
    assert result.physics_best.proved_best
    assert result.nearest_launchable == []
    plans = [Plan.model_validate(item) for item in pages(api, f"/v1/studies/{study.id}/plans")]
    assert all(target in plan.launchable_on for plan in plans)


def test_a_search_of_physics_alone_prices_what_frameworks_take(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    study = created(api, {**job, "software": {"target": "any"}})
    finish(study["id"])
    result = StudyResult.model_validate(api.get(f"/v1/studies/{study['id']}").json()["result"])
    assert result.physics_best is None
    found = {nearest.target.partition("@")[0]: nearest for nearest in result.nearest_launchable}
    assert set(found) == {"mindspeed-llm", "mindformers", "mindspeed-llm-fsdp2"}
    assert found["mindspeed-llm-fsdp2"].strategy is None  # tp has no ranks there


def test_a_study_says_which_plans_tie_and_what_the_proof_is_about(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    study = created(api, job)
    finish(study["id"])
    result = StudyResult.model_validate(api.get(f"/v1/studies/{study['id']}").json()["result"])
    plans = api.get(f"/v1/studies/{study['id']}/plans").json()["items"]
    assert result.paired_error is not None
    assert result.paired_error.num_groups > 0
    assert [plan["rank_group"] for plan in plans] == sorted(plan["rank_group"] for plan in plans)
    assert [plan["plan_id"] for plan in plans if plan["fastest"]] == [result.proof.plan_id]


def test_a_ranking_is_the_plans_with_fewer_fields(api: TestClient, refused: Refused, job: dict[str, Any], finish: Finish) -> None:
    study = created(api, job)["id"]
    assert api.get(f"/v1/studies/{study}/ranking").json() == {"items": [], "next_cursor": None}
    finish(study)
    plans = api.get(f"/v1/studies/{study}/plans").json()["items"]
    ranking = api.get(f"/v1/studies/{study}/ranking?limit=1000").json()["items"]
    assert ranking == pages(api, f"/v1/studies/{study}/ranking")
    for plan, ranked in zip(plans, ranking, strict=True):
        RankedPlan.model_validate(ranked)
        assert ranked["strategy"] == plan["strategy"]
        assert [ranked[name] for name in ("rank_group", "fastest")] == [plan[name] for name in ("rank_group", "fastest")]
        assert ranked["estimate"].items() <= plan["estimate"].items()
        assert all(few.items() < whole.items() for few, whole in zip(ranked["variants"], plan["variants"], strict=True))
    assert any(ranked["variants"] for ranked in ranking)
    assert len(str(ranking)) < len(str(plans)) / 3
    refused(api.get(f"/v1/studies/{study}/ranking?limit=1001"), 422, "invalid-input")


def pages(api: TestClient, path: str) -> list[dict[str, Any]]:
    """All items, one a page."""
    items, cursor = [], ""
    while True:
        page = api.get(f"{path}?limit=1{cursor}").json()
        assert len(page["items"]) <= 1
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = f"&cursor={page['next_cursor']}"


def test_a_sampled_study_shows_its_trials(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    search = {**job["search"], "sampler": "random", "max_trials": 20, "seed": 3}
    study = created(api, {**job, "search": search})["id"]
    finish(study)
    trials = [Trial.model_validate(item) for item in pages(api, f"/v1/studies/{study}/trials")]
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert trials
    best = [trial.best_value for trial in trials if trial.best_value is not None]
    assert best == sorted(best, reverse=True)


def test_without_a_feasible_plan_a_study_is_completed_and_says_what_would_do(
    api: TestClient, job: dict[str, Any], finish: Finish
) -> None:
    study = created(api, {**job, "model": "llama-2-70b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 1}})["id"]
    finish(study)
    document = api.get(f"/v1/studies/{study}").json()
    assert document["state"] == "completed"
    assert document["result"]["nearest"]
    assert api.get(f"/v1/studies/{study}/plans").json() == {"items": [], "next_cursor": None}


def test_waiting_answers_at_once_where_the_result_is_there(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    key = {"Idempotency-Key": "waited"}
    study = created(api, job, **key)["id"]
    finish(study)
    response = api.post("/v1/studies", json=job, headers={**key, "Prefer": "respond-async, wait=10"})
    assert response.status_code == 200
    assert response.headers["preference-applied"] == "wait=10"
    document = FinishedStudyDocument.model_validate(response.json())
    assert (document.id, document.state) == (study, "completed")
    assert document.plans


@pytest.mark.parametrize("prefer", ["wait=0", "respond-async", "wait=soon", "waiting=5"])
def test_waiting_that_is_not_asked_for_is_not_done(api: TestClient, job: dict[str, Any], prefer: str) -> None:
    response = api.post("/v1/studies", json=job, headers={"Prefer": prefer})
    assert response.status_code == 202
    assert response.headers.get("preference-applied") == ("wait=0" if prefer == "wait=0" else None)


def events_of(text: str) -> list[dict[str, str]]:
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def test_events_stream_until_the_study_has_finished_and_resume(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    study = created(api, job)["id"]
    finish(study)
    response = api.get(f"/v1/studies/{study}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    assert {event["event"] for event in events} <= {"state", "progress"}
    assert json.loads(events[-1]["data"])["state"] == "completed"
    later = api.get(f"/v1/studies/{study}/events", headers={"Last-Event-ID": events[0]["id"]})
    assert events_of(later.text) == events[1:]


@pytest.mark.parametrize("value", ["-1", "abc", "9" * 30])
def test_a_bad_last_event_id_is_422(api: TestClient, refused: Refused, job: dict[str, Any], value: str) -> None:
    study = created(api, job)["id"]
    response = api.get(f"/v1/studies/{study}/events", headers={"Last-Event-ID": value})
    assert refused(response, 422, "invalid-input")["parameter"].lower() == "last-event-id"
