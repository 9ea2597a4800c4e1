"""Cases of the rules on sparse attention: a strategy that keeps each, one that breaks it, and what the sentence says."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import SparseAttention, Workload
from tests.unit.frameworks.legality_cases import UP_PROJ, changed, with_features
from tests.unit.frameworks.legality_workloads import LATENT, MIXTURE_PLAN, job

JOB = job(replace(LATENT, sparse_attention=SparseAttention(num_index_heads=32, index_head_dim=128, top_k=1024)))
SPLIT = changed(MIXTURE_PLAN, cp=2, dp=8, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2)
MASKED = with_features(SPLIT, base=DEFAULT_FEATURES & ~Feature.SPARSE_ATTENTION_KERNEL)

INDEXER: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("mindspeed_one_key_head", "mindspeed-llm", JOB, MASKED, SPLIT, ("cp 2", "one head of keys")),
    ("mindspeed_absorbed_up_proj", "mindspeed-llm", JOB, MIXTURE_PLAN, UP_PROJ, ("mla_up_proj", "nothing again")),
]
