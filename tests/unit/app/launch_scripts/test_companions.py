"""A changed script starts: switches come with what they need beside them, and what they exclude goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.launch_scripts import service
from app.launch_scripts.launch import Given
from app.launch_scripts.patch import Patched, patched
from app.launch_scripts.reading import ReadScript, read_script_job
from app.launch_scripts.service import tune_document
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from frameworks.release import problems, read_tokens
from hardware_profiles import catalogue
from search.plans.plan import strategy_to_mapping

HARDWARE = "atlas-900-a3-superpod"
REPLICAS = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
COMMON = (
    "--use-mcore-models --kv-channels 128 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
    "--hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 --vocab-size 32000 --padded-vocab-size 32000 "
    "--make-vocab-size-divisible-by 1 "
    "--tokenizer-type NullTokenizer --untie-embeddings-and-output-weights --disable-bias-linear --position-embedding-type rope "
    "--normalization RMSNorm --swiglu --use-fused-rmsnorm --use-fused-swiglu --use-fused-rotary-pos-emb --use-flash-attn "
    "--use-distributed-optimizer --bf16 --transformer-impl local --num-experts 64 --moe-router-topk 8 --moe-ffn-hidden-size 768 "
    "--moe-grouped-gemm --moe-permutation-async-comm --global-batch-size 128 --num-layers 16"
)
SEQUENTIAL = (
    f"torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {COMMON} --pipeline-model-parallel-size 2 "
    "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --moe-token-dispatcher-type alltoall_seq "
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n"
)
WITH_ADAPTERS = SEQUENTIAL.replace("\n", " --lora-target-modules linear_qkv\n")
LATENT = (
    f"torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {COMMON} --tensor-model-parallel-size 2 --sequence-parallel "
    "--pipeline-model-parallel-size 2 --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --multi-latent-attention "
    "--qk-pos-emb-head-dim 64 --qk-head-dim 128 --q-lora-rank 512 --kv-lora-rank 256 --v-head-dim 128 --qk-layernorm "
    "--mla-fa-without-pad --spec mindspeed_llm.tasks.models.spec.deepseek_spec layer_spec --moe-token-dispatcher-type alltoall\n"
)


def read(text: str, *ignored: str) -> ReadScript:
    assume = dict.fromkeys(ignored, "ignored")
    return read_script_job(text, Given("script"), catalogue.named(HARDWARE), HARDWARE, assume=assume)


def changed(script: ReadScript, best: ParallelStrategy) -> Patched:
    own, workload = script.job.strategy, script.job.workload
    assert own is not None
    return patched(script.launch, script.framework, workload, own, best, workload.cluster.num_devices)


def said(patch: Patched, script: ReadScript) -> dict[str, tuple[str, ...]]:
    """The arguments of the changed script, which the release takes."""
    given, stray = read_tokens(script.framework.release, patch.launch.arguments)
    assert not stray
    assert problems(script.framework.release, given) == []
    return given


def test_a_specification_that_asserts_tp_1_keeps_it() -> None:
    text = SEQUENTIAL.replace("\n", " --spec mindspeed_llm.tasks.models.spec.minimax_spec layer_spec\n")
    script = read(text)
    own = script.job.strategy
    assert own is not None
    assert not changed(script, replace(own, vpp=2, schedule=Schedule.INTERLEAVED)).refused
    (sentence,) = changed(script, replace(own, tp=2, dp=4, sequence_parallel=True)).refused
    assert "minimax_spec needs tensor-model-parallel-size=1" in sentence


def test_context_parallelism_comes_with_the_implementation_of_the_layers() -> None:
    """MindSpeed-LLM looks for it among the arguments that are given, and finds no default."""
    script = read(SEQUENTIAL.replace("--transformer-impl local ", ""))
    own = script.job.strategy
    assert own is not None
    patch = changed(script, replace(own, cp=2, dp=4, cp_algo=CpAlgo.RING))
    assert not patch.refused
    assert said(patch, script)["transformer-impl"] == ("local",)


def test_adapters_of_experts_keep_their_dispatcher() -> None:
    script = read(WITH_ADAPTERS, "lora-target-modules")
    own = script.job.strategy
    assert own is not None
    merged = replace(own, vpp=2, schedule=Schedule.INTERLEAVED, recompute=Recompute.NONE, recompute_num_layers=0)
    merged = replace(merged, features=(merged.features | Feature.MOE_COMM_OVERLAP | Feature.OVERLAP_P2P) & ~REPLICAS)
    assert "lora-target-modules and num-experts>0 needs" in " ".join(changed(script, merged).refused)


def test_layers_that_are_not_known_are_not_placed_anew() -> None:
    """Layers of GLM-5.2 share indices of attention, and a stage may not begin within such a group."""
    text = SEQUENTIAL.replace("\n", " --index-topk-freq 4 --num-layer-list 6,10\n")
    script = read(text, "index-topk-freq")
    document = tune_document(script)
    layers = strategy_to_mapping(script.job.workload, script.job.strategy)["layer_layout"] if script.job.strategy else None
    assert not document.changes or (document.best is not None and document.best.strategy.layer_layout == layers)


def test_what_makes_another_training_is_never_removed() -> None:
    """swap_attention excludes adapters: the switch is refused, and the adapters stay."""
    script = read(WITH_ADAPTERS, "lora-target-modules")
    own = script.job.strategy
    assert own is not None
    patch = changed(script, replace(own, features=own.features | Feature.SWAP_ATTENTION, recompute=Recompute.NONE))
    assert "--lora-target-modules linear_qkv" in patch.launch.text
    assert "swap-attention and lora-target-modules exclude each other" in " ".join(patch.refused)


def test_an_overlap_comes_with_the_dispatcher_that_it_needs() -> None:
    script = read(SEQUENTIAL)
    own = script.job.strategy
    assert own is not None
    merged = replace(
        own,
        vpp=2,
        schedule=Schedule.INTERLEAVED,
        recompute=Recompute.NONE,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        features=(own.features & ~REPLICAS) | Feature.MOE_COMM_OVERLAP | Feature.OVERLAP_P2P,
    )
    patch = changed(script, merged)
    assert patch.is_exact
    assert patch.refused == ()
    given = said(patch, script)
    assert "moe-fb-overlap" in given
    assert given["moe-token-dispatcher-type"] == ("alltoall",)


def test_shared_dispatchers_stay_where_nothing_excludes_them() -> None:
    script = read(SEQUENTIAL)
    own = script.job.strategy
    assert own is not None
    patch = changed(script, replace(own, features=own.features | Feature.SWAP_OPTIMIZER))
    assert patch.is_exact
    assert said(patch, script)["moe-token-dispatcher-type"] == ("alltoall_seq",)


def test_recompute_of_up_projections_over_tp_comes_with_its_companions() -> None:
    script = read(LATENT)
    own = script.job.strategy
    assert own is not None
    best = replace(own, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLA_UP_PROJ)
    patch = changed(script, best)
    assert patch.is_exact
    given = said(patch, script)
    assert {"recompute-mla-up-proj", "mla-up-proj-tp-overlap", "mla-mm-split"} <= set(given)


def test_what_a_script_broke_before_is_not_our_change() -> None:
    script = read(SEQUENTIAL.rstrip() + " --moe-shared-expert-overlap --moe-shared-expert-intermediate-size 768\n")
    own = script.job.strategy
    assert own is not None
    assert changed(script, replace(own, features=own.features | Feature.SWAP_OPTIMIZER)).refused == ()


def test_a_script_that_would_not_start_is_left_as_it_is_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*given: object) -> Patched:
        made = patched(*given)  # type: ignore[arg-type]
        return replace(made, refused=("moe-fb-overlap needs the moon [mindspeed, fb_overlap.py].",))

    monkeypatch.setattr(service, "patched", refusing)
    document = tune_document(read_limited(SEQUENTIAL))
    assert document.best is not None
    assert document.speedup is not None
    assert document.speedup > 1.0
    assert (document.diff, document.changes, document.script) == ("", [], SEQUENTIAL)
    assert document.kept is not None
    assert "would refuse" in document.kept
    assert "needs the moon" in document.kept


def test_a_plan_that_may_fit_is_not_replaced_by_a_slower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = service._estimate

    def doubtful(*given: object, **flags: bool) -> dict[str, object]:
        found = estimated(*given, **flags)  # type: ignore[arg-type]
        return {**found, "fits": False, "fits_probability": 0.2, "step_time_s": 0.001}

    monkeypatch.setattr(service, "_estimate", doubtful)
    document = tune_document(read_limited(SEQUENTIAL))
    assert document.diff == ""
    assert document.kept is not None
    assert "20.0%" in document.kept
    assert document.best is not None
    assert document.best.estimate.step_time_s > 0.001


def read_limited(text: str) -> ReadScript:
    limits = {
        "search": {"top": 1, "tp": [1], "cp": [1], "pp": [1, 2], "vpp": [1, 2], "ep": [8], "etp": [1], "micro_batch_size": [1]}
    }
    return read_script_job(text, Given("script"), catalogue.named(HARDWARE), HARDWARE, sections=limits)
