"""Cases of the rules on plans by tensor: a strategy that keeps each, one that breaks it, and what the sentence says."""

from __future__ import annotations

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorPlan, TensorShare
from cost_models.shapes.workload import Workload
from tests.unit.frameworks.legality_cases import DENSE_JOB, FLAT, changed, with_features


def by_tensor(strategy: ParallelStrategy, tensors: Tensor) -> TensorPlan:
    """The same tensors computed again on every virtual stage of a dense model."""
    return ((((TensorShare(TensorChoice(tensors)),),),) * strategy.pp,) * strategy.vpp


def swapped(strategy: ParallelStrategy, tensors: Tensor) -> TensorPlan:
    """The same tensors moved to the host on every virtual stage of a dense model."""
    return ((((TensorShare(TensorChoice(swap=tensors)),),),) * strategy.pp,) * strategy.vpp


def first_layers(strategy: ParallelStrategy, layers: int) -> TensorPlan:
    """Norms of the first layers of every virtual stage of a dense model."""
    shares = TensorShare(TensorChoice(Tensor.NORM_OUTPUT), layers), TensorShare()
    return (((shares,),) * strategy.pp,) * strategy.vpp


NORMS_AGAIN = changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM)
TENSOR_PLANS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("tensor_plan_alone", "any", DENSE_JOB, changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)),
     changed(with_features(FLAT, Feature.SWAP_ATTENTION), tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)), ("swap_attention",)),
    ("tensor_plan_alone", "any", DENSE_JOB, changed(NORMS_AGAIN, tensor_plan=swapped(FLAT, Tensor.QUERY_KEY_VALUE)),
     changed(NORMS_AGAIN, tensor_plan=swapped(FLAT, Tensor.NORM_OUTPUT)), ("selective",)),
    ("tensor_plan_alone", "any", DENSE_JOB, changed(NORMS_AGAIN, tensor_plan=swapped(FLAT, Tensor.QUERY_KEY_VALUE)),
     changed(NORMS_AGAIN, tensor_plan=by_tensor(FLAT, Tensor.MLP_ACTIVATION)), ("selective",)),
    ("tensor_plan", "any", DENSE_JOB, changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)),
     changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.BLOCK_INPUT)), ("nothing computes block_input",)),
    ("tensor_plan", "any", DENSE_JOB, changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)),
     changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)[:0]), ("0 x 0 virtual stages",)),
    ("megatron_tensor_plan", "megatron-lm", DENSE_JOB, FLAT,
     changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)), ("norm_output", "modules")),
    ("megatron_offload", "megatron-lm@0.19", DENSE_JOB,
     changed(FLAT, tensor_plan=swapped(FLAT, Tensor.QUERY_KEY_VALUE | Tensor.ATTENTION_OUTPUT)),
     changed(FLAT, tensor_plan=swapped(FLAT, Tensor.ATTENTION_OUTPUT)), ("attention_output", "core_attn")),
    ("megatron_offload", "megatron-lm@0.19", DENSE_JOB,
     changed(FLAT, tensor_plan=swapped(FLAT, Tensor.QUERY_KEY_VALUE)),
     changed(FLAT, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION, tensor_plan=swapped(FLAT, Tensor.QUERY_KEY_VALUE)),
     ("query_key_value",)),
    ("mindspeed_tensor_plan", "mindspeed-llm", DENSE_JOB, changed(FLAT, tensor_plan=first_layers(FLAT, 3)),
     changed(FLAT, tensor_plan=swapped(FLAT, Tensor.NORM_OUTPUT)), ("norm_output", "numbers of layers")),
    ("mindspeed_tensor_plan", "mindspeed-llm", DENSE_JOB, changed(FLAT, tensor_plan=first_layers(FLAT, 3)),
     changed(FLAT, tensor_plan=(first_layers(FLAT, 3)[0][:3] + first_layers(FLAT, 2)[0][:1],)), ("norm_output",)),
    ("mindformers_tensor_plan", "mindformers", DENSE_JOB, FLAT,
     changed(FLAT, tensor_plan=by_tensor(FLAT, Tensor.NORM_OUTPUT)), ("norm_output", "modules")),
]  # fmt: skip
