"""Runs one step of each case on Hugging Face transformers under FSDP2, in the interpreter that has PyTorch.

usage: PYTHON -m scripts.oracle.transformers_fsdp CASES OUT

One rank of the group runs. Collectives are noted, not made: the other ranks are taken to hold the same.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from scripts.oracle.cases import Case
from scripts.oracle.meters import Collectives, Storages
from scripts.oracle.ranks import run_each

METER = Storages()
SENT = Collectives(lambda: METER.phase)


def model_of(case: Case) -> Any:
    model = case["model"]
    values: dict[str, Any] = {
        "num_hidden_layers": model["num_layers"],
        "hidden_size": model["hidden_size"],
        "num_attention_heads": model["num_attention_heads"],
        "num_key_value_heads": model["num_query_groups"],
        "head_dim": model["hidden_size"] // model["num_attention_heads"],
        "intermediate_size": model["ffn_hidden_size"],
        "vocab_size": model["vocab_size"],
        "max_position_embeddings": 2 * case["seq_length"],
        "tie_word_embeddings": model.get("tied_embeddings", False),
        "use_cache": False,
        "attn_implementation": "sdpa",
    }
    kind = "Qwen3" if model.get("qk_layernorm") else "Llama"
    made = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**values))
    made.train()
    if case["strategy"].get("recompute"):
        made.gradient_checkpointing_enable({"use_reentrant": False})
    return made


def run(case: Case, rank: int) -> dict[str, Any]:
    """What a rank of the case held, sent and multiplied in its second step; the first one makes the moments."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=case["num_devices"])
    SENT.install()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    mesh = dist.init_device_mesh("cpu", (case["num_devices"],))
    SENT.names[mesh.get_group().group_name] = "dp"
    model = model_of(case)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    again = case["strategy"]["zero_stage"] == 3  # whether the backward gathers weights again
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=again)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    entries: list[int] = []

    def entering(module: Any, args: Any) -> None:
        if METER.phase == "forward":
            entries.append(METER.live_bytes())

    for layer in model.model.layers:
        layer.register_forward_pre_hook(entering)
    gradients = 0
    for _ in range(2):
        SENT.calls.clear()
        METER.flops.clear()
        optimizer.zero_grad()
        for _ in range(case["num_micro_batches"]):
            entries.clear()
            tokens = torch.randint(0, case["model"]["vocab_size"], (case["strategy"]["micro_batch_size"], case["seq_length"]))
            with METER:
                METER.phase = "forward"
                loss = model(input_ids=tokens, labels=tokens).loss
                METER.phase = "backward"
                loss.backward()
                METER.phase = "between"
            del loss
        gradients = sum(_local_bytes(each.grad) for each in model.parameters())
        optimizer.step()
    kept = [after - before for before, after in itertools.pairwise(entries)]
    moments = [t for state in optimizer.state.values() for t in state.values() if t.ndim]
    shard = sum(each._local_tensor.numel() for each in model.parameters())
    return {
        "parameters": {"dense": shard},
        "states": {"gradients": gradients, "master": 0, "moments": sum(map(_local_bytes, moments))},
        "layers": {"dense": kept[-1]},
        "flops": dict(METER.flops),
        "collectives": dict(sorted(SENT.calls.items())),
        "versions": {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__},
    }


def _local_bytes(tensor: Any) -> int:
    local = getattr(tensor, "_local_tensor", tensor)
    return int(local.numel() * local.element_size())


if __name__ == "__main__":
    sys.exit(run_each(run, json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])))
