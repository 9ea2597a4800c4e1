"""Runs one step of PyTorch's own pipeline schedules over FSDP2 stages, and prints what a rank gathered, scattered and held.

usage: PYTHON -m scripts.oracle.pipelined_fsdp

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed). One rank of the group runs, and collectives are noted,
not made. Each chunk has two layers of 2 x 256 x 1,024 weights. A pipeline of one rank is a loop over micro batches. With
``copies``, as many groups of four ranks hold the same shards.
Each line is a JSON object: ``gathers`` and ``scatters`` count the collectives of one layer on average, with their bytes;
``weights_held`` and ``gradients_held`` are the most layers whose gathered weights, and whose whole FP32 gradients, were there at
once. tests/unit/cost_models/step/test_pipelined_sharding.py holds the numbers.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle.meters import Collectives
from scripts.oracle.ranks import in_a_process

HIDDEN, WIDTH, LAYERS, SHARDS = 256, 1024, 2, 4
SENT = Collectives(lambda: "step")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, WIDTH, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        HELD.look()
        return self.down(torch.relu(self.up(x)))


class Held:
    """The most layers that were gathered, and that had whole gradients, where a layer ran or a pass ended."""

    def __init__(self) -> None:
        self.layers: list[nn.Module] = []
        self.weights = self.gradients = 0

    def look(self) -> None:
        groups = [fully_shard.state(each)._fsdp_param_groups[0] for each in self.layers]
        whole = sum(group.is_unsharded for group in groups)
        added = sum(group.fsdp_params[0].unsharded_accumulated_grad is not None for group in groups)
        self.weights, self.gradients = max(self.weights, whole), max(self.gradients, added)


HELD = Held()


def run(case: dict[str, Any], rank: int) -> dict[str, Any]:
    pp, vpp, micro_batches, copies = case["pp"], case["vpp"], case["micro_batches"], case["copies"]
    dist.init_process_group("fake", store=FakeStore(), rank=rank * copies * SHARDS, world_size=pp * copies * SHARDS)
    SENT.install()
    dist.recv = lambda tensor, **_given: tensor.fill_(1)  # all stages vote for the shapes that they were given
    dist.send = lambda tensor, **_given: None
    mesh = dist.init_device_mesh("cpu", (pp, copies, SHARDS), mesh_dim_names=("pp", "copies", "shards"))
    SENT.names |= {mesh[name].get_group().group_name: name for name in ("copies", "shards")}
    sharded = mesh["shards"] if copies == 1 else mesh["copies", "shards"]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    stages = []
    for chunk in range(vpp):
        module = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        for layer in module:
            fully_shard(layer, mesh=sharded, mp_policy=policy, reshard_after_forward=case["reshard_after_forward"])
            HELD.layers.append(layer)
        fully_shard(module, mesh=sharded, mp_policy=policy, reshard_after_forward=case["reshard_after_forward"])
        index = chunk * pp + rank
        first, later = (torch.zeros(2, HIDDEN, dtype=torch.bfloat16, requires_grad=each) for each in (index > 0, True))
        given = {"input_args": first, "output_args": later}
        stages.append(PipelineStage(module, index, pp * vpp, torch.device("cpu"), group=mesh["pp"].get_group(), **given))
    for stage in stages:
        original = stage.backward_one_chunk

        def backward(*args: Any, original: Any = original, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            HELD.look()
            return found

        stage.backward_one_chunk = backward
    given = {"n_microbatches": micro_batches, "loss_fn": lambda out, target: (out - target).square().sum()}
    schedule = Schedule1F1B(stages[0], **given) if vpp == 1 else ScheduleInterleaved1F1B(stages, **given)
    SENT.calls.clear()
    if pp == 1:
        for _ in range(micro_batches):
            stages[0].submod(torch.zeros(2, HIDDEN, dtype=torch.bfloat16)).square().sum().backward()
            HELD.look()
        return counted()
    whole = torch.zeros(2 * micro_batches, HIDDEN, dtype=torch.bfloat16)
    ends = [whole] if rank == 0 else []
    schedule.step(*ends, **({"target": whole} if rank == pp - 1 else {}))
    return counted()


def counted() -> dict[str, Any]:
    gathers, scatters = (
        sum(count for call, count in SENT.calls.items() if call.split("|")[1:3] == [f"shards:{SHARDS}", kind])
        for kind in ("all_gather", "reduce_scatter")
    )
    return {
        "gathers": gathers / len(HELD.layers),
        "scatters": scatters / len(HELD.layers),
        "calls": {call: count for call, count in SENT.calls.items() if "|shards:" in call or "|copies:" in call},
        "weights_held": HELD.weights,
        "gradients_held": HELD.gradients,
        "layers": len(HELD.layers),
    }


CASES = [
    {"pp": pp, "vpp": vpp, "micro_batches": m, "copies": 1, "reshard_after_forward": reshard}
    for pp, vpp, m in ((2, 1, 4), (4, 1, 4), (4, 1, 8), (4, 1, 16), (2, 2, 4), (2, 2, 8), (2, 3, 8), (2, 4, 8), (4, 8, 16))
    for reshard in (False, True)
] + [{"pp": pp, "vpp": 1, "micro_batches": 4, "copies": 2, "reshard_after_forward": True} for pp in (1, 2)]


def main() -> int:
    for case in CASES:
        for rank in (0, case["pp"] - 1):
            answer = in_a_process(run, case, rank)
            print(json.dumps({**case, "rank": rank, "found": json.loads(answer) if answer else None}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
