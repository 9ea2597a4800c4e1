"""Arguments of a script that no reader understands, and what each may change. A script with one of them has no price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from documents.errors import nearest
from documents.sentences import Sentence, joined
from frameworks.release import Effect, Given, Release, accepted, holds, refused

CHANGES: Mapping[Effect, str] = {
    "model": Sentence("it makes another model"),
    "weights": Sentence("it decides which weights are trained"),
    "task": Sentence("it makes another task than pre-training or full fine-tuning"),
    "memory": Sentence("it changes the memory"),
    "time": Sentence("it changes the step time"),
    "cost": Sentence("it changes step time and memory"),
}
UNUSED_GROUP = Sentence("Data, schedule, checkpoints")  # groups of arguments on which neither model, batch nor plan depends
# Arguments that are understood and priced in another form, which changes little.
ASSUMED: Mapping[str, str] = {
    "rampup-batch-size": Sentence("the price is of a step with the whole batch"),
    "step-batch-size-schedule": Sentence("the price is of a step with the whole batch"),
    "cross-entropy-loss-fusion": Sentence("the loss is priced as the framework's own"),
    "overlap-param-gather-with-optimizer-step": Sentence("the gather is priced beside the first forward pass"),
    "delay-wgrad-compute": Sentence("weight gradients are priced with their backward pass"),
    "no-fp8-wgrad": Sentence("weight gradients are priced in 8 bits"),
    "disable-fp8-wgrad": Sentence("weight gradients are priced in 8 bits"),
    "fp8-output-proj": Sentence("the head is priced in 16 bits"),
    "fp8-dot-product-attention": Sentence("attention is priced in 16 bits"),
    "moe-deepep-num-sms": Sentence("compute beside the exchange keeps its rate"),
    "moe-flex-dispatcher-num-sms": Sentence("compute beside the exchange keeps its rate"),
    "cross-entropy-fusion-impl": Sentence("the loss is priced as the framework's own"),
    "empty-unused-memory-level": Sentence("the allocator is priced as one that keeps its pool"),
    "deterministic-mode": Sentence("kernels are priced as the fast ones"),
    "npu-deterministic": Sentence("kernels are priced as the fast ones"),
    "optimize-send-recv-comm": Sentence("neighbours of the pipeline exchange as usual"),
    "swap-modules": Sentence("the usual tensors are moved"),
    "swap-optimizer-times": Sentence("states are moved in the usual number of parts"),
    "use-legacy-models": Sentence("layers are priced as those of Megatron core"),
    "is-instruction-dataset": Sentence("every sample is priced as long as the sequence"),
    "is-pairwise-dataset": Sentence("every sample is priced as long as the sequence"),
    "lora-fusion": Sentence("adapters are priced as matmuls of their own"),
}
# Arguments that put several samples into one sequence, or leave samples as short as they are.
UNEVEN = (
    *("reset-attention-mask", "pack", "neat-pack", "no-pad-to-seq-lengths", "variable-seq-lengths"),
    *("fix-sub-seq-length", "max-seqlen-per-dp-cp-rank", "dataloader-inter-document-masking", "sft"),
)
# Arguments that change the time only beside another: pages of host memory that a device cannot read by itself are copied first.
BESIDE: Mapping[str, str] = {"no-pin-cpu-grads": "optimizer-cpu-offload", "no-pin-cpu-params": "optimizer-cpu-offload"}


class Unread(NamedTuple):
    """An argument by name, and what it may change, as a part of a sentence."""

    name: str
    change: str


def assumed(given: Given) -> list[str]:
    """A sentence for each given argument that is priced in another form."""
    return [Sentence("{}: {}.", name, words) for name, words in ASSUMED.items() if name in given]


def unread(release: Release, written: Given) -> tuple[Unread, ...]:
    """The arguments of a script that make model, memory or time and are not understood, in its order."""
    given = accepted(release, written)
    return tuple(found for name in written for found in _changes(release, written, given, name))


def matters(release: Release, name: str) -> bool:
    """Whether model, memory, time or task may depend on an argument."""
    if name in release.unpriced_by_name:
        return True
    return name not in release.without_effect and release.group_of(name) != UNUSED_GROUP


def _changes(release: Release, written: Given, given: Given, name: str) -> Iterator[Unread]:
    argument = release.arguments.get(name)
    other = BESIDE.get(name)
    if other is not None and other in release.arguments and holds(release, given, other):
        yield Unread(name, Sentence("beside {} {}", other, CHANGES["time"]))
        return
    if not matters(release, name):
        return
    if argument is not None and name not in given:
        yield Unread(name, Sentence("its value is not understood: {}", joined(" ", refused(argument, written[name])).rstrip(".")))
        return
    for condition, effect in release.unpriced_by_name.get(name, {}).items():
        if argument is None or holds(release, given, condition):
            yield Unread(name, CHANGES[effect])
            return
    if argument is None and name not in (*ASSUMED, *UNEVEN):
        near = nearest(name, release.arguments)
        hint = Sentence("; the nearest is {}", near) if near else ""
        yield Unread(
            name, Sentence("no argument of {} {}{}, and what it changes is not known", release.name, release.version, hint)
        )
