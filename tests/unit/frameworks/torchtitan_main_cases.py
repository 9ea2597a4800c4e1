"""Cases of the rules of torchtitan's main that differ from those of 0.2, as those of ``torchtitan_cases``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from frameworks.torchtitan.flavors import FLAVORS, FLAVORS_MAIN
from tests.unit.frameworks.torchtitan_cases import (
    ALONE,
    EXPERTS,
    FULL,
    GATHERED,
    OPERATORS,
    PIPELINE,
    ROUTED_ALONE,
    by_layers,
    by_rank,
    on_gpus,
)

_M = "torchtitan@2026.08"


def on_main(model: tuple[str, str] = ("llama3", "8B"), *, chunks: int = 8, **given: Any) -> Workload:
    made = on_gpus(FLAVORS_MAIN[model].model, **given)
    return replace(made, software=replace(made.software, target=_M, loss_chunks=chunks))


DENSE, ROUTED, LATENT = on_main(), on_main(("qwen3", "30B-A3B")), on_main(("deepseek_v3", "16B"))
TORCHTITAN_MAIN: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("torchtitan_sharded", _M, DENSE, replace(PIPELINE, tp=8, dp=2), replace(PIPELINE, tp=16, dp=1), ("FSDP over one rank",)),
    ("torchtitan_expert_degrees", _M, ROUTED, EXPERTS, replace(EXPERTS, etp=4), ("etp 4", "takes 1")),
    ("torchtitan_expert_degrees", _M, ROUTED, replace(EXPERTS, ep=1, etp=4), replace(EXPERTS, ep=1), ("etp 1", "takes 4")),
    ("torchtitan_heads", _M, DENSE, replace(ALONE, tp=8, dp=8), replace(ALONE, tp=16, dp=4), ("tp 16", "num_query_groups 8")),
    # Qwen3 has pipelines in main, and a tied table has none.
    ("torchtitan_pipeline", _M, on_main(("llama3", "3B")), ALONE, PIPELINE, ("pp 4", "llama3-3b")),
    # 4,096 tokens are eight chunks, and their half over cp 2 is no multiple of 4,096.
    ("torchtitan_loss_chunks", _M, on_main(chunks=4096), ALONE, GATHERED, ("loss_chunks 4096", "2048 tokens")),
    ("torchtitan_recompute", _M, DENSE, FULL, by_layers(ALONE, 16), ("all layers",)),
    ("torchtitan_recompute", _M, DENSE, PIPELINE, by_rank(4, 4, 4, 4), ("all layers",)),
    ("torchtitan_operators", _M, DENSE, replace(ALONE, tp=1, dp=64, sequence_parallel=False, **OPERATORS),
     replace(ALONE, **OPERATORS), ("tensor parallelism",)),
    ("torchtitan_operators", _M, DENSE, PIPELINE,
     replace(by_rank(2, 2, 2, 2), recompute_modules=OPERATORS["recompute_modules"]), ("all layers by operator",)),
    ("torchtitan_operators", _M, ROUTED, EXPERTS, replace(EXPERTS, **OPERATORS), ("what experts exchanged",)),
    ("torchtitan_latents", _M, LATENT, ROUTED_ALONE, EXPERTS, ("tp 4", "the whole sequence")),
]  # fmt: skip


def _long(workload: Workload, tokens: int) -> Workload:
    return replace(workload, training=replace(workload.training, seq_length=tokens))


JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    ("torchtitan_model", _M, DENSE, replace(DENSE, model=FLAVORS["llama4", "17bx16e"].model), "trains flavors of its own"),
    ("torchtitan_context_length", _M, _long(LATENT, 16384), _long(LATENT, 32768), "32768 tokens are longer than the 16384"),
]  # fmt: skip
