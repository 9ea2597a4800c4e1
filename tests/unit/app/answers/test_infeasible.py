"""What a user is told whose job has no plan: every change that is offered gives a job that has one."""

from __future__ import annotations

import json
from copy import deepcopy
from io import StringIO
from typing import Any

import pytest

from app.answers.schemas import SearchDocument
from app.answers.search import search_document
from app.answers.tables.search import print_search
from app.jobs.job import parse_job
from app.text.json_documents import plain
from app.text.terminal import plain_text

SMALL = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}, "training": {"global_batch_size": 32}}
LIGHT = {"vpp": 1, "cp": 1, "top": 1}


def job(**parts: dict[str, Any]) -> dict[str, Any]:
    document = deepcopy(SMALL)
    document["software"] = {"target": "any"}
    document["search"] = dict(LIGHT)
    for name, part in parts.items():
        document[name] = {**document.get(name, {}), **part}
    return document


CASES = {
    "too little memory": (
        {**job(cluster={"num_devices": 2}), "model": "llama-2-70b"},
        {"cluster.num_devices"},
        "GiB too much",
    ),
    "a sequence too long": (
        job(training={"seq_length": 524_288}, search={"tp": 1, "pp": 1}),
        {"training.seq_length"},
        "GiB too much",
    ),
    "limits": (
        {**job(search={"tp": 1, "pp": 2, "recompute": "none", "micro_batch_size": 4}), "model": "llama-2-13b"},
        {"search.recompute", "search.tp"},
        "GiB too much",
    ),
    "headroom": (job(search={"tp": 8, "pp": 1, "min_headroom": "60GiB"}), {"search.min_headroom"}, "GiB too much"),
    "a batch that nothing divides": (
        job(training={"global_batch_size": 27}, search={"tp": 1, "pp": 1}),
        {"search.pp", "training.global_batch_size"},
        "does not divide global_batch_size 27",
    ),
    "a degree that divides nothing": (job(search={"tp": 3}), {"search.tp"}, "tp 3"),
    "a count that nothing fills": (
        job(cluster={"num_devices": 37}),
        {"cluster.num_devices"},
        "37",
    ),
    "a target that refuses": (
        {
            **job(search={"tp": 2, "ep": 2}, software={"target": "mindspeed-llm"}),
            "model": "deepseek-v2-lite",
        },
        {"software.target", "search.tp"},
        "compressed queries",
    ),
}


def searched(document: dict[str, Any]) -> SearchDocument:
    return search_document(parse_job(document))


@pytest.mark.parametrize("name", CASES)
def test_every_change_that_is_offered_gives_a_job_with_a_plan(name: str) -> None:
    document, expected, why = CASES[name]
    found = searched(document)
    assert not found.plans
    assert found.nearest is not None
    assert why in found.nearest
    assert found.infeasible is not None
    changes = found.infeasible.changes
    assert expected <= {field for change in changes for field in change.fields}
    assert (found.infeasible.missing_bytes is None) == ("GiB too much" not in why)
    assert bool(found.infeasible.rules) == (found.infeasible.leanest is None)
    for change in changes:
        assert change.change in found.nearest
        assert change.estimate.fits
        assert searched(changed(document, change.fields)).plans


def changed(document: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(document)
    for path, value in fields.items():
        section, name = path.split(".")
        if value is None:
            found[section].pop(name)
        else:
            found[section][name] = value
    return found


def test_limits_that_only_together_leave_nothing_are_dropped_together() -> None:
    found = searched(job(search={"tp": 3, "pp": 5}))
    assert found.infeasible is not None
    (change,) = found.infeasible.changes
    assert change.change.endswith("no limits on the search")
    assert {"search.tp", "search.pp"} <= change.fields.keys()
    assert searched(changed(job(search={"tp": 3, "pp": 5}), change.fields)).plans


def test_a_job_that_nothing_near_helps_is_told_so() -> None:
    found = searched({**job(cluster={"num_devices": 1}, training={"global_batch_size": 1}), "model": "pangu-ultra-moe-718b"})
    assert found.infeasible is not None
    assert not found.infeasible.changes
    assert found.nearest is not None
    assert found.nearest.endswith("No single change was found that makes one fit, up to 64 times as many devices.")


def test_a_search_with_a_plan_tells_no_such_story() -> None:
    found = searched(job())
    assert found.plans
    assert found.infeasible is None


def test_the_table_shows_the_nearest_jobs() -> None:
    found = searched(CASES["a batch that nothing divides"][0])
    json.dumps(plain(found), allow_nan=False)
    printed = StringIO()
    print_search(plain_text(printed, 120), found)
    text = printed.getvalue()
    assert "the nearest jobs that have a plan" in text
    assert "global_batch_size 24" in text
