"""A job in 8 bits that states no recipe, and no target that would: its intervals hold those of every recipe."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers import open_recipe
from app.answers.price import JobPrices, estimate_document
from app.answers.schemas import EstimateNumbers
from app.answers.search import search_document
from app.jobs.job import parse_job
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from documents.errors import InputError

RECIPES = ("delayed", "tensorwise", "blockwise")  # of an H100


def job(strategy: dict[str, Any], **training: Any) -> dict[str, Any]:
    return {
        "model": "qwen3-8b",
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
        "training": {"seq_length": 8192, "global_batch_size": 128, "precision": "fp8", **training},
        "strategy": strategy,
    }


def estimate(strategy: dict[str, Any], **training: Any) -> EstimateNumbers:
    given = parse_job(job(strategy, **training))
    assert given.strategy is not None
    return estimate_document(given, given.strategy).estimate


@pytest.mark.parametrize("strategy", [{"tp": 2, "micro_batch_size": 2}, {"tp": 4, "pp": 2}])
def test_the_intervals_of_an_estimate_hold_every_recipe(strategy: dict[str, Any]) -> None:
    spans, stated = estimate(strategy), [estimate(strategy, fp8_recipe=recipe) for recipe in RECIPES]
    assert spans.fits_probability == pytest.approx(min(each.fits_probability or 0.0 for each in stated))
    assert spans.fits == (spans.peak_memory_bytes <= spans.fit_limit_bytes) == all(each.fits for each in stated)
    for each in stated:
        assert spans.step_time_low_s is not None
        assert spans.step_time_high_s is not None
        assert spans.step_time_low_s <= each.step_time_low_s * (1 + 1e-3)  # type: ignore[operator]
        assert spans.step_time_high_s >= each.step_time_high_s * (1 - 1e-3)  # type: ignore[operator]
        assert spans.peak_memory_low_bytes <= each.peak_memory_low_bytes
        assert spans.peak_memory_high_bytes >= each.peak_memory_high_bytes


def test_a_search_for_no_target_warns_of_plans_that_need_not_fit() -> None:
    given = job({}) | {"software": {"target": "any"}, "search": {"tp": 2, "pp": 1, "micro_batch_size": 2, "top": 1}}
    del given["strategy"]
    warned = [each for each in search_document(parse_job(given)).warnings if "fp8_recipe" in each]
    assert warned == [
        "training.fp8_recipe is not stated (delayed, tensorwise, blockwise): with some of them, these plans do not fit: 1."
    ]
    given["training"]["fp8_recipe"] = "tensorwise"
    assert not any("fp8_recipe" in each for each in search_document(parse_job(given)).warnings)


def test_many_estimates_without_a_recipe_are_priced_together(monkeypatch: pytest.MonkeyPatch) -> None:
    given = parse_job(job({}))
    asked = [parse_job(job({"tp": tp, "pp": pp})) for tp in (2, 4, 8) for pp in (1, 2)]
    calls: list[int] = []
    priced = open_recipe.numbers_of

    def counted(workload: Workload, batch: StrategyBatch, *others: Any) -> Estimate:
        calls.append(len(batch))
        return priced(workload, batch, *others)

    monkeypatch.setattr(open_recipe, "numbers_of", counted)
    found = JobPrices(given).documents([(one, one.strategy) for one in asked if one.strategy is not None], explained=())
    assert calls == [6] * 4  # without a recipe, and with each of three
    probabilities = [each.estimate.fits_probability for each in found if not isinstance(each, InputError)]
    alone = [estimate({"tp": tp, "pp": pp}).fits_probability for tp in (2, 4, 8) for pp in (1, 2)]
    assert probabilities == pytest.approx(alone)
