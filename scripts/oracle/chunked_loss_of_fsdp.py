"""Runs torchtitan's loss by chunks on a head under FSDP2, and prints what it held and multiplied.

usage: PYTHON -m scripts.oracle.chunked_loss_of_fsdp TREE

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed) and what torchtitan imports, TREE a tree of
torchtitan's main. Each line is a JSON object for one case: ``peak`` are the most bytes at once beside the shard of the head's
weights, ``kept`` those behind the loss, with the shard's gradient, ``flops`` those of the matmuls.
tests/oracle/chunked_loss_of_fsdp.json holds the lines. With ``shards`` of the vocabulary the loss is that of tensor parallelism,
and its group sends nothing; FSDP has one rank. Of a compiled loss, which needs a C++ compiler, ``peak`` alone is counted, beside
the loss' input and labels.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle.meters import Storages, most_allocated

CASES = [
    {"tokens": tokens, "hidden": hidden, "vocabulary": vocabulary, "chunks": chunks, "shards": shards}
    for shards in (1, 2)
    for tokens, hidden, vocabulary, chunks in (
        (1024, 64, 4000, 8),
        (1024, 64, 4000, 16),
        (2048, 64, 4000, 8),
        (1024, 256, 4000, 8),
        (1024, 256, 4000, 32),
        (1024, 512, 2000, 64),
        (1024, 512, 2000, 4),
    )
]
COMPILED = [
    {"tokens": tokens, "hidden": hidden, "vocabulary": vocabulary, "chunks": chunks, "shards": shards, "compiled": 1}
    for tokens, hidden, vocabulary, chunks, shards in (
        (4096, 64, 8000, 8, 1),
        (8192, 64, 8000, 8, 1),
        (4096, 256, 8000, 4, 1),
        (1024, 64, 4000, 8, 2),
        (1024, 64, 4000, 4, 2),
    )
]


def run(loss_module: Any, case: dict[str, int]) -> dict[str, Any]:
    torch.manual_seed(1)
    head = torch.nn.Linear(case["hidden"], case["vocabulary"] // case["shards"], bias=False)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    fully_shard(head, mesh=DeviceMesh("cpu", [0]), mp_policy=policy)
    inner_loss = loss_module.CrossEntropyLoss.Config(global_vocab_size=case["vocabulary"])
    compiling = importlib.import_module("torchtitan.config").CompileConfig(enable="compiled" in case, components=["loss"])
    made = loss_module.ChunkedLossWrapper.Config(num_chunks=case["chunks"], loss_fn=inner_loss)
    loss = made.build(compile_config=compiling)
    loss.set_lm_head(head)
    hidden = torch.randn(case["tokens"], case["hidden"], dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, case["vocabulary"], (case["tokens"],))
    valid = torch.tensor(float(case["tokens"]))

    def step(meter: Storages | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        inner = hidden * 1
        if meter is not None:
            meter.leave_out(inner)
            meter.peak_bytes = 0
        value, _ = loss(inner, labels, valid)
        if meter is not None:
            found = {"peak": meter.peak_bytes, "kept": meter.live_bytes(), "flops": sum(meter.flops.values())}
        value.backward()
        return found

    step(None)
    head.zero_grad()
    if "compiled" in case:
        inner = hidden * 1
        return {"peak": most_allocated(lambda: loss(inner, labels, valid))}
    meter = Storages()
    with meter:
        return step(meter)


def main() -> int:
    sys.path.insert(0, sys.argv[1])
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    module = importlib.import_module("torchtitan.components.loss")
    importlib.import_module("torchtitan.distributed.utils").set_spmd_backend("spmd_types")
    mesh = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",))  # made outside of what is compiled
    for case in CASES + COMPILED:
        torch._dynamo.reset()
        module.spmd_mesh_size = lambda _axis, shards=case["shards"]: shards
        module.current_spmd_mesh = lambda: mesh
        print(json.dumps({**case, **run(module, case)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
