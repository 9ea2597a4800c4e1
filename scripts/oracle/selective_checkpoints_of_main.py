"""Runs layers of torchtitan's main under its checkpoints by operator, and prints what a layer kept and multiplied again.

usage: PYTHON -m scripts.oracle.selective_checkpoints_of_main TREE

As ``scripts.oracle.selective_checkpoints``, with TREE a tree of main: dense layers, with one matmul of queries, keys and values.
PyTorch's fused attention for processors runs in place of FlexAttention. tests/oracle/selective_checkpoints_of_main.json holds the
lines.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from scripts.oracle import selective_checkpoints as of_0_2
from scripts.oracle.selective_checkpoints import ATTENTION, DENSE, LAYERS, LLAMA, QWEN

GATE_AND_UP = 704
CASES: list[dict[str, Any]] = [
    {"family": family, "args": given, "tp": 1, "compiled": compiled}
    for family, given in (("llama3", LLAMA), ("qwen3", QWEN))
    for compiled in (False, True)
]


class Attention(nn.Module):
    def forward(self, queries: Any, keys: Any, values: Any, **_: Any) -> Any:
        groups = queries.shape[1] // keys.shape[1]
        keys, values = (each.repeat_interleave(groups, dim=1) for each in (keys, values))
        given = (each.transpose(0, 1).unsqueeze(0) for each in (queries, keys, values))
        return scaled_dot_product_attention(*given, is_causal=True).squeeze(0).transpose(0, 1)


class Model(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(DENSE["vocab_size"], DENSE["dim"])
        self.layers = nn.ModuleDict({str(index): layer for index, layer in enumerate(layers)})

    def forward(self, tokens: Any) -> Any:
        stream, positions = self.embedding(tokens.flatten()), torch.arange(tokens.numel())
        for layer in self.layers.values():
            stream = layer(stream, None, positions)
        return stream


def model_of(case: dict[str, Any], mode: str, backend: Any) -> Any:
    """The model with its checkpoints, compiled by ``backend``."""
    importlib.import_module("torchtitan.distributed.utils").set_spmd_backend("partial_dtensor")
    family, rope = (importlib.import_module(f"torchtitan.models.{name}") for name in (case["family"], "common"))
    given, width = case["args"], case["args"].get("head_dim", DENSE["dim"] // DENSE["n_heads"])
    sizes = {name: given[name] for name in ("n_layers", "dim", "n_heads", "n_kv_heads")}
    turns = rope.ComplexRoPE if case["family"] == "llama3" else rope.CosSinRoPE
    sizes |= {"hidden_dim": given.get("hidden_dim", GATE_AND_UP), "attn_backend": "flex"}
    sizes |= {"rope": turns.Config(dim=width, max_context_length=1024)}
    if case["family"] == "qwen3":
        sizes["head_dim"] = width
    layers = [each.build() for each in getattr(family, f"_build_{case['family']}_layers")(**sizes)]
    for layer in layers:
        layer.attention.inner_attention = Attention()
    model = Model(layers).to(torch.bfloat16)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.02)
        for name, buffer in model.named_buffers():
            assert "cache" in name
            buffer.zero_()
    for layer in layers:
        layer.attention.rope.init_states(buffer_device=torch.device("cpu"))
    if mode != "none":
        checkpoints = importlib.import_module("torchtitan.distributed.activation_checkpoint")
        saved = checkpoints._get_default_save_ops
        checkpoints._get_default_save_ops = lambda: {*saved(), ATTENTION}
        checkpoints.SelectiveAC.Config().build().apply(model)
    if backend is not None:
        for name, layer in model.layers.named_children():
            model.layers.register_module(name, torch.compile(layer, backend=backend, fullgraph=True))
    return model


def run(case: dict[str, Any], mode: str) -> dict[str, Any]:
    of_0_2.model_of = model_of
    return of_0_2.run(case, mode)


def main() -> int:
    sys.path.insert(0, sys.argv[1])
    importlib.import_module("torch._utils")._get_available_device_type = lambda: "cpu"
    for case in CASES:
        plain, chosen = (json.loads(of_0_2.in_a_process(run, case, mode)) for mode in ("none", "op"))
        again = (chosen["flops"] - plain["flops"]) // LAYERS
        print(json.dumps({**case, "kept": chosen["kept"], "again": again}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
