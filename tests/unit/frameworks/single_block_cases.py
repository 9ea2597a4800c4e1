"""Cases of the rule on state spaces: a strategy that keeps it, one that breaks it, and what the sentence says."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from cost_models.shapes.workload import LocalAttention, Workload
from tests.unit.frameworks.legality_workloads import DENSE, job


def hybrid_job(heads: int, groups: int) -> Workload:
    """State spaces, attention and MLPs by turns, on 64 devices."""
    states = LocalAttention("state_space", 0, 0, groups, heads, 128, 64, 4, 128)
    return job(replace(DENSE, hybrid_layer_pattern="M-*-" * 8, local_attention=states), seq_length=4608)


def divided(tp: int, cp: int, cp_algo: CpAlgo = CpAlgo.RING) -> ParallelStrategy:
    """A plan over tp x cp ranks, without a pipeline."""
    degree = cp if cp_algo is CpAlgo.ULYSSES else 1
    return ParallelStrategy(tp=tp, cp=cp, cp_algo=cp_algo if cp > 1 else CpAlgo.NONE, ulysses_degree=degree)


SINGLE_BLOCKS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("state_space_heads", "any", hybrid_job(64, 8), divided(2, 16), divided(2, 64), ("= 128", "64 heads")),
    ("state_space_heads", "any", hybrid_job(24, 8), divided(2, 4), divided(1, 12), ("= 12", "8 groups")),
]
