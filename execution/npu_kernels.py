"""Kernels of torch_npu and MindSpeed in 16 bits: shapes, what each keeps for its backward, and FLOPs.

``KEPT`` says it in words, with the line of the source that shows it: torch_npu's autograd (``tools/autograd/derivatives.yaml``
of v2.7.1) or MindSpeed's at the commit that launch files name. A name that is not here is refused once the framework calls it.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from execution import running
from execution.devices import Nothing
from execution.running import UnknownKernelError, answer, used

VERSION, DEVICE = "2.7.1", "Ascend910B"
CANN = "8.3.RC1"  # MindSpeed asks whether it is 8.0.RC2 or older: core/transformer/moe/legacy_a2a_token_dispatcher.py
KEPT = {
    "npu_rms_norm": "input, gain, FP32 1 / rms: torch_npu derivatives.yaml, npu_rms_norm",
    "npu_swiglu": "input: torch_npu derivatives.yaml, npu_swiglu",
    "npu_fusion_attention": "q, k, v, output, maximum and sum of the softmax, each 8 FP32 a row and head: "
    "torch_npu derivatives.yaml, npu_fusion_attention",
    "npu_rotary_position_embedding": "cos and sin: mindspeed/ops/csrc/cann/npu_rotary_position_embedding.cpp:115",
    "npu_all_gather_base_mm": "nothing: mindspeed/core/tensor_parallel/mc2_feature/linear_function.py:26",
    "npu_mm_reduce_scatter_base": "nothing: mindspeed/core/tensor_parallel/mc2_feature/linear_function.py:154",
    "npu_matmul_add_fp32": "nothing: mindspeed/ops/npu_matmul_add.py:51",
    "npu_moe_token_permute_with_routing_map": "routing map, and 4 bytes a row: mindspeed/te/pytorch/permutation.py:32",
    "_npu_moe_token_unpermute_with_routing_map": "three maps of 4 bytes a row: mindspeed/te/pytorch/permutation.py:86",
    "_moe_chunk_sort": "4 bytes a row: mindspeed/lite/ops/triton/sort_chunks_by_idx.py:270",
    "npu_apply_fused_adamw_v2": "nothing: mindspeed/ops/npu_apply_fused_adamw_v2.py:10",
    "npu_gmm": "rows, weights, rows of each expert: mindspeed/ops/gmm.py:37",
    "npu_groupmatmul_add_fp32": "nothing: mindspeed/ops/npu_groupmatmul_add.py:11",
    "reuse_data_ptr": "nothing, and frees the target's memory: mindspeed/ops/csrc/algorithm/algorithm.cpp:3",
}


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gain: torch.Tensor) -> Any:
        scale = x.new_empty((*x.shape[: x.dim() - gain.dim()], *[1] * gain.dim()), dtype=torch.float32)
        ctx.save_for_backward(x, gain, scale)
        ctx.mark_non_differentiable(scale)
        return torch.empty_like(x, memory_format=torch.contiguous_format), scale

    @staticmethod
    def backward(ctx: Any, _gradient: torch.Tensor, _: Any) -> Any:
        x, gain, _scale = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(gain)


class _Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))

    @staticmethod
    def backward(ctx: Any, _gradient: torch.Tensor) -> Any:
        return torch.empty_like(ctx.saved_tensors[0])


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        # The input as well where cos or sin want gradients, and a rotation never does.
        ctx.save_for_backward(cos, sin)
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return torch.empty_like(gradient), None, None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, layout: str) -> Any:
        if layout == "SBH":
            rows, batch, width = q.shape
            keys, width_of_values = k.shape[0], v.shape[-1] * width // k.shape[-1]
        elif layout == "BNSD":
            batch, _, rows, each = q.shape
            keys, width, width_of_values = k.shape[2], heads * each, heads * v.shape[-1]
        else:
            raise UnknownKernelError(f"torch_npu.npu_fusion_attention with input_layout={layout}")
        out = q.new_empty((*q.shape[:-1], width_of_values if layout == "SBH" else v.shape[-1]))
        most, total = (q.new_empty((batch, heads, rows, 8), dtype=torch.float32) for _ in range(2))
        ctx.save_for_backward(q, k, v, out, most, total)
        ctx.mark_non_differentiable(most, total)
        ctx.flops = batch * rows * keys * (width + width_of_values)
        running.meter.multiplied("attention", ctx.flops)
        return out, most, total

    @staticmethod
    def backward(ctx: Any, _gradient: torch.Tensor, *_values: Any) -> Any:
        q, k, v, *_ = ctx.saved_tensors
        running.meter.multiplied("attention", 2 * ctx.flops)
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), None, None


def rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
    """``torch_npu.npu_rms_norm``."""
    used("npu_rms_norm")
    return _RmsNorm.apply(x, gamma)


def swiglu(x: torch.Tensor, dim: int = -1) -> Any:
    """``torch_npu.npu_swiglu``."""
    used("npu_swiglu")
    return _Swiglu.apply(x)


def rotary_position_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: int = 0) -> Any:
    """MindSpeed's ``npu_rotary_position_embedding``."""
    used("npu_rotary_position_embedding")
    return _Rotary.apply(x, cos, sin)


def fusion_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, head_num: int, input_layout: str, **given: Any
) -> Any:
    """``torch_npu.npu_fusion_attention`` with a causal mask."""
    unusual = {name: given[name] for name in ("pse", "padding_mask", "actual_seq_qlen", "sink") if given.get(name) is not None}
    if unusual or given.get("sparse_mode", 0) != 2 or given.get("keep_prob", 1.0) != 1.0:
        raise UnknownKernelError(
            f"torch_npu.npu_fusion_attention with {', '.join(unusual) or 'sparse_mode=' + str(given.get('sparse_mode'))}"
        )
    used("npu_fusion_attention")
    out, most, total = _Attention.apply(query, key, value, head_num, input_layout)
    return out, most, total, query.new_empty((0,)), 0, 0, 0


def matmul_add(x: torch.Tensor, gradient: torch.Tensor, _buffer: torch.Tensor) -> None:
    """MindSpeed's weight gradient, added to the buffer."""
    used("npu_matmul_add_fp32")
    running.meter.multiplied("matmul", 2 * x.numel() * gradient.shape[-1])


def all_gather_base_mm(
    x: torch.Tensor, weight: torch.Tensor, group: Any, size: int, *, gather_output: bool = True, **_given: Any
) -> Any:
    """``torch_npu.npu_all_gather_base_mm``: the product of the gathered rows, and the rows."""
    used("npu_all_gather_base_mm")
    rows = x.shape[0] * size
    running.calls.note("all_gather_into_tensor", group, rows * x.shape[1] * x.element_size(), x.dtype)
    running.meter.multiplied("matmul", 2 * rows * weight.numel())
    return x.new_empty((rows, weight.shape[1])), x.new_empty((rows if gather_output else 0, x.shape[1]))


def mm_reduce_scatter_base(x: torch.Tensor, weight: torch.Tensor, group: Any, size: int, **_given: Any) -> torch.Tensor:
    """``torch_npu.npu_mm_reduce_scatter_base``: the rank's rows of the summed product."""
    used("npu_mm_reduce_scatter_base")
    running.calls.note("reduce_scatter_tensor", group, x.shape[0] * weight.shape[1] * x.element_size(), x.dtype)
    running.meter.multiplied("matmul", 2 * x.shape[0] * weight.numel())
    return x.new_empty((x.shape[0] // size, weight.shape[1]))


def permute(
    x: torch.Tensor, routing_map: torch.Tensor, *, probs: Any = None, num_out_tokens: Any = None, drop_and_pad: bool = False
) -> Any:
    """``torch_npu.npu_moe_token_permute_with_routing_map``: rows by expert, their probabilities, and where each came from."""
    if drop_and_pad:
        raise UnknownKernelError("torch_npu.npu_moe_token_permute_with_routing_map with drop_and_pad")
    used("npu_moe_token_permute_with_routing_map")
    rows = int(num_out_tokens)
    moved = None if probs is None else probs.new_empty((rows,))
    return x.new_empty((rows, x.shape[-1])), moved, x.new_empty((rows,), dtype=torch.int32)


def permute_gradient(
    gradient: torch.Tensor, of_probs: Any, _indices: torch.Tensor, _map: torch.Tensor, experts: int, tokens: int, _pad: bool
) -> Any:
    """Gradients of rows by token."""
    probs = None if of_probs is None else of_probs.new_empty((tokens, experts))
    return gradient.new_empty((tokens, gradient.shape[-1])), probs


def unpermute(x: torch.Tensor, indices: torch.Tensor, shape: Any, *, probs: Any = None, **_given: Any) -> Any:
    """``torch_npu._npu_moe_token_unpermute_with_routing_map``: rows by token, and two maps of rows."""
    if probs is not None:
        raise UnknownKernelError("torch_npu._npu_moe_token_unpermute_with_routing_map with probs")
    used("_npu_moe_token_unpermute_with_routing_map")
    return x.new_empty(tuple(shape)), torch.empty_like(indices), torch.empty_like(indices), None


def unpermute_gradient(gradient: torch.Tensor, indices: torch.Tensor, *_values: Any, **_given: Any) -> Any:
    """Gradients of rows by expert."""
    return gradient.new_empty((indices.numel(), gradient.shape[-1])), None


class ChunkSort(torch.autograd.Function):
    """MindSpeed's Triton kernel that puts chunks of rows into another order."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, _sizes: Any, _order: Any, probs: Any) -> Any:
        used("_moe_chunk_sort")
        ctx.map = x.new_empty((x.shape[0],), dtype=torch.int32)
        return torch.empty_like(x), None if probs is None else torch.empty_like(probs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, of_probs: Any) -> Any:
        return torch.empty_like(gradient), None, None, None if of_probs is None else torch.empty_like(of_probs)


def grouped(
    x: list[torch.Tensor], weight: list[torch.Tensor], _bias: Any, rows_of: Any, group_type: int, *_values: Any
) -> list[torch.Tensor]:
    """MindSpeed's ``npu_gmm``: each row times the weight of its expert, or (type 2) the weight gradient of each expert."""
    used("npu_gmm")
    running.meter.multiplied("matmul", 2 * x[0].numel() * weight[0].shape[-1])
    shape = (len(rows_of),) if group_type == 2 else ()
    return [x[0].new_empty((*shape, x[0].shape[0], weight[0].shape[-1]))]


def grouped_backward(gradient: list[torch.Tensor], x: list[torch.Tensor], weight: list[torch.Tensor], *_values: Any) -> Any:
    """Gradients of rows and weights."""
    running.meter.multiplied("matmul", 4 * x[0].numel() * weight[0].shape[-1])
    return [torch.empty_like(x[0])], [torch.empty_like(weight[0])], []


def grouped_backward_of_rows(gradient: list[torch.Tensor], weight: list[torch.Tensor], *_values: Any) -> Any:
    """Gradients of rows alone."""
    running.meter.multiplied("matmul", 2 * gradient[0].numel() * weight[0].shape[-2])
    return [gradient[0].new_empty((gradient[0].shape[0], weight[0].shape[-2]))], [], []


def grouped_add(x: torch.Tensor, gradient: torch.Tensor, _rows: torch.Tensor, _buffer: torch.Tensor) -> None:
    """MindSpeed's weight gradient of experts, added to the buffer."""
    used("npu_groupmatmul_add_fp32")
    running.meter.multiplied("matmul", 2 * x.numel() * gradient.shape[-1])


TORCH_NPU = {
    "npu_moe_token_permute_with_routing_map": permute,
    "npu_moe_token_permute_with_routing_map_grad": permute_gradient,
    "npu_moe_token_unpermute_with_routing_map": unpermute,
    "_npu_moe_token_unpermute_with_routing_map": unpermute,
    "npu_moe_token_unpermute_with_routing_map_grad": unpermute_gradient,
    "npu_all_gather_base_mm": all_gather_base_mm,
    "npu_mm_reduce_scatter_base": mm_reduce_scatter_base,
    "npu_rms_norm": rms_norm,
    "npu_swiglu": swiglu,
    "npu_fusion_attention": fusion_attention,
}


def modules() -> dict[str, dict[str, Any]]:
    """Modules of torch_npu and their names."""
    return {
        "torch_npu": {**TORCH_NPU, "__version__": VERSION, "__file__": __file__},
        "torch_npu.npu": {name: value for name, value in vars(torch.cuda).items() if not name.startswith("__")}
        | {"_lazy_call": lambda *_values: None, "get_device_name": lambda *_values: answer("device", DEVICE)},
        "torch_npu.utils": {},
        "torch_npu.utils.collect_env": {"get_cann_version": lambda: answer("CANN", CANN)},
        "torch_npu._C": {},
        "torch_npu._C._distributed_c10d": {"ProcessGroupHCCL": types.SimpleNamespace(Options=Nothing)},
    }


def fused_adamw(*_values: Any) -> None:
    """MindSpeed's ``npu_apply_fused_adamw_v2``, which changes weights and moments where they are."""
    used("npu_apply_fused_adamw_v2")


def reuse_data_ptr(target: torch.Tensor, _source: torch.Tensor, _offset: int) -> None:
    """MindSpeed's ``reuse_data_ptr``: the target's storage becomes a part of the source's, and its own memory is freed."""
    used("reuse_data_ptr")
    running.live.release(target)


BUILT = {
    "reuse_data_ptr": reuse_data_ptr,
    "npu_apply_fused_adamw_v2": fused_adamw,
    "npu_gmm": grouped,
    "npu_gmm_backward": grouped_backward,
    "npu_gmm_backward_fusion": grouped_backward_of_rows,
    "npu_groupmatmul_add_fp32": grouped_add,
    "npu_rotary_position_embedding": rotary_position_embedding,
    "npu_matmul_add_fp32": matmul_add,
}


class Built:
    """A library of MindSpeed's own operators."""

    def __init__(self, name: str) -> None:
        self.library = name

    def __getattr__(self, name: str) -> Any:
        if name not in BUILT:
            raise UnknownKernelError(f"mindspeed.ops.{self.library}.{name}")
        return BUILT[name]
