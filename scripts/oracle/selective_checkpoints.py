"""Runs torchtitan's layers under its checkpoints by operator, and prints what a layer kept and multiplied again.

usage: PYTHON -m scripts.oracle.selective_checkpoints TREE

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed) and what torchtitan imports, TREE a tree of torchtitan
(v0.2.2). One rank of the group runs; collectives send nothing. Each line is a JSON object for one case: ``kept`` are the bytes of
a layer between its passes, ``again`` the FLOPs of plain and grouped matmuls in its backward beyond those of a layer without
checkpoints. Of a compiled layer, both are read off the graphs that PyTorch's partitioner makes. The save list is torchtitan's
own, with the processor's fused attention in place of a GPU's. tests/oracle/selective_checkpoints.json holds the lines.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from scripts.oracle.meters import Storages
from scripts.oracle.ranks import in_a_process

KERNELS = "torchtitan.models.moe.kernels"  # Triton's
CLASSES = {
    "llama3": ("TransformerModelArgs", "Transformer"),
    "qwen3": ("Qwen3ModelArgs", "Qwen3Model"),
    "deepseek_v3": ("DeepSeekV3ModelArgs", "DeepSeekV3Model"),
}
ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
VIEWS = {
    operator.getitem,
    *(torch.ops.aten.view.default, torch.ops.aten.permute.default, torch.ops.aten.alias.default),
    *(torch.ops.aten.transpose.int, torch.ops.aten.slice.Tensor, torch.ops.aten.unsqueeze.default),
    *(torch.ops.aten.split_with_sizes.default, torch.ops.aten.split.Tensor),
}
SAMPLES, SEQUENCE, LAYERS = 2, 256, 3
DENSE = {"dim": 256, "n_layers": LAYERS, "n_heads": 8, "n_kv_heads": 2, "vocab_size": 512}
LLAMA = {**DENSE, "multiple_of": 64}  # gate and up have 704 channels
QWEN = {**DENSE, "head_dim": 64, "hidden_dim": 640}
EXPERTS = {"num_experts": 8, "top_k": 2, "num_shared_experts": 0, "score_func": "softmax", "route_norm": True}
SHARED = {**EXPERTS, "num_shared_experts": 2}
LATENT = {
    **{name: DENSE[name] for name in ("dim", "n_layers", "n_heads", "vocab_size")},
    **{"inter_dim": 640, "n_dense_layers": LAYERS, "q_lora_rank": 0, "kv_lora_rank": 96},
    **{"qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 64},
}
QUERIES = {**LATENT, "q_lora_rank": 160}
CASES: list[dict[str, Any]] = [
    *({"family": "llama3", "args": LLAMA, "tp": tp, "compiled": compiled} for tp in (1, 2) for compiled in (False, True)),
    *({"family": "qwen3", "args": QWEN, "tp": 1, "compiled": compiled} for compiled in (False, True)),
    *({"family": "qwen3", "args": QWEN, "experts": experts, "tp": 1, "compiled": False} for experts in (EXPERTS, SHARED)),
    *({"family": "deepseek_v3", "args": args, "tp": 1, "compiled": False} for args in (LATENT, QUERIES)),
    *({"family": "deepseek_v3", "args": args, "experts": SHARED, "tp": 1, "compiled": False} for args in (LATENT, QUERIES)),
]


class Matmuls(TorchDispatchMode):
    """FLOPs of plain and of grouped matmuls."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.flops += flops_of(func, args)
        return func(*args, **(kwargs or {}))


def flops_of(func: Any, args: Any) -> int:
    """2 x rows x columns x depth of a matmul; each row of a grouped one meets one expert. 0 for other operators."""
    if func not in (torch.ops.aten.mm.default, torch.ops.aten._grouped_mm.default):
        return 0
    left, right = (getattr(each, "_local_tensor", each) for each in args[:2])
    if left.ndim == right.ndim == 2:  # the gradient of grouped weights divides the depth between the experts
        return int(2 * left.shape[0] * left.shape[1] * right.shape[1])
    return int(2 * left.shape[0] * left.shape[1] * right.shape[-1])


def storage_of(node: Any) -> Any:
    """The node of a graph that made the storage of ``node``'s tensor."""
    while node.target in VIEWS and (node.target is not operator.getitem or node.args[0].target in VIEWS):
        node = node.args[0]
    return node


def sorted_rows(counts: Any, experts: int, ranks: int, most: int, multiple: int) -> Any:
    """What torchtitan's kernel makes: rows of each expert by sender, padded to a multiple, -1 where there is none."""
    sent = counts.long().view(ranks, experts)
    sizes = ((sent.sum(0) + multiple - 1) // multiple * multiple).clamp(min=multiple)
    starts = (sent.flatten().cumsum(0) - sent.flatten()).view(ranks, experts)
    rows = torch.full((most,), -1, dtype=torch.int32)
    for expert, place in enumerate((sizes.cumsum(0) - sizes).tolist()):
        of_expert = [torch.arange(starts[rank, expert], starts[rank, expert] + sent[rank, expert]) for rank in range(ranks)]
        found = torch.cat(of_expert).to(torch.int32)
        rows[place : place + len(found)] = found
    return rows, sizes.to(torch.int32), sizes.cumsum(0)


def model_of(case: dict[str, Any], mode: str, backend: Any) -> Any:
    """The parallel model with its checkpoints, compiled by ``backend``."""
    family = f"torchtitan.models.{case['family']}"
    arguments = importlib.import_module(f"{family}.model.args")
    parallel = importlib.import_module(f"{family}.infra.parallelize")
    named = CLASSES[case["family"]]
    given = {**case["args"], "max_seq_len": SEQUENCE}
    if "experts" in case:
        given |= {"moe_inter_dim": 128, "moe_args": arguments.MoEArgs(**case["experts"])}
        given |= {"n_dense_layers": 0} if "n_dense_layers" in given else {"moe_enabled": True}
    made = getattr(arguments, named[0])(**given)
    made.moe_impl = "standard"  # as a file's default sets it
    model = getattr(importlib.import_module(f"{family}.model.model"), named[1])(made)
    with torch.no_grad():
        model.init_weights(buffer_device=torch.device("cpu"))
    model = model.to(torch.bfloat16)
    if case["family"] == "llama3":
        model.freqs_cis = model.freqs_cis[:SEQUENCE]
    if case["tp"] > 1:
        mesh = dist.init_device_mesh("cpu", (case["tp"],), mesh_dim_names=("tp",))
        apply = parallel.apply_tp if case["family"] == "llama3" else parallel.apply_non_moe_tp
        more = {"enable_async_tp": False} if case["family"] == "qwen3" else {}
        apply(model, mesh, loss_parallel=True, enable_float8_tensorwise_tp=False, cp_enabled=False, **more)
        if "experts" in case:
            meshes = dict.fromkeys(("ep_mesh", "etp_mesh", "ep_etp_mesh"))
            if case.get("ep", 1) > 1:
                meshes["ep_mesh"] = dist.init_device_mesh("cpu", (case["ep"],), mesh_dim_names=("ep",))
                exchange: Any = importlib.import_module("torchtitan.distributed.expert_parallel")
                exchange.all_to_all_single = lambda counts, *_, **__: counts.long()  # every rank sends as much
            parallel.apply_moe_ep_tp(model, tp_mesh=mesh, dual_pipe_v=False, **meshes)
    if mode != "none":
        config = importlib.import_module("torchtitan.config.job_config").ActivationCheckpoint
        apply_ac = importlib.import_module("torchtitan.distributed.activation_checkpoint").apply_ac
        chosen = config(mode="selective", selective_ac_option="op", early_stop=True)
        apply_ac(model, chosen, op_sac_save_list={*parallel._op_sac_save_list, ATTENTION})
    if backend is not None:
        for name, layer in model.layers.named_children():
            model.layers.register_module(name, torch.compile(layer, backend=backend, fullgraph=True))
    return model


def run(case: dict[str, Any], mode: str) -> dict[str, Any]:
    """Bytes that the second layer keeps, and FLOPs of the matmuls of a backward, in ``mode``."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["tp"])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    tokens = torch.randint(0, DENSE["vocab_size"], (SAMPLES, SEQUENCE))
    return (_compiled if case["compiled"] else _eager)(case, mode, tokens)


def _eager(case: dict[str, Any], mode: str, tokens: Any) -> dict[str, Any]:
    model = model_of(case, mode, None)
    meter, entries, matmuls = Storages(), list[int](), Matmuls()
    for each in itertools.chain(model.parameters(), model.buffers()):
        meter.leave_out(getattr(each, "_local_tensor", each))
    for layer in model.layers.values():
        layer.register_forward_pre_hook(lambda module, given: entries.append(meter.live_bytes()))
    with meter:
        out = _local(model(tokens))
    with matmuls:
        out.float().sum().backward()
    return {"kept": entries[2] - entries[1], "flops": matmuls.flops}


def _compiled(case: dict[str, Any], mode: str, tokens: Any) -> dict[str, Any]:
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    kept, flops = list[int](), list[int]()

    def forward(graph: Any, given: Any) -> Callable[..., Any]:
        placed = [node for node in graph.graph.nodes if node.op == "placeholder"]
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        made = {storage_of(node) for node in output.args[0][1:] if node is not None}
        values = [node.meta["val"] for node in made if node.op == "call_function"]
        (stream,) = (node.meta["val"] for node in placed if node.meta["val"].ndim == 3)  # the layer's input
        kept.append(stream.nbytes + sum(value.nbytes for value in values if isinstance(value, torch.Tensor)))
        return make_boxed_func(graph.forward)

    def backward(graph: Any, given: Any) -> Callable[..., Any]:
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        matmuls = [node for node in calls if node.target is torch.ops.aten.mm.default]
        flops.append(sum(flops_of(node.target, [each.meta["val"] for each in node.args]) for node in matmuls))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    out = _local(model_of(case, mode, backend)(tokens))
    with contextlib.suppress(AttributeError):  # on a processor gradients of DTensors do not pass from layer to layer
        out.float().sum().backward()
    return {"kept": kept[0], "flops": LAYERS * flops[0]}


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def on_a_processor(tree: str) -> None:
    """Makes the torchtitan of ``tree`` importable and its layers run without a device."""
    sys.path.insert(0, tree)
    kernels: Any = types.ModuleType(KERNELS)
    kernels.generate_permute_indices = sorted_rows
    kernels.fill_indices_cpu = None
    sys.modules[KERNELS] = kernels
    counted = torch.histc
    # A processor counts no integers.
    torch.histc = lambda given, *bins, **more: counted(given.float(), *bins, **more).to(given.dtype)
    importlib.import_module("torch._utils")._get_available_device_type = lambda: "cpu"


def main() -> int:
    on_a_processor(sys.argv[1])
    for case in CASES:
        plain, chosen = (json.loads(in_a_process(run, case, mode)) for mode in ("none", "op"))
        again = (chosen["flops"] - plain["flops"]) // LAYERS
        print(json.dumps({**case, "kept": chosen["kept"], "again": again}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
