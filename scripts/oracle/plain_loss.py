"""Runs PyTorch's own loss, eager and compiled, whole and over shards, and prints the most bytes that it holds for each logit.

usage: PYTHON -m scripts.oracle.plain_loss

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed, but a C++ compiler for the compiled loss). The loss
runs forward and backward on BF16 logits that are cast to FP32 and let go of before the backward, as torchtitan's trainer does.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import cross_entropy
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle.meters import most_allocated

TOKENS, VOCABULARY = 512, 128256


def of_logits(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits.float(), labels, reduction="sum")  # as torchtitan calls it


def step(mesh: DeviceMesh, leaf: torch.Tensor, labels: torch.Tensor, loss_of: Callable[..., torch.Tensor]) -> None:
    logits = leaf * 1
    if mesh.size() == 1:
        loss = loss_of(logits, labels)
        del logits
        loss.backward()
    else:
        logits = DTensor.from_local(logits, mesh, [Shard(1)], run_check=False)
        with loss_parallel():
            loss = loss_of(logits, DTensor.from_local(labels, mesh, [Replicate()], run_check=False))
            del logits
            loss.backward()
    leaf.grad = None


def most_bytes_a_logit(ranks: int, *, compiled: bool) -> float:
    mesh = init_device_mesh("cpu", (ranks,))
    leaf = torch.randn(TOKENS, VOCABULARY // ranks, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, VOCABULARY, (TOKENS,))
    torch._dynamo.reset()
    loss_of = torch.compile(of_logits) if compiled else of_logits
    step(mesh, leaf, labels, loss_of)
    return most_allocated(lambda: step(mesh, leaf, labels, loss_of)) / leaf.numel()


def main() -> int:
    for ranks, compiled in itertools.product((1, 2, 8), (False, True)):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        held = round(most_bytes_a_logit(ranks, compiled=compiled), 2)
        print(json.dumps({"ranks": ranks, "compiled": compiled, "bytes_a_logit": held}), flush=True)
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
