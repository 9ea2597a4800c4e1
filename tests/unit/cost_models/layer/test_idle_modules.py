"""Recompute modules that change nothing: those that are named so, and no others, keep every price as it is."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.price import estimate_document
from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.jobs.job import Job, parse_job
from cost_models.layer.idle_modules import idle_modules
from cost_models.shapes.recompute_modules import present_modules
from documents.errors import InputError
from search.space.search_space import search_space

DENSE, SPARSE, LATENT, ONE_BLOCK = "qwen3-8b", "qwen3-30b-a3b", "deepseek-v2-lite", "nemotron-h-8b"


def job(model: str, hardware: str, **strategy: Any) -> Job:
    return parse_job(
        {
            "model": model,
            "cluster": {"hardware": hardware, "num_devices": 8},
            "training": {"seq_length": 4096, "global_batch_size": 64},
            "strategy": {"tp": 2, **strategy},
        }
    )


def price(model: str, hardware: str, **strategy: Any) -> tuple[float, float]:
    given = job(model, hardware, **strategy)
    assert given.strategy is not None
    numbers = estimate_document(given, given.strategy, explained=()).estimate
    return numbers.step_time_s, numbers.peak_memory_bytes


@pytest.mark.parametrize("switches", [{}, {"fused_norm": False}])
@pytest.mark.parametrize("hardware", ["h100-sxm-80gb", "atlas-800t-a2"])
@pytest.mark.parametrize("model", [DENSE, SPARSE, LATENT, ONE_BLOCK])
def test_a_module_is_idle_where_it_keeps_the_price(model: str, hardware: str, switches: dict[str, bool]) -> None:
    workload, strategy = job(model, hardware, switches=switches).workload, job(model, hardware, switches=switches).strategy
    assert strategy is not None
    idle = idle_modules(workload, strategy.features)
    plain = price(model, hardware, switches=switches)
    for module in present_modules(workload.model):
        name = str(module.name).lower()
        try:
            again = price(model, hardware, switches=switches, recompute=name)
        except InputError:  # a rule refuses it
            continue
        assert (again == plain) == (module in idle), name


def test_a_module_without_effect_is_named_and_no_search_tries_it() -> None:
    (said,) = (each for each in job(DENSE, "h100-sxm-80gb", recompute="layernorm+mlp").warnings if "recompute" in each)
    assert said == (
        "strategy.recompute: layernorm has no effect: stack megatron-lm does not compute it again in layers of this model."
    )
    assert not any("recompute" in each for each in job(DENSE, "atlas-800t-a2", recompute="layernorm+mlp").warnings)
    for hardware, tried in (("h100-sxm-80gb", ["mlp"]), ("atlas-800t-a2", ["layernorm+mlp_act", "layernorm+mlp"])):
        given = job(DENSE, hardware)
        modes = search_space(given.workload, given.limits).recompute
        assert [mode.name for mode in modes if mode.modules] == tried


@pytest.mark.parametrize("hardware", ["h100-sxm-80gb", "atlas-800t-a2"])
@pytest.mark.parametrize("given", [{"recompute": ["layernorm", "none", "layernorm+mlp"]}, {"allow": ["layernorm"]}])
def test_a_listed_module_without_effect_is_named_and_stands_in_no_plan(hardware: str, given: dict[str, list[str]]) -> None:
    asked = {**job(DENSE, hardware).document, "search": {"tp": 2, "pp": 1, "micro_batch_size": 1, **given}}
    found = search_document(with_usual_target(parse_job({name: part for name, part in asked.items() if name != "strategy"})))
    modes = search_space(parse_job(asked).workload, parse_job(asked).limits).recompute
    names = [mode.name for mode in modes]
    (field,) = given
    said = f"search.{field}: layernorm has no effect: stack megatron-lm does not compute it again in layers of this model."
    is_idle = hardware == "h100-sxm-80gb"
    assert (said in found.warnings) == is_idle
    assert any("layernorm" in name.split("+") for name in names) != is_idle
    assert len(names) == len(set(names))
    if is_idle:
        assert not any("layernorm" in str(plan.strategy) for plan in found.plans)
    if is_idle and field == "recompute":
        assert names == ["none", "mlp"]


def test_a_module_is_tried_where_a_switch_may_give_it_effect() -> None:
    given = job(DENSE, "h100-sxm-80gb").document | {"search": {"recompute": ["layernorm"], "fused_norm": [False, True]}}
    asked = parse_job({name: part for name, part in given.items() if name != "strategy"})
    assert [mode.name for mode in search_space(asked.workload, asked.limits).recompute] == ["layernorm"]


def test_a_module_that_other_recompute_covers_is_named() -> None:
    covered = {"granularity": "full", "layers_per_stage": [18, 18], "modules": ["layernorm"]}
    for model, recompute, name in ((DENSE, covered, "layernorm"), (SPARSE, "moe+mlp_act", "mlp_act")):
        given = job(model, "atlas-800t-a2", pp=2, recompute=recompute)
        assert f"strategy.recompute: {name} has no effect: other recompute covers it." in given.warnings
    partly = {**covered, "layers_per_stage": [18, 17]}
    assert not any("recompute" in each for each in job(DENSE, "atlas-800t-a2", pp=2, recompute=partly).warnings)
