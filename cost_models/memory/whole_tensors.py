"""Tensors that an optimizer updates whole, and how a stage's ranks share them.

Newton-Schulz needs whole matrices, so that each of them belongs to one of the ranks that share an optimizer state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cost_models.pipeline.stages import LayersByKind
from cost_models.shapes.layer_keys import Floats, shard_sizes
from cost_models.shapes.optimizers import OptimizerRules, TpMode
from cost_models.shapes.parameters import MTP_NORMS, layer_parameters, num_parameters
from cost_models.shapes.strategy import IntColumn, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload
from documents.late_methods import dataclass

STATE_BYTES = 4.0  # of a moment in FP32
# Four copies in FP32 of the matrix that is orthogonalised, as executed (docs/verification.md).
WORKING_BYTES = 16.0


class Matrix(NamedTuple):
    """A matrix on a rank, ``[n]``. ``ranks`` of tensor parallelism divide it along ``divided`` (0: rows, 1: columns)."""

    rows: Floats
    columns: Floats
    ranks: IntColumn
    divided: int


@dataclass(frozen=True)
class Tensors:
    """Equal tensors on a rank. ``elements`` ``[n]`` of each, their ``number`` ``[stage, n]`` or ``[n]``.

    ``matrices`` are orthogonalised one by one: queries, keys and values are one tensor. Without any it is a vector or a table.
    """

    elements: Floats
    number: Floats
    matrices: tuple[Matrix, ...] = ()
    of_experts: bool = False


def _attention(model: ModelShape, batch: StrategyBatch) -> Iterator[tuple[Matrix, ...]]:
    """The matrices of each tensor of one full attention. Queries, keys and values that are one tensor are several matrices."""
    one, h, heads, tp = np.ones(len(batch)), model.hidden_size, model.num_attention_heads, batch.tp
    alone = np.ones_like(tp)
    if model.mla is None:
        gates = heads if model.attention_output_gate else 0
        widths = [width * model.kv_channels for width in (heads, gates, model.num_query_groups, model.num_query_groups) if width]
        yield tuple(Matrix(width / tp, h * one, tp, 0) for width in widths)
        yield (Matrix(h * one, heads * model.kv_channels / tp, tp, 1),)
        return
    mla = model.mla
    inner = mla.q_lora_rank or h
    if mla.q_lora_rank:
        yield (Matrix(inner * one, h * one, alone, 0),)
    yield (Matrix(heads * mla.qk_head_dim / tp, inner * one, tp, 0),)
    yield (Matrix((mla.kv_lora_rank + mla.qk_rope_head_dim) * one, h * one, alone, 0),)
    yield (Matrix(heads * (mla.qk_nope_head_dim + mla.v_head_dim) / tp, mla.kv_lora_rank * one, tp, 0),)
    yield (Matrix(h * one, heads * mla.v_head_dim / tp, tp, 1),)
    sparse = model.sparse_attention
    if sparse is not None:  # its indexer
        yield (Matrix(sparse.index_width * one, mla.q_lora_rank * one, alone, 0),)
        yield (Matrix(sparse.index_head_dim * one, h * one, alone, 0),)
        yield (Matrix(sparse.num_index_heads * one, h * one, alone, 0),)


def _mlp(model: ModelShape, width: int, ranks: IntColumn, copies: Floats) -> Iterator[tuple[Matrix, ...]]:
    """Both matrices of an MLP; gate and up projection are one. ``copies`` of them lie side by side."""
    h, ways = model.hidden_size * np.ones(len(ranks)), 2 if model.gated_linear_unit else 1
    yield (Matrix(copies * ways * width / ranks, h, ranks, 0),)
    yield (Matrix(h, copies * width / ranks, ranks, 1),)


def _vectors(model: ModelShape, batch: StrategyBatch, *, moe: bool) -> Iterator[tuple[float | Floats, int]]:
    """Sizes and numbers of the vectors of a layer: norms, and biases of attention; the biases of MLPs are left out."""
    yield model.hidden_size, layer_parameters(model, moe=moe).norms // model.hidden_size
    if model.mla is not None:
        yield model.mla.kv_lora_rank, 1
        yield model.mla.q_lora_rank, int(model.mla.q_lora_rank > 0)
        if model.sparse_attention is not None:
            yield model.sparse_attention.index_head_dim, 2
        return
    heads = model.num_attention_heads * (2 if model.attention_output_gate else 1)
    yield model.kv_channels, 2 * model.qk_layernorm
    yield (heads + 2 * model.num_query_groups) * model.kv_channels / batch.tp, int(model.attention_bias)
    yield model.hidden_size, int(model.constants.attention_output_bias)


def layer_tensors(workload: Workload, batch: StrategyBatch, *, moe: bool) -> tuple[Tensors, ...]:
    """Tensors of one layer with full attention, ``[n]``: matrices, then vectors [megatron-0.19, emerging_optimizers.py].

    The experts of a rank are matrices of their own, or with grouped matmuls one matrix (``SoftwareTraits.joins_experts``).
    """
    model, one = workload.model, np.ones(len(batch))
    alone = np.ones_like(batch.tp)
    dense = list(_attention(model, batch))
    experts: list[tuple[Matrix, ...]] = []
    local = joined = one
    if moe and model.moe is not None:
        shape = model.moe
        dense.append((Matrix(shape.num_experts * one, model.hidden_size * one, alone, 0),))
        if shape.shared_expert_ffn_hidden_size:
            dense += _mlp(model, shape.shared_expert_ffn_hidden_size, batch.tp, one)
        if model.constants.router.shared_expert_gate:
            dense.append((Matrix(one, model.hidden_size * one, alone, 0),))
        local = shape.num_experts / batch.ep
        joins = workload.software_traits.joins_experts & batch.has(Feature.MOE_GROUPED_GEMM)
        joined = np.where(joins, local, 1.0)
        experts += _mlp(model, shape.expert_ffn_hidden_size, batch.etp, joined)
    else:
        dense += _mlp(model, model.ffn_hidden_size, batch.tp, one)
    return (
        *(_of(matrices, one, of_experts=False) for matrices in dense),
        *(_of(matrices, local / joined, of_experts=True) for matrices in experts),
        *(Tensors(size * one, number * one) for size, number in _vectors(model, batch, moe=moe) if number),
    )


def _of(matrices: tuple[Matrix, ...], number: Floats, *, of_experts: bool) -> Tensors:
    elements = sum((matrix.rows * matrix.columns for matrix in matrices), np.zeros_like(matrices[0].rows))
    return Tensors(elements, number, matrices, of_experts)


def stage_tensors(
    workload: Workload, batch: StrategyBatch, layers: LayersByKind, is_first: Floats, is_last: Floats, is_mtp: Floats
) -> tuple[Tensors, ...]:
    """All tensors on a rank of each stage, their numbers ``[stage, n]``: of layers, tables, and norms of the ends.

    Parameters
    ----------
    layers, is_first, is_last, is_mtp : ``[stage, 1]``
        As in ``stage_parameters``.
    """
    model, one = workload.model, np.ones(len(batch))
    h, last, mtp = model.hidden_size, model.kinds_of_layers()[-1], is_mtp * model.mtp_num_layers
    found: list[Tensors] = []
    for kind, number in zip(model.layer_kinds(), layers, strict=True):
        held = number + (mtp if kind == last else 0.0)
        found += [replace(each, number=held * each.number) for each in layer_tensors(workload.of_kind(kind), batch, moe=kind.moe)]
    if model.mtp_num_layers:
        found.append(_of((Matrix(h / batch.tp, 2.0 * h * one, batch.tp, 0),), mtp * one, of_experts=False))
    if model.learned_positions:  # Megatron marks the table of words alone [megatron-0.19, language_module.py]
        positions = (Matrix(workload.training.seq_length * one, h * one, np.ones_like(batch.tp), 0),)
        found.append(_of(positions, is_first * one, of_experts=False))
    shared = np.where(model.tied_embeddings & (batch.pp == 1), 0.0, 1.0)  # by both ends
    found.append(Tensors(model.vocab_size * h / batch.tp, is_first + is_last * shared))
    found.append(Tensors(h * one, (is_last + mtp * MTP_NORMS) * one))
    return tuple(found)


def matrix_fraction(workload: Workload) -> float:
    """Share of the model's parameters that are matrices of its layers; 0 where none is orthogonalised."""
    model, alone = workload.model, StrategyBatch.of([ParallelStrategy()])
    if not workload.training.optimizer.rules.orthogonalises:
        return 0.0
    of_kind = {
        kind: sum(
            float((e.elements * e.number)[0]) for e in layer_tensors(workload.of_kind(kind), alone, moe=kind.moe) if e.matrices
        )
        for kind in model.layer_kinds()
    }
    return sum(of_kind[kind] for kind in model.kinds_of_layers()) / num_parameters(model).total


@dataclass(frozen=True)
class Shares:
    """How the ranks that share an optimizer state divide whole tensors: in turn by size, to and fro.

    Sorted by size, tensor i goes to rank i mod 2 S for the first S, and for the next S to its mirror image [megatron-0.19,
    layer_wise_optimizer.py; mindspeed, muon/layer_wise_optimizer.py].

    Parameters
    ----------
    tensors
        Numbers are ``[stage, n]``.
    shards : ``[n]``
        Ranks that share the tensors, S.
    """

    tensors: tuple[Tensors, ...]
    shards: IntColumn

    def mean(self, values: Sequence[Floats]) -> Floats:
        """The mean of all ranks of ``values`` ``[n]`` of each tensor, ``[stage, n]``."""
        none = np.zeros(len(self.shards))
        return sum((value * each.number for value, each in zip(values, self.tensors, strict=True)), none) / self.shards

    def fullest(self, values: Sequence[Floats]) -> Floats:
        """The most that one rank has, ``[stage, n]``.

        What ranks have differs only where the tensors of a size begin or end, so that those ranks are enough.
        """
        if not self.tensors:
            return self.mean(values)
        held, bounds = self._held(values), self._ends % (2 * self.shards)
        most = held(np.zeros_like(self.shards))
        for bound in bounds:
            for rank in (bound - 1, bound, 2 * self.shards - bound, 2 * self.shards - bound - 1):
                most = np.maximum(most, held(np.clip(rank, 0, self.shards - 1)))
        return most

    def first(self, values: Sequence[Floats]) -> Floats:
        """What the first rank has, ``[stage, n]``."""
        return self._held(values)(np.zeros_like(self.shards)) if self.tensors else self.mean(values)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(each.number.shape for each in self.tensors))

    @cached_property
    def _order(self) -> IntColumn:
        sizes = np.stack([np.broadcast_to(each.elements, self._shape) for each in self.tensors])
        return np.argsort(sizes, axis=0, kind="stable")

    @cached_property
    def _ends(self) -> IntColumn:
        """Tensors up to each size, ``[size, stage, n]``."""
        ends: IntColumn = np.round(self._by_size([each.number for each in self.tensors]).cumsum(axis=0)).astype(np.int64)
        return ends

    def _by_size(self, columns: Sequence[Floats]) -> Floats:
        return np.take_along_axis(np.stack([np.broadcast_to(each, self._shape) for each in columns]), self._order, axis=0)

    def _held(self, values: Sequence[Floats]) -> Callable[[IntColumn], Floats]:
        """What a rank has, by its number."""
        value, ends = self._by_size(values), self._ends
        begins = np.concatenate([np.zeros_like(ends[:1]), ends[:-1]])

        def held(rank: IntColumn) -> Floats:
            taken = _turns(ends, rank, self.shards) - _turns(begins, rank, self.shards)
            found: Floats = (taken * value).sum(axis=0)
            return found

        return held


def _turns(before: IntColumn, rank: IntColumn, shards: IntColumn) -> IntColumn:
    """Tensors of the first ``before`` that go to a rank."""
    rest = before % (2 * shards)
    turns: IntColumn = 2 * (before // (2 * shards)) + (rest > rank) + (rest > 2 * shards - 1 - rank)
    return turns


class Taken(Enum):
    """The rank that is asked for: the one that has most, the first, or a mean one."""

    FULLEST = "fullest"
    FIRST = "first"
    MEAN = "mean"


@dataclass(frozen=True)
class WholeTensors:
    """Tensors of a stage, which stay whole, those of experts apart; ``rest`` ``[stage, n]``: small parameters, divided evenly."""

    dense: Shares
    experts: Shares
    rest: Floats

    @property
    def tensors(self) -> tuple[Tensors, ...]:
        """All of them."""
        return *self.dense.tensors, *self.experts.tensors

    def working_bytes(self, mode: TpMode) -> Floats:
        """Bytes to orthogonalise the largest matrix, ``[stage, n]``; it may be gathered over tensor parallelism."""
        most = np.zeros_like(self.rest)
        for each in self.tensors:
            for matrix in each.matrices:
                whole = matrix.ranks if mode is TpMode.DUPLICATED else 1
                size = WORKING_BYTES * matrix.rows * matrix.columns * whole
                most = np.maximum(most, np.where(each.number > 0, size, 0.0))
        return most

    def of_rank(self, of_tensor: Callable[[Tensors], Floats], of_rest: float, rank: Taken = Taken.FULLEST) -> Floats:
        """What a rank has of a quantity, ``[stage, n]``.

        Parameters
        ----------
        of_tensor : ``[n]``
            The quantity of one whole tensor.
        of_rest
            That of one other parameter.
        """
        found = of_rest * self.rest / self.dense.shards
        for shares in (self.dense, self.experts):
            values = [of_tensor(each) for each in shares.tensors]
            found = found + getattr(shares, rank.value)(values)
        return found

    def owned(self, rank: Taken = Taken.FULLEST) -> Floats:
        """Parameters that a rank updates, ``[stage, n]``."""
        return self.of_rank(lambda each: each.elements, 1.0, rank)

    def moment_bytes(self, rules: OptimizerRules, rank: Taken = Taken.FULLEST) -> Floats:
        """Bytes of the moments on a rank, ``[stage, n]``."""

        def of_tensor(each: Tensors) -> Floats:
            return STATE_BYTES * (rules.matrix_moments if each.matrices else rules.moments) * each.elements

        return self.of_rank(of_tensor, STATE_BYTES * rules.moments, rank)


def whole_tensors(batch: StrategyBatch, tensors: tuple[Tensors, ...], trained: tuple[Floats, Floats]) -> WholeTensors:
    """The tensors of ``stage_tensors`` on the ranks that share them.

    Parameters
    ----------
    trained : ``[stage, n]`` each
        Trained parameters on a rank before sharding, dense and of experts.
    """
    dense_shards, expert_shards = shard_sizes(batch)
    dense = Shares(tuple(each for each in tensors if not each.of_experts), dense_shards)
    experts = Shares(tuple(each for each in tensors if each.of_experts), expert_shards)
    counted = sum((each.elements * each.number for each in tensors), np.zeros(len(batch)))
    return WholeTensors(dense, experts, np.maximum(sum(trained, np.zeros(1)) - counted, 0.0))
