"""An explained plan and the plan beside it: one recipe, and no plan beside one that may not be offered."""

from __future__ import annotations

import io
from typing import Any

import pytest

from app.answers.price import estimate_document
from app.checks.budget import Bounds, Budget
from app.checks.check import check_job
from app.checks.metrics import SLOWDOWN
from app.jobs.job import parse_job
from app.plans.explained import explain_document
from app.plans.schemas import ExplainDocument
from app.plans.tables import print_explained
from app.text.terminal import plain_text

IN_FP8: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8},
    "training": {"seq_length": 8192, "global_batch_size": 64, "precision": "fp8"},
    "strategy": {"tp": 2},
    "search": {"tp": 2, "pp": 1, "cp": 1, "micro_batch_size": 1, "recompute": "none", "tp_comm_overlap": [False, True]},
}
PACKED: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"task": "sft", "seq_length": 4096, "global_batch_size": 64, "mean_squared_length_fraction": 0.5},
    "strategy": {"tp": 8},
    "software": {"target": "mindformers"},
}


def explained(job: dict[str, Any], **training: Any) -> ExplainDocument:
    return explain_document(parse_job({**job, "training": {**job["training"], **training}}))


def test_a_plan_without_a_recipe_is_compared_with_the_recipe_of_the_search() -> None:
    unstated, stated = explained(IN_FP8), explained(IN_FP8, fp8_recipe="delayed")
    for found in (unstated, stated):
        assert found.job["training"]["fp8_recipe"] == "delayed"
    assert unstated.other is not None
    assert stated.other is not None
    assert unstated.other.strategy == stated.other.strategy
    assert unstated.estimate.step_time_s == stated.estimate.step_time_s
    assert unstated.other.difference_fraction == stated.other.difference_fraction
    # The one change between the two is also priced by itself.
    switched = next(each for each in unstated.changes if each.change == "tp_comm_overlap off -> on")
    assert unstated.other.difference_fraction == pytest.approx(switched.delta_fraction, rel=1e-6)
    assert "training.fp8_recipe = delayed (default of megatron-lm@0.12 launch files)" in " ".join(unstated.assumptions)


def test_a_recipe_stays_open_where_the_search_states_none() -> None:
    found = explained(IN_FP8 | {"software": {"target": "any"}})
    assert found.job["training"]["fp8_recipe"] is None
    assert found.other is not None
    switched = next(each for each in found.changes if each.change == "tp_comm_overlap off -> on")
    assert found.other.difference_fraction == pytest.approx(switched.delta_fraction, rel=1e-6)


def test_a_check_compares_its_strategy_with_plans_of_the_same_recipe() -> None:
    job = parse_job(IN_FP8)
    document = check_job(job, Budget({SLOWDOWN: Bounds(max=0.01)})).document
    faster = parse_job({**IN_FP8, "strategy": {"tp": 2, "switches": {"tp_comm_overlap": True}}})
    assert faster.strategy is not None
    beside = estimate_document(faster, faster.strategy, simulated=True, replayed=False).estimate
    assert document.search is not None
    assert document.search.best is not None
    assert document.search.best.estimate.step_time_s == pytest.approx(beside.step_time_s)


def test_nothing_stands_beside_a_plan_that_no_search_may_offer() -> None:
    found = explained(PACKED)
    assert any("PackingHandler" in each for each in found.warnings)
    assert (found.other, found.proved_best, found.searched_target) == (None, False, None)
    printed = io.StringIO()
    print_explained(plain_text(printed, 200), found, ())
    labels = [line.split("  ")[0] for line in printed.getvalue().splitlines()]
    assert "Step" in labels
    assert not {"Beside", "Proof"} & set(labels)
    padded = explained({**PACKED, "search": {"tp": 8, "pp": 1, "cp": 1}}, mean_squared_length_fraction=1.0)
    assert padded.searched_target == "mindformers@1.8"


def test_the_first_lines_say_which_tiers_join_copies_of_shards() -> None:
    job = {
        "model": "qwen3-1.7b",
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
        "training": {"seq_length": 4096, "global_batch_size": 16},
        "strategy": {"dp": 16, "zero_stage": 2, "optimizer_shard_size": 8},
        "software": {"target": "torchtitan"},
        "search": {"tp": 1, "pp": 1, "cp": 1, "micro_batch_size": 1, "recompute": "none"},
    }
    out = io.StringIO()
    print_explained(plain_text(out, 200), explain_document(parse_job(job)), ())
    assert "\nShards    8 ranks share a copy through nvlink, and 2 copies are added through infiniband.\n" in out.getvalue()
