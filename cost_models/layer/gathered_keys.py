"""Context parallelism that gathers keys and values: what is sent, in which pass, and the buffers that hold the whole sequence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, element_bytes
from cost_models.network.collectives import all_gather_s, reduce_scatter_s, send_recv_s
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.workload import Workload

CALLS = 2  # keys and values, each in a collective of its own


class GatheredKeys(NamedTuple):
    """Seconds of one layer and micro batch, columns ``[k]``; 0 where keys and values are not gathered.

    Each pass gathers once: nothing gathered stays between them. ``scatter_s`` sums gradients and returns each rank its part.
    ``gradient_hop_s`` is one of the cp sends by which stacks that compute block by block pass them round a ring instead.
    """

    gather_s: Floats
    scatter_s: Floats
    gradient_hop_s: Floats


def key_value_elements(workload: Workload, keys: LayerKeys) -> Floats:
    """Elements of keys and values of one token, of a whole tensor-parallel group. ``[k]``"""
    model = workload.model
    if model.mla is None:
        return 2.0 * model.kv_channels * key_value_heads(model, keys)
    return np.full(len(keys.tp), float((model.mla.qk_head_dim + model.mla.v_head_dim) * model.num_attention_heads))


def gathered_keys(workload: Workload, keys: LayerKeys, network: Network) -> GatheredKeys:
    """Collectives of keys, values and their gradients, before compute hides any of them.

    Transformer Engine and MindSpeed gather keys, then values, in each pass, and reduce-scatter the gradients of both in the
    precision of the values [transformer-engine, context_parallel.py, AttnFuncWithCPAndKVAllGather; mindspeed,
    kvallgather_context_parallel.py]. PyTorch gathers both at once, computes attention block by block as on a ring, and passes
    gradients in FP32 to the next rank after every block [pytorch, _context_parallel/_attention.py].
    """
    none = np.zeros(len(keys.tp))
    if not keys.gathers_keys.any():
        return GatheredKeys(none, none, none)
    own = key_value_elements(workload, keys) * keys.tokens(workload.training) / keys.tp
    ranks, stride, each = np.where(keys.gathers_keys, keys.cp, 1), keys.tp, element_bytes(workload)
    if workload.software_traits.attends_by_blocks:
        gather = all_gather_s(each * own * ranks, ranks, stride, network)
        return GatheredKeys(gather, none, send_recv_s(FP32_BYTES * own, ranks, stride, network))
    whole = each * own * ranks / CALLS
    return GatheredKeys(
        CALLS * all_gather_s(whole, ranks, stride, network), CALLS * reduce_scatter_s(whole, ranks, stride, network), none
    )


def gathered_keys_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes that a backward holds beyond gradients of queries, keys and values in 16 bits, 2 an element. ``[k]``

    Of Q bytes for a rank's queries, L for its keys and values and G = cp L, Transformer Engine and MindSpeed hold what was
    gathered (G), sums of gradients (G), those of the two pieces of queries, which see rank + 1 and 2 cp - rank of 2 cp pieces of
    keys ((1 + 1 / (2 cp)) G + Q), and one of the two sums in the order of ranks (G / 2). PyTorch holds G, the rank's own part
    joined for the gather (L), and in FP32 sums for queries (2 Q) and gradients of keys and values as received, summed and sent
    (6 L). A block of half the queries or keys adds 1.5 Q or 1.5 L, whichever is more [pytorch, _context_parallel/_attention.py].
    """
    if not (keys.gathers_keys.any() and workload.model.has_mixer):
        return np.zeros(len(keys.tp))
    model, own = workload.model, ELEMENT_BYTES * keys.tokens(workload.training) / keys.tp
    channels = model.kv_channels if model.mla is None else model.mla.qk_head_dim
    queries, each = own * channels * model.num_attention_heads, own * key_value_elements(workload, keys)
    whole = each * keys.cp
    if workload.software_traits.attends_by_blocks:
        held = whole + 2.0 * queries + 7.0 * each + 1.5 * np.maximum(queries, each)
    else:
        held = 3.5 * whole + 0.5 * each + queries
    return np.where(keys.gathers_keys, held, 0.0)
