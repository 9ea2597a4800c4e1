"""Bytes that losses, heads and prediction modules hold: of the running micro batch, and of those that wait."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import ELEMENT_BYTES, element_factor
from cost_models.layer.edges import has_chunked_loss, loss_chunk_tokens
from cost_models.memory.held_layers import KeptLayers, module_inputs
from cost_models.memory.model_states import WEIGHT_BYTES
from cost_models.shapes.fully_sharded import shards_each_layer
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload

# Bytes a logit: 16-bit logits and their FP32 copy [megatron-0.12, cross_entropy.py]. Releases that do not subtract the maximum
# in place hold a second FP32 copy [mindspeed-llm, commit 8f37759b].
LOGIT_BYTES, COPIED_LOGIT_BYTES = 6, 10
# PyTorch's own loss: log-softmax and its gradients. Over shards of the vocabulary its backward is written in Python, which holds
# one FP32 tensor more [pytorch, tensor/parallel/loss.py]; counted by execution (``python -m scripts.oracle.plain_loss``).
PLAIN_LOGIT_BYTES, SHARDED_PLAIN_LOGIT_BYTES = 12, 16
# The same loss compiled: whole, one kernel reads 16-bit logits and another writes their gradients.
COMPILED_LOGIT_BYTES, SHARDED_COMPILED_LOGIT_BYTES = 4, 10
# Between the loss' forward and its backward: the FP32 softmax [megatron-0.12, cross_entropy.py]. From there to a separate weight
# gradient of the head: the 16-bit gradient of the logits [zero-bubble-code].
WAITING_LOSS_LOGIT_BYTES, WAITING_HEAD_LOGIT_BYTES = 4, 2
# A loss by chunks: bytes of a logit of the running chunk and gradients of the head's weights, while the loss runs and while the
# last of the gradients is made. They are the sum, that of the chunk before, and this chunk's. Logits of the chunk before are
# among the bytes [mindspeed-llm, fsdp2/features/chunkloss.py]; counted by execution (``python -m scripts.oracle.chunked_loss``).
CHUNKED_LOSS_HOLDS = ((22, 2), (18, 3))
# torchtitan's: the sum is in FP32, and the last of the gradients is scattered from a second FP32 copy. Its gradient of the input
# is in FP32 as well [torchtitan-2026.08, components/loss.py]; counted by execution (``scripts.oracle.chunked_loss_of_fsdp``).
FSDP_LOSS_HOLDS, SHARDED_FSDP_LOSS_HOLDS = ((14, 2), (2, 4)), ((18, 2), (2, 4))
# The same with the chunk's loss compiled: whole, most are held when a chunk's gradient of the weights joins the sum.
COMPILED_FSDP_LOSS_HOLDS, SHARDED_COMPILED_FSDP_LOSS_HOLDS = ((4, 3), (2, 4)), ((10, 2), (2, 4))
INPUT_AND_GRADIENT, INPUT_AND_FP32_GRADIENT = 2.0, 3.0  # in units of the 16-bit input
PLAIN_NORM_BYTES = 6  # an element: copy in FP32 and normalised input [transformers-main, modeling_llama.py]


def loss_bytes(workload: Workload, batch: StrategyBatch, layers: KeptLayers, input_bytes: Floats) -> Floats:
    """Bytes of losses that wait for their backward, and of heads that wait for their weight gradient, ``[stage, n]``.

    MTP modules have the same. The head keeps its input, divided under sequence parallelism. With each loss
    waits what ``before_head_bytes`` counts. The running loss is ``logits_bytes``.

    Parameters
    ----------
    layers : ``[stage, n]``
        Losses and heads in flight.
    input_bytes : ``[n]``
        Of a layer's input.
    """
    if not (layers.losses.any() or layers.waiting_heads.any()):
        return np.zeros_like(layers.losses)
    tokens = workload.training.sample_tokens * batch.micro_batch_size / batch.cp
    rows, hidden = workload.model.vocab_size / batch.tp, workload.model.hidden_size
    head_input = ELEMENT_BYTES * hidden / np.where(batch.sequence_parallel != 0, batch.tp, 1)
    loss, head = (each * rows + head_input for each in (WAITING_LOSS_LOGIT_BYTES, WAITING_HEAD_LOGIT_BYTES))
    tokens = tokens * element_factor(workload)
    held: Floats = (1 + workload.model.mtp_num_layers) * tokens * (layers.losses * loss + layers.waiting_heads * head)
    return held + layers.losses * before_head_bytes(workload, batch, input_bytes)


def final_norm_bytes(workload: Workload, input_bytes: Floats) -> Floats:
    """Bytes of one micro batch that the norm before the head keeps beside its output, ``[n]``: as ``norm_input_bytes``.

    Parameters
    ----------
    input_bytes : ``[n]``
        Of what enters a layer.
    """
    plain = workload.software_traits.eager and not workload.software_traits.own_kernels
    return input_bytes * (PLAIN_NORM_BYTES / ELEMENT_BYTES if plain else 1.0)


def before_head_bytes(workload: Workload, batch: StrategyBatch, input_bytes: Floats) -> Floats:
    """Bytes of one micro batch that final norm and MTP modules keep for their backward beyond their layers, ``[n]``.

    On the head's rank: modules on a stage before it have the norm with them, and ``kept_layers`` counts both there.

    Parameters
    ----------
    input_bytes : ``[n]``
        What a layer's forward takes.
    """
    beside = module_inputs(workload, batch) * input_bytes + final_norm_bytes(workload, input_bytes)
    return np.where((workload.model.mtp_num_layers > 0) & (batch.mtp_before_head > 0), 0.0, beside)


def logits_bytes(workload: Workload, batch: StrategyBatch, input_bytes: Floats) -> Floats:
    """Bytes that the losses of one micro batch hold on the rank of the head. ``[n]``

    The loss holds its logits and the head's input, gathered from the tensor-parallel ranks. The head's backward holds the 16-bit
    gradient of the logits, that input with its gradient, and the gradient of the head's weights. PyTorch's own loss and
    MindSpeed-LLM's are over when it starts, so that the larger counts; other stacks reach peaks as if both were held together.
    ``before_head_bytes`` is included. MTP modules compute their losses before the model's, and keep what waits for the backward
    [megatron-0.12, multi_token_prediction.py]. Fully sharded PyTorch keeps both tables gathered from the forward
    to the end of the backward [pytorch-fsdp, section 4.2]; ``whole_weights_bytes`` has those of stages that stay gathered.
    A loss by chunks holds the input and its gradient whole, the logits of one chunk, and gradients of the head's weights.

    Parameters
    ----------
    input_bytes : ``[n]``
        Of a layer's input.
    """
    model, software = workload.model, workload.software
    over_shards = (batch.tp > 1) & workload.software_traits.fp32_shards  # Megatron's loss over shards is its own
    logit_bytes = np.array(LOGIT_BYTES)
    if software.compiled_loss:
        logit_bytes = np.where(over_shards, SHARDED_COMPILED_LOGIT_BYTES, COMPILED_LOGIT_BYTES)
    elif software.plain_cross_entropy:
        logit_bytes = np.where(over_shards, SHARDED_PLAIN_LOGIT_BYTES, PLAIN_LOGIT_BYTES)
    if workload.software_traits.eager and not software.has_since(workload.software_traits.in_place_loss_year):
        logit_bytes = np.array(COPIED_LOGIT_BYTES)
    tokens = workload.training.sample_tokens * batch.micro_batch_size / batch.cp
    rows = model.vocab_size / batch.tp
    hidden = ELEMENT_BYTES * model.hidden_size
    tokens = element_factor(workload) * tokens
    waiting = model.mtp_num_layers * tokens * (WAITING_LOSS_LOGIT_BYTES * rows + 2.0 * hidden)
    head = 0.0 if workload.training.task.is_frozen else weight_gradient_bytes(workload) * rows * model.hidden_size
    loss = tokens * (logit_bytes * rows + hidden)
    held: Floats = loss + tokens * hidden + head
    if software.compiled_loss or software.plain_cross_entropy or workload.software_traits.loss_ends_first:
        held = np.maximum(loss, tokens * (WAITING_HEAD_LOGIT_BYTES * rows + 2.0 * hidden) + head)
    by_chunks = _loss_by_chunks(workload, batch, tokens, head, over_shards)
    held = np.where(has_chunked_loss(workload, batch), by_chunks, held)
    tables = np.where(model.tied_embeddings | (batch.pp > 1), 1.0, 2.0) * rows * model.hidden_size
    gathered = shards_each_layer(workload, batch) & workload.software_traits.fp32_shards
    held = held + np.where(gathered, element_factor(workload) * WEIGHT_BYTES * tables, 0.0)
    return waiting + held + before_head_bytes(workload, batch, input_bytes)


def _loss_by_chunks(
    workload: Workload, batch: StrategyBatch, tokens: Floats, head: Floats | float, over_shards: NDArray[np.bool_]
) -> Floats:
    """Bytes that a loss by chunks holds. ``[n]``

    Parameters
    ----------
    tokens : ``[n]``
        Of a micro batch on a rank, times the factor of its elements.
    head : ``[n]``, bytes
        A 16-bit gradient of the head's weights.
    over_shards : ``[n]``
        Whether PyTorch's own loss runs over shards of the vocabulary.
    """
    hidden, rows = ELEMENT_BYTES * workload.model.hidden_size, workload.model.vocab_size / batch.tp
    part = element_factor(workload) * loss_chunk_tokens(workload, batch)

    def most(holds: tuple[tuple[int, int], tuple[int, int]]) -> Floats:
        found: Floats = np.maximum(*(part * logit * rows + gradients * head for logit, gradients in holds))
        return found

    if not workload.software.loss_chunks:
        return (INPUT_AND_GRADIENT * tokens + part) * hidden + most(CHUNKED_LOSS_HOLDS)
    whole, sharded = FSDP_LOSS_HOLDS, SHARDED_FSDP_LOSS_HOLDS
    if workload.software.compiled_loss:
        whole, sharded = COMPILED_FSDP_LOSS_HOLDS, SHARDED_COMPILED_FSDP_LOSS_HOLDS
    held = np.where(over_shards, most(sharded), most(whole))
    return INPUT_AND_FP32_GRADIENT * tokens * hidden + held


def weight_gradient_bytes(workload: Workload) -> float:
    """Bytes a parameter of a weight gradient before it is added to the buffer.

    Eager code creates a tensor for it [megatron-0.12, layers.py].
    """
    return element_factor(workload) * WEIGHT_BYTES if workload.software_traits.eager else 0.0
