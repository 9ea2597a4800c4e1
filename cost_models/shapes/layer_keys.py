"""Distinct layer keys: the columns that decide the cost of one layer, so that each combination is priced once.

A space of 10^8 strategies has a few thousand keys, because pp, vpp, dp, the schedule and the extent of a full recompute do
not change the cost of a single layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.fully_sharded import has_units, shards_each_layer
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, IntColumn, StrategyBatch
from cost_models.shapes.switches import PRICED, Feature, Place, priced_bits
from cost_models.shapes.workload import ModelShape, TrainingJob, Workload
from documents.late_methods import dataclass

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LayerKeys:
    """Distinct combinations of the columns that decide the cost of one layer, ``[k]`` each.

    ``weight_shards`` and ``expert_weight_shards`` are above 1 under ZeRO-3 only, and only if every layer gathers its own weights.
    ``weight_copies`` and ``expert_weight_copies`` are the groups of such shards that hold the same weights and add their
    gradients with every micro batch.
    """

    tp: IntColumn
    cp: IntColumn
    ep: IntColumn
    etp: IntColumn
    micro_batch_size: IntColumn
    sequence_parallel: IntColumn
    cp_algo: IntColumn
    ulysses_degree: IntColumn
    dispatcher: IntColumn
    recompute_modules: IntColumn
    features: IntColumn
    weight_shards: IntColumn
    expert_weight_shards: IntColumn
    weight_copies: IntColumn
    expert_weight_copies: IntColumn

    def has(self, feature: Feature) -> NDArray[np.bool_]:
        """Whether each key has the feature, ``[k]``; of several features, any counts.

        Raises ``PlaceError`` if the feature's entry does not price it in layers.
        """
        found: NDArray[np.bool_] = (self.features & priced_bits(feature, Place.LAYER)) != 0
        return found

    @property
    def gathers_keys(self) -> NDArray[np.bool_]:
        """Whether context-parallel ranks gather keys and values, ``[k]``."""
        found: NDArray[np.bool_] = (self.cp_algo == int(CpAlgo.KV_ALLGATHER)) & (self.cp > 1)
        return found

    def recomputes(self, module: RecomputeModule) -> NDArray[np.bool_]:
        """Whether each key recomputes the module in the backward, ``[k]``."""
        found: NDArray[np.bool_] = (self.recompute_modules & int(module)) != 0
        return found

    def tokens(self, training: TrainingJob) -> Floats:
        """Tokens of one micro batch on one context-parallel rank, ``[k]``."""
        return training.sample_tokens * self.micro_batch_size / self.cp

    def sharded_tokens(self, training: TrainingJob) -> Floats:
        """Tokens that a rank holds between the tensor-parallel blocks, ``[k]``: divided by tp under sequence parallelism."""
        return self.tokens(training) / np.where(self.sequence_parallel != 0, self.tp, 1)


def data_parallel_sizes(batch: StrategyBatch) -> tuple[IntColumn, IntColumn]:
    """Ranks that replicate dense and expert parameters, ``[n]`` each: dp cp, and tp cp dp / (ep etp)."""
    replicas = batch.dp * batch.cp
    return replicas, np.maximum(batch.tp * replicas // (batch.ep * batch.etp), 1)


def shard_sizes(batch: StrategyBatch) -> tuple[IntColumn, IntColumn]:
    """Ranks that share one optimizer state, for dense and expert parameters, ``[n]`` each; 1 without sharding.

    At most ``optimizer_shard_size``, if the strategy has one.
    """
    dense, expert = data_parallel_sizes(batch)
    limit = np.where(batch.optimizer_shard_size > 0, batch.optimizer_shard_size, np.iinfo(np.int64).max)
    sharded = batch.zero_stage > 0
    return np.where(sharded, np.minimum(dense, limit), 1), np.where(sharded, np.minimum(expert, limit), 1)


def joined_experts(workload: Workload, rows: StrategyBatch | LayerKeys, dense: Floats, experts: Floats) -> tuple[Floats, Floats]:
    """Bytes of calls for dense weights and for experts, ``[.., n]`` or ``[.., k]`` like ``rows``; elementwise.

    PyTorch's FSDP wraps experts apart under expert parallelism alone, so that otherwise the call of a layer takes them along
    [torchtitan-0.2, llama4/infra/parallelize.py:385]. Megatron-FSDP always has buffers of their own for them [megatron-0.19,
    megatron_fsdp/param_and_grad_buffer.py].
    """
    together = workload.software_traits.fp32_shards & (rows.ep == 1) & (rows.etp == rows.tp)
    return dense + together * experts, ~together * experts


def distinct_rows(columns: list[IntColumn]) -> tuple[IntColumn, IntColumn]:
    """First row of each distinct combination ``[k]``, and the index of each row's combination ``[n]``.

    Parameters
    ----------
    columns : ``[n]`` each
        The columns to combine.
    """
    code, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        low, high = int(np.minimum.reduce(column)), int(np.maximum.reduce(column))
        if low == high:
            continue
        if high - low < 4096:
            span, digit = high - low + 1, column - low
        else:
            values, digit = np.unique(column, return_inverse=True)
            span = len(values)
        if size > 2**62 // span:
            _, code = np.unique(code, return_inverse=True)
            size = int(code.max()) + 1
        code = digit if size == 1 else code * span + digit
        size *= span
    if size == 1:
        return np.zeros(1, dtype=np.int64), code
    return _distinct(code, size)


def _distinct(code: IntColumn, size: int) -> tuple[IntColumn, IntColumn]:
    """First row of each distinct code, in the order of codes, and the index of each row's code. All codes are below ``size``.

    If ``size`` is small, no sort is needed.
    """
    n = len(code)
    if size <= 4 * n:
        first_of = np.full(size, n)
        first_of[code[::-1]] = np.arange(n - 1, -1, -1)  # the first row is written last
        present = first_of < n
        return first_of[present], (np.cumsum(present) - 1)[code]
    order = code.argsort(kind="stable")
    ordered = code[order]
    begins = np.empty(n, dtype=np.bool_)
    begins[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    index = np.empty(n, dtype=np.int64)
    index[order] = np.cumsum(begins) - 1
    return order[begins], index


def rows_alike(columns: list[IntColumn]) -> Iterator[IntColumn]:
    """Sets of rows that are equal in all ``columns`` ``[n]``, one after the other, each in ascending order."""
    first, set_of = distinct_rows(columns)
    order = np.argsort(set_of, kind="stable")
    bounds = np.searchsorted(set_of[order], np.arange(len(first) + 1))
    for start, end in pairwise(bounds):
        yield order[start:end]


def layer_keys(workload: Workload, batch: StrategyBatch) -> tuple[LayerKeys, IntColumn]:
    """Distinct keys ``[k]`` of a batch and, for each of its ``n`` rows, the index of its key ``[n]``."""
    dense, expert = shard_sizes(batch)
    copies, expert_copies = (ranks // shards for ranks, shards in zip(data_parallel_sizes(batch), (dense, expert), strict=True))
    gathered = shards_each_layer(workload, batch)
    each_time = gathered & (not has_units(workload))
    columns = {f.name: getattr(batch, f.name, None) for f in fields(LayerKeys)}
    columns["features"] = batch.features & PRICED[Place.LAYER]
    columns["weight_shards"] = np.where(gathered, dense, 1)
    columns["expert_weight_shards"] = np.where(gathered, expert, 1)
    columns["weight_copies"] = np.where(each_time, copies, 1)
    columns["expert_weight_copies"] = np.where(each_time, expert_copies, 1)
    present = {name: column for name, column in columns.items() if column is not None}
    first, inverse = distinct_rows(list(present.values()))
    return LayerKeys(**{name: column[first] for name, column in present.items()}), inverse


def key_value_heads(model: ModelShape, keys: LayerKeys) -> Floats:
    """Heads of keys and values of a whole tensor-parallel group, without latent attention. ``[k]``

    If there are fewer heads than ranks, tensor parallelism gives each rank one. Ulysses repeats them for every query head before
    it exchanges them [mindspeed, ulysses_context_parallel.py].
    """
    ranks, groups = keys.tp * keys.ulysses_degree, model.num_query_groups
    repeated = np.where(keys.ulysses_degree > 1, model.num_attention_heads, keys.tp)
    return np.where(ranks > groups, repeated, groups).astype(np.float64)
