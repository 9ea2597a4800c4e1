"""Transformer Engine 2.9 in 16 bits: shapes, what each kernel keeps for its backward, its collectives and its FLOPs.

``KEPT`` says it in words, with the line of the release that shows it (paths below ``transformer_engine/pytorch/``). A name that
is not here is refused once the framework calls it.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch

from execution import running
from execution.attention_kernels import DotProductAttention, apply_rotary_pos_emb
from execution.linear_layers import GroupedLinear, LayerNorm, LayerNormLinear, Linear, RMSNorm, get_dummy_wgrad
from execution.row_kernels import (
    moe_permute,
    moe_permute_with_probs,
    moe_sort_chunks_by_index,
    moe_sort_chunks_by_index_with_probs,
    moe_unpermute,
    parallel_cross_entropy,
)
from execution.running import UnknownKernelError, used

VERSION = "2.9.0"
KEPT = {
    "LayerNormLinear": "input, norm's output (a shard under sequence parallelism), 1 / rms: module/layernorm_linear.py:448",
    "Linear": "input (a shard under sequence parallelism): module/linear.py:423",
    "GroupedLinear": "input: module/grouped_linear.py:222",
    "RMSNorm": "input, 1 / rms: ops/basic/rmsnorm.py:202",
    "LayerNorm": "input, mean, 1 / deviation: ops/basic/layer_norm.py:221",
    "DotProductAttention": "q, k, v (copies where they are views), output, FP32 log-sum-exp: "
    "attention/dot_product_attention/backends.py:1309",
    "AttnFuncWithCPAndKVP2P": "q, one tensor of k and v, output, FP32 log-sum-exp: "
    "attention/dot_product_attention/context_parallel.py:1784",
    "AttnFuncWithCPAndKVAllGather": "q, k, v, both pieces of the output and their FP32 log-sum-exps: "
    "attention/dot_product_attention/context_parallel.py:2837",
    "AttnFuncWithCPAndQKVOA2A": "exchanged q, k, v, output, FP32 log-sum-exp: "
    "attention/dot_product_attention/context_parallel.py:3377",
    "apply_rotary_pos_emb": "its table: attention/rope.py:152",
    "moe_permute": "map of 2 E + 1 integers a token: permutation.py:295, triton/permutation.py:220",
    "moe_unpermute": "that map: permutation.py:378",
    "moe_sort_chunks_by_index": "one integer a row: permutation.py:678",
    "parallel_cross_entropy": "logits, overwritten by their gradient: cross_entropy.py:59",
    "dummy weight gradient": "one for each shape, for good: module/base.py:106",
    "wgrad_gemm_accum": "nothing: apex/csrc/megatron/fused_weight_gradient_dense.cpp",
    "FusedAdam": "two FP32 moments: optimizers/fused_adam.py",
}


class FusedAdam(torch.optim.Optimizer):
    """Two FP32 moments a parameter, and no other tensor."""

    def __init__(self, params: Any, lr: float = 1e-3, **given: Any) -> None:
        unusual = {key: value for key, value in given.items() if key.endswith("_dtype") and value is not torch.float32}
        if unusual or given.get("use_decoupled_grad"):
            raise UnknownKernelError(f"FusedAdam with {unusual or 'use_decoupled_grad'}")
        defaults = {key: given[key] for key in ("betas", "eps", "weight_decay") if key in given}
        super().__init__(params, {"lr": lr, **defaults})

    @torch.no_grad()
    def step(self, *_values: Any, **_keywords: Any) -> None:  # type: ignore[override]
        used("FusedAdam")
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None and not self.state[each]:
                    for name in ("exp_avg", "exp_avg_sq"):
                        self.state[each][name] = torch.zeros_like(each, dtype=torch.float32)


class _Precision:
    """16 bits: no state of FP8."""

    is_fp8_enabled = staticmethod(lambda: False)
    is_fp8_calibration = staticmethod(lambda: False)
    with_fp8_parameters = staticmethod(lambda: False)
    get_fp8_recipe = staticmethod(lambda: None)
    is_first_fp8_module = staticmethod(lambda: False)
    reset = staticmethod(lambda: None)


class Tracker:
    """Random states, of which a processor without data needs none."""

    def __init__(self) -> None:
        self.states_: dict[str, Any] = {}

    def reset(self) -> None:
        self.states_ = {}

    def get_states(self) -> dict[str, Any]:
        return dict(self.states_)

    def set_states(self, states: dict[str, Any]) -> None:
        self.states_ = states

    def add(self, name: str, seed: int) -> None:
        self.states_[name] = seed

    @contextlib.contextmanager
    def fork(self, _name: str = "") -> Any:
        yield


def _norm(_overflow: Any, lists: Any, *_values: Any) -> Any:
    return lists[0][0].new_zeros((1,), dtype=torch.float32), None


def multi_tensor_applier(operation: Any, overflow: Any, lists: Any, *values: Any) -> Any:
    """Apply a kernel to lists of tensors."""
    return operation(overflow, lists, *values)


def accumulate(x: torch.Tensor, gradient: torch.Tensor, _main_gradient: torch.Tensor) -> None:
    """APEX's weight gradient, added to the buffer."""
    used("wgrad_gemm_accum")
    running.meter.multiplied("matmul", 2 * x.numel() * gradient.shape[-1])


def modules() -> dict[str, dict[str, Any]]:
    """Modules of the package and their names."""
    layers = {
        "Linear": Linear, "LayerNormLinear": LayerNormLinear, "GroupedLinear": GroupedLinear, "RMSNorm": RMSNorm,
        "LayerNorm": LayerNorm, "DotProductAttention": DotProductAttention,
    }  # fmt: skip
    quiet = lambda *_values, **_keywords: contextlib.nullcontext()  # noqa: E731
    mode = types.SimpleNamespace(FP8="fp8", NONE="none")
    p = "transformer_engine.pytorch"
    permutation = {
        each.__name__: each
        for each in (
            moe_permute,
            moe_permute_with_probs,
            moe_unpermute,
            moe_sort_chunks_by_index,
            moe_sort_chunks_by_index_with_probs,
        )
    }
    return {
        "fused_weight_gradient_mlp_cuda": {"wgrad_gemm_accum_fp32": accumulate, "wgrad_gemm_accum_fp16": accumulate},
        "transformer_engine": {"__version__": VERSION},
        "transformer_engine.common": {},
        "transformer_engine.common.recipe": {},
        p: {**layers, "fp8_autocast": quiet, "fp8_model_init": quiet},
        f"{p}.fp8": {"FP8GlobalStateManager": _Precision, "fp8_autocast": quiet, "fp8_model_init": quiet},
        f"{p}.distributed": {
            "CudaRNGStatesTracker": Tracker,
            "is_fp8_activation_recompute_enabled": lambda: False,
            "activation_recompute_forward": quiet,
        },
        f"{p}.attention": {"apply_rotary_pos_emb": apply_rotary_pos_emb},
        f"{p}.attention.rope": {"apply_rotary_pos_emb": apply_rotary_pos_emb},
        f"{p}.permutation": permutation,
        f"{p}.cross_entropy": {"parallel_cross_entropy": parallel_cross_entropy},
        f"{p}.router": {},
        f"{p}.ops": {},
        f"{p}.module": {},
        f"{p}.module.base": {
            "get_dummy_wgrad": get_dummy_wgrad, "initialize_ub": lambda **_keywords: None, "UserBufferQuantizationMode": mode,
        },
        f"{p}.optimizers": {
            "FusedAdam": FusedAdam, "multi_tensor_applier": multi_tensor_applier, "multi_tensor_l2norm": _norm,
            "multi_tensor_scale": lambda *_values: None, "multi_tensor_scale_tensor": lambda *_values: None,
        },
        f"{p}.tensor": {},
    }  # fmt: skip


ABSENT = {
    "transformer_engine.pytorch.attention.rope": ("apply_fused_qkv_rotary_pos_emb",),
    "transformer_engine.pytorch.attention": ("_SplitAlongDim",),
    "transformer_engine.pytorch": ("cpu_offload", "cpu_offload_v1", "ep", "Fp8Padding", "Fp8Unpadding", "float8_tensor"),
    "transformer_engine.pytorch.permutation": ("moe_permute_and_pad_with_probs",),
}
