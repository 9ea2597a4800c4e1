"""Linear layers and norms of Transformer Engine in 16 bits: what they keep, send and multiply."""

from __future__ import annotations

from typing import Any

import torch

from execution import running
from execution.running import UnknownKernelError, used

_dummies: dict[tuple[int, int, torch.dtype], torch.Tensor] = {}


def _gather(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    out = tensor.new_empty((tensor.shape[0] * group.size(), *tensor.shape[1:]))
    running.calls.note("all_gather_into_tensor", group, out.numel() * out.element_size(), out.dtype)
    return out


def _scatter(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    running.calls.note("reduce_scatter_tensor", group, tensor.numel() * tensor.element_size(), tensor.dtype)
    return tensor.new_empty((tensor.shape[0] // group.size(), *tensor.shape[1:]))


def _reduce(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    running.calls.note("all_reduce", group, tensor.numel() * tensor.element_size(), tensor.dtype)
    return tensor


def get_dummy_wgrad(shape: list[int], dtype: torch.dtype, zero: bool = False) -> torch.Tensor:
    """The gradient that autograd gets where the kernel has added the real one to the buffer."""
    key = (shape[0], shape[1], dtype)
    if key not in _dummies:
        used("dummy weight gradient")
        before, running.live.kind = running.live.kind, "dummies"
        _dummies[key] = torch.empty(shape, dtype=dtype)
        running.live.kind = before
    return _dummies[key].detach()


def _weight_gradient(weight: torch.Tensor, fused: bool, rows: int) -> torch.Tensor | None:
    running.meter.multiplied("matmul", 2 * rows * weight.numel())
    if not fused:
        return torch.empty_like(weight)
    if hasattr(weight, "grad_added_to_main_grad"):
        weight.grad_added_to_main_grad = True  # type: ignore[attr-defined]
        return get_dummy_wgrad(list(weight.shape), weight.dtype)
    return None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: Any, module: Any, gain: Any, norm_bias: Any) -> Any:
        normed = scale = mean = None
        kept, inner = x, x
        if gain is not None:
            x = x.contiguous()
            normed = torch.empty_like(x)
            scale = x.new_empty(x.shape[:-1], dtype=torch.float32)
            mean = None if norm_bias is None else torch.empty_like(scale)
            kept, inner = x, normed
        column, row = module.parallel_mode == "column", module.parallel_mode == "row"
        if module.sequence_parallel and column and module.tp_size > 1:
            inner = _gather(inner, module.tp_group)
        out = inner.new_empty((*inner.shape[:-1], weight.shape[0]))
        running.meter.multiplied("matmul", 2 * inner.numel() * weight.shape[0])
        if row and module.tp_size > 1:
            out = _scatter(out, module.tp_group) if module.sequence_parallel else _reduce(out, module.tp_group)
        # Without a weight gradient (frozen) the release keeps less; pre-training has none.
        ctx.save_for_backward(kept, weight, bias, gain, norm_bias, normed, scale, mean)
        ctx.module, ctx.shape = module, x.shape
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        kept, weight, bias, gain, norm_bias, normed, *_ = ctx.saved_tensors
        module = ctx.module
        column, row, parallel = module.parallel_mode == "column", module.parallel_mode == "row", module.tp_size > 1
        if row and parallel and module.sequence_parallel:
            gradient = _gather(gradient.contiguous(), module.tp_group)
        inner = kept if normed is None else normed
        if column and parallel and module.sequence_parallel:
            inner = _gather(inner, module.tp_group)
        rows = gradient.numel() // gradient.shape[-1]
        of_input = gradient.new_empty((*gradient.shape[:-1], weight.shape[1]))
        running.meter.multiplied("matmul", 2 * gradient.numel() * weight.shape[1])
        if column and parallel:
            of_input = _scatter(of_input, module.tp_group) if module.sequence_parallel else _reduce(of_input, module.tp_group)
        of_weight = None
        if module.delayed is None:
            of_weight = _weight_gradient(weight, module.fuse_wgrad_accumulation, rows)
        else:
            module.delayed.append((inner, gradient, weight, rows))
            of_weight = get_dummy_wgrad(list(weight.shape), weight.dtype) if module.fuse_wgrad_accumulation else None
        of_bias = None if bias is None else torch.empty_like(bias)
        if gain is None:
            return of_input, of_weight, of_bias, None, None, None
        return (torch.empty_like(kept), of_weight, of_bias, None, torch.empty_like(gain),
                None if norm_bias is None else torch.empty_like(norm_bias))  # fmt: skip


class _Base(torch.nn.Module):
    """What modules with weights share."""

    save_original_input = False

    def set_up(self, given: dict[str, Any]) -> None:
        self.sequence_parallel = bool(given.get("sequence_parallel")) and (given.get("tp_size") or 1) > 1
        self.fuse_wgrad_accumulation = bool(given.get("fuse_wgrad_accumulation"))
        self.tp_group, self.tp_size = given.get("tp_group"), given.get("tp_size") or 1
        self.parallel_mode = given.get("parallel_mode")
        self.return_bias, self.use_bias = bool(given.get("return_bias")), bool(given.get("bias", True))
        self.delayed: list[Any] | None = [] if given.get("delay_wgrad_compute") else None
        self.fp8_meta: dict[str, Any] = {}

    def need_backward_dw(self) -> bool:
        return self.delayed is not None

    def backward_dw(self) -> None:
        """The weight gradients that waited."""
        if not self.delayed:
            return
        _, _, weight, rows = self.delayed.pop(0)
        for each in weight if isinstance(weight, list) else [weight]:
            share = rows // len(weight) if isinstance(weight, list) else rows
            made = _weight_gradient(each, self.fuse_wgrad_accumulation, share)
            if not self.fuse_wgrad_accumulation:
                each.grad = made
        for hook in getattr(self, "wgrad_accumulation_and_reduce_hooks", []):
            hook()

    def register_wgrad_accumulation_and_reduce_hooks(self, hook: Any) -> None:
        self.__dict__.setdefault("wgrad_accumulation_and_reduce_hooks", []).append(hook)

    def set_tensor_parallel_group(self, group: Any) -> None:
        self.tp_group = group

    def init_fp8_metadata(self, **_keywords: Any) -> None:
        pass

    def _shard(self, in_features: int, out_features: int) -> tuple[int, int]:
        if self.parallel_mode == "column":
            return in_features, out_features // self.tp_size
        if self.parallel_mode == "row":
            return in_features // self.tp_size, out_features
        return in_features, out_features

    def _weight(self, in_features: int, out_features: int, dtype: torch.dtype, axis: int) -> torch.nn.Parameter:
        weight = torch.nn.Parameter(torch.empty(out_features, in_features, dtype=dtype))
        parallel = self.parallel_mode is not None
        weight.tensor_model_parallel, weight.partition_dim, weight.partition_stride = parallel, axis, 1  # type: ignore[attr-defined]
        return weight

    def _bias(self, size: int, dtype: torch.dtype) -> Any:
        if not self.use_bias:
            return None
        bias = torch.nn.Parameter(torch.empty(size, dtype=dtype))
        if self.parallel_mode == "row":
            bias.sequence_parallel = self.sequence_parallel  # type: ignore[attr-defined]
        else:
            bias.tensor_model_parallel, bias.partition_dim, bias.partition_stride = True, 0, 1  # type: ignore[attr-defined]
        return bias


class Linear(_Base):
    """``transformer_engine.pytorch.Linear``."""

    def __init__(self, in_features: int, out_features: int, **given: Any) -> None:
        super().__init__()
        self.set_up(given)
        inner, outer = self._shard(in_features, out_features)
        self.in_features, self.out_features = inner, outer
        dtype = given.get("params_dtype") or torch.get_default_dtype()
        self.weight = self._weight(inner, outer, dtype, 1 if self.parallel_mode == "row" else 0)
        self.register_parameter("bias", self._bias(outer, dtype))

    def forward(self, x: torch.Tensor, is_first_microbatch: bool | None = None, **_keywords: Any) -> Any:
        used("Linear")
        out = _Linear.apply(x, self.weight, None if self.return_bias else self.bias, self, None, None)
        return (out, self.bias) if self.return_bias else out


class LayerNormLinear(_Base):
    """``transformer_engine.pytorch.LayerNormLinear``."""

    def __init__(self, in_features: int, out_features: int, eps: float = 1e-5, **given: Any) -> None:
        super().__init__()
        self.set_up(given)
        inner, outer = self._shard(in_features, out_features)
        self.in_features, self.out_features, self.eps = inner, outer, eps
        self.normalization = given.get("normalization", "LayerNorm")
        dtype = given.get("params_dtype") or torch.get_default_dtype()
        self.layer_norm_weight = torch.nn.Parameter(torch.empty(in_features, dtype=dtype))
        self.layer_norm_weight.sequence_parallel = self.sequence_parallel  # type: ignore[attr-defined]
        bias = None
        if self.normalization == "LayerNorm":
            bias = torch.nn.Parameter(torch.empty(in_features, dtype=dtype))
            bias.sequence_parallel = self.sequence_parallel  # type: ignore[attr-defined]
        self.register_parameter("layer_norm_bias", bias)
        self.weight = self._weight(inner, outer, dtype, 0)
        self.register_parameter("bias", self._bias(outer, dtype))

    def forward(self, x: torch.Tensor, is_first_microbatch: bool | None = None, **_keywords: Any) -> Any:
        used("LayerNormLinear")
        bias = None if self.return_bias else self.bias
        out = _Linear.apply(x, self.weight, bias, self, self.layer_norm_weight, self.layer_norm_bias)
        return (out, self.bias) if self.return_bias else out


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, module: Any, *weights: torch.Tensor) -> Any:
        running.meter.multiplied("matmul", 2 * x.numel() * weights[0].shape[0])
        ctx.save_for_backward(x, *weights)
        ctx.module = module
        return x.new_empty((*x.shape[:-1], weights[0].shape[0]))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, *weights = ctx.saved_tensors
        module = ctx.module
        of_input = gradient.new_empty((*gradient.shape[:-1], weights[0].shape[1]))
        running.meter.multiplied("matmul", 2 * gradient.numel() * weights[0].shape[1])
        rows = gradient.numel() // gradient.shape[-1]
        if module.delayed is not None:
            module.delayed.append((x, gradient, weights, rows))
            fused = module.fuse_wgrad_accumulation
            return of_input, None, *[get_dummy_wgrad(list(w.shape), w.dtype) if fused else None for w in weights]
        share = rows / len(weights)
        of_weights = [_weight_gradient(weight, module.fuse_wgrad_accumulation, 0) for weight in weights]
        running.meter.multiplied("matmul", round(2 * share * sum(each.numel() for each in weights)))
        return of_input, None, *of_weights


class GroupedLinear(_Base):
    """``transformer_engine.pytorch.GroupedLinear``."""

    def __init__(self, num_gemms: int, in_features: int, out_features: int, **given: Any) -> None:
        super().__init__()
        self.set_up(given)
        if self.use_bias:
            raise UnknownKernelError("transformer_engine.pytorch.GroupedLinear with bias")
        self.num_gemms = num_gemms
        inner, outer = self._shard(in_features, out_features)
        self.in_features, self.out_features = inner, outer
        dtype = given.get("params_dtype") or torch.get_default_dtype()
        for index in range(num_gemms):
            self.register_parameter(f"weight{index}", self._weight(inner, outer, dtype, 1 if self.parallel_mode == "row" else 0))

    def forward(self, x: torch.Tensor, m_splits: Any, is_first_microbatch: bool | None = None, **_keywords: Any) -> Any:
        used("GroupedLinear")
        return _Grouped.apply(x, self, *(getattr(self, f"weight{index}") for index in range(self.num_gemms)))


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gain: torch.Tensor, bias: Any) -> Any:
        x = x.contiguous()
        scale = x.new_empty(x.shape[:-1], dtype=torch.float32)
        mean = None if bias is None else torch.empty_like(scale)
        ctx.save_for_backward(x, gain, bias, scale, mean)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, gain, bias, *_ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(gain), None if bias is None else torch.empty_like(bias)


class RMSNorm(torch.nn.Module):
    """``transformer_engine.pytorch.RMSNorm``."""

    has_bias = False

    def __init__(self, normalized_shape: Any = None, eps: float = 1e-5, sequence_parallel: bool = False, **given: Any) -> None:
        super().__init__()
        shape = given.get("hidden_size") if normalized_shape is None else normalized_shape  # the former name
        size = shape if isinstance(shape, int) else list(shape)
        dtype = given.get("params_dtype") or given.get("dtype") or torch.get_default_dtype()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.empty(size, dtype=dtype))
        self.weight.sequence_parallel = sequence_parallel  # type: ignore[attr-defined]
        bias = torch.nn.Parameter(torch.empty(size, dtype=dtype)) if self.has_bias else None
        if bias is not None:
            bias.sequence_parallel = sequence_parallel  # type: ignore[attr-defined]
        self.register_parameter("bias", bias)

    def forward(self, x: torch.Tensor) -> Any:
        used(type(self).__name__)
        return _Norm.apply(x, self.weight, self.bias)


class LayerNorm(RMSNorm):
    """``transformer_engine.pytorch.LayerNorm``."""

    has_bias = True
