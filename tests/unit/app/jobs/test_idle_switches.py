"""A switch that is said to be without effect moves no price and is not offered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.price import priced
from app.answers.search import search_document
from app.catalogue.models.presets import model_preset
from app.catalogue.models.shape import model_to_mapping
from app.jobs.job import parse_job
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from frameworks.legality import violations

CLUSTERS = {name: {"hardware": name, "num_devices": 16} for name in ("h100-sxm-80gb", "atlas-800t-a2")}
MODELS = ("nemotron-h-8b", "nemotron-3-nano-30b-a3b", "llama-3.1-8b", "qwen3-30b-a3b")  # the first two have ungated MLPs
HYBRID: dict[str, Any] = {"model": "nemotron-h-8b", "cluster": CLUSTERS["h100-sxm-80gb"], "training": {"seq_length": 8192}}


def step_and_peak(job: dict[str, Any]) -> tuple[tuple[float, float], tuple[str, ...]]:
    found = parse_job(job)
    assert found.strategy is not None
    price = priced(found.workload, StrategyBatch.of([found.strategy]))
    return (float(price.step_time_s[0]), float(price.peak_memory_bytes[0])), found.warnings


@pytest.mark.parametrize("way", ["switches", "features"])
@settings(max_examples=6)
@given(
    st.sampled_from(MODELS),
    st.sampled_from([*CLUSTERS.values()]),
    st.sampled_from([{"tp": 2}, {"tp": 1, "pp": 2}, {"tp": 2, "cp": 2}, {"tp": 1, "zero_stage": 0}]),
)
def test_a_switch_said_to_be_idle_moves_no_price(way: str, model: str, cluster: dict[str, Any], degrees: dict[str, int]) -> None:
    job = {"model": model, "cluster": cluster, "training": {"seq_length": 8192}, "strategy": degrees}

    def strategy(*names: str) -> dict[str, Any]:
        return {**job, "strategy": {**degrees, way: list(names) if way == "features" else dict.fromkeys(names, True)}}

    usual, _ = step_and_peak(strategy())
    idle = []
    for feature in Feature:
        name = str(feature.name).lower()
        found, warnings = step_and_peak(strategy(name))
        if any(f"{name} has no effect" in line for line in warnings):
            idle.append(name)
            assert found == usual, name
    assert idle


def test_a_rotary_kernel_does_nothing_beside_a_bias_of_positions() -> None:
    biased = {**model_to_mapping(model_preset("llama-2-7b").model), "alibi": True, "name": "biased"}
    training = {"seq_length": 4096, "global_batch_size": 64}
    asked = {**HYBRID, "model": biased, "training": training, "strategy": {"tp": 2, "switches": {"fused_rope": True}}}
    price, warnings = step_and_peak(asked)
    assert "strategy.features: fused_rope has no effect: attention has no rotary positions." in warnings
    assert price == step_and_peak({**asked, "strategy": {"tp": 2, "switches": {"fused_rope": False}}})[0]


def test_a_fused_swiglu_of_an_ungated_model_has_no_effect_and_is_not_offered() -> None:
    asked = {**HYBRID, "strategy": {"tp": 2, "switches": {"fused_swiglu": True}}}
    price, warnings = step_and_peak(asked)
    assert "strategy.features: fused_swiglu has no effect: the MLPs are not gated." in warnings
    assert price == step_and_peak({**HYBRID, "strategy": {"tp": 2}})[0]
    assumed = search_document(parse_job({**HYBRID, "search": {"tp": 2, "pp": 1}})).assumptions
    assert any("flash_attention" in line for line in assumed)
    assert not any("fused_swiglu" in line for line in assumed)


def test_recompute_without_effect_is_warned_of_and_in_no_plan() -> None:
    """Transformer Engine's norms are inside linear layers, so that no norm is repeated, and a dense MLP's activation is none."""
    job: dict[str, Any] = {
        "model": "llama-2-7b",
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64},
        "software": {"target": "megatron-lm@0.12"},
    }
    asked, plain = (parse_job({**job, "strategy": {"tp": 8, "recompute": each}}) for each in ("layernorm", "none"))
    assert any("strategy.recompute: layernorm has no effect" in line for line in asked.warnings)
    assert asked.strategy == plain.strategy
    assert asked.document["strategy"]["recompute"] == plain.document["strategy"]["recompute"]
    in_eight_bits = {**job, "training": {**job["training"], "precision": "fp8", "fp8_recipe": "delayed"}}
    in_eight_bits["software"] = {"target": "megatron-lm@0.19"}
    refused = parse_job({**in_eight_bits, "strategy": {"tp": 8, "recompute": "layernorm"}})
    assert refused.strategy is not None
    assert "megatron_fp8_recompute" in {each.rule for each in violations(refused.workload, refused.strategy)}
    both = parse_job({**job, "strategy": {"tp": 8, "recompute": "layernorm+core_attn"}}).document["strategy"]["recompute"]
    assert (both["granularity"], both["modules"]) == ("selective", ["core_attn"])


@pytest.mark.parametrize(("zero_stage", "warned"), [(1, ()), (2, ("reduce",)), (3, ("reduce", "gather"))])
def test_a_switch_that_the_target_has_on_whatever_is_asked_is_warned_of(zero_stage: int, warned: tuple[str, ...]) -> None:
    names = {"reduce": "overlap_grad_reduce", "gather": "overlap_param_gather"}
    job: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "cluster": CLUSTERS["h100-sxm-80gb"],
        "software": {"target": "megatron-lm@0.19"},
    }
    off = {**job, "strategy": {"zero_stage": zero_stage, "switches": dict.fromkeys(names.values(), False)}}
    on = {**job, "strategy": {"zero_stage": zero_stage}}
    said, unsaid = (" ".join(parse_job(each).warnings) for each in (off, on))
    told = {each for each, name in names.items() if f"{name} is priced as off, and megatron-lm@0.19 has it on" in said}
    assert told == {*warned}
    assert "is priced as off, and" not in unsaid
