"""Cases of the rules on 8-bit matmuls: see ``legality_cases``."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Recompute
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Software, Workload
from tests.unit.frameworks.legality_cases import ALONE, FLAT, changed, with_features
from tests.unit.frameworks.legality_workloads import MIXTURE, job


def scaled(recipe: str) -> Workload:
    """The dense job in FP8."""
    return job(precision="fp8", fp8_recipe=recipe)


EIGHT_BITS = [
    ("megatron_fp8_recompute", "megatron-lm@0.19", scaled("delayed"), FLAT,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM), ("layernorm", "delayed")),
    ("megatron_fsdp_eight_bits", "megatron-lm@0.19", scaled("tensorwise"), replace(ALONE, zero_stage=3),
     replace(ALONE, zero_stage=2), ("zero_stage 2", "fp8_param_gather")),
    ("mindspeed_mc2_recipe", "mindspeed-llm", scaled("tensorwise"), FLAT, with_features(FLAT, Feature.MC2),
     ("mc2", "tensorwise")),
]  # fmt: skip
EIGHT_BIT_JOBS = [
    ("megatron_precision", "megatron-lm@0.19", job(precision="nvfp4"), job(precision="hif8"), "hif8"),
    (
        "megatron_mxfp8_weights",
        "megatron-lm",
        replace(scaled("mxfp8"), software=Software("megatron-lm", year=2025.35)),
        replace(scaled("mxfp8"), software=Software("megatron-lm")),
        "which are priced in 8",
    ),
    ("megatron_fp8_recipe", "megatron-lm", scaled("mxfp8"), scaled("blockwise"), "blockwise"),
    ("megatron_fp8_recipe", "megatron-lm@0.19", scaled("blockwise"), scaled("mxfp8-32x32"), "mxfp8-32x32"),
    (
        "mindspeed_fp8_recipe",
        "mindspeed-llm",
        job(precision="hif8", fp8_recipe="tensorwise"),
        job(precision="hif8", fp8_recipe="mxfp8"),
        "hif8",
    ),
    (
        "mindspeed_expert_recipe",
        "mindspeed-llm",
        scaled("blockwise"),
        job(MIXTURE, precision="fp8", fp8_recipe="blockwise"),
        "experts in 16 bits",
    ),
]
