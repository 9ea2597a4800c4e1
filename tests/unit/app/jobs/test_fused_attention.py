"""Fused attention is planned with where the devices have a kernel for the job's precision."""

from __future__ import annotations

import pytest

from app.answers.price import estimate_document
from app.jobs.job import Job, parse_job
from app.language.translator import translator
from cost_models.shapes.switches import Feature
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space


def job(hardware: str, precision: str, **more: object) -> Job:
    return parse_job(
        {
            "model": "llama-2-7b",
            "cluster": {"hardware": hardware, "num_devices": 8},
            "training": {"seq_length": 4096, "global_batch_size": 8, "precision": precision},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("hardware", "precision", "fused"),
    [
        ("v100-sxm-32gb", "fp16", False),
        ("a100-sxm-80gb", "fp16", True),
        ("a100-sxm-80gb", "fp32", False),
        ("h100-sxm-80gb", "fp8", True),
        ("atlas-800t-a2", "fp32", True),
    ],
)
def test_attention_is_fused_where_there_is_a_kernel(hardware: str, precision: str, fused: bool) -> None:
    space = search_space(job(hardware, precision).workload)
    assert {Feature.FLASH_ATTENTION in features for features in space.features} == {fused}
    assert (recompute_mode("core_attn") in space.recompute) is not fused
    estimated = job(hardware, precision, strategy={"tp": 8}).strategy
    assert estimated is not None
    assert (Feature.FLASH_ATTENTION in estimated.features) is fused


@pytest.mark.parametrize(("hardware", "warned"), [("atlas-800t-a2", True), ("h100-sxm-80gb", False)])
def test_a_kernel_that_the_devices_do_without_is_warned_of(hardware: str, warned: bool) -> None:
    warnings = job(hardware, "bf16", software={"portable_attention": True}).warnings
    assert any("portable_attention has no effect" in line for line in warnings) is warned


def test_fp32_is_priced_as_its_warning_says() -> None:
    def peak_bytes(seq_length: int, **strategy: object) -> float:
        training = {"seq_length": seq_length, "global_batch_size": 1, "precision": "fp32"}
        parsed = job("h100-sxm-80gb", "fp32", training=training, strategy={"tp": 8, **strategy})
        assert parsed.strategy is not None
        return estimate_document(parsed, parsed.strategy).estimate.peak_memory_bytes

    said = next(line for line in job("h100-sxm-80gb", "fp32").warnings if "fused attention" in line)
    assert "is priced without: all scores are written to memory" in said
    assert "TF32" in said
    assert "Linear" not in translator("zh")(said)
    assert peak_bytes(4096) == peak_bytes(4096, switches={"flash_attention": False})
    # What grows with the square of the sequence is the softmax in FP32: 32 layers, 32 heads on 8 ranks, 4 bytes a score.
    for recompute, layers in (("none", 32), ("core_attn", 0)):
        short, middle, long = (peak_bytes(length, recompute=recompute) for length in (2048, 4096, 6144))
        in_layers = (short - 2 * middle + long) / (2 * 2048**2 * 32 / 8 * 4)
        assert layers <= in_layers < layers + 4  # and gradients of one layer
