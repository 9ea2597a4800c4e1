"""What a refused strategy is told: the reason that no other strategy changes, and the release that takes it."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.price import estimate_document
from app.jobs.job import parse_job
from documents.errors import InputError


def job(hardware: str = "h100-sxm-80gb", target: str = "any", **training: Any) -> dict[str, Any]:
    return {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": hardware, "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 16, **training},
        "software": {"target": target},
        "strategy": {"tp": 2},
    }


def estimate(document: dict[str, Any]) -> None:
    parsed = parse_job(document)
    assert parsed.strategy is not None
    estimate_document(parsed, parsed.strategy)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        # torchtitan's default is ZeRO-3, which muon does not take either
        (
            job(target="torchtitan", optimizer="muon"),
            "strategy: torchtitan is known with adam, not with muon (torchtitan_optimizer).",
        ),
        (
            job(target="megatron-lm@0.12", optimizer="muon"),
            "strategy: Megatron-LM 0.12 is known with adam or sgd, not with muon (megatron_optimizer); "
            "--target megatron-lm@0.19 takes the job.",
        ),
        (
            job("atlas-800t-a2", target="mindformers"),
            "strategy: MindFormers 1.8 has no training class for llama (it trains deepseek_v3, kimi_k2, qwen3 and qwen3_moe); "
            "release 1.8 with its legacy layers (use_legacy: True) has one, for which no file is written here "
            "(mindformers_model); --target mindspeed-llm@master takes the job.",
        ),
        (
            job(optimizer="muon", precision="fp8"),
            "strategy: muon does not train in fp8: give training.precision bf16 or fp32 (muon_precision).",
        ),
        (
            job("atlas-800t-a2", target="torchtitan"),
            "software.target: torchtitan runs on nvidia and amd devices, and atlas-800t-a2 is of family ascend; "
            "give any, mindspeed-llm, mindformers or mindspeed-llm-fsdp2.",
        ),
        (
            job("h100-sxm-80gb", target="mindformers"),
            "software.target: mindformers runs on ascend devices, and h100-sxm-80gb is of family nvidia; "
            "give any, megatron-lm or torchtitan.",
        ),
    ],
)
def test_a_refusal_names_the_reason_and_what_to_do(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        estimate(document)
    assert str(raised.value) == sentence


def test_muon_says_which_sharding_divides_its_matrices() -> None:
    for plan, part in (
        ({"zero_stage": 2}, "zero_stage 2 divides matrices, and muon takes them whole: take 0 or 1"),
        ({"zero_stage": 1, "optimizer_shard_size": 2}, "optimizer_shard_size 2 shares states in groups"),
    ):
        with pytest.raises(InputError) as raised:
            estimate({**job(optimizer="muon"), "strategy": {"tp": 2, **plan}})
        assert part in str(raised.value)


def test_attention_that_no_ring_serves_defaults_to_ulysses() -> None:
    def algorithm(model: str, **strategy: Any) -> str:
        parsed = parse_job({**job(), "model": model, "strategy": {"cp": 2, **strategy}})
        assert parsed.strategy is not None
        return parsed.strategy.cp_algo.label

    assert algorithm("llama-3.1-8b") == "ring"
    assert algorithm("qwen3-next-80b-a3b") == "ring"  # a recurrence divides its heads over cp whatever attention does
    assert algorithm("deepseek-v3.2") == "ulysses"
    assert algorithm("deepseek-v3.2", cp_algo="ring") == "ring"  # which is then refused by name


@pytest.mark.parametrize(
    ("hardware", "precision", "parts"),
    [
        ("h100-sxm-80gb", "fp32", ("In fp32 megatron-lm has no fused attention", "Linear layers multiply in TF32")),
        ("v100-sxm-32gb", "fp32", ("In fp32 megatron-lm has no fused attention",)),
        ("h100-sxm-80gb", "bf16", ()),
        ("atlas-800t-a2", "fp32", ()),
    ],
)
def test_fp32_says_how_attention_and_linear_layers_are_priced(hardware: str, precision: str, parts: tuple[str, ...]) -> None:
    said = " ".join(parse_job(job(hardware, precision=precision)).warnings)
    assert ("fused attention" in said, "TF32" in said) == (bool(parts), len(parts) == 2)
    assert all(part in said for part in parts)
