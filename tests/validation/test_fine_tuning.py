"""Published fine-tuning runs beside their prediction. No constant was fitted to any of them.

Qwen: single A100 80 GB (72B LoRA: four, ZeRO-3), one sequence a micro batch, eight micro batches, full recompute, adapters of
rank 64 on all linear layers [qwen, README; finetune.py]. Its Q-LoRA runs GPTQ's 4-bit kernels, which are no NF4. NeMo AutoModel:
H100 80 GB, 32 sequences of 4,096 tokens in micro batches of 2, rank 16 [nemo-automodel, performance-summary.mdx].
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from app.jobs.job import parse_job
from cost_models.constants import Constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.training_task import HUGGINGFACE_MODULES
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
GIB = 2**30


def _shape(layers: int, hidden: int, heads: int, groups: int, ffn: int, rows: int) -> dict[str, Any]:
    names = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "vocab_size")
    return {"name": "published", "kv_channels": 128, **dict(zip(names, (layers, hidden, heads, groups, ffn, rows), strict=True))}


QWEN = {
    "1.8B": _shape(24, 2048, 16, 16, 5504, 151936),
    "7B": _shape(32, 4096, 32, 32, 11008, 151936),
    "14B": _shape(40, 5120, 40, 40, 13696, 152064),
    "72B": _shape(80, 8192, 64, 64, 24576, 152064),
}
# GB of all devices and seconds an iteration, by length
LORA = {
    ("1.8B", 1): [(6.7, 1.0), (7.4, 1.0), (8.4, 1.1), (11.0, 1.7), (16.2, 3.3), (21.8, 6.8)],
    ("7B", 1): [(20.1, 1.2), (20.4, 1.5), (21.5, 2.8), (23.8, 5.2), (29.7, 10.1), (36.6, 21.3)],
    ("14B", 1): [(34.6, 1.6), (35.1, 2.4), (35.3, 4.4), (37.4, 8.4), (42.5, 17.0), (55.2, 36.0)],
    ("72B", 4): [(215.4, 17.6), (217.7, 20.5), (222.6, 29.4), (228.8, 45.7), (249.0, 83.4), (289.2, 161.5)],
}
FOUR_BITS = {
    ("1.8B", 1): [(5.8, 1.4), (6.0, 1.4), (6.6, 1.4), (7.8, 2.0), (10.2, 3.4), (15.8, 6.5)],
    ("7B", 1): [(11.5, 3.0), (11.5, 3.0), (12.3, 3.5), (13.9, 7.0), (16.9, 11.6), (23.5, 22.3)],
    ("14B", 1): [(18.7, 5.3), (18.4, 6.3), (18.9, 8.2), (19.9, 11.8), (23.0, 20.1), (27.9, 38.3)],
    ("72B", 1): [(61.4, 27.4), (61.4, 31.5), (62.9, 41.4), (64.1, 59.5), (68.0, 97.7), (75.6, 179.8)],
}
QWEN25_7B = _shape(28, 3584, 28, 4, 18944, 152064)
QWEN25_32B = _shape(64, 5120, 40, 8, 27648, 152064)
# model, devices, tp, recompute, seconds a step
AUTOMODEL = [
    ("llama-3.1-8b", 1, 1, "none", 10.51),
    (QWEN25_7B, 1, 1, "none", 9.29),
    ("llama-3.1-70b", 8, 2, "full", 15.00),
    (QWEN25_32B, 8, 2, "full", 7.28),
    ("llama-3.1-70b", 16, 2, "full", 8.32),
    (QWEN25_32B, 16, 2, "full", 3.95),
]
Errors = tuple[dict[int, list[float]], list[float]]


def _predicted(document: dict[str, Any], constants_for: Callable[[Workload], Constants]) -> tuple[float, float]:
    """Step time, and the allocator's pool on all devices. [s] [B]"""
    job = parse_job(document)
    assert job.strategy is not None
    found = estimate(job.workload, StrategyBatch.of([job.strategy]), constants_for(job.workload))
    return float(found.step_time_s[0]), float(found.reserved_peak_bytes[0]) * job.workload.cluster.num_devices


def _qwen(task: str, rows: dict[tuple[str, int], list[tuple[float, float]]], of: Callable[[Workload], Constants]) -> Errors:
    """Errors of times by length, and of memory."""
    times: dict[int, list[float]] = {length: [] for length in LENGTHS}
    memory = []
    for (name, devices), measured in rows.items():
        for length, (gigabytes, seconds) in zip(LENGTHS, measured, strict=True):
            document = {
                "model": QWEN[name],
                "cluster": {"hardware": "a100-sxm-80gb", "num_devices": devices},
                "software": {"stack": "fsdp", "year": 2023.9},
                "training": {
                    "task": task,
                    "adapter": {"rank": 64},
                    "seq_length": length,
                    "global_batch_size": 8 * devices,
                    "precision": "bf16",
                },
                "strategy": {"zero_stage": 3 if devices > 1 else 0, "recompute": "full"},
            }
            time_s, held_bytes = _predicted(document, of)
            times[length].append(time_s / seconds - 1.0)
            memory.append(held_bytes / GIB / gigabytes - 1.0)
    return times, memory


def _size(errors: list[float]) -> float:
    return median(map(abs, errors))


def test_memory_of_adapters_is_near_what_was_published(constants_for: Callable[[Workload], Constants]) -> None:
    _, memory = _qwen("lora", LORA, constants_for)
    assert _size(memory) < 0.08
    _, memory = _qwen("qlora", FOUR_BITS, constants_for)
    assert _size(memory) < 0.16


def test_steps_of_lora_are_near_what_was_published_but_for_short_sequences(
    constants_for: Callable[[Workload], Constants],
) -> None:
    times, _ = _qwen("lora", LORA, constants_for)
    assert _size([error for length, errors in times.items() if length >= 1024 for error in errors]) < 0.09
    assert _size([error for errors in times.values() for error in errors]) < 0.16
    assert median(times[256]) > 0.3  # hosts of today dispatch faster than the fitted runs' did


def test_other_kernels_of_four_bits_take_longer_than_nf4_is_priced(constants_for: Callable[[Workload], Constants]) -> None:
    times, _ = _qwen("qlora", FOUR_BITS, constants_for)
    assert _size(times[8192]) < 0.06
    assert median([error for errors in times.values() for error in errors]) < 0.0


def test_steps_of_nemo_automodel(constants_for: Callable[[Workload], Constants]) -> None:
    errors = []
    for model, devices, tp, recompute, seconds in AUTOMODEL:
        document = {
            "model": model,
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": devices},
            "software": {"stack": "fsdp"},
            "training": {
                "task": "lora",
                "adapter": {"rank": 16, "target_modules": list(HUGGINGFACE_MODULES)},
                "seq_length": 4096,
                "global_batch_size": 32,
                "precision": "bf16",
            },
            "strategy": {"micro_batch_size": 2, "tp": tp, "zero_stage": 3 if devices > 1 else 0, "recompute": recompute},
        }
        errors.append(_predicted(document, constants_for)[0] / seconds - 1.0)
    assert _size(errors) < 0.13
    assert max(map(abs, errors)) < 0.2
