"""Attention and rotary embedding of Transformer Engine in 16 bits: what they keep, send and multiply."""

from __future__ import annotations

from typing import Any

import torch

from execution import running
from execution.running import UnknownKernelError, used


def _pairs(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, axis: int, size: int) -> int:
    """FLOPs of scores and their product with the values, both causal; ``size`` ranks share the positions of ``axis`` evenly."""
    batch, heads = query.shape[1 - axis], query.shape[2]
    return batch * heads * query.shape[axis] * key.shape[axis] * size * (query.shape[-1] + value.shape[-1])


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: Any, ring: bool, axis: int) -> Any:
        size = 1 if group is None else group.size()
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        sums = q.new_empty((q.shape[1 - axis], q.shape[2], q.shape[axis], 1), dtype=torch.float32)
        if ring:
            pair = torch.cat((k.reshape(-1), v.reshape(-1)))
            for _ in range(size - 1):
                running.calls.note("isend", group, pair.numel() * pair.element_size(), pair.dtype)
                running.calls.note("irecv", group, pair.numel() * pair.element_size(), pair.dtype)
            ctx.save_for_backward(q, pair, out, sums)
        else:
            ctx.save_for_backward(q, k, v, out, sums)
        ctx.shapes, ctx.group, ctx.ring = (k.shape, v.shape), group, ring
        ctx.flops = _pairs(q, k, v, axis, size if ring else 1)
        running.meter.multiplied("attention", ctx.flops)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        q, *rest = ctx.saved_tensors
        running.meter.multiplied("attention", 2 * ctx.flops)  # flash attention's recompute of the scores is not counted
        gradient = gradient.contiguous()
        of_q = torch.empty_like(q, memory_format=torch.contiguous_format)
        if ctx.ring:
            pair = rest[0]
            buffers = [pair.new_empty((2, *pair.shape)) for _ in range(2)]
            for index in range(ctx.group.size()):
                first, last = index == 0, index == ctx.group.size() - 1
                for _ in range((not last) + (not first)):  # the pair, and its gradient
                    running.calls.note("isend", ctx.group, pair.numel() * pair.element_size(), pair.dtype)
                    running.calls.note("irecv", ctx.group, pair.numel() * pair.element_size(), pair.dtype)
            del buffers
        of_k, of_v = (q.new_empty(shape) for shape in ctx.shapes)
        return of_q, of_k, of_v, None, None, None


class _GatheredAttention(torch.autograd.Function):
    """Attention of a rank's two pieces of queries to gathered keys, in sbhd."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: Any) -> Any:
        _, _ = (_gathered(each, group) for each in (k, v))
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        pieces = [out.new_empty((out.shape[0] // 2, *out.shape[1:])) for _ in range(2)]
        sums = [q.new_empty((q.shape[1], q.shape[2], q.shape[0] // 2, 1), dtype=torch.float32) for _ in range(2)]
        ctx.save_for_backward(q, k, v, *pieces, *sums)
        ctx.group, ctx.flops = group, _pairs(q, k, v, 0, group.size())
        running.meter.multiplied("attention", ctx.flops)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        q, k, v = ctx.saved_tensors[:3]
        running.meter.multiplied("attention", 2 * ctx.flops)  # flash attention's recompute of the scores is not counted
        of_q = torch.empty_like(q)
        sums = [_whole(each, ctx.group) for each in (k, v)]
        keys, values = (_gathered(each, ctx.group) for each in (k, v))
        rank, size = ctx.group.rank(), ctx.group.size()
        of_pieces = [q.new_empty((q.shape[0] // 2, *q.shape[1:])) for _ in range(2)]
        for piece in (rank, 2 * size - rank - 1):
            seen = keys.shape[0] * (piece + 1) // (2 * size)
            of_pieces += [each.new_empty((seen, *each.shape[1:])) for each in (keys, values)]
        for index in range(2):
            sums[index] = torch.empty_like(sums[index])  # in the order of ranks
        for each in sums:
            running.calls.note("reduce_scatter_tensor", ctx.group, each.numel() * each.element_size(), each.dtype)
        return of_q, torch.empty_like(k), torch.empty_like(v), None


def _whole(x: torch.Tensor, group: Any) -> torch.Tensor:
    return x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))


def _gathered(x: torch.Tensor, group: Any) -> torch.Tensor:
    running.calls.note("all_gather_into_tensor", group, x.numel() * x.element_size() * group.size(), x.dtype)
    return torch.empty_like(_whole(x, group))  # in the order of the sequence


class _Exchange(torch.autograd.Function):
    """All-to-all of heads against positions."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any, to_heads: bool) -> Any:
        ctx.group, ctx.to_heads = group, to_heads
        return _exchanged(x, group, to_heads)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _exchanged(gradient.contiguous(), ctx.group, not ctx.to_heads), None, None


def _exchanged(x: torch.Tensor, group: Any, to_heads: bool) -> torch.Tensor:
    size = group.size()
    running.calls.note("all_to_all_single", group, x.numel() * x.element_size(), x.dtype)
    length, batch, heads, width = x.shape
    shape = (length * size, batch, heads // size, width) if to_heads else (length // size, batch, heads * size, width)
    return x.new_empty(shape)


class DotProductAttention(torch.nn.Module):
    """``transformer_engine.pytorch.DotProductAttention`` with a fused kernel and a causal mask."""

    def __init__(self, num_attention_heads: int, kv_channels: Any, **given: Any) -> None:
        super().__init__()
        if given.get("window_size") not in (None, (-1, -1), (-1, 0)):
            raise UnknownKernelError(f"DotProductAttention with window_size={given['window_size']}")
        if given.get("softmax_type", "vanilla") != "vanilla":
            raise UnknownKernelError(f"DotProductAttention with softmax_type={given['softmax_type']}")
        self.cp_group, self.cp_comm_type = given.get("cp_group"), given.get("cp_comm_type", "p2p")
        if self.cp_group is not None and self.cp_comm_type not in ("p2p", "a2a", "all_gather"):
            raise UnknownKernelError(f"DotProductAttention with cp_comm_type={self.cp_comm_type}")

    def set_context_parallel_group(self, group: Any, *_values: Any) -> None:
        self.cp_group = group

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None, **given: Any) -> torch.Tensor:
        form = given.get("qkv_format") or getattr(self, "qkv_format", "sbhd")  # Megatron sets the attribute
        split = self.cp_group is not None and self.cp_group.size() > 1
        exchanges, gathers = (split and self.cp_comm_type == kind for kind in ("a2a", "all_gather"))
        if given.get("attn_mask_type") != "causal" or form not in ("sbhd", "bshd") or ((exchanges or gathers) and form == "bshd"):
            raise UnknownKernelError(f"DotProductAttention with {given.get('attn_mask_type')}, {form}")
        if given.get("core_attention_bias") is not None:
            raise UnknownKernelError("DotProductAttention with a bias of the scores")
        q, k, v = (each.contiguous() for each in (q, k, v))
        size = 1 if self.cp_group is None else self.cp_group.size()
        if exchanges:
            used("AttnFuncWithCPAndQKVOA2A")
            q, k, v = (_Exchange.apply(each, self.cp_group, True) for each in (q, k, v))
            out = _Exchange.apply(_Attention.apply(q, k, v, None, False, 0), self.cp_group, False)
        elif gathers:
            used("AttnFuncWithCPAndKVAllGather")
            out = _GatheredAttention.apply(q, k, v, self.cp_group)
        else:
            used("AttnFuncWithCPAndKVP2P" if size > 1 else "DotProductAttention")
            out = _Attention.apply(q, k, v, self.cp_group, size > 1, form.index("s"))
        return out.reshape(out.shape[0], out.shape[1], -1)


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, freqs: torch.Tensor) -> Any:
        ctx.save_for_backward(freqs)
        return torch.empty_like(t, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return torch.empty_like(gradient, memory_format=torch.contiguous_format), None


def apply_rotary_pos_emb(t: torch.Tensor, freqs: torch.Tensor, **given: Any) -> torch.Tensor:
    """The fused rotary embedding of one tensor."""
    used("apply_rotary_pos_emb")
    return _Rotary.apply(t, freqs)
