"""Dispatch and combine of expert parallelism: copies, bytes and time of one MoE layer and micro batch.

A rank holds n_l tokens of x bytes. Each is routed to k of E experts, which are placed evenly on e ranks. These ranks span N
bandwidth domains of m = e / N ranks (nodes, or supernodes where those are one domain). The table has the copies of a token
that leave its domain, and the copies that move inside the domain of their experts:

=================  =======================================  ==========================
dispatcher         between domains                          inside
=================  =======================================  ==========================
all-to-all         k (1 - 1/N)                              k (m - 1) / e
two-level          distinct domains, its own left out       k (1 - 1/m), or distinct ranks (1 - 1/m)
hierarchical       N - 1, whatever the routing              k (1 - 1/m)
all-gather         N - 1                                    N (m - 1), with m etp ranks
=================  =======================================  ==========================

[megatron-0.12, token_dispatcher.py]; two-level [deepseek-v3, section 3.2.2]; hierarchical [mindspeed, hierarchical-alltoallv];
[pangu-ultra-moe]. An all-gather between domains moves less than an all-to-all if N - 1 < k (1 - 1/N).
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.network.collectives import all_gather_s, all_to_all_s, reduce_scatter_s
from cost_models.network.rank_placement import domains_spanned
from cost_models.network.tiers import Network
from cost_models.shapes.expert_load import ExpertCounts, share_missed
from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.workload import MoeShape
from documents.late_methods import dataclass

Floats = NDArray[np.float64]

COUNT_BYTES = 8  # tokens for one expert, an int64 [megatron-0.12, token_dispatcher.py]
PROBABILITY_BYTES = 4  # routing weight of one copy [megatron-0.12, token_dispatcher.py]
ROUTING_MAP_BYTES = 1  # whether a token goes to an expert, a bool [megatron-0.12, token_dispatcher.py]


@dataclass(frozen=True)
class ExpertTransfer:
    """Time and bytes of one direction of one MoE layer and micro batch, ``[n]``.

    The bytes refer to the most loaded rank: through its ports inside its bandwidth domain and into the outermost fabric.
    """

    time_s: Floats
    intra_bytes: Floats
    inter_bytes: Floats


def expected_domains_per_token(
    num_domains: ArrayLike, num_experts: int, top_k: int, num_groups: int = 1, group_topk: int = 1
) -> Floats:
    """Expected distinct domains that hold an expert of a token: 1 to N, at most k; elementwise over ``num_domains``.

    Uniform top-k of E without replacement: N (1 - C(E - E/N, k) / C(E, k)). With group-limited routing
    [deepseek-v3, section 2.1.2] the token first picks ``group_topk`` of ``num_groups`` groups, uniformly, and its
    experts among theirs. It then meets at most ``group_topk`` domains if each group fits in one domain. A learned router
    is not uniform: correlated choices meet fewer domains.
    """
    domains = np.asarray(num_domains, dtype=np.float64)
    group_size = num_experts / num_groups
    candidates = group_topk * group_size
    groups_held = np.maximum(num_groups / domains, 1.0)  # groups that a domain has experts of
    held_of_group = np.minimum(num_experts / domains, group_size)
    hit = np.zeros_like(domains)
    for chosen in range(1, group_topk + 1):
        # P(the token picks `chosen` of the domain's groups) is hypergeometric
        ways = _binomial(groups_held, chosen) * _binomial(num_groups - groups_held, group_topk - chosen)
        picks = ways / math.comb(num_groups, group_topk)
        hit += picks * (1.0 - share_missed(candidates, chosen * held_of_group, top_k))
    return domains * np.minimum(hit, 1.0)


def inter_domain_copies(dispatcher: Dispatcher, num_domains: ArrayLike, moe: MoeShape) -> Floats:
    """Copies of one token that cross between domains, one direction, uniform routing; elementwise over ``num_domains``.

    The experts span ``num_domains``. Copies inside the token's own domain are left out [megatron-0.12]; [mindspeed].
    """
    domains = np.asarray(num_domains, dtype=np.float64)
    remote_share = 1.0 - 1.0 / domains
    match dispatcher:
        case Dispatcher.NONE:
            return np.zeros_like(domains)
        case Dispatcher.ALLTOALL:
            return moe.top_k * remote_share
        case Dispatcher.TWO_LEVEL:
            return remote_share * _domains_met(domains, moe)
        case Dispatcher.ALLGATHER | Dispatcher.HIERARCHICAL:
            return domains - 1.0


@dataclass(frozen=True)
class RoutedTokens:
    """Tokens of one MoE layer and micro batch and their route to experts; columns broadcast to ``[n]``."""

    dispatcher: ArrayLike  # codes of ``Dispatcher``
    tokens_per_rank: ArrayLike  # n_l = s b / (cp tp) under sequence parallelism
    token_bytes: ArrayLike  # bytes an element times hidden size
    ep: ArrayLike
    etp: ArrayLike
    moe: MoeShape
    network: Network
    load_factor: ArrayLike = 1.0  # copies of the busiest rank over the mean; all exchanges but an all-gather wait for it
    uneven: ExpertCounts | ExpertSpread | None = None  # the experts behind the load factor, from which domains' loads follow
    tier_streams: ArrayLike = False  # the tiers of a staged exchange overlap, whatever the network's collectives do
    sum_factor: ArrayLike = 1.0  # bytes of an output that a collective sums over those of a token: 2 with weights in FP32


def expert_dispatch(routed: RoutedTokens) -> ExpertTransfer:
    """Send tokens to their experts, with counts and routing weights: one layer, forward [megatron-0.12, token_dispatcher.py].

    The result is not calibrated; ``expert_comm`` applies ``expert_comm_factor``.

    Notes
    -----
    All-gather: every rank sends all its tokens to all ranks. All-to-all: one copy for each expert. Two-level: one copy for each
    domain that has an expert, then inside. Hierarchical: all tokens to every domain, then inside.
    """
    return _transfer(routed, routing=True)


def expert_combine(routed: RoutedTokens) -> ExpertTransfer:
    """Send experts' outputs back to their tokens: a dispatch reversed, with reduce-scatters for its all-gathers.

    It is also the gradient of a dispatch, and takes as long as the gradient of a combine: neither carries counts
    [megatron-0.12, token_dispatcher.py]. The result is not calibrated.
    """
    return _transfer(routed, routing=False)


@dataclass(frozen=True)
class _Rows:
    """Inputs of the rows that share one dispatcher."""

    tokens: Floats
    token_bytes: Floats
    ep: Floats
    etp: Floats
    load: Floats
    moe: MoeShape
    network: Network
    uneven: ExpertCounts | ExpertSpread | None
    routing: bool
    at_once: NDArray[np.bool_]  # both stages of a staged exchange
    sum_factor: Floats

    @property
    def copied_bytes(self) -> Floats:
        """Bytes of all copies of a rank's tokens, ``[n]``."""
        return self.moe.top_k * self.tokens * self.token_bytes

    @property
    def domains(self) -> Floats:
        """Number of bandwidth domains that the experts span, ``[n]``."""
        return domains_spanned(self.ep, self.etp, self.network.domain_devices)


def _transfer(routed: RoutedTokens, *, routing: bool) -> ExpertTransfer:
    """Price each row by its dispatcher's formula; rows of ``Dispatcher.NONE`` move nothing. ``[n]``

    ``routing`` is set for a dispatch.
    """
    of = (routed.tokens_per_rank, routed.token_bytes, routed.ep, routed.etp, routed.load_factor, routed.sum_factor)
    codes, streams, *inputs = np.broadcast_arrays(routed.dispatcher, routed.tier_streams, *of)
    at_once = streams.astype(np.bool_) | (not routed.network.sequential)
    columns = [column.astype(np.float64) for column in inputs]
    result = ExpertTransfer(*(np.zeros(codes.shape) for _ in fields(ExpertTransfer)))
    for code, form in _FORMS.items():
        chosen = codes == code
        if chosen.any():
            tokens, each_bytes, ep, etp, load, summed = (column[chosen] for column in columns)
            fixed = routed.moe, routed.network, routed.uneven, routing
            rows = _Rows(tokens, each_bytes, ep, etp, load, *fixed, at_once[chosen], summed)
            part = form(rows)
            for name, column in vars(result).items():
                column[chosen] = getattr(part, name)
    return result


def _all_gather_form(rows: _Rows) -> ExpertTransfer:
    """All-gather dispatcher: all tokens of the etp x ep ranks go to each of them, (etp ep - 1) n_l x in; their sum goes back.

    Outputs are summed in the precision of their weights [megatron-0.12, token_dispatcher.py].
    """
    size = rows.etp * rows.ep
    one = np.ones_like(size)
    per_rank = rows.tokens * rows.token_bytes * (1.0 if rows.routing else rows.sum_factor)
    total = size * per_rank
    if rows.routing:
        routing_bytes = size * rows.tokens * rows.moe.num_experts
        time_s = (
            all_gather_s(total, size, one, rows.network)
            + all_gather_s(routing_bytes * ROUTING_MAP_BYTES, size, one, rows.network)
            + all_gather_s(routing_bytes * PROBABILITY_BYTES, size, one, rows.network)
        )
    else:
        time_s = reduce_scatter_s(total, size, one, rows.network)
    domains = domains_spanned(size, one, rows.network.domain_devices)
    return ExpertTransfer(time_s, (size - domains) * per_rank, (domains - 1.0) * per_rank)


def _all_to_all_form(rows: _Rows) -> ExpertTransfer:
    """All-to-all dispatcher: one copy for each chosen expert goes straight to its rank. Experts in one node share no copy."""
    copied = rows.copied_bytes * rows.load
    domains = rows.domains
    etp_s, etp_bytes = _expert_tensor_parallel(rows, rows.sum_factor)
    return ExpertTransfer(
        all_to_all_s(copied, rows.ep, rows.etp, rows.network) + _routing_s(rows) + etp_s,
        copied * (1.0 / domains - 1.0 / rows.ep) + etp_bytes,
        copied * (1.0 - 1.0 / domains),
    )


def _two_level_form(rows: _Rows) -> ExpertTransfer:
    """Two-level dispatcher: one copy goes to each domain that a token needs, at the same local rank, and is replicated inside."""
    domains = rows.domains
    sent = rows.tokens * rows.token_bytes * _fullest_domain_tokens(rows)
    inter_s = all_to_all_s(sent, domains, _domain_stride(rows), rows.network)
    # DeepEP sends a rank one copy however many of the token's experts it has [deepep]; HCCL's all-to-all one for each.
    copies = float(rows.moe.top_k) if rows.network.sequential else _domains_met(rows.ep, rows.moe)
    return _two_stage(rows, inter_s, (1.0 - 1.0 / domains) * sent, copies)


def _fullest_domain_tokens(rows: _Rows) -> Floats:
    """Expected domains of a token times the load of the fullest domain: N times the fraction of tokens that reach it.

    Choices are uniform if there is one load for all ranks, or if a token chooses groups first, for which counts of experts say
    nothing. With one load only one rank is hot. It slows the fabric by its share of its domain: 1 + (load - 1) / m.
    """
    domains = rows.domains
    if rows.uneven is not None and rows.moe.num_groups == 1:
        return rows.uneven.tokens_of_fullest_domain(domains, rows.moe.top_k)
    load = 1.0 + (rows.load - 1.0) / (rows.ep / domains) if rows.uneven is None else rows.uneven.load_factor(domains)
    return _domains_met(domains, rows.moe) * load


def _hierarchical_form(rows: _Rows) -> ExpertTransfer:
    """Hierarchical dispatcher: all tokens go to the same local rank of every domain, and are replicated inside."""
    domains = rows.domains
    per_rank = rows.tokens * rows.token_bytes
    gather = all_gather_s if rows.routing else reduce_scatter_s
    inter_s = gather(domains * per_rank, domains, _domain_stride(rows), rows.network)
    return _two_stage(rows, inter_s, (domains - 1.0) * per_rank, float(rows.moe.top_k))


def _two_stage(rows: _Rows, inter_s: Floats, inter_bytes: Floats, copies: Floats | float) -> ExpertTransfer:
    """Time of the stage between domains and the stage inside.

    The stages run one after the other, or overlap if each tier has its own stream and forwards tokens as they arrive.

    Parameters
    ----------
    inter_bytes
        Sent by the busiest rank between domains.
    copies
        Copies of a token that move inside the domains of its experts.
    """
    members = rows.ep / rows.domains
    copied = copies * rows.tokens * rows.token_bytes * rows.load
    intra_s = all_to_all_s(copied, members, rows.etp, rows.network)
    stages_s = np.where(rows.at_once, np.maximum(inter_s, intra_s), inter_s + intra_s)
    etp_s, etp_bytes = _expert_tensor_parallel(rows)
    return ExpertTransfer(stages_s + _routing_s(rows) + etp_s, copied * (1.0 - 1.0 / members) + etp_bytes, inter_bytes)


def _routing_s(rows: _Rows) -> Floats:
    """Seconds of a dispatch's small messages: tokens for each expert, and the weight of each copy."""
    if not rows.routing:
        return np.zeros_like(rows.ep)
    ranks = rows.etp * rows.ep
    counts_s = all_gather_s(ranks * rows.moe.num_experts * COUNT_BYTES, ranks, np.ones_like(ranks), rows.network)
    weights = rows.moe.top_k * rows.tokens * rows.load
    return counts_s + all_to_all_s(weights * PROBABILITY_BYTES, rows.ep, rows.etp, rows.network)


def _expert_tensor_parallel(rows: _Rows, sum_factor: Floats | float = 1.0) -> tuple[Floats, Floats]:
    """Seconds and bytes to share received copies among the ranks of one expert, or to sum their outputs.

    A sum of outputs moves ``sum_factor`` times the bytes of the copies: Megatron's all-to-all sums in the precision of the
    weights [megatron-0.12, token_dispatcher.py].
    """
    received = rows.copied_bytes * rows.load * (1.0 if rows.routing else sum_factor)
    gather = all_gather_s if rows.routing else reduce_scatter_s
    time_s = gather(rows.etp * received, rows.etp, np.ones_like(rows.etp), rows.network)
    return time_s, (rows.etp - 1.0) * received


def _domain_stride(rows: _Rows) -> Floats:
    """Rank distance between the same place in neighbouring domains; one group has a single member in each."""
    return np.full_like(rows.ep, rows.network.domain_devices or 1)


def _domains_met(domains: Floats, moe: MoeShape) -> Floats:
    """Distinct domains that a token meets under uniform routing, broadcast like ``domains``."""
    # Strategies have a handful of domain counts, so each is computed once.
    distinct, index = np.unique(domains, return_inverse=True)
    met = expected_domains_per_token(distinct, moe.num_experts, moe.top_k, moe.num_groups, moe.group_topk)
    return met[index.reshape(domains.shape)]


def _binomial(n: Floats, r: int) -> Floats:
    """C(n, r), 0 for r > n. ``n`` may be fractional, if experts do not divide evenly."""
    result = np.ones_like(n)
    for i in range(r):
        result = result * np.maximum(n - i, 0.0) / (i + 1)
    return result


_FORMS = {
    Dispatcher.ALLGATHER: _all_gather_form,
    Dispatcher.ALLTOALL: _all_to_all_form,
    Dispatcher.TWO_LEVEL: _two_level_form,
    Dispatcher.HIERARCHICAL: _hierarchical_form,
}
if {*_FORMS, Dispatcher.NONE} != set(Dispatcher):
    raise TypeError("every dispatcher has a form: without one it would cost nothing")
