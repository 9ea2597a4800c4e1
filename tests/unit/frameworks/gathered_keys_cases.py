"""Cases of the rules on context parallelism that gathers keys and values, as those of ``legality_cases``."""

from __future__ import annotations

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from cost_models.shapes.workload import Workload
from tests.unit.frameworks.legality_cases import DENSE_JOB, FLAT, LATENT, MIXTURE_PLAN, changed, job

GATHERED_KEYS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("mindspeed_context_parallel", "mindspeed-llm", DENSE_JOB, changed(FLAT, cp=2, dp=2, cp_algo=CpAlgo.RING),
     changed(FLAT, cp=2, dp=2, cp_algo=CpAlgo.KV_ALLGATHER), ("cp 2", "kvallgather_cp_algo")),
    ("megatron_ulysses_latent", "megatron-lm@0.12", job(LATENT), changed(MIXTURE_PLAN, dp=8, cp=2, cp_algo=CpAlgo.RING),
     changed(MIXTURE_PLAN, dp=8, cp=2, cp_algo=CpAlgo.KV_ALLGATHER), ("latent attention", "kv_allgather")),
]  # fmt: skip
