"""Transformer Engine's kernels that move rows of experts, and its loss: what they keep and send."""

from __future__ import annotations

from typing import Any

import torch

from execution import running
from execution.running import UnknownKernelError, used


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, probs: Any, routing_map: torch.Tensor, rows: int) -> Any:
        tokens, experts = routing_map.shape
        row_map = x.new_empty((tokens, 2 * experts + 1), dtype=torch.int32)
        ctx.save_for_backward(row_map)
        ctx.mark_non_differentiable(row_map)
        ctx.shape, ctx.of_probs = x.shape, None if probs is None else probs.shape
        moved = None if probs is None else probs.new_empty((rows,))
        return x.new_empty((rows, x.shape[-1])), moved, row_map

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, of_probs: Any, _: Any) -> Any:
        probs = None if ctx.of_probs is None else of_probs.new_empty(ctx.of_probs)
        return gradient.new_empty(ctx.shape), probs, None, None


def moe_permute_with_probs(inp: torch.Tensor, probs: torch.Tensor, routing_map: torch.Tensor, num_out_tokens: int = -1) -> Any:
    """Rows by expert, and their probabilities."""
    used("moe_permute")
    rows, moved, row_map = _Permute.apply(inp, probs, routing_map, int(num_out_tokens))
    return rows, moved, row_map


def moe_permute(inp: torch.Tensor, routing_map: torch.Tensor, num_out_tokens: int = -1, **_keywords: Any) -> Any:
    """Rows by expert."""
    used("moe_permute")
    rows, _, row_map = _Permute.apply(inp, None, routing_map, int(num_out_tokens))
    return rows, row_map


class _Unpermute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, row_map: torch.Tensor, shape: Any) -> Any:
        ctx.save_for_backward(row_map)
        ctx.shape = x.shape
        return x.new_empty(tuple(shape))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient.new_empty(ctx.shape), None, None


def moe_unpermute(
    inp: torch.Tensor, row_id_map: torch.Tensor, merging_probs: Any = None, restore_shape: Any = None, **_k: Any
) -> Any:
    """Rows by token, summed."""
    if merging_probs is not None:
        raise UnknownKernelError("moe_unpermute with merging_probs")
    used("moe_unpermute")
    return _Unpermute.apply(inp, row_id_map, restore_shape)


class _Sort(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, probs: Any) -> Any:
        ctx.save_for_backward(x.new_empty((x.shape[0],), dtype=torch.int32))
        return torch.empty_like(x), None if probs is None else torch.empty_like(probs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, of_probs: Any) -> Any:
        return torch.empty_like(gradient), None if of_probs is None else torch.empty_like(of_probs)


def moe_sort_chunks_by_index_with_probs(inp: torch.Tensor, probs: torch.Tensor, split_sizes: Any, sorted_index: Any) -> Any:
    """Chunks of rows in another order, and their probabilities."""
    used("moe_sort_chunks_by_index")
    return _Sort.apply(inp, probs)


def moe_sort_chunks_by_index(inp: torch.Tensor, split_sizes: Any, sorted_index: Any) -> Any:
    """Chunks of rows in another order."""
    used("moe_sort_chunks_by_index")
    return _Sort.apply(inp, None)[0]


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, group: Any) -> Any:
        if group is not None and group.size() > 1:
            sums = logits.new_empty((logits.shape[0] * logits.shape[1] * 3 * group.size(),), dtype=torch.float32)
            running.calls.note("all_gather_into_tensor", group, sums.numel() * 4, sums.dtype)
        ctx.save_for_backward(logits.detach())
        return logits.new_empty(logits.shape[:-1], dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> Any:
        return ctx.saved_tensors[0], None


def parallel_cross_entropy(logits: torch.Tensor, labels: Any, smoothing: float, reduce: bool, group: Any, *_values: Any) -> Any:
    """The fused loss."""
    used("parallel_cross_entropy")
    return _Loss.apply(logits, group)
