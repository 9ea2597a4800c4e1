"""Samples packed into sequences, sequences shared out over replicas and micro batches, and how long each makes its step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from search.experts.packing import Floats, Ints, pack

MAX_SEQUENCES = 200_000  # of a step
MAX_SAMPLES = 20_000_000


def packed_fractions(lengths: Ints, seq_length: int, num_sequences: int) -> Floats:
    """Sum of squared sample lengths over ``seq_length`` squared, of each of ``num_sequences`` full sequences in a row.

    Samples follow each other and are cut where a sequence ends [megatron-0.12, gpt_dataset.py]; ``lengths`` hold enough tokens.
    """
    ends = np.cumsum(lengths)
    cuts = np.arange(1, num_sequences + 1, dtype=np.int64) * seq_length
    edges = np.union1d(ends[ends < cuts[-1]], cuts)
    pieces = np.diff(edges, prepend=0)
    squares = np.bincount((edges - 1) // seq_length, weights=pieces.astype(np.float64) ** 2, minlength=num_sequences)
    found: Floats = squares / float(seq_length) ** 2
    return found


def as_they_come(num_steps: int, num_replicas: int, num_microbatches: int, micro_batch_size: int) -> Ints:
    """The sequence at each place, ``[step, replica, micro batch, place]``, counted in its step.

    Micro batch after micro batch, in each replica after replica [megatron-0.12, data_samplers.py].
    """
    per_step = num_replicas * num_microbatches * micro_batch_size
    order = np.arange(per_step).reshape(num_microbatches, num_replicas, micro_batch_size).swapaxes(0, 1)
    return np.broadcast_to(order, (num_steps, *order.shape)).copy()


def rearranged(fractions: Floats, num_replicas: int, num_microbatches: int, micro_batch_size: int, coupled: int = 1) -> Ints:
    """The same places, balanced: groups of ``coupled`` replicas first, then what they hold. ``fractions`` ``[step, sequence]``.

    One replica balances its micro batches. Several that wait for each other in each of them take like ones together: of one
    sequence a micro batch, sequences in order of their fraction, which no other order beats.
    """
    num_steps, num_groups = len(fractions), num_replicas // coupled
    groups = pack(fractions, num_groups).reshape(num_steps, num_groups, -1)
    held = np.take_along_axis(fractions[:, None], groups, axis=2)
    if coupled == 1:
        rows, bins = held.reshape(num_steps * num_groups, -1), num_microbatches
        inside = pack(rows, bins).reshape(num_steps, num_groups, -1)
    else:
        heaviest = np.argsort(-held, axis=2, kind="stable")
        alike = heaviest.reshape(-1, coupled * micro_batch_size)  # [step x group x micro batch, sequence]
        weights = np.take_along_axis(held, heaviest, axis=2).reshape(alike.shape)
        placed = np.take_along_axis(alike, pack(weights, coupled).reshape(alike.shape), axis=1)
        shape = (num_steps, num_groups, num_microbatches, coupled, micro_batch_size)
        inside = placed.reshape(shape).swapaxes(2, 3).reshape(num_steps, num_groups, -1)
    order = np.take_along_axis(groups, inside, axis=2)
    return order.reshape(num_steps, num_replicas, num_microbatches, micro_batch_size)


@dataclass(frozen=True)
class Spread:
    """How unevenly a step's attention lies, ``[step]`` each: fullest over mean, and what the slowest replica is like."""

    replicas: Floats
    micro_batches: Floats
    slowest: Floats  # the fraction of a step whose micro batches, all alike, take as long


def spread(fractions: Floats, order: Ints, bubble: float, coupled: int = 1) -> Spread:
    """Of the places of ``order``, ``coupled`` replicas waiting for each other in each micro batch.

    Filling and draining a pipeline takes as long as the longest micro batch makes it: m of f_k are as slow as m alike of
    (sum f + b max f) / (m + b), with a ``bubble`` of b micro batches.
    """
    num_steps, num_replicas, num_microbatches, _ = order.shape
    micro = np.take_along_axis(fractions, order.reshape(num_steps, -1), axis=1).reshape(order.shape).mean(axis=3)
    mean = fractions.mean(axis=1)
    waited = micro.reshape(num_steps, num_replicas // coupled, coupled, num_microbatches).max(axis=2)
    alike = (waited.sum(axis=2) + bubble * waited.max(axis=2)) / (num_microbatches + bubble)
    return Spread(
        replicas=micro.mean(axis=2).max(axis=1) / mean,
        micro_batches=micro.max(axis=(1, 2)) / mean,
        slowest=alike.max(axis=1),
    )
