"""Every command takes the plan that a search recommends."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.schemas import SearchDocument
from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.checks.budget import Budget
from app.checks.check import check_job
from app.jobs.job import parse_job
from app.plans.explained import explain_document
from app.text.json_documents import plain

LIMITS = {"cp": 1, "vpp": {"max": 2}, "recompute": ["none", "full"], "micro_batch_size": [1, 2]}
JOBS: dict[str, dict[str, Any]] = {
    "dense on Ascend, no target": {
        "model": "llama-2-7b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64},
        "search": LIMITS,
    },
    "dense on GPUs, no target": {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
        "training": {"seq_length": 8192, "global_batch_size": 64},
        "search": LIMITS,
    },
    "dense, physics alone, five plans": {
        "model": "qwen3-8b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
        "training": {"seq_length": 4096, "global_batch_size": 128},
        "software": {"target": "any"},
        "search": {**LIMITS, "top": 5},
    },
    "experts": {
        "model": "deepseek-v2-lite",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
        "training": {"seq_length": 4096, "global_batch_size": 128},
        "search": {**LIMITS, "tp": 1, "recompute": "full"},
    },
}


@pytest.mark.parametrize("name", ["dense, physics alone, five plans", "experts"])
def test_a_short_list_begins_as_a_long_one_does(name: str) -> None:
    shown = [
        [
            plan.plan_id
            for plan in search_document(parse_job({**JOBS[name], "search": {**JOBS[name]["search"], "top": top}})).plans
        ]
        for top in (20, 3, 1)
    ]
    assert shown[1:] == [shown[0][:3], shown[0][:1]]


def recommended(document: SearchDocument) -> dict[str, Any]:
    assert document.recommended is not None
    (plan,) = [plan for plan in document.plans if plan.plan_id == document.recommended.plan_id]
    beaten_by = [
        other.rank
        for other in document.plans
        if (other.launchable_on or not plan.launchable_on)
        and other.estimate.step_time_s <= plan.estimate.step_time_s
        and other.estimate.peak_memory_bytes < plan.estimate.peak_memory_bytes
        and other.estimate.fits_probability >= plan.estimate.fits_probability
    ]
    assert beaten_by == []
    return dict(plain(plan.strategy))


@pytest.mark.parametrize("name", JOBS)
def test_search_explain_and_check_have_one_best(name: str) -> None:
    job = parse_job(JOBS[name])
    best = recommended(search_document(with_usual_target(job)))
    assert plain(explain_document(job).strategy) == best
    assert plain(check_job(job, Budget()).document.strategy) == best
