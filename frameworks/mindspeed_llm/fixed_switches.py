"""Switches that MindSpeed-LLM turns on or off itself."""

from __future__ import annotations

from cost_models.shapes.strategy import Dispatcher, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.fixed import Fixed
from frameworks.rule import Mask, every_row, has_effect, none_of


def _unfused_permutation(workload: Workload, batch: StrategyBatch) -> Mask:
    """Experts whose tokens are gathered, or dropped without padding."""
    moe = workload.model.moe
    if moe is None:
        return none_of(batch)
    mask: Mask = (batch.dispatcher == Dispatcher.ALLGATHER) & (batch.ep * batch.etp > 1)
    return mask | ~batch.has(Feature.MOE_PAD_TO_CAPACITY) if moe.capacity_factor is not None else mask


def _overlaps_shared_experts(workload: Workload, batch: StrategyBatch) -> Mask:
    mask: Mask = has_effect(workload, batch, Feature.MOE_ALLTOALL_OVERLAP_COMM) & ~batch.has(Feature.MOE_TP_EXTEND_EP)
    return mask


FIXED = (
    Fixed(
        Feature.FUSED_NORM,
        lambda w, b: every_row(b, not w.model.gated_linear_unit),  # such models have LayerNorm
        Sentence("the fused kernel is that of RMSNorm"),
    ),
    Fixed(
        Feature.FUSED_SWIGLU,
        lambda w, b: every_row(b, w.model.constants.activation not in (None, "silu")),
        Sentence("the fused kernel is SwiGLU's"),
    ),
    Fixed(
        Feature.MOE_PERMUTE_FUSION,
        _unfused_permutation,
        Sentence("MindSpeed has no fused permutation with the allgather dispatcher or with dropped tokens"),
    ),
    Fixed(
        Feature.FLASH_ATTENTION,
        lambda w, b: b.cp > 1,
        Sentence("context parallelism of MindSpeed has no other attention"),
        on=True,
    ),
    Fixed(
        Feature.FLASH_ATTENTION,
        lambda w, b: every_row(b, w.model.sparse_attention is not None),
        Sentence("its sparse attention has no other"),
        on=True,
    ),
    Fixed(
        Feature.MOE_SHARED_EXPERT_OVERLAP,
        _overlaps_shared_experts,
        Sentence("MindSpeed switches it on with moe_alltoall_overlap_comm"),
        on=True,
    ),
)
