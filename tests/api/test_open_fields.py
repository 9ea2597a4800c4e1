"""Studies, sweeps and plans by tensor warn of what their job leaves open, and are as wide, as the command line's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers.memory_plan import memory_plan_document
from app.answers.price import estimate_document
from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.jobs.job import parse_job
from app.storage.session import Database
from app.studies import queue
from app.studies.runner import StudyRun
from app.sweeps.points import Source
from app.sweeps.service import sweep_document
from app.text.json_documents import plain

CLUSTER = {"hardware": "h100-sxm-80gb", "num_devices": 16}
FINE_TUNE = {
    "model": "llama-3.1-8b",
    "cluster": CLUSTER,
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "task": "sft"},
    "software": {"target": "megatron-lm@0.19"},
    "search": {"tp": 2, "pp": 1, "cp": 1, "micro_batch_size": 1, "recompute": ["none"], "top": 1, "forbid": ["mc2"]},
}
EIGHT_BITS = {
    "model": "qwen3-8b",
    "cluster": CLUSTER,
    "training": {"seq_length": 8192, "global_batch_size": 128, "precision": "fp8"},
    "software": {"target": "any"},
    "search": {"tp": 2, "pp": 1, "micro_batch_size": 2, "top": 1},
}


@pytest.mark.parametrize(("job", "words"), [(FINE_TUNE, "their lengths are not known"), (EIGHT_BITS, "fp8_recipe is not stated")])
def test_a_study_warns_as_the_command_line_does(
    api: TestClient, finish: Callable[[str], None], job: dict[str, Any], words: str
) -> None:
    name = api.post("/v1/studies", json=job).json()["id"]
    finish(name)
    found, here = api.get(f"/v1/studies/{name}").json()["warnings"], search_document(with_usual_target(parse_job(job)))
    assert found == here.warnings
    assert any(words in sentence for sentence in found)
    (plan,) = api.get(f"/v1/studies/{name}/plans").json()["items"]
    assert plan["estimate"]["step_time_low_s"] == pytest.approx(here.plans[0].estimate.step_time_low_s)


def test_a_study_that_is_cancelled_and_resumed_says_its_doubts_once(api: TestClient, database: Database) -> None:
    name = api.post("/v1/studies", json=FINE_TUNE).json()["id"]
    for is_cancelled in (True, True, False):
        with database.write() as session:
            lease = queue.claim(session, "test", 10.0)
        assert lease is not None
        if is_cancelled:
            api.post(f"/v1/studies/{name}:cancel")
        StudyRun(database, lease, checkpoint_s=0.05, should_stop=lambda: False).run()
        if is_cancelled:
            assert api.post(f"/v1/studies/{name}:resume").json()["state"] == "queued"
    document = api.get(f"/v1/studies/{name}").json()
    assert document["state"] == "completed"
    assert document["warnings"] == search_document(with_usual_target(parse_job(FINE_TUNE))).warnings


def test_a_study_without_doubts_keeps_its_warnings_when_resumed(api: TestClient, database: Database) -> None:
    job = {**FINE_TUNE, "training": {**FINE_TUNE["training"], "task": "pretrain"}, "software": {"target": "any", "year": 2020}}
    created = api.post("/v1/studies", json=job).json()
    with database.write() as session:
        lease = queue.claim(session, "test", 10.0)
    assert lease is not None
    api.post(f"/v1/studies/{created['id']}:cancel")
    StudyRun(database, lease, checkpoint_s=0.05, should_stop=lambda: False).run()
    assert created["warnings"]
    assert api.post(f"/v1/studies/{created['id']}:resume").json()["warnings"] == created["warnings"]


def test_a_point_of_a_sweep_is_as_wide_as_the_estimate_of_its_plan() -> None:
    job = {**EIGHT_BITS, "cluster": {**CLUSTER, "num_devices": 16}}
    swept = sweep_document(Source({**job, "sweep": {"devices": [16]}}))
    (point,) = swept.points
    assert point.strategy is not None
    planned = parse_job({**{name: part for name, part in job.items() if name != "search"}, "strategy": plain(point.strategy)})
    assert planned.strategy is not None
    priced = estimate_document(planned, planned.strategy).estimate
    for name in ("step_time_s", "step_time_low_s", "step_time_high_s", "fits_probability", "fit_limit_bytes"):
        assert getattr(point, name) == pytest.approx(getattr(priced, name), rel=1e-9), name
    doubted = [sentence for sentence in swept.warnings if "fp8_recipe is not stated" in sentence]
    assert not priced.fits
    assert [sentence.endswith("the best plans of these points do not fit: 1.") for sentence in doubted] == [True]


def low_of_memory_plan(job: dict[str, Any], **stated: Any) -> float:
    """The lower end of the interval of the first plan by tensor, over its step time."""
    made = {**job, "training": {**job["training"], **stated}, "strategy": {"tp": 2, "zero_stage": 1}}
    read = parse_job(made)
    assert read.strategy is not None
    found = next(each.estimate for each in memory_plan_document(read, read.strategy).micro_batches if each.estimate is not None)
    return float(found.step_time_low_s / found.step_time_s)


@pytest.mark.parametrize(
    ("job", "field", "values"),
    [(FINE_TUNE, "mean_squared_length_fraction", [1.0]), (EIGHT_BITS, "fp8_recipe", ["tensorwise", "delayed"])],
)
def test_a_plan_by_tensor_reaches_as_low_as_any_statement(job: dict[str, Any], field: str, values: list[Any]) -> None:
    opened, stated = low_of_memory_plan(job), [low_of_memory_plan(job, **{field: value}) for value in values]
    assert opened < 0.99 * min(stated)
