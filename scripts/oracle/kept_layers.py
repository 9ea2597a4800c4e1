"""Runs torchtitan's layers without checkpoints, and prints what a layer kept between its passes.

usage: PYTHON -m scripts.oracle.kept_layers TREE

PYTHON and TREE are those of ``scripts.oracle.selective_checkpoints``, whose models run. A processor runs PyTorch's norm operator
by operator; a GPU has had a kernel for it since PyTorch 2.9, which keeps its input and 1 / rms (``FusedRmsNormBackward0``). A
stand-in keeps the same. Attention runs on the local part of sharded tensors, for which a processor's kernel has no rule.
tests/oracle/kept_layers.json holds the lines.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from scripts.oracle.ranks import in_a_process
from scripts.oracle.selective_checkpoints import LATENT, LLAMA, QUERIES, QWEN, SHARED, on_a_processor, run

EPSILON = 1e-5
AFTER = {**SHARED, "score_before_experts": False}  # as torchtitan's own Qwen3 and DeepSeek have it
EVENLY = {"_debug_force_load_balance": True}  # as many tokens for every expert, which ranks then exchange
WIDE = {"dim": 512, "n_heads": 16}
LATENT_WIDE = {**QUERIES, **WIDE, "inter_dim": 1408, "kv_lora_rank": 192}
MODELS: list[dict[str, Any]] = [
    {"family": "llama3", "args": LLAMA},
    {"family": "llama3", "args": {**LLAMA, **WIDE, "n_kv_heads": 16}},
    {"family": "qwen3", "args": QWEN},
    {"family": "qwen3", "args": {**QWEN, **WIDE, "n_kv_heads": 4, "enable_weight_tying": True}},
    {"family": "deepseek_v3", "args": LATENT},
    {"family": "deepseek_v3", "args": LATENT_WIDE},
    {"family": "qwen3", "args": QWEN, "experts": {**AFTER, "num_shared_experts": 0}},
    {"family": "qwen3", "args": {**QWEN, **WIDE}, "experts": AFTER},
    {"family": "deepseek_v3", "args": QUERIES, "experts": {**AFTER, "top_k": 4, "score_func": "sigmoid"}},
    {"family": "deepseek_v3", "args": LATENT, "experts": SHARED},
]


class Norm(torch.autograd.Function):
    """An RMS norm that keeps what PyTorch's kernel keeps."""

    @staticmethod
    def forward(ctx: Any, given: Any, weight: Any, epsilon: float) -> Any:
        wide = given.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(given, weight, scale)
        return (wide * scale).to(given.dtype) * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        given, weight, scale = ctx.saved_tensors
        wide = gradients[0].float()
        normed = given.float() * scale
        inner = wide * weight.float()
        back = scale * (inner - normed * (inner * normed).mean(-1, keepdim=True))
        return back.to(given.dtype), (wide * normed).flatten(0, -2).sum(0).to(weight.dtype), None


def norm(given: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    return Norm.apply(given, weight, EPSILON if eps is None else eps)


def attend_locally() -> None:
    module: Any = importlib.import_module("torchtitan.models.attention")
    own = module.F.scaled_dot_product_attention

    def attend(query: Any, key: Any, value: Any, **more: Any) -> Any:
        if not isinstance(query, DTensor):
            return own(query, key, value, **more)
        out = own(*(each.to_local() for each in (query, key, value)), **more)
        return DTensor.from_local(out, query.device_mesh, query.placements, run_check=False)

    module.F = types.SimpleNamespace(scaled_dot_product_attention=attend)


def cases() -> list[dict[str, Any]]:
    eager = [{**model, "tp": tp, "compiled": False} for model in MODELS for tp in (1, 2)]
    behind = [model for model in MODELS if not model.get("experts", SHARED).get("score_before_experts", True)]
    spread = [{**model, "experts": {**model["experts"], **EVENLY}} for model in behind]
    eager += [{**model, "tp": 2, "ep": 2, "compiled": False} for model in spread]
    return eager + [{**model, "tp": 1, "compiled": True} for model in MODELS if "experts" not in model]


def main() -> int:
    on_a_processor(sys.argv[1])
    attend_locally()
    for case in cases():
        print(json.dumps({**case, "kept": json.loads(in_a_process(kept, case, 0))}), flush=True)
    return 0


def kept(case: dict[str, Any], rank: int) -> int:
    if not case["compiled"]:
        torch.rms_norm = norm
    return int(run(case, "none")["kept"])


if __name__ == "__main__":
    sys.exit(main())
