"""Stand-ins for GPU kernels that keep for their backward what the kernels keep.

| kernel | keeps | source |
|---|---|---|
| norm of Transformer Engine | its input, contiguous, and 1 / rms in FP32 | transformer-engine, rmsnorm.py |
| fused rotary embedding of Transformer Engine | the table of the model alone | transformer-engine, rope.py |
| fused attention | queries, keys, values, output, log-sum-exp in FP32; values made contiguous where keys and values lie apart | \
transformer-engine, dot_product_attention/utils.py, get_qkv_layout |
| fused softmax | its output | megatron-0.12, fused_softmax.py |
| linear layers of latent attention that all ranks repeat | its input | megatron-0.12, gpt_layer_specs.py |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Norm(torch.autograd.Function):
    """RMS or layer norm of the last dimension."""

    @staticmethod
    def compute(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
        wide = x.float()
        mean = wide.mean(-1, keepdim=True) if bias is not None else None
        centred = wide if mean is None else wide - mean
        scale = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
        y = centred * scale * weight.float()
        return (y if bias is None else y + bias.float()).to(x.dtype), scale, mean

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        y, scale, mean = Norm.compute(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, scale, mean)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, weight, bias, _, _ = ctx.saved_tensors
        inputs = [each.detach().requires_grad_() for each in (x, weight, bias) if each is not None]
        with torch.enable_grad():
            y, _, _ = Norm.compute(*(inputs if bias is not None else (*inputs, None)), ctx.eps)
            found = torch.autograd.grad(y, inputs, gradient)
        return (*found, *(() if bias is not None else (None,)), None)


class FusedNorm(torch.nn.Module):
    def __init__(self, config: Any, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, dtype=config.params_dtype))
        layer_norm = config.normalization == "LayerNorm"
        self.bias = torch.nn.Parameter(torch.zeros(hidden_size, dtype=config.params_dtype)) if layer_norm else None
        for each in self.parameters():
            each.sequence_parallel = config.sequence_parallel
        self.eps = eps

    def forward(self, x: Any) -> Any:
        return Norm.apply(x.contiguous(), self.weight, self.bias, self.eps)


def rotary(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The given rotary embedding, as a kernel that keeps nothing but the model's table."""

    class Rotary(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, table: Any, args: Any, kwargs: Any) -> Any:
            ctx.table, ctx.rest, ctx.shape, ctx.dtype = table, (args, kwargs), x.shape, x.dtype
            return plain(x, table, *args, **kwargs)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            with torch.enable_grad():
                x = torch.zeros(ctx.shape, dtype=ctx.dtype, requires_grad=True)
                y = plain(x, ctx.table, *ctx.rest[0], **ctx.rest[1])
            return torch.autograd.grad(y, x, gradient)[0], None, None, None

    return lambda x, table, *args, **kwargs: Rotary.apply(x, table, args, kwargs)


class Attention(torch.autograd.Function):
    """Causal attention of ``[s, b, heads, d]``. Its FLOPs, those of all scores, are reported, not seen."""

    meter: Any = None

    @staticmethod
    def compute(q: Any, k: Any, v: Any, scale: float) -> tuple[Any, Any]:
        repeats = q.shape[2] // k.shape[2]
        wide_k, wide_v = (each.repeat_interleave(repeats, 2).permute(1, 2, 0, 3).float() for each in (k, v))
        scores = (q.permute(1, 2, 0, 3).float() @ wide_k.transpose(-1, -2)) * scale
        scores = scores.masked_fill(torch.ones(q.shape[0], k.shape[0], dtype=torch.bool).triu(1), float("-inf"))
        out = (scores.softmax(-1) @ wide_v).permute(2, 0, 1, 3).to(q.dtype).contiguous()
        return out, torch.logsumexp(scores, -1)

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, scale: float) -> Any:
        with Attention.uncounted(q, k, v, 1.0):
            out, statistics = Attention.compute(q, k, v, scale)
        ctx.save_for_backward(q, k, v, out, statistics)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors[:3]]
        with Attention.uncounted(*inputs, 2.0), torch.enable_grad():
            again, _ = Attention.compute(*inputs, ctx.scale)
            found = torch.autograd.grad(again, inputs, gradient)
        return (*found, None)

    @staticmethod
    def uncounted(q: Any, k: Any, v: Any, products: float) -> Any:
        """Counts ``products`` times both matmuls of the scores, and not what the stand-in itself multiplies."""
        return _Uncounted(products * 2.0 * q.shape[0] * k.shape[0] * q.shape[1] * q.shape[2] * (q.shape[3] + v.shape[3]))


class _Uncounted:
    def __init__(self, flops: float) -> None:
        self.flops = flops

    def __enter__(self) -> None:
        Attention.meter.counts_flops = False

    def __exit__(self, *error: Any) -> None:
        Attention.meter.counts_flops = True
        Attention.meter.add_flops(self.flops, "attention")


class Softmax(torch.autograd.Function):
    """The fused softmax of masked scores keeps its output."""

    @staticmethod
    def forward(ctx: Any, scores: Any, mask: Any, scale: float | None) -> Any:
        wide = scores.float() * (1.0 if scale is None else scale)
        out = wide.masked_fill(mask, -10_000.0).softmax(-1).to(scores.dtype)
        ctx.save_for_backward(out)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (out,) = ctx.saved_tensors
        inner = out * (gradient - (gradient * out).sum(-1, keepdim=True))
        return inner * (1.0 if ctx.scale is None else ctx.scale), None, None


class FusedAttention(torch.nn.Module):
    def __init__(
        self, config: Any, *unused: Any, softmax_scale: float | None = None, k_channels: int | None = None, **others: Any
    ) -> None:
        super().__init__()
        self.scale = softmax_scale if softmax_scale is not None else (k_channels or config.kv_channels) ** -0.5

    def forward(self, query: Any, key: Any, value: Any, *unused: Any, **others: Any) -> Any:
        if key.stride() != value.stride():
            value = value.contiguous()
        out = Attention.apply(query, key, value, self.scale)
        return out.reshape(*out.shape[:2], -1)


class RepeatedLinear(torch.nn.Linear):
    """The whole weight on every rank, without communication."""

    def __init__(self, input_size: int, output_size: int, *, config: Any, **others: Any) -> None:
        super().__init__(input_size, output_size, bias=False, dtype=config.params_dtype)
        self.weight.sequence_parallel = config.sequence_parallel

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.linear(x, self.weight), None


class Balanced(torch.autograd.Function):
    """Logits that send token i to experts i k to i k + k - 1, modulo their number: each rank gets the mean."""

    @staticmethod
    def forward(ctx: Any, logits: Any, top_k: int) -> Any:
        flat = logits.reshape(-1, logits.shape[-1])
        chosen = (torch.arange(len(flat)).unsqueeze(1) * top_k + torch.arange(top_k)) % flat.shape[-1]
        return torch.zeros_like(flat).scatter_(1, chosen, 9.0).view(logits.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, None
