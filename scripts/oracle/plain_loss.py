"""Runs PyTorch's own loss whole and over shards of the vocabulary, and prints the most bytes that it holds for each logit.

usage: PYTHON -m scripts.oracle.plain_loss

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed). The loss runs forward and backward on BF16 logits that
are cast to FP32 and let go of before the backward, as torchtitan's trainer does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.distributed.fake_pg import FakeStore

TOKENS, VOCABULARY = 512, 128256


def step(mesh: DeviceMesh, leaf: torch.Tensor, labels: torch.Tensor) -> None:
    logits = leaf * 1
    if mesh.size() == 1:
        loss = cross_entropy(logits.float(), labels)
        del logits
        loss.backward()
    else:
        logits = DTensor.from_local(logits, mesh, [Shard(1)], run_check=False)
        with loss_parallel():
            loss = cross_entropy(logits.float(), DTensor.from_local(labels, mesh, [Replicate()], run_check=False))
            del logits
            loss.backward()
    leaf.grad = None


def most_bytes_a_logit(ranks: int) -> float:
    mesh = init_device_mesh("cpu", (ranks,))
    leaf = torch.randn(TOKENS, VOCABULARY // ranks, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, VOCABULARY, (TOKENS,))
    step(mesh, leaf, labels)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step(mesh, leaf, labels)
    with tempfile.TemporaryDirectory() as folder:
        profiled.export_chrome_trace(str(path := Path(folder) / "trace.json"))
        events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: float(event["ts"])):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most / leaf.numel()


def main() -> int:
    for ranks in (1, 2, 8):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        print(json.dumps({"ranks": ranks, "bytes_a_logit": round(most_bytes_a_logit(ranks), 2)}), flush=True)
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
