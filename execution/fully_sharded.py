"""One step of a Hugging Face model under FSDP2, as PyTorch's own recipe shards it: layer by layer, then the rest.

Weights are FP32 shards, gathered in 16 bits; gradients are summed in FP32 after every micro batch. Attention has a stand-in that
keeps what a fused kernel keeps, because ``sdpa`` on tensors without data builds a mask of all scores.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from typing import Any

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from execution import running
from execution.running import calls, enter, live, meter, used

KEPT = {"fused attention": "q, k, v, output, FP32 log-sum-exp: aten/src/ATen/native/transformers/cuda/attention.cu"}


def prepare(question: dict[str, Any]) -> None:
    """Import PyTorch's sharding and the library of models once."""
    torch.set_num_threads(1)
    sys.path[:0] = question["folders"]
    calls.install()
    importlib.import_module("torch.distributed.fsdp")
    import transformers  # type: ignore[import-not-found]

    transformers.AttentionInterface.register(
        "counted", lambda _module, q, k, v, _mask, **_given: (_Attention.apply(q, k, v), None)
    )
    transformers.AttentionMaskInterface.register("counted", lambda *_values, **_keywords: None)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        used("fused attention")
        batch, heads, length, width = q.shape
        out, sums = q.new_empty((batch, length, heads, width)), q.new_empty((batch, heads, length), dtype=torch.float32)
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.flops = 2 * batch * heads * length**2 * width
        meter.multiplied("attention", ctx.flops)
        return out

    @staticmethod
    def backward(ctx: Any, _gradient: torch.Tensor) -> Any:
        q, k, v, *_ = ctx.saved_tensors
        meter.multiplied("attention", 2 * ctx.flops)
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def run(question: dict[str, Any], rank: int, stages: list[str]) -> dict[str, Any]:
    """The counts of one rank."""
    import transformers
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    stages.append("groups")
    world = question["num_processes"]
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    mesh = dist.init_device_mesh("cpu", (world,))  # it reads values, so it comes before the tensors without data
    calls.names[id(mesh.get_group())] = "dp"
    stages.append("model")
    with FakeTensorMode(allow_non_fake_inputs=True), meter:
        live.kind = "model"
        config = transformers.AutoConfig.for_model(**question["model"], use_cache=False)
        config._attn_implementation = "counted"
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.train()
        if question["checkpoints"]:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        given = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
        number = sum(each.numel() for each in model.parameters())
        for layer in model.model.layers:
            fully_shard(layer, **given)
        fully_shard(model, **given)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
        stages.append("step")
        found = _step(question, model, optimizer)
    return found | {
        "num_microbatches": question["num_microbatches"],
        "parameters": [{"dense": number, "experts": 0}],
        "calls": calls.by_group(),
        "flops": dict(meter.flops),
        "assumed": dict(meter.assumed),
        "kernels": {name: {"count": count, "keeps": KEPT[name]} for name, count in running.kernels.items()},
        "operators": meter.operators,
    }


def _local_bytes(tensors: Any) -> int:
    storages = [each._local_tensor.untyped_storage() for each in tensors if each is not None]
    return sum({id(each): each.nbytes() for each in storages}.values())  # gradients of a layer share one


def _step(question: dict[str, Any], model: Any, optimizer: Any) -> dict[str, Any]:
    entries: list[tuple[int, int]] = []
    layers: Counter[int] = Counter()
    tensors: dict[str, list[tuple[int, str]]] = {}

    def begin() -> None:
        """A layer begins with its weights gathered; the one before, as large, has given its own back."""
        if meter.phase != "forward" or torch._C._current_graph_task_id() != -1:
            return
        if entries:
            layers[live.total - entries[-1][0]] += 1
            tensors.setdefault("dense", live.between(entries[-1][1], live.number)[:40])
        entries.append((live.total, live.number))

    for name, module in model.named_modules():
        short = name.rpartition(".")[2]
        module.register_forward_pre_hook(lambda _m, _a, short=short: meter.path.append(short))
        module.register_forward_hook(lambda _m, _a, _o: (meter.path.pop() if meter.path else None, None)[1], always_call=True)
    for layer in model.model.layers:
        layer.register_forward_pre_hook(lambda _m, _a: begin())
    calls.log.clear()
    built, live.kind = live.total, "step"
    live.reset_peak()
    shape = (question["micro_batch_size"], question["seq_length"])
    for _ in range(question["num_microbatches"]):
        enter("forward")
        entries.clear()
        tokens = torch.zeros(shape, dtype=torch.long)
        loss = model(input_ids=tokens, labels=tokens).loss
        enter("backward")
        loss.backward()
        del loss, tokens
    parameters = list(model.parameters())
    states = {"weights": _local_bytes(parameters), "gradients": _local_bytes(each.grad for each in parameters), "master": 0}
    peak = {"passes": live.peak, "at": live.peak_label}
    enter("optimizer")
    optimizer.step()
    moments = [value for state in optimizer.state.values() for value in state.values() if hasattr(value, "_local_tensor")]
    optimizer.zero_grad()
    return {
        "states": states | {"moments": _local_bytes(each for each in moments if each.dim() > 0)},
        "built": built,
        "peak": peak,
        "after_step": live.total,
        "layers": {"dense": dict(layers.most_common(4))},
        "tensors": tensors,
    }
