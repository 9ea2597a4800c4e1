"""Predicted counts over executed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scripts.oracle.cases import ROUTER_IN_FP32_FROM
from scripts.oracle.predicted import Predicted

Rank = dict[str, Any]
YEARS = {"0.12.0": 2025.35, "0.12": 2025.4, "0.19": None, "transformers": None}  # of the releases; none: the newest
GROUPS = {"tp": ("tp",), "ep": ("ep", "etp", "etp_ep"), "dp": ("dp",), "expert_dp": ("expert_dp",), "pp": ("pp", "ends")}


TOLERANCE = 0.005


@dataclass(frozen=True)
class Row:
    """One count of a case. ``left_out`` is what the model leaves out by its documents, and ``ratio`` is of what it counts."""

    case: str
    count: str
    predicted: float
    executed: float
    left_out: float = 0.0

    @property
    def ratio(self) -> float:
        counted = self.executed - self.left_out
        return self.predicted / counted if counted else 1.0 + self.predicted


def rows(case: dict[str, Any], ranks: list[Rank], release: str) -> Iterator[Row]:
    """All counts of a case. An order of passes is 1 if it is equal, else 0."""
    found, name = Predicted(case, YEARS[release]), case["name"]
    for index, rank in enumerate(ranks):
        at = f" of rank {index}" if len(ranks) > 1 else ""
        yield Row(name, f"parameters{at}", found.parameters(index), sum(rank["parameters"].values()))
        for part, num_bytes in found.states(index).items():
            yield Row(name, part + at, num_bytes, rank["states"][part])
        if len(ranks) > 1:
            yield Row(name, f"order{at}", float(found.order(index) == rank["order"]), 1.0)
    for kind, kept in found.layer_bytes().items():
        if kind in ranks[0]["layers"]:
            left_out = sum(left_out_bytes(case, release, moe=kind == "moe", gathered=found.layer_parameters(kind)).values())
            yield Row(name, f"{kind} layer", kept, ranks[0]["layers"][kind], left_out)
    for group, (stage, moved) in found.traffic.items():
        sent, small = sent_bytes(ranks[stage], GROUPS[group])
        small -= counted_twice(case) if group == "ep" else 0.0
        small += scattered_again(case, release) if group == "tp" else 0.0
        yield Row(name, f"{group} bytes", moved, sent, small)
    for kind, flops in found.forward_flops().items():
        executed = sum(rank["flops"].get(f"forward|{kind}", 0) for rank in ranks)
        yield Row(name, f"{kind} FLOPs", flops, executed, found.repeated_flops() if kind == "linear" else 0.0)


def left_out_bytes(case: dict[str, Any], release: str, *, moe: bool, gathered: float = 0.0) -> dict[str, float]:
    """Bytes of a layer that the model leaves out by its documents, by what they are; negative where it counts too much.

    Weights that ZeRO-2 keeps gathered, which are no activations. Scores of the balancing loss, which runs in none of the cases.
    Routers of core 0.12 in FP32: a copy of their weight. Recomputed mixtures: what the dispatcher still holds of the last micro
    batch.
    """
    plan, found = case["strategy"], {}
    tokens = case["seq_length"] * plan["micro_batch_size"]
    recomputed = plan.get("recompute", {}).get("modules", ())
    if plan.get("zero_stage") == 2:
        found["gathered weights"] = 2.0 * gathered
    if moe:
        experts, top_k = case["model"]["moe"]["num_experts"], case["model"]["moe"]["top_k"]
        if "moe" not in recomputed:
            found["scores of the balancing loss"] = -4.0 * experts * tokens / plan["tp"]
        if release.startswith("0.12") and experts >= ROUTER_IN_FP32_FROM and "moe" not in recomputed:
            found["weight of the router in FP32"] = 4.0 * case["model"]["hidden_size"] * experts
        if "moe" in recomputed:
            found["map and weights of the last micro batch"] = (5.0 * experts + 8.0 * top_k) * tokens / plan["tp"]
    return found


def counted_twice(case: dict[str, Any]) -> float:
    """Bytes of an all-gather dispatcher that the model counts and nobody sends.

    The map also travels in the backward, and weights of routers in 16 bits are counted in 32.
    """
    plan, moe = case["strategy"], case["model"]["moe"]
    if plan.get("moe_dispatcher") != "allgather":
        return 0.0
    ranks = plan["ep"] * plan.get("etp", 1)
    tokens = case["seq_length"] * plan["micro_batch_size"] / plan["tp"] * (ranks - 1)
    wide = 0 if moe["num_experts"] >= ROUTER_IN_FP32_FROM else 4
    return float(case["num_micro_batches"] * case["model"]["num_layers"] * tokens * moe["num_experts"] * (1 + wide))


def scattered_again(case: dict[str, Any], release: str) -> float:
    """Bytes of the gradient of an MTP projection's output that core 0.12 scatters, though every rank has the whole of it."""
    modules = case["model"].get("mtp_num_layers", 0) if release == "0.12" else 0
    tp, tokens = case["strategy"]["tp"], case["seq_length"] * case["strategy"]["micro_batch_size"] * case["num_micro_batches"]
    return moved_bytes("reduce_scatter", 2 * case["model"]["hidden_size"] * tokens, tp) * modules


def sent_bytes(rank: Rank, groups: tuple[str, ...]) -> tuple[float, float]:
    """Bytes that a rank sends in groups, and the part of it that the model leaves out."""
    total = left_out = 0.0
    for call, times in rank["collectives"].items():
        phase, group, kind, num_bytes, dtype = call.split("|")
        name, size = group.split(":")
        if name not in groups:
            continue
        moved = times * moved_bytes(kind, int(num_bytes), int(size))
        total += moved
        # Sums of the loss over the shards of the vocabulary.
        if name == "tp" and kind == "all_reduce" and dtype == "float32" and phase == "forward":
            left_out += moved
    return total, left_out


def moved_bytes(kind: str, num_bytes: int, size: int) -> float:
    if kind in ("receive", "broadcast"):
        return 0.0
    if kind == "send":
        return float(num_bytes)
    return (2.0 if kind == "all_reduce" else 1.0) * num_bytes * (size - 1) / size
