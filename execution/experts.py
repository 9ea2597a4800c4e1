"""Experts with even shares of the tokens: every count that a router would give is known before.

A token's experts are random within what the router's groups allow, so that a rank receives as many tokens as it would on average.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import torch

from execution import running
from execution.even_shares import splits
from execution.running import used

KEPT = {
    "deep_ep.Buffer.dispatch": "where each token goes, a byte and 4 bytes a rank, and 4 bytes a received row: deep_ep/buffer.py",
    "deep_ep.Buffer.combine": "nothing: deep_ep/buffer.py",
    "_DeepepManager._indices_to_multihot": "four integers of 8 bytes a row: moe/token_dispatcher.py:1328",
}


class Shares(list):  # type: ignore[type-arg]
    """Numbers of rows that the framework takes for a tensor on the host."""

    def tolist(self) -> list[int]:
        return list(self)

    def sum(self) -> Shares:
        return Shares([sum(self)])

    def item(self) -> int:
        (value,) = self
        return int(value)

    def size(self, _axis: int = 0) -> int:
        return len(self)

    def to(self, *_values: Any, **_keywords: Any) -> Shares:
        return self

    cpu = cuda = long = contiguous = to
    ravel = reshape = view = to
    T = property(lambda self: self)


def chance_of_a_rank(experts: int, top_k: int, ranks: int, groups: int, chosen_groups: int) -> float:
    """Probability that a token has an expert of one rank, its experts drawn from ``chosen_groups`` of the router's groups."""
    allowed, in_group = experts * chosen_groups // groups, experts // groups

    def hit(held: int) -> float:
        return 1.0 - math.comb(allowed - held, top_k) / math.comb(allowed, top_k)

    of_rank = experts // ranks
    if of_rank <= in_group:
        return chosen_groups / groups * hit(of_rank)
    held_groups = of_rank // in_group
    ways = math.comb(groups, chosen_groups)
    return sum(
        math.comb(held_groups, number) * math.comb(groups - held_groups, chosen_groups - number) / ways * hit(number * in_group)
        for number in range(1, min(held_groups, chosen_groups) + 1)
    )


def balance(args: Any) -> None:
    """Give every expert the same number of tokens."""
    experts, top_k = args.num_experts, args.moe_router_topk
    ranks = args.expert_model_parallel_size * (args.expert_tensor_parallel_size or 1)
    running.meter.density = top_k / experts
    running.routing.update(
        experts=experts, top_k=top_k, ranks=ranks, local=experts // args.expert_model_parallel_size,
        chance=chance_of_a_rank(
            experts, top_k, args.expert_model_parallel_size, args.moe_router_num_groups or 1, args.moe_router_group_topk or 1
        ),
    )  # fmt: skip
    dispatchers = importlib.import_module("megatron.core.transformer.moe.token_dispatcher")
    dispatchers.MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize = _host_copy
    dispatchers.sort_chunks_by_idxs = _in_any_order(dispatchers.sort_chunks_by_idxs)
    if hasattr(dispatchers, "_DeepepManager"):
        dispatchers._DeepepManager._indices_to_multihot = _multihot


def rank_of(dispatcher: Any) -> int:
    """The dispatcher's rank among those that share the experts."""
    return int(dispatcher.local_expert_indices[0]) // int(dispatcher.num_local_experts)


def _in_any_order(sort: Any) -> Any:
    """A sort of chunks whose order is a tensor without data: their number and sizes decide all that is counted."""

    def sorted_chunks(x: torch.Tensor, split_sizes: Any, order: Any, *values: Any, **keywords: Any) -> Any:
        unfused = isinstance(split_sizes, Shares) and not keywords.get("fused")
        return sort(x, split_sizes, Shares(range(len(split_sizes))) if unfused else order, *values, **keywords)

    return sorted_chunks


def _host_copy(dispatcher: Any, point: str, tokens_per_expert: Any = None) -> Any:
    """The counts that the dispatcher would copy to the host."""
    if point == dispatcher.cuda_dtoh_point and not dispatcher.drop_and_pad:
        rows, ep, tp = int(dispatcher.num_out_tokens), dispatcher.ep_size, dispatcher.tp_size
        sent, received, own = splits(rows, dispatcher.num_experts, ep, rank_of(dispatcher))
        if ep > 1 or tp > 1:
            dispatcher.input_splits, dispatcher.output_splits = sent, received
            dispatcher.output_splits_tp = Shares([sum(received)] * tp)
        if dispatcher.num_local_experts > 1:
            dispatcher.num_global_tokens_per_local_expert = Shares(own * (ep * tp))
        running.meter.assume("even shares")
        return Shares([share * ep * tp for share in own])
    return tokens_per_expert


class _Multihot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, indices: torch.Tensor, probs: torch.Tensor, local: int, rows: int) -> Any:
        ctx.save_for_backward(*(indices.new_empty((rows,), dtype=torch.int64) for _ in range(4)))
        ctx.shape = probs.shape
        routing_map = indices.new_empty((indices.shape[0], local), dtype=torch.bool)
        ctx.mark_non_differentiable(routing_map)
        return routing_map, probs.new_empty((indices.shape[0], local))

    @staticmethod
    def backward(ctx: Any, _: Any, gradient: torch.Tensor) -> Any:
        return None, gradient.new_empty(ctx.shape), None, None


def _multihot(manager: Any, indices: torch.Tensor, probs: torch.Tensor) -> Any:
    used("_DeepepManager._indices_to_multihot")
    return _Multihot.apply(indices, probs, manager.num_local_experts, int(manager.tokens_per_expert.sum().item()))


class _Config:
    get_nvl_buffer_size_hint = get_rdma_buffer_size_hint = lambda self, *_values: 0


class Event:
    """The event of a call that is over."""

    def __init__(self, *_values: Any) -> None:
        pass

    def current_stream_wait(self) -> None:
        pass


class Buffer:
    """DeepEP's dispatch and combine; its own buffers are not the allocator's."""

    num_sms = 20
    get_dispatch_config = get_combine_config = staticmethod(lambda *_values: _Config())
    set_num_sms = staticmethod(lambda *_values: None)

    def __init__(self, group: Any, num_nvl_bytes: int = 0, num_rdma_bytes: int = 0, **_keywords: Any) -> None:
        self.group, self.num_nvl_bytes, self.num_rdma_bytes = group, num_nvl_bytes, num_rdma_bytes

    def get_dispatch_layout(self, topk_idx: torch.Tensor, num_experts: int, **_keywords: Any) -> Any:
        ranks = self.group.size()
        per_rank = topk_idx.new_empty((ranks,), dtype=torch.int32)
        per_expert = topk_idx.new_empty((num_experts,), dtype=torch.int32)
        return per_rank, None, per_expert, topk_idx.new_empty((topk_idx.shape[0], ranks), dtype=torch.bool), Event()

    def _send(self, x: torch.Tensor, rows: int, kind: str) -> None:
        running.calls.note(kind, self.group, rows * x.shape[-1] * x.element_size(), x.dtype)

    def dispatch(self, x: torch.Tensor, handle: Any = None, topk_idx: Any = None, topk_weights: Any = None, **given: Any) -> Any:
        used("deep_ep.Buffer.dispatch")
        ranks, chance = self.group.size(), running.routing["chance"]
        rows = round(x.shape[0] * ranks * chance)
        self._send(x, rows, "dispatch")
        received = x.new_empty((rows, x.shape[-1]))
        if handle is not None:
            return received, None, None, None, None, Event()
        in_rank = given["is_token_in_rank"]
        handle = (
            in_rank,
            in_rank.new_empty(in_rank.shape, dtype=torch.int32),
            x.new_empty((rows,), dtype=torch.int32),
            x.shape[0],
        )
        experts = running.routing
        holders = experts["experts"] // experts["local"]  # more ranks than these hold parts of the same experts
        rows_sent, holder = x.shape[0] * experts["top_k"], self.group.rank() * holders // ranks
        _, _, own = splits(rows_sent, experts["experts"], holders, holder)
        weights = topk_weights.new_empty((rows, topk_weights.shape[-1]))
        running.meter.assume("even shares")
        return (received, topk_idx.new_empty((rows, topk_idx.shape[-1])), weights,
                Shares([share * ranks for share in own]), handle, Event())  # fmt: skip

    def combine(self, x: torch.Tensor, handle: Any, topk_weights: Any = None, **_keywords: Any) -> Any:
        used("deep_ep.Buffer.combine")
        self._send(x, x.shape[0], "combine")
        tokens = handle[3]
        weights = None if topk_weights is None else topk_weights.new_empty((tokens, topk_weights.shape[-1]))
        return x.new_empty((tokens, x.shape[-1])), weights, Event()


def modules() -> dict[str, dict[str, Any]]:
    """Modules of DeepEP and their names."""
    return {"deep_ep": {"Buffer": Buffer}, "deep_ep.utils": {"EventHandle": Event, "EventOverlap": Event}}
