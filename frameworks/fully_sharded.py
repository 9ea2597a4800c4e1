"""What frameworks on PyTorch's FSDP2 share: recompute of whole layers, shards of the stack, switches that FSDP sets."""

from __future__ import annotations

from typing import NamedTuple

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from documents.sentences import Sentence
from frameworks.fixed import Fixed
from frameworks.physics.memory import module_names
from frameworks.rule import Rule, every_row


class Checkpoints(NamedTuple):
    """Recompute of whole layers as fields of a strategy."""

    recompute: Recompute = Recompute.NONE
    method: RecomputeMethod = RecomputeMethod.NONE
    num_layers: int = 0
    layers_per_stage: tuple[int, ...] | None = None


NOTHING = Checkpoints()
EVERYTHING = Checkpoints(Recompute.FULL, RecomputeMethod.UNIFORM, 1)


def checkpoints(s: ParallelStrategy) -> Checkpoints:
    """The recompute of a strategy, but modules."""
    if s.recompute is not Recompute.FULL:
        return NOTHING
    if s.recompute_layers_per_stage is not None:
        return Checkpoints(Recompute.FULL, layers_per_stage=s.recompute_layers_per_stage)
    return Checkpoints(Recompute.FULL, s.recompute_method, s.recompute_num_layers)


def stack_rule(name: str, source: str, framework: str, stack: str) -> Rule:
    """Times are of a stack whose weights are sharded by layers in FP32."""
    return Rule(
        name,
        source,
        Sentence("times are of stack {}", stack),
        lambda w, b: every_row(b, not w.software_traits.fp32_shards),
        lambda w, s: Sentence("{} shards weights by layers in FP32, which stack {} does not", framework, w.software.stack),
        job_only=True,
    )


def whole_layers_rule(name: str, source: str, framework: str, besides: RecomputeModule = RecomputeModule(0)) -> Rule:
    """PyTorch's checkpoints wrap whole layers, one by one; ``besides``: modules that are not parts of a layer."""
    parts = ~besides
    return Rule(
        name,
        source,
        Sentence("recompute is of whole layers, one by one"),
        lambda w, b: (
            ((b.recompute_modules & int(parts)) != 0)
            | ((b.recompute == Recompute.FULL) & (b.recompute_method == RecomputeMethod.UNIFORM) & (b.recompute_num_layers > 1))
        ),
        lambda w, s: Sentence(
            "recompute of {}: {} recomputes whole layers, one by one",
            module_names(s.recompute_modules & parts)
            if s.recompute_modules & parts
            else Sentence("groups of {} layers", s.recompute_num_layers),
            framework,
        ),
    )


_BY_FSDP = Sentence("FSDP gathers weights and scatters gradients beside the layers")
FIXED = (
    Fixed(Feature.FLASH_ATTENTION, lambda w, b: every_row(b, True), Sentence("the layers have no other attention"), on=True),
    Fixed(Feature.OVERLAP_GRAD_REDUCE, lambda w, b: every_row(b, True), _BY_FSDP, on=True),
    Fixed(Feature.OVERLAP_PARAM_GATHER, lambda w, b: every_row(b, True), _BY_FSDP, on=True),
)
