"""Layers and peaks that one H100 held: transformers 5.17 under FSDP2 and Megatron-Core 0.19.2, torch 2.11.

Eight layers of 4,096 channels, 32 heads of 128, 8 of keys; two micro batches a step. Llama: 14,336 channels of the MLP, 32,000
words; Qwen3: norms of queries and keys, 12,288 and 65,536. Megatron-Core ran its local layers around PyTorch's fused attention,
without a fused rotary kernel. Its layers keep sines and cosines of queries and keys, 4 x 2 x 128 bytes a position.
"""

from dataclasses import replace
from typing import Any

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, FUSED_KERNELS, Feature
from cost_models.shapes.workload import ModelShape, Workload
from tests.networks import gpu
from tests.workloads import keys, priced, workload

LLAMA = ModelShape(
    name="llama",
    num_layers=8,
    hidden_size=4096,
    num_attention_heads=32,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=14336,
    vocab_size=32000,
)
QWEN3 = replace(LLAMA, name="qwen3", qk_layernorm=True, ffn_hidden_size=12288, vocab_size=65536)
EAGER = DEFAULT_FEATURES & ~FUSED_KERNELS
LOCAL = DEFAULT_FEATURES & ~Feature.FUSED_ROPE
FULL: dict[str, Any] = {"recompute": Recompute.FULL}


def of_modules(modules: RecomputeModule) -> dict[str, Any]:
    return {"recompute": Recompute.SELECTIVE, "recompute_modules": modules}


def job(model: ModelShape, stack: str, tokens: int, micro_batch: int) -> Workload:
    found = workload(model, cluster=gpu(), seq_length=tokens, global_batch_size=2 * micro_batch, stack=stack)
    return replace(found, software=replace(found.software, plain_cross_entropy=stack == "fsdp"))


@pytest.mark.parametrize(
    ("model", "tokens", "micro_batch", "kept"),
    [
        (LLAMA, 2048, 1, 411_321_344),
        (LLAMA, 8192, 1, 1_645_282_304),
        (LLAMA, 4096, 2, 1_645_282_304),
        (QWEN3, 2048, 2, 882_017_280),
        (QWEN3, 8192, 1, 1_764_033_536),
    ],
)
def test_an_eager_layer_keeps_what_pytorch_kept(model: ModelShape, tokens: int, micro_batch: int, kept: int) -> None:
    found = layer_activations(
        job(model, "fsdp", tokens, micro_batch), keys(micro_batch_size=micro_batch, features=EAGER), moe=False
    )
    assert float(found.saved_bytes[0]) == pytest.approx(kept, rel=3e-4)  # 1 / rms of its norms, and the allocator's rounding


@pytest.mark.parametrize(
    ("tokens", "micro_batch", "columns", "kept"),
    [
        (2048, 1, {}, 287_589_376),
        (8192, 1, {}, 1_150_354_432),
        (4096, 2, {}, 1_146_160_128),
        (8192, 1, of_modules(RecomputeModule.CORE_ATTN), 1_233_190_912),
        # The norm before an MLP was none of its parts in these local layers, and kept its output.
        (8192, 1, of_modules(RecomputeModule.MLP), 445_711_360 - 2 * 4096 * 8192),
        (8192, 1, {"features": LOCAL & ~Feature.FUSED_SWIGLU}, 1_620_116_480),
        # Its softmax was not fused: 6 bytes a score in place of 2.
        (2048, 1, {"features": LOCAL & ~Feature.FLASH_ATTENTION}, 1_117_798_400 - 4 * 32 * 2048**2),
    ],
)
def test_a_layer_of_megatron_core_keeps_what_it_kept(tokens: int, micro_batch: int, columns: dict[str, Any], kept: int) -> None:
    own = keys(micro_batch_size=micro_batch, **{"features": LOCAL, **columns})
    found = layer_activations(job(LLAMA, "megatron-lm", tokens, micro_batch), own, moe=False)
    assert float(found.saved_bytes[0]) == pytest.approx(kept, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "stack", "tokens", "micro_batch", "columns", "peak"),
    [
        (LLAMA, "fsdp", 2048, 1, {}, 37_608_307_200),
        (LLAMA, "fsdp", 4096, 1, {}, 40_994_545_152),
        (LLAMA, "fsdp", 8192, 1, {}, 49_284_931_072),
        (LLAMA, "fsdp", 8192, 1, FULL, 37_048_721_920),
        (LLAMA, "fsdp", 4096, 4, FULL, 40_608_677_376),
        (QWEN3, "fsdp", 4096, 1, {}, 44_841_811_456),
        (QWEN3, "fsdp", 8192, 1, {}, 55_255_563_776),
        (QWEN3, "fsdp", 8192, 1, FULL, 41_680_231_936),
        (LLAMA, "megatron-lm", 2048, 1, {}, 38_939_274_240),
        (LLAMA, "megatron-lm", 8192, 1, {}, 47_111_629_312),
        (LLAMA, "megatron-lm", 8192, 1, FULL, 38_451_957_248),
        (LLAMA, "megatron-lm", 4096, 4, FULL, 40_698_507_264),
        (LLAMA, "megatron-lm", 8192, 1, of_modules(RecomputeModule.CORE_ATTN), 47_786_906_112),
        (LLAMA, "megatron-lm", 8192, 1, of_modules(RecomputeModule.MLP), 41_491_264_512),
        (LLAMA, "megatron-lm", 8192, 1, {"features": LOCAL & ~Feature.FUSED_SWIGLU}, 50_894_895_104),
    ],
)
def test_peaks_of_forward_and_backward_are_those_that_were_allocated(
    model: ModelShape, stack: str, tokens: int, micro_batch: int, columns: dict[str, Any], peak: int
) -> None:
    usual: dict[str, Any] = {"features": EAGER, "zero_stage": 3} if stack == "fsdp" else {"features": LOCAL}
    strategy = ParallelStrategy(**{"micro_batch_size": micro_batch, **usual, **columns})
    found = priced(job(model, stack, tokens, micro_batch), strategy)
    assert float(found.allocated_peak_bytes[0]) == pytest.approx(peak, rel=0.013)
