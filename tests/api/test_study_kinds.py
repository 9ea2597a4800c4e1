"""Studies of every kind but a search, over REST: what holds for searches holds for them."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.rl.schemas import RlStudyResult
from app.studies.schemas import ListedStudy, StudyDocument
from app.sweeps.schemas import SweepDocument
from tests.api.conftest import JOB
from tests.api.test_rl_requests import JOB as RL_JOB
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]
Finish = Callable[[str], None]
SWEEP = {**JOB, "sweep": {"devices": [8, 16], "hardware": ["atlas-800t-a2", "h100-sxm-80gb"]}}
RL = {**RL_JOB, "rollout": {"tp": 1}}
PATHS = {"search": "/v1/studies", "sweep": "/v1/sweeps/studies", "rl": "/v1/rl/studies"}
BODIES = {"search": JOB, "sweep": SWEEP, "rl": RL}
AT_ONCE = {"sweep": "/v1/sweeps", "rl": "/v1/rl/searches"}
OTHERS = pytest.mark.parametrize("name", AT_ONCE)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def created(api: TestClient, name: str, **headers: str) -> dict[str, Any]:
    response = api.post(PATHS[name], json=BODIES[name], headers=headers)
    assert response.status_code == 202, response.text
    study: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/studies/{study['id']}"
    return study


@OTHERS
def test_a_study_is_followed_and_answers_as_the_request_at_once(api: TestClient, name: str, finish: Finish) -> None:
    study = StudyDocument.model_validate(created(api, name))
    assert (study.kind, study.state, study.result) == (name, "queued", None)
    assert study.job == BODIES[name]
    path = f"/v1/studies/{study.id}"
    finish(study.id)
    found = api.get(path)
    assert (found.json()["state"], found.json()["error"]) == ("completed", None)
    answered, expected = found.json()["result"], api.post(AT_ONCE[name], json=BODIES[name]).json()
    untimed = {"elapsed_s": 0} if name == "sweep" else {}
    assert {**answered, **untimed} == {**expected, **untimed, **({"why_none": None} if name == "rl" else {})}
    assert {"sweep": SweepDocument, "rl": RlStudyResult}[name].model_validate(answered)
    assert api.get(path, headers={"If-None-Match": found.headers["etag"]}).status_code == 304
    assert [line for line in api.get(f"{path}/events").text.splitlines() if line.startswith("event")] == ["event: state"] * 3
    for part in ("plans", "ranking", "trials", "rejections"):
        assert api.get(f"{path}/{part}").json()["items"] == [], part
    points = api.get(f"{path}/points").json()["items"]
    assert [point["point"] for point in points] == ([1, 2, 3, 4] if name == "sweep" else [])
    assert api.delete(path).status_code == 204


def test_lists_say_what_each_study_is_and_are_filtered_by_it(api: TestClient) -> None:
    ids = {name: created(api, name)["id"] for name in PATHS}
    items = [ListedStudy.model_validate(item) for item in api.get("/v1/studies").json()["items"]]
    assert {item.kind: item.id for item in items} == ids
    assert [(item.best, item.proved_best) for item in items] == [(None, None)] * 3
    for name, study in ids.items():
        assert [item["id"] for item in api.get(f"/v1/studies?kind={name}").json()["items"]] == [study]
    assert [item["id"] for item in api.get("/v1/studies?hardware=h100-sxm-80gb").json()["items"]] == [ids["sweep"]]
    assert [item["id"] for item in api.get("/v1/studies?hardware=atlas-800t-a2&kind=sweep").json()["items"]] == [ids["sweep"]]
    assert api.get("/v1/studies?hardware=h100").json()["items"] == []
    swept = next(item for item in items if item.kind == "sweep")
    assert (swept.hardware, swept.num_devices) == ("atlas-800t-a2, h100-sxm-80gb", 16)


def test_an_unknown_kind_is_refused(api: TestClient, refused: Refused) -> None:
    assert refused(api.get("/v1/studies?kind=dream"), 422, "invalid-input")["parameter"] == "kind"


@OTHERS
def test_a_repeated_request_is_carried_out_once(api: TestClient, refused: Refused, name: str) -> None:
    first = created(api, name, **{"Idempotency-Key": "one"})
    assert created(api, name, **{"Idempotency-Key": "one"}) == first
    assert len(api.get("/v1/studies").json()["items"]) == 1
    other = api.post(PATHS["search"], json=BODIES[name], headers={"Idempotency-Key": "one"})
    refused(other, 422, "key-reused")  # the same body asks another thing there


@OTHERS
def test_a_waiting_request_ends_in_time(api: TestClient, name: str) -> None:
    response = api.post(PATHS[name], json=BODIES[name], headers={"Prefer": "wait=0"})
    assert (response.status_code, response.headers["preference-applied"]) == (202, "wait=0")


@OTHERS
def test_a_study_is_cancelled_resumed_and_changed(api: TestClient, refused: Refused, name: str, finish: Finish) -> None:
    path = f"/v1/studies/{created(api, name)['id']}"
    assert api.post(f"{path}:cancel").json()["state"] == "cancelled"
    assert api.post(f"{path}:resume").json()["state"] == "queued"
    assert api.patch(path, json={"priority": 3}).json()["priority"] == 3
    finish(path.rpartition("/")[2])
    refused(api.post(f"{path}:resume"), 409, "conflict")


@OTHERS
def test_a_report_is_refused_with_the_way_to_the_answer(api: TestClient, refused: Refused, name: str) -> None:
    study = created(api, name)["id"]
    problem = refused(api.get(f"/v1/studies/{study}/report"), 409, "conflict")
    assert "reports are of searches" in problem["detail"]


@pytest.mark.parametrize(
    ("name", "changes", "pointer"),
    [
        ("sweep", {"sweep": {"devices": 0}}, "#/sweep/devices"),
        ("sweep", {"sweep": {"devices": list(range(1, 200)), "seq_length": list(range(1, 101))}}, "#/sweep"),
        ("sweep", {"sweep": {"hardware": "/etc/passwd"}}, None),
        ("sweep", {"search": {"sampler": "random"}}, "#/search/sampler"),
        ("sweep", {"search": {"by_tensor": True}}, "#/search/by_tensor"),
        ("sweep", {"software": {"calibration": "0123456789abcdef"}}, "#/software/calibration"),
        ("rl", {"post_training": None}, "#/post_training"),
        ("rl", {"rollout": {"precision": "fp8"}}, "#/rollout/precision"),
        ("rl", {"post_training": {**RL["post_training"], "time_limit_s": 0}}, "#/post_training/time_limit_s"),
    ],
)
def test_bad_requests_are_refused_and_leave_nothing(
    api: TestClient, refused: Refused, name: str, changes: dict[str, Any], pointer: str | None
) -> None:
    response = api.post(PATHS[name], json={**BODIES[name], **changes})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer
    assert api.get("/v1/studies").json()["items"] == []


def test_a_sweep_of_more_points_than_are_answered_at_once_is_taken(api: TestClient) -> None:
    many = {**JOB, "sweep": {"devices": list(range(8, 8 * 70, 8))}}
    assert api.post("/v1/sweeps", json=many).status_code == 422
    study = api.post("/v1/sweeps/studies", json=many).json()
    assert (study["state"], study["num_devices"]) == ("queued", 8 * 69)
