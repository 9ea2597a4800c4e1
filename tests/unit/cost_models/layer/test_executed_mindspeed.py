"""Bytes that a layer kept when MindSpeed-LLM (c77308a1, core 0.12.1) ran the exported launch file without data.

The dense model has 4,096 channels, 32 heads of 128, 8 of keys, and an MLP of 11,008 channels; each rank runs 8,192 tokens at a
time. The latent one has 32 heads (128 + 64 channels, values of 128), ranks of 1,536 and 512, YaRN, and 4,096 tokens. Norms of
the hidden state, and those of latents, also keep 1 / rms, 4 bytes a token, which is left out.
"""

from dataclasses import replace
from typing import Any

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.attention_bytes import attention_bytes_per_token
from cost_models.shapes.layer_keys import LayerKeys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import MlaShape, ModelShape
from tests.networks import ascend_a2
from tests.workloads import keys, workload

GROUPED = ModelShape(
    name="grouped",
    num_layers=4,
    hidden_size=4096,
    num_attention_heads=32,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=11008,
    vocab_size=32000,
)
NORMED = replace(GROUPED, qk_layernorm=True)
LATENT = replace(
    GROUPED, mla=MlaShape(q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
)
SWAPPED = DEFAULT_FEATURES | Feature.SWAP_ATTENTION
UNFUSED = DEFAULT_FEATURES & ~Feature.FUSED_ROPE
PARALLEL = {"tp": 2, "sequence_parallel": True}


def kept(model: ModelShape, key: LayerKeys, *, seq_length: int, **values: Any) -> float:
    job = workload(model, cluster=ascend_a2(), seq_length=seq_length, stack="mindspeed-llm", **values)
    return float(layer_activations(job, key, moe=False).saved_bytes[0])


def again(module: RecomputeModule) -> dict[str, Any]:
    return {"recompute": Recompute.SELECTIVE, "recompute_modules": module}


@pytest.mark.parametrize(
    ("model", "columns", "bytes_seen"),
    [
        (GROUPED, {}, 1_002_504_192),  # a copy of the values, no projection
        (GROUPED, {"features": UNFUSED}, 1_002_504_192),
        (GROUPED, {"features": SWAPPED}, 767_623_168),
        (GROUPED, again(RecomputeModule.CORE_ATTN), 1_069_613_060),  # the projection, of which the values are a view
        (NORMED, {"tp": 8, "sequence_parallel": True}, 143_302_656),  # one head of keys: the projection, and no copies
        (NORMED, {"features": SWAPPED}, 869_597_184),  # the norm of keys reads the projection
    ],
)
def test_grouped_queries(model: ModelShape, columns: dict[str, Any], bytes_seen: int) -> None:
    key = keys(**columns)
    tokens = 8192 / (columns["tp"] if "tp" in columns else 1)
    statistics = 2 * 4 * tokens  # of the hidden state; those of queries and keys are counted
    assert kept(model, key, seq_length=8192) == pytest.approx(bytes_seen - statistics, abs=64)


def test_ulysses_copies_what_it_exchanges() -> None:
    """Two ranks of 8,192 tokens: queries, keys, values and the output travel, and no projection stays."""
    key = keys(cp=2, ulysses_degree=2)
    assert kept(GROUPED, key, seq_length=16384) == 1_069_613_056 - 2 * 4 * 8192
    older = kept(GROUPED, key, seq_length=16384, year=2024.6)
    inputs = 2 * 128 * (32 + 2 * 32) * 8192  # of the rotary kernel; keys and values are repeated for every head before it
    assert older - kept(GROUPED, key, seq_length=16384) == inputs + 2 * 2 * 128 * (32 - 8) * 8192


@pytest.mark.parametrize(
    ("columns", "bytes_seen"),
    [
        ({}, 617_152_512),
        (PARALLEL, 309_624_832),
        ({**PARALLEL, "features": SWAPPED}, 217_350_144),
        (again(RecomputeModule.MLA_UP_PROJ), 497_582_080),  # fused attention's copy of the values stays
    ],
)
def test_latent_attention(columns: dict[str, Any], bytes_seen: int) -> None:
    norms = 2 if "recompute" in columns else 4  # those of the latents run again
    statistics = norms * 4 * 4096 / columns.get("tp", 1)
    assert kept(LATENT, keys(**columns), seq_length=4096) == bytes_seen - statistics


def test_padded_heads_of_latent_attention_are_kept() -> None:
    """BNSD pads values to the 192 of queries; SBH pads all to 256. The output is kept with padding and without it."""
    job = workload(LATENT, cluster=ascend_a2(), seq_length=4096, stack="mindspeed-llm")
    plain, values, whole = (
        float(attention_bytes_per_token(replace(job, software=replace(job.software, latent_padding=p)), keys())[0][0])
        for p in (0, 1, 128)
    )
    assert values - plain == 2 * 32 * ((192 - 128) + 192)
    assert whole - plain == 2 * 32 * (2 * (256 - 192) + (256 - 128) + 256)
    padded = replace(job, software=replace(job.software, latent_padding=1))
    freed, bare = (attention_bytes_per_token(each, keys())[1][0] for each in (job, padded))
    assert float(bare - freed) == 2 * 32 * 192 - 2 * 32 * 128  # the padded output; the copy of the values is made inside
