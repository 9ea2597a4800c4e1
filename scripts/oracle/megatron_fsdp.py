"""Runs one step of Megatron-FSDP over a small model without a device, and prints what a rank gathered, scattered and held.

usage: PYTHON -m scripts.oracle.megatron_fsdp CHECKOUT

PYTHON is an interpreter with PyTorch (2.13 was used), CHECKOUT a work tree of NVIDIA/Megatron-LM at core_v0.19.0. One rank of the
group runs, and collectives are noted, not made. Each layer has 2 x 256 x 1,024 weights, with ``norm`` 256 more, so that its
bucket is padded; each table ``words`` x 256. ``unit``: parameters that may wait for their reduction
(``suggested_communication_unit_size``); half as many are gathered ahead. ``None``: the default for layers of this size, had they
more than half a billion parameters, the least of which is a billion.
Each line is a JSON object: bytes of each collective of a step; ``weights_held``, ``gradients_held``: the most parameters whose
gathered weights, and whose whole gradients, were there when a layer's bucket was added (``gradients_at_ends``: a table's);
``shards``: bytes of a rank's buffers by name.
tests/unit/cost_models/step/test_megatron_fsdp.py holds the numbers.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle import processor
from scripts.oracle.meters import Collectives, Done
from scripts.oracle.ranks import in_a_process

HIDDEN, WIDTH, WORDS, SHARDS = 256, 1024, 4096, 4
SENT = Collectives(lambda: "step")


class Layer(nn.Module):
    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, WIDTH, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.norm = nn.LayerNorm(HIDDEN, bias=False) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, layers: int, words: int, norm: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, HIDDEN)
        self.layers = nn.ModuleList(Layer(norm) for _ in range(layers))
        self.head = nn.Linear(HIDDEN, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def run(case: dict[str, Any], _rank: int) -> dict[str, Any]:
    processor.install()
    torch.cuda.current_device = lambda: 0
    dist._coalescing_manager = coalesced
    sys.path.insert(0, str(Path(case["checkout"]) / "megatron/core/distributed/fsdp/src"))
    from megatron_fsdp import FSDPDistributedIndex, MegatronFSDP, MixedPrecisionPolicy
    from megatron_fsdp import param_and_grad_buffer as buffers
    from megatron_fsdp.distributed_data_parallel_config import DistributedDataParallelConfig

    copies = case["copies"]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=copies * SHARDS)
    SENT.install()
    names = ("copies", "shards", "tp")
    mesh = dist.init_device_mesh("cpu", (copies, SHARDS, 1), mesh_dim_names=names)
    SENT.names |= {mesh[name].get_group().group_name: name for name in names}
    hybrid = {"dp_outer_dim": "copies", "hybrid_fsdp_group": dist.group.WORLD} if copies > 1 else {}
    index = FSDPDistributedIndex(mesh, dp_shard_dim="shards", tp_dim="tp", **hybrid)
    config = DistributedDataParallelConfig(
        data_parallel_sharding_strategy=case["strategy"],
        overlap_grad_reduce=True,
        overlap_param_gather=case["strategy"] == "optim_grads_params",
        bucket_size=case["words"] * HIDDEN,
        suggested_communication_unit_size=case["unit"],
    )
    forget_the_least(MegatronFSDP)
    model = Model(case["layers"], case["words"], case["norm"]).to(torch.bfloat16)
    units = [Layer] if case["strategy"] == "optim_grads_params" else []
    policy = MixedPrecisionPolicy(main_grads_dtype=getattr(torch, case["gradients"]))
    given = {"fsdp_unit_modules": units, "calculate_per_token_loss": True, "device": processor.PROCESSOR}
    sharded = MegatronFSDP(model, index, config, policy, **given)
    groups = sharded.param_and_grad_buffer.parameter_groups
    most = {"weights_held": 0, "gradients_held": 0, "gradients_at_ends": 0}

    def held(bucket: int) -> None:
        whole = [g for i, g in enumerate(groups) if sharded.all_gather_pipeline.bucket_status[i, False].name in READY]
        waiting = [g.main_grad_buffer for g in groups if g.main_grad_buffer.bucket_index.bucket_id in filled(g.main_grad_buffer)]
        most["weights_held"] = max(most["weights_held"], sum(g.model_weight_buffer.bucket_index.size for g in whole))
        when = "gradients_held" if groups[bucket].params[0].shape[0] != case["words"] else "gradients_at_ends"
        most[when] = max(most[when], sum(b.bucket_index.size for b in waiting))

    def step() -> None:
        sharded.start_param_sync()
        for micro_batch in range(case["micro_batches"]):
            sharded.is_last_microbatch = micro_batch == case["micro_batches"] - 1
            sharded(torch.zeros(2, 8, dtype=torch.long)).square().sum().backward()
        sharded.finish_grad_sync()
        sharded.zero_grad_buffer()

    step()
    for kind in (buffers.TemporaryBucketAllocator, buffers.StorageResizeBasedBucketAllocator):
        kind.allocate = followed(kind.allocate, held)
    SENT.calls.clear()
    step()
    shards = {
        name: sum(getattr(g, name).data.nbytes for g in groups)
        for name in ("model_weight_buffer", "main_weight_buffer", "main_grad_buffer")
    }
    return {**most, "shards": shards, "calls": dict(SENT.calls)}


def forget_the_least(kind: Any) -> None:
    """Lets the default of ``unit`` be below a billion."""
    code = kind._init_fsdp_param_and_grad_buffer.__code__
    kind._init_fsdp_param_and_grad_buffer.__code__ = code.replace(
        co_consts=tuple(1 if each == 1_000_000_000 else each for each in code.co_consts)
    )


@contextlib.contextmanager
def coalesced(*_given: Any, **_named: Any) -> Iterator[Done]:
    yield Done()


def followed(allocate: Any, look: Any) -> Any:
    """An allocator's method that looks what is held whenever it has added a bucket."""

    def allocated(*given: Any, **named: Any) -> Any:
        found = allocate(*given, **named)
        look(named["bucket_id"])
        return found

    return allocated


READY = ("COMMUNICATING", "READY_TO_USE")


def filled(buffer: Any) -> set[int]:
    """Buckets of an allocator that have memory."""
    buckets = buffer.temporary_bucket_allocator.buckets
    return {number for number, bucket in buckets.items() if bucket.data.untyped_storage().nbytes()}


LAYER = 2 * HIDDEN * WIDTH
BASE = {"strategy": "optim_grads_params", "layers": 8, "micro_batches": 1, "copies": 1, "gradients": "float32"}
CASES = [
    {**BASE, "strategy": strategy, "micro_batches": m, "copies": copies, "gradients": gradients, "unit": unit * LAYER}
    | {"words": WORDS, "norm": False}
    for strategy in ("optim_grads_params", "optim_grads")
    for m, copies, gradients, unit in (
        (1, 1, "float32", 2),
        (3, 1, "float32", 2),
        (3, 1, "bfloat16", 5),
        (2, 1, "float32", 6),
        (3, 2, "float32", 2),
    )
] + [
    {**BASE, "unit": unit and int(unit * LAYER), "words": words, "norm": norm}
    for words, norm, unit in (
        (2512, False, 1.168),
        (2512, False, 2.5),
        (WORDS, False, 4.75),
        (2512, True, None),
        (WORDS, True, None),
        (6000, True, None),
    )
]


def main() -> int:
    for case in CASES:
        answer = in_a_process(run, {**case, "checkout": sys.argv[1]}, 0)
        print(json.dumps({**case, "found": json.loads(answer) if answer else None}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
