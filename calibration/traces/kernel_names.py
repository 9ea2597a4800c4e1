"""Kinds of operations by the names of kernels: cuBLAS, CUTLASS, FlashAttention, Transformer Engine, Triton; CANN's operators."""

from __future__ import annotations

import re
from functools import lru_cache

from calibration.traces.measured import Part

# The first match counts; attention contains matmuls and softmax, so it comes first.
_GPU = (
    (Part.ATTENTION, r"flash|fmha|attention|attn|scaled_\w*softmax|sdpa|ring_attn"),
    (Part.MATMUL, r"gemm|gemv|cublas|nvjet|xmma|matmul|splitk|cijk_|triton_\w*_[bm]mm|cutlass::kernel|s\d+dgrad|wgrad"),
    (
        Part.VECTOR,
        r"at::native|triton_|elementwise|norm|softmax|cross_entropy|swiglu|silu|gelu|relu|rope|rotary|adam|multi_tensor|foreach"
        r"|copy|cat_?array|fill|index|gather_?kernel|scatter_?kernel|embedding|permute|topk|sort|scan|cast|transpose|dropout"
        r"|cub::|thrust::|reduce_kernel|memset|quantize|amax|bias|router|unpermute",
    ),
)
_NPU = (
    (Part.ATTENTION, r"attention|ringattn|fusionattn|scaledmaskedsoftmax"),
    (Part.MATMUL, r"matmul|gemm|batchmm|mmv\d"),
    (
        Part.VECTOR,
        r"norm|swiglu|silu|gelu|rotary|rope|adam|cast|add|sub|mul|div|muls|axpy|copy|fill|zeros|ones|concat|split|slice|index|gather"
        r"|scatter|embedding|permute|topk|sort|cumsum|transpose|dropout|softmax|logsoftmax|reduce|exp|log|sqrt|rsqrt|neg|pow|where"
        r"|select|masked|equal|greater|less|tensormove|broadcast|tile|pad|sigmoid|nllloss|crossentropy|dropoutgenmask|isfinite|square"
        r"|routing|quant|foreach|nonfinite|arange|range|logical|clip|max|min|sum|mean|abs|drop",
    ),
)
_NCCL = re.compile(r"nccl|rccl|deep_?ep|nvshmem|all_?reduce_kernel|hybrid_?ep", re.IGNORECASE)
_HCCL = re.compile(r"^(hcom_|hccl|hcom(?=[A-Z])|aiv_all|aiv_reduce|allgatherAicpu|\w*AicpuKernel)", re.IGNORECASE)
_GPU_PATTERNS = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _GPU)
_NPU_PATTERNS = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _NPU)
_NAMES = 65_536  # a trace repeats some hundreds
_VECTOR_CORES = ("AI_VECTOR_CORE", "MIX_AIV")
CORES = ("AI_CORE", *_VECTOR_CORES, "MIX_AIC", "AI_CPU", "AICPU", "KERNEL_AICPU", "KERNEL_AICORE", "KERNEL_AIVEC")


@lru_cache(_NAMES)
def is_nccl(name: str) -> bool:
    """Whether a GPU kernel communicates."""
    return _NCCL.search(name) is not None


@lru_cache(_NAMES)
def is_hccl(name: str) -> bool:
    """Whether an operation of an NPU communicates."""
    return _HCCL.search(name) is not None


@lru_cache(_NAMES)
def gpu_part(name: str) -> Part:
    """The part that a GPU kernel computes."""
    return next((part for part, pattern in _GPU_PATTERNS if pattern.search(name)), Part.OTHER_KERNELS)


@lru_cache(_NAMES)
def npu_part(name: str, core: str) -> Part:
    """The part that an NPU kernel computes; an unknown kernel on vector cores only is a vector operator."""
    found = next((part for part, pattern in _NPU_PATTERNS if pattern.search(name)), None)
    if found is None:
        return Part.VECTOR if core in _VECTOR_CORES else Part.OTHER_KERNELS
    return found
