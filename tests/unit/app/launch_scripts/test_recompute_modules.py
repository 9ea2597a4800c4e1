"""Recompute modules of a script that its release refuses at start, also those without effect: Megatron's own conditions.

[megatron-0.12, transformer_config.py:735-745] [megatron-0.19, transformer_config.py:1790-1830]
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import command

SCRIPT = """#!/bin/bash
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --use-mcore-models --transformer-impl transformer_engine \\
  --tensor-model-parallel-size 4 --sequence-parallel --num-layers 8 --hidden-size 4096 --ffn-hidden-size 11008 \\
  --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 16 \\
  --swiglu --normalization RMSNorm --disable-bias-linear --attention-dropout 0 --hidden-dropout 0 --bf16 \\
  --position-embedding-type rope --untie-embeddings-and-output-weights --vocab-size 32000 --make-vocab-size-divisible-by 1 \\
  """
SELECTIVE = "--recompute-granularity selective --recompute-modules "
FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --recompute-modules "
EXPERTS = "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall "
SHARED = EXPERTS + "--moe-grouped-gemm --moe-shared-expert-intermediate-size 2048 "
DELAYED, SCALED = "--fp8-format hybrid ", "--fp8-format hybrid --fp8-recipe tensorwise "
WORKING = ("--hardware", "h100-sxm-80gb", "--target")


def script(tmp_path: Path, arguments: str) -> Path:
    path = tmp_path / "train.sh"
    path.write_text(f"{SCRIPT}{arguments}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("release", "arguments", "words"),
    [
        *((release, SELECTIVE + "moe_act", "(megatron_activation_recompute)") for release in ("0.12", "0.19")),
        *((release, SELECTIVE + "core_attn mla_up_proj", "needs multi-latent-attention") for release in ("0.12", "0.19")),
        *((release, EXPERTS + SELECTIVE + "moe_act", "(megatron_activation_recompute)") for release in ("0.12", "0.19")),
        ("0.19", DELAYED + SELECTIVE + "layernorm", "(megatron_fp8_recompute)"),
        ("0.19", DELAYED + SHARED + SELECTIVE + "moe_act", "(megatron_fp8_recompute)"),
        ("0.19", SHARED + "--moe-shared-expert-overlap " + SELECTIVE + "shared_experts", "exclude each other"),
        ("0.12", DELAYED + SELECTIVE + "layernorm", ""),
        ("0.19", SCALED + SELECTIVE + "layernorm", ""),
        ("0.19", SHARED + SELECTIVE + "shared_experts", ""),
        *((release, EXPERTS + "--moe-grouped-gemm " + SELECTIVE + "moe_act", "") for release in ("0.12", "0.19")),
        *((release, SELECTIVE + name, "") for release in ("0.12", "0.19") for name in ("core_attn", "layernorm", "mlp", "moe")),
        *((release, FULL + name, "") for release in ("0.12", "0.19") for name in ("moe_act", "layernorm")),
    ],
)
def test_a_price_is_refused_where_the_release_refuses_the_script(
    release: str, arguments: str, words: str, tmp_path: Path
) -> None:
    answer = command("estimate", script(tmp_path, arguments), *WORKING, f"megatron-lm@{release}")
    assert answer.returncode == (2 if words else 0), answer.stderr
    assert words in answer.stderr


def test_tune_says_the_refusal_and_its_script_starts(tmp_path: Path) -> None:
    changed = tmp_path / "changed.sh"
    path = script(tmp_path, SELECTIVE + "moe_act")
    answer = command("tune", path, *WORKING, "megatron-lm@0.12", "--json", "--output", changed)
    document = json.loads(answer.stdout)
    assert [sentence.split(":")[0] for sentence in document["violations"]] == ["megatron_activation_recompute"]
    assert "--recompute-granularity" not in changed.read_text(encoding="utf-8")
    assert command("estimate", changed, *WORKING, "megatron-lm@0.12").returncode == 0


def test_a_flag_in_place_of_the_modules_is_taken(tmp_path: Path) -> None:
    path = script(tmp_path, SELECTIVE + "moe_act")
    assert command("estimate", path, *WORKING, "megatron-lm@0.12", "--recompute", "none").returncode == 0
