"""Lower bounds on the exchange of gradients and weights over the replicas, whatever the placement of the layers."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from cost_models.network.tiers import ALL_GATHER, REDUCE_SCATTER, Network
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, Schedule
from cost_models.shapes.switches import Feature
from cost_models.step.data_parallel import exchange_of_step_s
from cost_models.step.priced_groups import PricedBatch
from cost_models.step.sharded_model import exchange_of_model

_NUM_STREAMS = np.array([schedule.rules.num_streams for schedule in Schedule], dtype=np.float64)


class LeastExchange(NamedTuple):
    """Lower bounds in seconds on the exchange of the mean rank, ``[n]``.

    ``never_hidden_s`` is the part of ``whole_s`` that no pass hides. Passes of ``num_hiding`` micro batches hide the rest, but of
    ``apart_s`` in it passes of ``num_streams``, which may be the same ones.
    """

    never_hidden_s: Floats
    whole_s: Floats
    num_hiding: Floats
    apart_s: Floats
    num_streams: Floats

    def beyond_passes_s(self, pass_s: Floats, micro_batches: IntColumn) -> Floats:
        """Lower bound on the part that a step's passes do not hide, ``[n]``.

        Passes that are longer than ``pass_s`` hide more, but lengthen the step as much, if they hide no more than its micro
        batches.

        Parameters
        ----------
        pass_s : ``[n]``
            Lower bound on a micro batch on the mean rank.
        micro_batches : ``[n]``
            Micro batches of the step.
        """
        in_line_s = np.maximum(self.whole_s - self.never_hidden_s - self.apart_s - self.num_hiding * pass_s, 0.0)
        in_line_s = np.where(micro_batches >= self.num_hiding, in_line_s, 0.0)
        apart_s = np.maximum(self.apart_s - self.num_streams * pass_s, 0.0)
        apart_s = np.where(micro_batches >= self.num_streams, apart_s, 0.0)
        both = micro_batches >= self.num_hiding + self.num_streams
        beyond_s: Floats = self.never_hidden_s + np.where(both, in_line_s + apart_s, np.maximum(in_line_s, apart_s))
        return beyond_s


def least_exchange(priced: PricedBatch) -> LeastExchange:
    """The exchange of the mean rank under any placement.

    The ranks together take at least as long as one rank with all parameters of the model, since a collective over twice the bytes
    takes twice the time at most. MTP modules count without a copy of the embedding table.
    """
    workload, batch = priced.workload, priced.batch
    if not _is_at_most_linear(priced.network):
        return LeastExchange(*np.zeros((5, len(batch))))
    number = Counter(workload.model.kinds_of_layers())
    layers = np.array([number[kind] for kind in workload.model.layer_kinds()], dtype=np.float64)
    exchange = exchange_of_model(workload, batch, layers, priced.device, priced.network)
    reduce_s, gather_s = (seconds[0] / batch.pp for seconds in exchange_of_step_s(batch, exchange))
    hidden_fraction = 1.0 - priced.constants.dp_exposed_fraction
    hides_reduce, hides_gather = (batch.has(each) for each in (Feature.OVERLAP_GRAD_REDUCE, Feature.OVERLAP_PARAM_GATHER))
    hidden_s = hidden_fraction * (np.where(hides_reduce, reduce_s, 0.0) + np.where(hides_gather, gather_s, 0.0))
    passes = np.maximum(np.where(hides_reduce, exchange.num_reductions, 0), np.where(hides_gather, exchange.num_gathered, 0))
    apart_s = hidden_fraction * np.where(hides_reduce, exchange.apart_copies_s[0] / batch.pp, 0.0)
    whole_s, num_streams = reduce_s + gather_s, _NUM_STREAMS[batch.schedule]
    return LeastExchange(whole_s - hidden_s, whole_s, passes * num_streams, apart_s, num_streams)


def _is_at_most_linear(network: Network) -> bool:
    """Whether no measured collective takes more than in proportion to its bytes. Formulas, a latency and a rate, never do."""
    curves = [tier.curves[op] for tier in network.tiers for op in (ALL_GATHER, REDUCE_SCATTER) if op in tier.curves]
    tables = [table for curve in curves for table in zip(curve.log_time_s, curve.log_bytes, strict=True)]
    return all(bool((np.diff(times) <= np.diff(sizes)).all()) for times, sizes in tables)
