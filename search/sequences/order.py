"""Order of sequences: samples packed into sequences, sequences assigned to replicas and micro batches, and their times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from search.experts.packing import Floats, Ints, pack

MAX_SEQUENCES = 200_000  # maximum sequences in a step
MAX_SAMPLES = 20_000_000


def packed_fractions(lengths: Ints, seq_length: int, num_sequences: int) -> Floats:
    """Sum of squared sample lengths over ``seq_length`` squared, for ``num_sequences`` full sequences in a row.

    Samples follow each other and are cut where a sequence ends [megatron-0.12, gpt_dataset.py]. ``lengths`` must hold enough
    tokens.
    """
    ends = np.cumsum(lengths)
    cuts = np.arange(1, num_sequences + 1, dtype=np.int64) * seq_length
    edges = np.union1d(ends[ends < cuts[-1]], cuts)
    pieces = np.diff(edges, prepend=0)
    squares = np.bincount((edges - 1) // seq_length, weights=pieces.astype(np.float64) ** 2, minlength=num_sequences)
    found: Floats = squares / float(seq_length) ** 2
    return found


def as_they_come(num_steps: int, num_replicas: int, num_microbatches: int, micro_batch_size: int) -> Ints:
    """The sequence at each place, ``[step, replica, micro batch, place]``, counted within its step.

    Sequences fill one micro batch after the other, of one replica after the other [megatron-0.12, data_samplers.py].
    """
    per_step = num_replicas * num_microbatches * micro_batch_size
    order = np.arange(per_step).reshape(num_microbatches, num_replicas, micro_batch_size).swapaxes(0, 1)
    return np.broadcast_to(order, (num_steps, *order.shape)).copy()


def rearranged(fractions: Floats, num_replicas: int, num_microbatches: int, micro_batch_size: int, coupled: int = 1) -> Ints:
    """The balanced order: first over groups of ``coupled`` replicas, then inside each. ``fractions`` ``[step, sequence]``.

    One replica balances its micro batches. Replicas that wait for each other in every micro batch take similar sequences
    together. With one sequence in a micro batch, the order by fraction is the best.
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
    """The imbalance of attention in each step, ``[step]``: fullest over mean, and the slowest replica."""

    replicas: Floats
    micro_batches: Floats
    slowest: Floats  # the fraction of a step whose micro batches, all alike, take as long


def spread(fractions: Floats, order: Ints, bubble: float, coupled: int = 1) -> Spread:
    """The imbalance of ``order``, where ``coupled`` replicas wait for each other in every micro batch.

    Filling and draining a pipeline takes as long as its longest micro batch. So m micro batches of f_k take as long as m equal
    ones of (sum f + b max f) / (m + b), with a ``bubble`` of b micro batches.
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
