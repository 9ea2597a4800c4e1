"""Runs PyTorch's context-parallel attention that gathers keys and values, and prints what a rank sent and held.

usage: PYTHON -m scripts.oracle.gathered_keys

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed). One rank of the group runs, and nothing is moved.
Each line is a JSON object for one case, the largest of its ranks: ``forward`` and ``backward`` count the collectives and their
bytes (an all-gather's result, a send's message), and ``held`` is the most bytes at once beyond what was there before the pass.
tests/unit/cost_models/layer/test_gathered_keys.py holds the numbers.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor.experimental._context_parallel import _attention as parallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from execution.meters import Live
from scripts.oracle.ranks import in_a_process

NAMES = {"_c10d_functional.all_gather_into_tensor.default": "gather", "_c10d_functional.all_to_all_single.default": "send"}
CASES = [
    {"cp": cp, "tokens": tokens, "heads": heads, "groups": groups, "width": 128, "method": method}
    for cp, tokens, heads, groups in ((2, 512, 8, 8), (4, 256, 8, 2), (8, 256, 8, 1))
    for method in ("allgather", "alltoall")
]


class Watch(TorchDispatchMode):
    """Bytes of the storages that live, and the messages of collectives."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self.sent = Live(), Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and not isinstance(tensor, AsyncCollectiveTensor):  # around one that is counted
                self.live.see(tensor, str(func))
        if name := NAMES.get(str(func)):
            self.sent[name] += 1
            self.sent[f"{name}_bytes"] += made.nbytes
        return made


def forward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **given: Any) -> Any:
    """A kernel of fused attention: what it makes, without the values."""
    return torch.empty_like(query), query.new_empty(query.shape[:-1], dtype=torch.float32)


def backward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **given: Any) -> Any:
    """The gradients of a kernel of fused attention."""
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def run(case: dict[str, Any], rank: int) -> dict[str, Any]:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=case["cp"])
    parallel.set_rotate_method(case["method"])
    shapes = [(1, heads, case["tokens"], case["width"]) for heads in (case["heads"], case["groups"], case["groups"])]
    query, key, value = (torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes)
    watch, found = Watch(), {}
    for tensor in (query, key, value):
        watch.live.see(tensor, "input")
    with torch.no_grad(), watch:
        start = {"group": dist.group.WORLD, "seq_dim": 2, "query": query, "key": key, "value": value, "is_causal": True}
        for name in ("forward", "backward"):
            watch.sent.clear()
            watch.live.reset_peak()
            before = watch.live.total
            if name == "forward":
                out, statistics, *_ = parallel._templated_ring_attention(op=forward, **start)
            else:
                given = {"grad_out": torch.zeros_like(out), "grad_out_name": "grad_out", "out": out, "logsumexp": statistics}
                watch.live.reset_peak()
                before = watch.live.total
                parallel._templated_ring_attention_backward(op=backward, **start, **given)
            found[name] = {**watch.sent, "held": watch.live.peak - before}
    return found


def main() -> int:
    for case in CASES:
        answers = [json.loads(in_a_process(run, case, rank)) for rank in range(case["cp"])]
        most = max(answers, key=lambda answer: answer["backward"]["held"])
        print(json.dumps({**case, "found": most}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
