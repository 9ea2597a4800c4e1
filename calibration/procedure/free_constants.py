"""The constants that runs of a family, a stack and a site may move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cost_models.shapes.traits import family_traits

# Constants that runs of each family may move: about eight mechanisms, and up to three deviations for each further stack.
ASCEND_CONSTANTS = (
    "matmul_fraction",
    "vector_fraction",
    "recent_eager_factor",
    "host_micro_batch_s",
    "host_moe_sync_s",
    "intra_fraction",
    "dp_exposed_fraction",
)
ASCEND_STACK_CONSTANTS = {"mindformers": ("early_graph_factor",)}
GPU_CONSTANTS = (
    "matmul_fraction",
    "attention_forward_fraction",
    "host_kernel_s",
    "intra_fraction",
    "inter_fraction",
    "overlapped_tp_exposed_fraction",
    "attention_backward_fraction",
)
GPU_STACK_CONSTANTS = {
    "fsdp": ("triton_attention_fraction", "triton_attention_half_length", "hidden_stretch_fraction"),
    "megatron-lm": ("stock_blackwell_factor",),
}
# Constants that published runs leave at the values of their sources (ADR 53), and that a site's own runs may move.
SITE_CONSTANTS = {
    "ascend": ("attention_forward_fraction", "score_bytes", "backward_tp_exposed_fraction", "fused_tp_exposed_fraction"),
    "gpu": ("score_bytes", "vector_fraction", "step_overhead_s"),
}
PUBLISHED_ONLY = ("stock_blackwell_factor",)  # factors of published machines; no run of a user's site has them
FREE_CONSTANTS: dict[str, tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]] = {
    "ascend": (ASCEND_CONSTANTS, ASCEND_STACK_CONSTANTS),
    "gpu": (GPU_CONSTANTS, GPU_STACK_CONSTANTS),
}


SITE_LOG_SPREAD = 0.05  # spread of a site's constants around its family's: clusters of one product differ by 8 % [runs-fit]


def free_constants(family: str, stacks: Sequence[str]) -> tuple[str, ...]:
    """Constants that runs of these stacks may move."""
    common, deviations = FREE_CONSTANTS[family_traits(family).priors]
    return common + tuple(name for stack in sorted(set(stacks)) for name in deviations.get(stack, ()))


def site_constants(family: str, stack: str) -> tuple[str, ...]:
    """Constants that a site's runs of this stack may move."""
    names = free_constants(family, [stack]) + SITE_CONSTANTS[family_traits(family).priors]
    return tuple(name for name in names if name not in PUBLISHED_ONLY)
