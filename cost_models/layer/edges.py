"""Time of the work at the ends of the pipeline: embedding, output head with its loss, MTP projections."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import ADD_BYTES, READ_WRITE_BYTES, Device, element_bytes, matmul_s, vector_s
from cost_models.network.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

LOSS_CHUNK_TOKENS = 1024  # of a sample in a chunk of the loss [mindspeed-llm, fsdp2/train/trainer.py:109]
LOSS_FORWARD_FRACTION = 0.4  # assumed part of the cross-entropy traffic: maximum, exponent, sum; the rest is the gradient


@dataclass(frozen=True)
class EdgeCosts:
    """Seconds of one micro batch at the ends of the pipeline, columns ``[k]``; ``*_compute_s`` excludes communication."""

    embedding_forward_s: Floats
    embedding_backward_s: Floats
    embedding_compute_s: tuple[Floats, Floats]
    head_forward_s: Floats  # one head; MTP modules run it again
    head_backward_s: Floats
    head_compute_s: tuple[Floats, Floats]
    head_weight_gradient_s: Floats  # part of ``head_backward_s``
    head_regather_s: Floats  # gathers the head's input again beside its weight gradient, which hides it
    mtp_projection_s: Floats  # forward; backward twice that
    mtp_comm_s: tuple[Floats, Floats]  # collectives around one MTP projection and its embedding, forward and backward
    mtp_regather_s: Floats  # gathers the projection's input again beside its weight gradient, which hides it

    @property
    def mtp_module_s(self) -> Floats:
        """Forward and backward of an MTP module without its layer and its head, ``[k]``."""
        both: Floats = 3.0 * self.mtp_projection_s + self.mtp_comm_s[0] + self.mtp_comm_s[1]
        return both


def loss_chunk_tokens(workload: Workload, rows: StrategyBatch | LayerKeys) -> Floats:
    """Tokens of a micro batch in one chunk of a loss by chunks. ``[n]``"""
    of_sample = workload.training.sample_tokens / rows.cp
    chunks = workload.software.loss_chunks
    found: Floats = (of_sample / chunks if chunks else np.minimum(of_sample, LOSS_CHUNK_TOKENS)) * rows.micro_batch_size
    return found


def has_chunked_loss(workload: Workload, rows: StrategyBatch | LayerKeys) -> NDArray[np.bool_]:
    """Whether head and loss run by chunks, by the plan or by the job. ``[n]``"""
    found: NDArray[np.bool_] = rows.has(Feature.CHUNKED_LOSS) | (workload.software.loss_chunks > 0)
    return found


def edge_costs(workload: Workload, keys: LayerKeys, device: Device, network: Network) -> EdgeCosts:
    """Time of the embedding, of the output head with its loss, and of one MTP projection, for one micro batch.

    The embedding is a lookup with its TP reduction. The head is vocabulary-parallel logits and cross-entropy
    [megatron-0.12, cross_entropy.py]. The layer behind an MTP projection is not included. The projection takes 2 h channels, of
    the tokens' embeddings and of the layer before, and its output is gathered as a whole on each rank
    [megatron-0.12, multi_token_prediction.py].

    Notes
    -----
    A frozen table has no gradient, so nothing runs behind the first layer, and the head's weight has none either. The loss reads
    and writes ``cross_entropy_bytes`` a logit in total, of which the forward does ``LOSS_FORWARD_FRACTION``. The
    gradient of tied embeddings between the ends of the pipeline is left out. A loss by chunks has all of its work in the forward,
    and each chunk adds its gradient of the head's weights to a sum.
    """
    model = workload.model
    n, n_l = keys.tokens(workload.training), keys.sharded_tokens(workload.training)
    h, t = model.hidden_size, keys.tp
    ones = np.ones_like(t)
    hidden = element_bytes(workload) * n * h
    sp = keys.sequence_parallel != 0
    replicated = keys.has(Feature.REPLICATED_EMBEDDING)
    lookup = vector_s(READ_WRITE_BYTES * h * n_l, device)
    scatter = np.where(sp, reduce_scatter_s(hidden, t, ones, network), all_reduce_s(hidden, t, ones, network))
    gather = np.where(sp, all_gather_s(hidden, t, ones, network), 0.0)
    embedding_comm = np.where(replicated, 0.0, scatter)
    embedding_comm_back = np.where(replicated, 0.0, gather)
    logits = matmul_s(n, model.vocab_size / t, h, device, flops_per_s=device.unquantised_flops_per_s)
    loss = vector_s(device.constants.cross_entropy_bytes * n * model.vocab_size / t, device)
    task = workload.training.task
    times = 2.0 if task.runs_reference else 1.0  # the reference looks up its tokens, and needs its logits too
    trained = task.matmuls_of_weight - 1.0
    forward = times * (logits + LOSS_FORWARD_FRACTION * loss)
    backward = (1.0 + trained) * logits + (1.0 - LOSS_FORWARD_FRACTION) * loss
    by_chunks = has_chunked_loss(workload, keys)
    part = loss_chunk_tokens(workload, keys)
    chunk = matmul_s(part, model.vocab_size / t, h, device, flops_per_s=device.unquantised_flops_per_s)
    sum_s = vector_s(trained * ADD_BYTES * model.vocab_size / t * h, device)
    forward = np.where(by_chunks, n / part * ((times + 1.0 + trained) * chunk + sum_s) + loss, forward)
    backward = np.where(by_chunks, 0.0, backward)
    modules = float(model.mtp_num_layers > 0)
    joined = modules * np.where(sp, all_gather_s(2.0 * hidden, t, ones, network), 0.0)
    joined_back = np.where(sp, reduce_scatter_s(2.0 * hidden, t, ones, network), all_reduce_s(2.0 * hidden, t, ones, network))
    output = all_gather_s(hidden, t, ones, network)
    mtp_comm = joined + modules * (embedding_comm + output), modules * (embedding_comm_back + joined_back + gather)
    lookup, embedding_comm, gather_forward = times * lookup, times * embedding_comm, times * gather
    lookup_back = trained * 2.0 * lookup / times
    return EdgeCosts(
        embedding_forward_s=lookup + embedding_comm,
        embedding_backward_s=lookup_back + trained * embedding_comm_back,
        embedding_compute_s=(lookup, lookup_back),
        head_forward_s=forward + gather_forward,
        head_backward_s=backward + scatter,
        head_compute_s=(forward, backward),
        head_weight_gradient_s=np.where(by_chunks, 0.0, trained * logits),
        head_regather_s=trained * gather,
        mtp_projection_s=matmul_s(n, h / t, 2 * h, device) if model.mtp_num_layers else np.zeros_like(n),
        mtp_comm_s=mtp_comm,
        mtp_regather_s=joined,
    )
