"""The device counts that some strategy can fill."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cost_models.shapes.strategy import IntColumn
from cost_models.shapes.workload import ModelShape, Workload
from documents.bounds import MAX_DEVICES


def _divisors(number: int) -> IntColumn:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return np.array(sorted({*small, *(number // d for d in small)}), dtype=np.int64)


def _tensor_degrees(model: ModelShape) -> IntColumn:
    tp = _divisors(model.num_attention_heads)
    if model.mla is None:
        tp = tp[(model.num_query_groups % tp == 0) | (tp % model.num_query_groups == 0)]
    if model.has_dense_mlp:
        tp = tp[model.ffn_hidden_size % tp == 0]
    if model.moe is not None and model.moe.shared_expert_ffn_hidden_size:
        tp = tp[model.moe.shared_expert_ffn_hidden_size % tp == 0]
    return tp


@lru_cache(maxsize=64)
def _counts(model: ModelShape, seq_length: int, global_batch_size: int) -> IntColumn:
    """Every device count that degrees without expert parallelism fill, ascending."""
    counts = _tensor_degrees(model)
    ring = _divisors(seq_length // 2) if seq_length % 2 == 0 else np.ones(1, dtype=np.int64)
    for factors in (np.arange(1, model.num_layers + 1), ring, _divisors(global_batch_size)):
        counts = np.unique(np.multiply.outer(counts, factors))
        counts = counts[counts <= MAX_DEVICES]
    return counts


def fillable_device_counts(workload: Workload, near: int, *, how_many: int = 2) -> tuple[int, ...]:
    """The device counts nearest to ``near`` that can be filled (at most a million), nearest first, then the smaller.

    A count can be filled if it is tp x cp x pp x dp for degrees that divide heads, sequence, layers and batch.
    """
    counts = _counts(workload.model, workload.training.seq_length, workload.training.global_batch_size)
    order = np.argsort(np.abs(counts - near), kind="stable")
    return tuple(int(count) for count in counts[order[:how_many]])
