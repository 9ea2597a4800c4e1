"""Arguments of Megatron-FSDP [megatron-0.19, arguments.py; mcore_fsdp_adapter.py]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cost_models.shapes.canonical import DATA_PARALLEL_FEATURES
from cost_models.shapes.precision import QUANTISED_PRECISIONS
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.model_facts import Arguments
from frameworks.release import Release
from frameworks.unread import Unread

SWITCHES = ("use-custom-fsdp", "use-megatron-fsdp")
STRATEGY, STRATEGIES = "data-parallel-sharding-strategy", {2: "optim_grads", 3: "optim_grads_params"}
MAIN_GRADS, SENT_GRADS = "megatron-fsdp-main-grads-dtype", "megatron-fsdp-grad-comm-dtype"
OF_PYTORCH = "use-torch-fsdp2"
KINDS = (*SWITCHES, OF_PYTORCH)
UNIT_SIZE, INSTANCES = "suggested-communication-unit-size", "num-distributed-optimizer-instances"
PRICED_GRADS = {"bf16": ("bf16", "fp32"), "fp16": ("fp16",), "fp32": ("fp32", "bf16")}  # by the type of weights


def is_on(release: Release, value: Callable[[str], Any]) -> bool:
    """Whether arguments train with it; ``value`` gives that of one."""
    return any(name in release.arguments and bool(value(name)) for name in SWITCHES)


def arguments_of(release: Release, workload: Workload, s: ParallelStrategy) -> Arguments:
    """Strategy, types and groups of a plan whose gradients are sharded. The type of gradients is BF16 unless it is stated."""
    groups = s.dp * s.cp // (s.optimizer_shard_size or s.dp * s.cp)
    arguments: Arguments = {STRATEGY: STRATEGIES[min(s.zero_stage, 3)], "no-gradient-accumulation-fusion": ()}
    if groups > 1:
        arguments |= {INSTANCES: groups}
    if MAIN_GRADS in release.arguments and workload.training.precision in ("bf16", *QUANTISED_PRECISIONS):
        arguments |= {MAIN_GRADS: "bf16" if Feature.GRAD_REDUCE_IN_BF16 in s.features else "fp32"}
    return arguments


def features_of(release: Release, value: Callable[[str], Any], zero_stage: int, features: Feature) -> Feature:
    """The switches of a plan whose gradients are sharded: it overlaps by itself, and gradients have one type."""
    features |= DATA_PARALLEL_FEATURES if zero_stage == 3 else Feature.OVERLAP_GRAD_REDUCE
    if not (is_on(release, value) and MAIN_GRADS in release.arguments):
        return features
    features &= ~Feature.GRAD_REDUCE_IN_BF16  # its own switch does nothing here
    return features | (Feature.GRAD_REDUCE_IN_BF16 if _gradients(value)[1] == "bf16" else Feature(0))


def unpriced(release: Release, value: Callable[[str], Any]) -> Iterator[Unread]:
    """Arguments of a script that trains with it, and that have no price there; and PyTorch's own shards where it is priced."""
    if release.name == "megatron-lm" and OF_PYTORCH in release.arguments and value(OF_PYTORCH):
        yield Unread(OF_PYTORCH, Sentence("weights that are fully sharded are priced as Megatron-FSDP's"))
    if not is_on(release, value):
        return
    if value(STRATEGY) not in STRATEGIES.values():
        yield Unread(STRATEGY, Sentence("{} has buffers of its own, which have no price", value(STRATEGY)))
    if value(UNIT_SIZE) is not None:
        yield Unread(UNIT_SIZE, Sentence("it changes how many layers are gathered ahead"))
    if MAIN_GRADS not in release.arguments:
        return
    weights, gradients = _gradients(value)
    if gradients not in PRICED_GRADS[weights]:
        yield Unread(MAIN_GRADS, Sentence("gradients of this type are not priced"))
    if value(SENT_GRADS) not in ("auto", gradients):
        yield Unread(SENT_GRADS, Sentence("gradients that are sent in another type than they are kept in are not priced"))


def _gradients(value: Callable[[str], Any]) -> tuple[str, str]:
    """The types of weights and of gradients, which is that of the weights by default, in 8 bits BF16."""
    weights = next((name for name in ("bf16", "fp16") if value(name)), "fp32")
    return weights, weights if value(MAIN_GRADS) == "auto" else str(value(MAIN_GRADS))
