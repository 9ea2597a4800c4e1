"""Cases of the rules on packed samples: a strategy that keeps each, one that breaks it, and what the sentence says."""

from __future__ import annotations

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from tests.unit.frameworks.legality_cases import DEEP, EIGHT_RANKS, FLAT, OVERLAPPED, SFT, changed, trained, with_features

PACKED_SAMPLES: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("megatron_sft_micro_batch", "megatron-lm@0.19", SFT, changed(FLAT, micro_batch_size=1), changed(FLAT, micro_batch_size=2),
     ("training.task sft", "pp 4", "micro_batch_size 2")),
    ("megatron_sft_overlap", "megatron-lm@0.19", trained(SFT.training.task, DEEP),
     changed(EIGHT_RANKS, features=OVERLAPPED), EIGHT_RANKS, ("training.task sft", "moe_comm_overlap over ep 8")),
    ("megatron_sft_graphs", "megatron-lm@0.19", SFT, FLAT, with_features(FLAT, Feature.CUDA_GRAPH), ("sft", "cuda_graph")),
    ("megatron_sft_attention", "megatron-lm@0.19", SFT, FLAT,
     changed(FLAT, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION), ("sft", "needs flash_attention")),
    ("megatron_sft_context", "megatron-lm@0.19", SFT, changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING),
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2), ("ulysses", "cp 2", "sft")),
]  # fmt: skip
