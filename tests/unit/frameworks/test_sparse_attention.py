"""Sparse attention in launch files: MindSpeed-LLM's arguments, what it refuses, and who has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Software, SparseAttention, Workload
from frameworks.framework import Framework, ReadJob
from frameworks.legality import violations
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from frameworks.mindspeed_llm.nearest import nearest
from frameworks.mindspeed_llm.writer import arguments
from frameworks.registry import FRAMEWORKS
from tests.unit.frameworks.legality_workloads import LATENT, MIXTURE_PLAN, job

INDEXER = SparseAttention(num_index_heads=32, index_head_dim=64, top_k=512)
MODEL = replace(
    LATENT,
    sparse_attention=INDEXER,
    mla=replace(LATENT.mla, qk_rope_head_dim=64),
    constants=ModelConstants(activation="silu", normalization="rmsnorm", norm_epsilon=1e-6, rotary_base=1e4),
)
KERNEL, FUSED = Feature.SPARSE_ATTENTION_KERNEL, Feature.FUSED_INDEXER
KERNEL_ARGUMENTS = {"--use-sparse-flash-attn", "--enable-mla-absorb", "--mla-mm-split"}
FUSED_ARGUMENTS = {"--use-fused-lightning-indexer", "--use-fused-lightning-indexer-loss"}


def workload(target: str = "mindspeed-llm", family: str = "ascend") -> Workload:
    return replace(job(MODEL, family=family), software=Software("mindspeed-llm", target=target))


def plan(off: Feature = Feature(0), **columns: object) -> ParallelStrategy:
    return replace(MIXTURE_PLAN, features=DEFAULT_FEATURES & ~off, **columns)


def read_job(arguments: list[str]) -> ReadJob:
    assert MINDSPEED_LLM.read_job is not None
    return MINDSPEED_LLM.read_job(arguments, 64)


def sentences(strategy: ParallelStrategy, target: str = "mindspeed-llm") -> str:
    return " ".join(violation.sentence for violation in violations(workload(target), strategy))


@pytest.mark.parametrize("off", [Feature(0), KERNEL, FUSED, KERNEL | FUSED])
def test_the_arguments_say_what_is_priced(off: Feature) -> None:
    assert sentences(plan(off)) == ""
    written = arguments(workload(), plan(off)).arguments
    assert KERNEL_ARGUMENTS.intersection(written) == (set() if off & KERNEL else KERNEL_ARGUMENTS)
    assert FUSED_ARGUMENTS.intersection(written) == (set() if off & FUSED else FUSED_ARGUMENTS)
    words = " ".join(written)
    for words_ in ("--enable-dsa-indexer", "--index-n-heads 32", "--index-head-dim 64", "--index-topk 512", "--use-flash-attn"):
        assert words_ in words
    back = read_job(list(written))
    assert back.unread == ()
    assert back.model.sparse_attention == INDEXER
    assert back.strategy.features & (KERNEL | FUSED) == (KERNEL | FUSED) & ~off


@pytest.mark.parametrize("argument", sorted(FUSED_ARGUMENTS))
def test_either_fused_argument_sets_both(argument: str) -> None:
    written = arguments(workload(), plan(FUSED)).arguments
    assert FUSED in read_job([*written, argument]).strategy.features


def test_one_head_of_keys_is_not_divided() -> None:
    split = plan(cp=2, dp=8, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2)
    assert "Ulysses cannot divide its one head of keys" in sentences(split)
    made, said = nearest(workload(), split)
    assert KERNEL not in made.features
    assert any("sparse_attention_kernel" in sentence for sentence in said)
    ring = plan(cp=2, dp=8, cp_algo=CpAlgo.RING)
    assert "with sparse_attention does not read; take ulysses" in sentences(ring, "any")


def test_up_projections_are_not_computed_again_and_flash_attention_stays() -> None:
    again = plan(recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLA_UP_PROJ)
    assert "computes nothing again there" in sentences(again)
    assert nearest(workload(), again)[0].recompute_modules == RecomputeModule(0)
    assert sentences(replace(again, features=again.features & ~KERNEL)) == ""
    made, said = nearest(workload(), plan(Feature.FLASH_ATTENTION))
    assert Feature.FLASH_ATTENTION in made.features
    assert any("its sparse attention has no other" in sentence for sentence in said)


@pytest.mark.parametrize("framework", [f for f in FRAMEWORKS if f.name != "mindspeed-llm"], ids=lambda f: f.target.label)
def test_no_other_target_has_it(framework: Framework) -> None:
    label, family = framework.target.label, framework.target.families[0]
    broken = violations(workload(label, family), plan())
    assert any("sparse attention" in v.sentence or v.rule.endswith(("_model", "flavor")) for v in broken), broken
