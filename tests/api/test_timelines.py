"""The timeline of a stored plan over REST."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.plans.schemas import PlanTimeline
from cost_models.simulation import timeline as module

Refused = Callable[..., dict[str, Any]]
Finish = Callable[[str], None]


@pytest.fixture
def plan(api: TestClient, job: dict[str, Any], finish: Finish) -> str:
    """The path of the best plan of a finished study."""
    search = {"tp": 2, "pp": 2, "vpp": 2, "cp": 1, "recompute": ["full"], "zero_stage": 1, "micro_batch_size": 1}
    study_id = str(api.post("/v1/studies", json={**job, "search": search}).json()["id"])
    finish(study_id)
    best = api.get(f"/v1/studies/{study_id}/plans").json()["items"][0]
    return f"/v1/studies/{study_id}/plans/{best['plan_id']}"


def test_a_timeline_is_columns_that_do_not_overlap_and_end_with_the_step(api: TestClient, plan: str) -> None:
    response = api.get(f"{plan}/timeline")
    assert response.status_code == 200, response.text
    shown = PlanTimeline.model_validate(response.json())
    assert shown.num_ranks == len(shown.bubble_s) == 2
    tasks = shown.tasks
    assert max(tasks.end_s) == pytest.approx(shown.step_time_s, rel=1e-9)
    rows = sorted(
        zip(tasks.rank, tasks.stream, tasks.start_s, tasks.end_s, tasks.kind, tasks.chunk, tasks.micro_batch, strict=True)
    )
    for before, after in pairwise(rows):
        assert before[:2] != after[:2] or before[3] <= after[2]
    # 64 sequences over dp 2: 32 micro batches through 2 ranks of 2 chunks
    forwards = {(row[0], row[5], row[6]) for row in rows if shown.kinds[row[4]] == "forward"}
    assert forwards == {(rank, chunk, number) for rank in range(2) for chunk in range(2) for number in range(32)}
    assert {shown.streams[row[1]] for row in rows} == {"compute", "p2p", "data_parallel", "optimizer"}


def test_memory_is_there_for_every_rank_and_peaks_as_the_plan_says(api: TestClient, plan: str) -> None:
    shown = api.get(f"{plan}/timeline").json()
    memory, analysis = shown["memory"], api.get(f"{plan}/analysis").json()
    assert memory["rank"] == [0, 1]
    for times_s, sizes in zip(memory["time_s"], memory["bytes"], strict=True):
        assert len(times_s) == len(sizes)
        assert times_s == sorted(times_s)
        assert 0 <= times_s[0] <= times_s[-1] <= shown["step_time_s"]
    beside = ("communicators", "runtime", "allocator_pool")
    for stage, sizes in zip(analysis["stages"], memory["bytes"], strict=True):
        allocated = sum(size for name, size in stage["memory_bytes"].items() if name not in beside)
        assert max(sizes) == pytest.approx(allocated, rel=1e-9)


def test_a_client_that_has_the_timeline_is_told_so(api: TestClient, plan: str) -> None:
    first = api.get(f"{plan}/timeline")
    again = api.get(f"{plan}/timeline", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = api.get(f"{plan}/timeline?format=chrome", headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200


def test_as_a_trace_it_holds_the_same_bars(api: TestClient, plan: str) -> None:
    shown = api.get(f"{plan}/timeline").json()
    events = [event for event in json.loads(api.get(f"{plan}/timeline?format=chrome").text)["traceEvents"] if event["ph"] == "X"]
    assert len(events) == len(shown["tasks"]["rank"])
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(shown["step_time_s"] * 1e6, rel=1e-12)


def test_an_unknown_form_or_plan_is_refused(api: TestClient, plan: str, refused: Refused) -> None:
    assert refused(api.get(f"{plan}/timeline?format=svg"), 422, "invalid-input")["parameter"] == "format"
    refused(api.get(f"{plan[:-12]}{'0' * 12}/timeline"), 404, "not-found")


def test_a_step_too_long_to_show_is_a_conflict_that_says_why(
    api: TestClient, plan: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TASKS", 100)
    problem = refused(api.get(f"{plan}/timeline"), 409, "conflict")
    assert "pp 2 x vpp 2 x 32 micro batches are 256 tasks, more than the 100" in problem["detail"]
