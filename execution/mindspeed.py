"""One step of MindSpeed-LLM: its start is Megatron-LM's, with its patches applied before."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from typing import Any

from execution import devices, even_shares, experts, megatron, npu_kernels, packages, triton_kernels
from execution.running import calls, meter, routing

import torch  # isort: skip
import torch.distributed as dist

KEPT = npu_kernels.KEPT
ADDED = (
    *("--no-check-for-nan-in-loss-and-grad", "--rerun-mode", "disabled", "--distributed-timeout-minutes", "10"),
    *("--disable-gloo-process-groups", "--disable-gloo-group", "--tokenizer-type", "NullTokenizer"),
    "--no-create-attention-mask-in-dataloader",
)
# Packages that the framework imports, and that its step does not need.
IMPORTED = (
    *(
        "transformers",
        "peft",
        "datasets",
        "tiktoken",
        "ray",
        "sentencepiece",
        "tqdm",
        "safetensors",
        "accelerate",
        "pandas",
        "scipy",
    ),
    *("torchair", "acl", "bitsandbytes", "nevergrad", "highspy", "sqlalchemy", "networkx", "wandb", "nltk", "six", "regex"),
)


def prepare(question: dict[str, Any]) -> None:
    """Import the framework once, with stand-ins for the kernels of its accelerator."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.environ.update(question.get("environment", {}))
    megatron.act_as(0, question["num_processes"])
    calls.install()
    devices.install(lambda: None if meter.phase == "setup" else meter)
    absent = [name for name in IMPORTED if importlib.util.find_spec(name) is None]
    packages.provide(
        npu_kernels.modules() | triton_kernels.modules(),
        {},
        whole=("torch_npu", *absent),
    )
    torch.npu = torch.cuda
    dist.new_group = dist.distributed_c10d.new_group = _without_options(dist.new_group)
    sys.path[:0] = question["folders"]
    sys.argv = ["pretrain_gpt.py", *megatron.arguments(question, ADDED)]
    with packages.decorating():
        importlib.import_module("pretrain_gpt")


def run(question: dict[str, Any], rank: int, stages: list[str]) -> dict[str, Any]:
    """The counts of one rank."""
    return megatron.run(question, rank, stages, VARIANT)


def _without_options(real: Any) -> Any:
    """``new_group`` without options of HCCL, which a group that makes no calls does not take."""

    def new_group(*values: Any, **keywords: Any) -> Any:
        return real(*values, **{name: value for name, value in keywords.items() if name not in ("pg_options", "backend")})

    return new_group


def _kernels(args: Any) -> None:
    """Operators that MindSpeed would build of its C++ sources."""
    _keep_counts(args)
    builder, atb = (importlib.import_module(f"mindspeed.op_builder.{name}") for name in ("builder", "atb_builder"))
    builder.MindSpeedOpBuilder.load = atb.AtbOpBuilder.load = lambda each, *_values, **_keywords: npu_kernels.Built(each.name)
    grouped = sys.modules.get("mindspeed.ops.gmm")
    if grouped is not None:  # the registered operators have a backward on the accelerator alone
        grouped._npu_gmm_common = _grouped_by(grouped)
    for name in ("mindspeed.lite.ops.triton.sort_chunks_by_idx", "mindspeed.ops.triton.sort_chunks_by_idx"):
        if name in sys.modules:
            sys.modules[name]._moe_chunk_sort = npu_kernels.ChunkSort  # type: ignore[attr-defined]
    linear = sys.modules.get("mindspeed.core.tensor_parallel.mc2_feature.linear_function")
    if linear is not None:  # the kernels get the group in place of the communicator's name
        linear.get_hcomm_info_and_world_size = lambda group: (group, group.size())


def _keep_counts(args: Any) -> None:
    """Let grouped matmuls have the tensor of rows of each expert, which they read on the device."""
    if not args.num_experts:
        return
    dispatcher = importlib.import_module("megatron.core.transformer.moe.token_dispatcher").MoEAlltoAllTokenDispatcher
    balanced = dispatcher._maybe_dtoh_and_synchronize

    def host_copy(each: Any, point: str, tokens_per_expert: Any = None) -> Any:
        balanced(each, point, tokens_per_expert)
        return tokens_per_expert

    dispatcher._maybe_dtoh_and_synchronize = host_copy
    if getattr(args, "moe_fb_overlap", False):
        overlapped = importlib.import_module("mindspeed.core.transformer.moe.moe_feature.fb_overlap.modules.token_dispatcher")
        kind = overlapped.MindSpeedMOEAlltoAllFbOverlapTokenDispatcher
        kind.preprocess = _with_even_shares(kind.preprocess)


def _with_even_shares(counted: Any) -> Any:
    """The preparation of a dispatcher that copies its counts to the host itself."""

    def preprocess(each: Any, routing_map: torch.Tensor) -> Any:
        routing["counting"] = experts.Shares([0])
        try:
            found = counted(each, routing_map)
        finally:
            del routing["counting"]
        rows = int(each.num_out_tokens)
        if each.ep_size > 1 or each.tp_size > 1:
            sent, received, _ = even_shares.splits(rows, each.num_experts, each.ep_size, experts.rank_of(each))
            each.input_splits, each.output_splits = experts.Shares(sent), experts.Shares(received)
            each.output_splits_tp = experts.Shares([sum(received)] * each.tp_size)
        meter.assume("even shares")
        return found

    return preprocess


def _grouped_by(module: Any) -> Any:
    """MindSpeed's own choice of its autograd function."""

    def common(*values: Any, group_list_type: int = 0, **keywords: Any) -> Any:
        return (module._npu_gmm_v2 if group_list_type else module._npu_gmm)(*values, **keywords)

    return common


VARIANT = megatron.Variant(ADDED, KEPT, package_states=False, before_build=_kernels)
