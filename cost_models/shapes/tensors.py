"""The tensors that a layer keeps from its forward for its backward, one entry each.

Masks, prices and documents follow from the entries. An entry names the class of ``LayerActivations.saved`` that contains the
tensor's bytes, and the operator that recomputes it. ``layer.tensors`` has the formulas. A strategy keeps, recomputes or swaps
each tensor (``TensorChoice``), by virtual stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag, unique
from typing import NamedTuple

from cost_models.shapes.recompute_modules import RecomputeModule
from documents.late_methods import dataclass
from documents.sentences import Sentence


@dataclass(frozen=True)
class TensorEntry:
    """One tensor. ``saved_as``: its class. ``again``: the operators that recompute it; empty if it can only be kept or swapped.

    ``module``: the recompute module that drops it, if any.
    """

    bit: int
    meaning: str
    saved_as: str
    again: str
    module: RecomputeModule


_ENTRIES: list[TensorEntry] = []


def _tensor(bit: int, saved_as: str, meaning: str, again: str = "", module: RecomputeModule = RecomputeModule(0)) -> int:
    _ENTRIES.append(TensorEntry(1 << bit, Sentence.whole(meaning), saved_as, Sentence.whole(again), module))
    return 1 << bit


@unique
class Tensor(IntFlag):
    """The tensors by name, as in jobs, in the order of a forward."""

    # fmt: off
    BLOCK_INPUT = _tensor(0, "residual", "What enters the norms: the residual stream, a layer's own checkpoint.")
    NORM_OUTPUT = _tensor(1, "norm_output", "What the norms hand to the linear layers.", "norms", RecomputeModule.LAYERNORM)
    GATHERED_INPUT = _tensor(2, "norm_output", "What tensor parallelism gathers of the norms' outputs, if layers keep it.",
        "all-gather")
    LATENTS = _tensor(3, "attention", "Compressed queries, keys and values of latent attention, and the shared rotary key.")
    QUERIES = _tensor(4, "attention", "Queries of latent attention, with their normed latents.", "query up-projection, rope",
        RecomputeModule.MLA_UP_PROJ)
    KEYS_VALUES = _tensor(5, "attention", "Keys and values of latent attention, with their normed latents.",
        "key and value up-projection, rope", RecomputeModule.MLA_UP_PROJ)
    ROTARY_INPUTS = _tensor(6, "attention", "Queries, keys and values before the rotary positions, where a kernel keeps them.",
        "query, key and value projection")
    QUERY_KEY_VALUE = _tensor(7, "attention", "What attention reads.", "query, key and value projection, rope")
    ATTENTION_OUTPUT = _tensor(8, "attention", "Output of attention and its softmax statistics.", "fused attention")
    ATTENTION_SCORES = _tensor(9, "attention_scores", "Scores and masks of attention that is not fused.", "unfused attention",
        RecomputeModule.CORE_ATTN)
    ATTENTION_REST = _tensor(10, "attention", "States of a recurrence, gates, copies around a sequence exchange.")
    MLP_HIDDEN = _tensor(11, "mlp", "Output of the first matmul of a dense MLP.", "first matmul", RecomputeModule.MLP)
    MLP_ACTIVATION = _tensor(12, "mlp", "Output of a dense MLP's activation function.", "activation", RecomputeModule.MLP_ACT)
    ROUTER = _tensor(13, "router", "The router's input in FP32, its logits and probabilities.", "routing", RecomputeModule.MOE)
    EXPERT_INPUT = _tensor(14, "routed_experts", "Tokens sorted by expert.", "dispatch and permutation", RecomputeModule.MOE)
    EXPERT_HIDDEN = _tensor(15, "routed_experts", "Output of the experts' first matmul.", "first grouped matmul",
        RecomputeModule.MOE)
    EXPERT_ACTIVATION = _tensor(16, "routed_experts", "Output of the experts' activation function.", "activation",
        RecomputeModule.MLP_ACT)
    EXPERT_OUTPUT = _tensor(17, "routed_experts", "Output of the experts, where the backward of an exchange starts from it.",
        "second grouped matmul", RecomputeModule.MOE)
    SHARED_HIDDEN = _tensor(18, "shared_experts", "Output of the shared experts' first matmul.", "first matmul",
        RecomputeModule.MOE)
    SHARED_ACTIVATION = _tensor(19, "shared_experts", "Output of the shared experts' activation function.", "activation",
        RecomputeModule.MLP_ACT)
    # fmt: on


TENSORS = {Tensor(entry.bit): entry for entry in _ENTRIES}
TENSOR_NAMES = {str(tensor.name).lower(): tensor for tensor in Tensor}
if list(TENSORS) != list(Tensor):
    raise TypeError("every member of Tensor is one entry: give it bit, saved_as and meaning")
RECOMPUTABLE = Tensor(sum(tensor for tensor, entry in TENSORS.items() if entry.again))


class TensorChoice(NamedTuple):
    """Tensors that a layer recomputes in its backward, and tensors that it swaps to the host. No tensor is both."""

    recompute: Tensor = Tensor(0)
    swap: Tensor = Tensor(0)


class TensorShare(NamedTuple):
    """A choice, and the number of layers that take it; 0, in the last share alone, stands for all other layers."""

    choice: TensorChoice = TensorChoice()
    num_layers: int = 0


# The choices of the layers of one kind on a virtual stage, in their order. Prediction layers take the last.
LayerChoices = tuple[TensorShare, ...]
KEEP_ALL: LayerChoices = (TensorShare(),)
# The choices of each virtual stage and kind of layer, [chunk][stage][kind], kinds in the order of ``ModelShape.layer_kinds``.
TensorPlan = tuple[tuple[tuple[LayerChoices, ...], ...], ...]


def share_ends(choices: LayerChoices, most: int) -> list[tuple[TensorChoice, int, int]]:
    """Each choice with the places of its first layer and behind its last, among at most ``most`` layers of the kind."""
    found, start = [], 0
    for choice, num_layers in choices:
        end = start + num_layers if num_layers else most
        found.append((choice, start, end))
        start = end
    return found


def tensor_names(tensors: Tensor) -> list[str]:
    """The names of a set of tensors, in the order of a forward."""
    return [name for name, tensor in TENSOR_NAMES.items() if tensor in tensors]


def choices_of(plan: TensorPlan) -> Iterator[TensorChoice]:
    """All choices of a plan, stage by stage."""
    return (share.choice for row in plan for stage in row for kind in stage for share in kind)


def dropped(plan: TensorPlan) -> tuple[Tensor, Tensor]:
    """The tensors that some layer recomputes, and those that some layer swaps to the host."""
    again = moved = Tensor(0)
    for choice in choices_of(plan):
        again, moved = again | choice.recompute, moved | choice.swap
    return again, moved


def covering_modules(plan: TensorPlan) -> RecomputeModule:
    """The recompute modules that drop the plan's tensors, for the tensors that have one."""
    again, moved = dropped(plan)
    found = RecomputeModule(0)
    for tensor in again | moved:
        found |= TENSORS[tensor].module
    return found


def drops_nothing(plan: TensorPlan) -> bool:
    """Whether every layer keeps every tensor."""
    return not any(dropped(plan))
