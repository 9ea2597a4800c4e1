"""The operations of each kind of case in PyTorch, as a training stack calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from calibration.measurements.cases import Case, Kind
from calibration.measurements.timing import UnsupportedCaseError
from documents.late_methods import dataclass
from documents.sentences import Sentence

_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "float8_e4m3fn"}


@dataclass(frozen=True)
class Runnable:
    """A call of an operation, with its name."""

    call: Callable[[], Any]
    kernel: str
    is_fused: bool = True


def torch_type(torch: Any, precision: str) -> Any:
    """PyTorch's type of a precision; ``UnsupportedCaseError`` if this PyTorch has none."""
    found = getattr(torch, _TYPES[precision], None)
    if found is None:
        raise UnsupportedCaseError(Sentence("PyTorch {} has no {}.", torch.__version__, _TYPES[precision]))
    return found


def _matmul(case: Case, torch: Any, device: Any) -> Runnable:
    rows, columns, depth = case.sizes
    kind = torch_type(torch, case.precision)
    if case.precision == "fp8":
        left = torch.randn(rows, depth, device=device).to(kind)
        right = torch.randn(columns, depth, device=device).to(kind).t()
        one = torch.ones((), device=device)
        return Runnable(
            lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16), "torch._scaled_mm"
        )
    held = torch.randn(rows, depth, device=device, dtype=kind)
    weight = torch.randn(columns, depth, device=device, dtype=kind)
    return Runnable(lambda: torch.nn.functional.linear(held, weight), "torch.nn.functional.linear")


def _attention(case: Case, torch: Any, device: Any) -> Runnable:
    n = case.by_name
    is_causal, is_backward = case.operation.startswith("causal"), case.operation.endswith("backward")
    kind = torch_type(torch, case.precision)

    def tensor(heads: int) -> Any:
        size = (n["sequences"], heads, n["length"], n["head_dim"])
        return torch.randn(*size, device=device, dtype=kind, requires_grad=is_backward)

    query, key, value = tensor(n["heads"]), tensor(n["query_groups"]), tensor(n["query_groups"])
    grouped = {"enable_gqa": True} if n["heads"] != n["query_groups"] else {}

    def forward() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal, **grouped)

    name = "torch.nn.functional.scaled_dot_product_attention"
    if not is_backward:
        return Runnable(forward, name)
    out = forward()
    gradient = torch.randn_like(out)
    return Runnable(
        lambda: torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True), Sentence("backward of {}", name)
    )


def _grouped_matmul(case: Case, torch: Any, device: Any) -> Runnable:
    experts, rows, columns, depth = case.sizes
    kind, each = torch_type(torch, case.precision), rows // experts
    held = torch.randn(each * experts, depth, device=device, dtype=kind)
    weights = torch.randn(experts, depth, columns, device=device, dtype=kind)
    ends = torch.arange(1, experts + 1, device=device, dtype=torch.int32) * each
    if device.type == "npu":
        grouped = import_module("torch_npu").npu_grouped_matmul
        return Runnable(
            lambda: grouped([held], [weights], group_list=ends.long(), split_item=2, group_type=0), "torch_npu.npu_grouped_matmul"
        )
    if hasattr(torch.nn.functional, "grouped_mm"):
        call = torch.nn.functional.grouped_mm
        return Runnable(lambda: call(held, weights, offs=ends), "torch.nn.functional.grouped_mm")
    parts = held.split(each)
    return Runnable(
        lambda: [part @ weights[i] for i, part in enumerate(parts)], Sentence("torch.matmul an expert"), is_fused=False
    )


def _vector(case: Case, torch: Any, device: Any) -> Runnable:
    tokens, width = case.sizes
    kind = torch_type(torch, case.precision)
    functional, npu = torch.nn.functional, import_module("torch_npu") if device.type == "npu" else None
    first = torch.randn(tokens, width, device=device, dtype=kind)
    second = torch.randn(tokens, width, device=device, dtype=kind)
    if case.operation == "add":
        return Runnable(lambda: first + second, "torch.add")
    if case.operation == "cast":
        return Runnable(first.float, "torch.Tensor.float")
    if case.operation == "norm":
        weight = torch.ones(width, device=device, dtype=kind)
        if npu is not None:
            return Runnable(lambda: npu.npu_rms_norm(first, weight), "torch_npu.npu_rms_norm")
        is_fused = device.type == "cuda" and hasattr(torch.ops.aten, "_fused_rms_norm")
        return Runnable(lambda: functional.rms_norm(first, (width,), weight), "torch.nn.functional.rms_norm", is_fused)
    if npu is not None:
        both = torch.cat((first, second), dim=-1)
        return Runnable(lambda: npu.npu_swiglu(both), "torch_npu.npu_swiglu")
    return Runnable(lambda: functional.silu(first) * second, "torch.nn.functional.silu, torch.mul", is_fused=False)


def _dispatch(case: Case, torch: Any, device: Any) -> Runnable:
    held = torch.zeros(case.sizes[0], device=device)
    return Runnable(lambda: held.add_(1.0), "torch.Tensor.add_")


def _collective(case: Case, torch: Any, device: Any) -> Runnable:
    distributed, kind = torch.distributed, torch_type(torch, case.precision)
    ranks, message_bytes = case.sizes
    elements = max(message_bytes // torch.tensor([], dtype=kind).element_size(), ranks)

    def zeros(factor: int = 1) -> Any:  # so small that repeated sums stay finite
        return torch.zeros(elements // ranks * ranks * factor, device=device, dtype=kind)

    if case.operation == "all_reduce":
        held = zeros()
        return Runnable(lambda: distributed.all_reduce(held), "torch.distributed.all_reduce")
    if case.operation == "all_to_all":
        sent, received = zeros(), zeros()
        return Runnable(lambda: distributed.all_to_all_single(received, sent), "torch.distributed.all_to_all_single")
    shard, whole = zeros(), zeros(ranks)
    name, older = {"all_gather": ("all_gather_single", "all_gather_into_tensor")}.get(
        case.operation, ("reduce_scatter_single", "reduce_scatter_tensor")
    )
    name = name if hasattr(distributed, name) else older  # PyTorch renamed them in 2.13
    call, given = getattr(distributed, name), (whole, shard) if case.operation == "all_gather" else (shard, whole)
    return Runnable(lambda: call(*given), f"torch.distributed.{name}")


def _layer(case: Case, torch: Any, device: Any) -> Runnable:
    """Forward and backward of a dense layer: grouped attention, gated MLP, two norms, activations kept."""
    n, functional = case.by_name, torch.nn.functional
    kind, head_dim = torch_type(torch, case.precision), n["hidden"] // n["heads"]
    widths = (n["heads"] * head_dim, n["query_groups"] * head_dim, n["query_groups"] * head_dim)

    def weight(*size: int) -> Any:
        return (0.02 * torch.randn(*size, device=device)).to(kind).requires_grad_()

    qkv, proj = weight(sum(widths), n["hidden"]), weight(n["hidden"], widths[0])
    up, down = weight(2 * n["ffn"], n["hidden"]), weight(n["hidden"], n["ffn"])
    held = torch.randn(1, n["tokens"], n["hidden"], device=device, dtype=kind, requires_grad=True)

    def heads(part: Any) -> Any:
        return part.unflatten(-1, (-1, head_dim)).transpose(1, 2)

    def call() -> None:
        query, key, value = functional.linear(functional.rms_norm(held, held.shape[-1:]), qkv).split(widths, dim=-1)
        scores = functional.scaled_dot_product_attention(
            heads(query), heads(key), heads(value), is_causal=True, enable_gqa=widths[0] != widths[1]
        )
        attended = held + functional.linear(scores.transpose(1, 2).flatten(2), proj)
        gate, linear = functional.linear(functional.rms_norm(attended, held.shape[-1:]), up).chunk(2, dim=-1)
        out = attended + functional.linear(functional.silu(gate) * linear, down)
        torch.autograd.grad(out.sum(), (held, qkv, proj, up, down))

    return Runnable(call, Sentence("a dense layer of torch.nn.functional"), is_fused=False)


KERNELS: Mapping[Kind, Callable[[Case, Any, Any], Runnable]] = {
    Kind.MATMUL: _matmul,
    Kind.ATTENTION: _attention,
    Kind.GROUPED_MATMUL: _grouped_matmul,
    Kind.VECTOR: _vector,
    Kind.DISPATCH: _dispatch,
    Kind.COLLECTIVE: _collective,
    Kind.LAYER: _layer,
}
