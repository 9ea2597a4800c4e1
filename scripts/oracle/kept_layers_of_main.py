"""Runs experts of torchtitan's main without checkpoints, and prints what a layer's kept between its passes.

usage: PYTHON -m scripts.oracle.kept_layers_of_main TREE

As ``scripts.oracle.kept_layers``, with TREE a tree of main. Its own sharding is applied, over ``tp`` ranks that are also those of
the experts where ``ep`` is more than 1. Every rank routes as many tokens to every expert. A stand-in computes the router in FP32,
for which a processor has no autocast. What was given to the experts, and their output, is not counted.
tests/oracle/kept_layers_of_main.json holds the lines.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Shard
from torch.nn.functional import linear
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle.kept_layers import norm
from scripts.oracle.meters import Storages
from scripts.oracle.ranks import in_a_process
from scripts.oracle.selective_checkpoints import QWEN, SAMPLES, SEQUENCE, _local
from scripts.oracle.selective_checkpoints_of_main import Attention

EXPERTS = {"num_experts": 8, "top_k": 2, "num_shared_experts": 0}
SMALL = {**QWEN, "n_kv_heads": 8}  # a processor's attention repeats keys of groups, a GPU's does not
WIDE = {**QWEN, "dim": 512, "n_heads": 16, "n_kv_heads": 16}
CASES: list[dict[str, Any]] = [
    {"family": "qwen3", "args": given, "experts": {**EXPERTS, **more}, "tp": tp, "ep": ep, "compiled": False}
    for given, more in ((SMALL, {}), (WIDE, {"top_k": 4}), (SMALL, {"num_shared_experts": 2}))
    for tp, ep in ((1, 1), (2, 1), (2, 2))
]


class LocalAttention(Attention):
    def forward(self, *given: Any, **more: Any) -> Any:
        if not isinstance(given[0], DTensor):
            return super().forward(*given, **more)
        out = super().forward(*(each.to_local() for each in given), **more)
        return DTensor.from_local(out, given[0].device_mesh, given[0].placements, run_check=False)


def balanced(own: Any, scores: Any) -> Any:
    """As many tokens for every expert, of sharded scores by the rank's part."""
    if not isinstance(scores, DTensor):
        return own(scores)
    found = own(scores.to_local())
    return tuple(DTensor.from_local(each, scores.device_mesh, scores.placements, run_check=False) for each in found)


class Model(nn.Module):
    def __init__(self, layers: list[nn.Module], mesh: Any) -> None:
        super().__init__()
        self.embedding, self.mesh = nn.Embedding(QWEN["vocab_size"], layers[0].attention_norm.weight.shape[0]), mesh
        self.layers = nn.ModuleDict({str(index): layer for index, layer in enumerate(layers)})

    def forward(self, tokens: Any) -> Any:
        ranks = self.mesh.size() if self.mesh is not None else 1
        stream, positions = self.embedding(tokens.flatten()[: tokens.numel() // ranks]), torch.arange(tokens.numel())
        if self.mesh is not None:
            stream = DTensor.from_local(stream, self.mesh, [Shard(0)], run_check=False)
        for layer in self.layers.values():
            stream = layer(stream, None, positions)
        return stream


def model_of(case: dict[str, Any]) -> Any:
    importlib.import_module("torchtitan.distributed.utils").set_spmd_backend("partial_dtensor")
    family, common, shared, sharding, parallel = (
        importlib.import_module(f"torchtitan.{name}")
        for name in ("models.qwen3", "models.common", "models.common.config_utils", "models.qwen3.sharding", "distributed")
    )
    given, experts = case["args"], case["experts"]
    sizes = {name: given[name] for name in ("n_layers", "dim", "n_heads", "n_kv_heads", "head_dim")}
    sizes |= {"moe_hidden_dim": 128, "num_experts": experts["num_experts"], "top_k": experts["top_k"]}
    sizes |= {"attn_backend": "flex", "moe_comm_backend": "standard"}
    sizes |= {"rope": common.CosSinRoPE.Config(dim=given["head_dim"], max_context_length=1024)}
    layers = []
    for config in family._build_qwen3_moe_layers(**sizes):
        config.moe.router._debug_force_load_balance = True
        if experts["num_shared_experts"]:
            config.moe.shared_experts = shared.make_ffn_config(
                dim=given["dim"],
                hidden_dim=128 * experts["num_shared_experts"],
                w1_param_init=family._LINEAR_INIT,
                w2w3_param_init=family._LINEAR_INIT,
            )
        sharding._set_qwen3_layer_sharding(config, enable_sp=True, enable_ep=case["ep"] > 1)
        layers.append(config.build())
    mesh = None
    for layer in layers:
        layer.attention.inner_attention = LocalAttention()
        layer.moe.router.gate.forward = lambda rows, gate=layer.moe.router.gate: linear(rows.float(), gate.weight.float())
        layer.moe.router._debug_force_load_balance_routing = partial(balanced, layer.moe.router._debug_force_load_balance_routing)
    model = Model(layers, None).to(torch.bfloat16)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.02)
        for buffer in model.buffers():
            buffer.zero_()
    for layer in layers:
        layer.attention.rope.init_states(buffer_device=torch.device("cpu"))
    if case["tp"] > 1:
        sizes = {name: 1 for name in ("dp_replicate", "dp_shard", "cp", "pp")}
        dims = parallel.ParallelDims(**sizes, tp=case["tp"], ep=case["ep"], world_size=case["tp"], spmd_backend="partial_dtensor")
        mesh = dims.get_mesh("tp")
        for layer in layers:
            layer.parallelize(dims)
        exchange: Any = importlib.import_module("torchtitan.models.common.token_dispatcher")
        own = exchange.all_to_all_single
        exchange.all_to_all_single = lambda rows, sent, *more, **names: (
            rows.clone() if sent is None else own(rows, sent, *more, **names)
        )
    model.mesh = mesh
    return model


def kept(case: dict[str, Any], rank: int) -> int:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["tp"])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.rms_norm = norm
    model, meter, found = model_of(case), Storages(), list[int]()
    for each in itertools.chain(model.parameters(), model.buffers()):
        meter.leave_out(getattr(each, "_local_tensor", each))
    experts = model.layers["1"].moe
    experts.register_forward_pre_hook(lambda *_: found.append(meter.live_bytes()))
    experts.register_forward_hook(lambda module, given, out: found.append(meter.live_bytes() - _local(out).nbytes))
    with meter:
        out = model(torch.randint(0, QWEN["vocab_size"], (SAMPLES, SEQUENCE)))
    assert out.requires_grad
    return found[1] - found[0]


def main() -> int:
    sys.path.insert(0, sys.argv[1])
    importlib.import_module("torch._utils")._get_available_device_type = lambda: "cpu"
    for case in CASES:
        print(json.dumps({**case, "kept": json.loads(in_a_process(kept, case, 0))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
