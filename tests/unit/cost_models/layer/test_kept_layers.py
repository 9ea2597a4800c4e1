"""Layers of torchtitan without recompute: what PyTorch kept between their passes, and what is priced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.shapes.switches import DEFAULT_FEATURES, FUSED_KERNELS, Feature
from tests.networks import gpu
from tests.torchtitan_layers import model_of
from tests.workloads import keys, workload

# Written by scripts/oracle/kept_layers.py, which ran torchtitan 0.2.2 on PyTorch 2.13.
LINES = (Path(__file__).parents[3] / "oracle" / "kept_layers.json").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
SAMPLES, SEQUENCE = 2, 256
TOKENS = SAMPLES * SEQUENCE
NORM_ALONE = DEFAULT_FEATURES & ~FUSED_KERNELS | Feature.FUSED_NORM


def name_of(case: dict[str, Any]) -> str:
    kind = f"-top{case['experts']['top_k']}" if "experts" in case else ""
    way = "compiled" if case["compiled"] else "eager"
    return f"{case['family']}-{case['args']['dim']}{kind}-tp{case['tp']}-ep{case.get('ep', 1)}-{way}"


def saved(case: dict[str, Any], *, stack: str = "fsdp") -> dict[str, float]:
    job = workload(
        model_of(case), seq_length=SEQUENCE, global_batch_size=64, cluster=gpu(), stack=stack, torch_compile=case["compiled"]
    )
    key = keys(
        tp=case["tp"],
        ep=case.get("ep", 1),
        etp=1 if "ep" in case else case["tp"],
        micro_batch_size=SAMPLES,
        sequence_parallel=case["tp"] > 1,
        features=DEFAULT_FEATURES | FUSED_KERNELS if case["compiled"] else NORM_ALONE,
    )
    return {name: float(kept[0]) for name, kept in layer_activations(job, key, moe="experts" in case).saved.items()}


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_layer_keeps_what_pytorch_kept(case: dict[str, Any]) -> None:
    assert sum(saved(case).values()) == pytest.approx(case["kept"], rel=0.005)


def test_the_record_varies_width_heads_of_keys_experts_and_ways_to_run() -> None:
    assert {case["args"]["dim"] for case in CASES} == {256, 512}
    assert {(case["family"], case["tp"], case["compiled"]) for case in CASES} == {
        (family, tp, compiled)
        for family in ("llama3", "qwen3", "deepseek_v3")
        for tp, compiled in ((1, False), (2, False), (1, True))
    }
    assert {case["args"].get("n_kv_heads") for case in CASES if case["family"] != "deepseek_v3"} == {2, 4, 16}


# Written by scripts/oracle/kept_layers_of_main.py, which ran the experts of torchtitan's main alone on PyTorch 2.13.
LINES_OF_MAIN = (Path(__file__).parents[3] / "oracle" / "kept_layers_of_main.json").read_text(encoding="utf-8").splitlines()
OF_MAIN = [json.loads(line) for line in LINES_OF_MAIN]


@pytest.mark.parametrize("case", OF_MAIN, ids=lambda case: f"{name_of(case)}")
def test_experts_of_main_keep_what_pytorch_kept(case: dict[str, Any]) -> None:
    """Beside the norm's output, of which shared experts keep what they gathered, and an FP32 copy of the router's weights."""
    job = workload(model_of(case), seq_length=SEQUENCE, global_batch_size=64, cluster=gpu(), stack="fsdp", newest_layers=True)
    key = keys(
        tp=case["tp"],
        ep=case["ep"],
        etp=1 if case["ep"] > 1 else case["tp"],
        micro_batch_size=SAMPLES,
        sequence_parallel=case["tp"] > 1,
        features=NORM_ALONE,
    )
    kept = layer_activations(job, key, moe=True).saved
    gathered = 2 * case["args"]["dim"] * TOKENS if case["tp"] > 1 and case["experts"]["num_shared_experts"] else 0
    own = sum(float(kept[name][0]) for name in ("routed_experts", "shared_experts", "router"))
    weights = 4 * case["args"]["dim"] * case["experts"]["num_experts"]
    assert own + gathered + weights == pytest.approx(case["kept"], rel=0.005)


def test_the_record_of_main_has_experts_on_one_and_on_both_ranks() -> None:
    found = {(case["tp"], case["ep"], case["experts"]["num_shared_experts"] > 0) for case in OF_MAIN}
    assert found == {(tp, ep, shared) for tp, ep in ((1, 1), (2, 1), (2, 2)) for shared in (False, True)}


def layer(family: str, tp: int, *, experts: bool = False) -> dict[str, Any]:
    return next(
        case
        for case in CASES
        if (case["family"], case["tp"], "experts" in case, case["compiled"]) == (family, tp, experts, False)
    )


def test_layers_keep_gathered_inputs_whole() -> None:
    """Norms keep a rank's part of their input; what was gathered behind them is kept whole, before both blocks."""
    found = saved(layer("llama3", 2))
    assert found["residual"] == 2 * 2 * 256 * TOKENS / 2
    assert found["norm_output"] == 2 * 2 * 256 * TOKENS
    of_megatron = saved(layer("llama3", 2), stack="megatron-lm")
    assert of_megatron["norm_output"] == 2 * 2 * 256 * TOKENS / 2


def test_latents_are_whole_and_values_a_view_of_the_up_projection() -> None:
    """One token of 8 heads: queries and keys of 32 + 32, values and output of 64, the up-projection of 32 + 64, latents of 96."""
    found = saved(layer("deepseek_v3", 2))
    latents = 2 * 96 + 2 * (96 + 32)  # behind their norm; before it with the key's position
    assert found["attention"] == TOKENS * (latents + (2 * 8 * (64 + 64 + (32 + 64) + 64) + 4 * 8) / 2)


def test_experts_keep_an_fp32_copy_and_rows_to_align_groups() -> None:
    """Two of eight experts of 128 channels a token; 64 more rows. Gate, its activation, up and the product stay in 16 bits."""
    found = saved(layer("qwen3", 1, experts=True))
    rows = 2 * TOKENS + 8 * 8
    assert found["routed_experts"] == rows * (2 * 256 + 4 * 2 * 128) + 2 * TOKENS * 4 * 256
    assert found["router"] == TOKENS * (4 * 8 + 2 * (3 * 8 + 2 * 4))  # scores; three indices and two weights a choice
