"""Files that a framework ships, read with the rules: what each verdict takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.conformance.bridge_recipes import recipes
from scripts.conformance.shipped import hardware_of, outcomes

MODEL = (
    "--num-layers 4 --hidden-size 1024 --ffn-hidden-size 2816 --num-attention-heads 8 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --seq-length 2048 "
    "--max-position-embeddings 2048 --bf16 --micro-batch-size 1 --global-batch-size 512 --tokenizer-model x"
)
START = f"#!/bin/bash\ntorchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py {MODEL} "


@pytest.mark.parametrize(
    ("arguments", "verdict", "said"),
    [
        ("", "priced", ""),
        # Three layers on four virtual stages: the last holds a no-op layer alone, as the framework counts them.
        ("--noop-layers 3 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1", "priced", ""),
        # In a V the last virtual stage is on the first rank.
        (
            "--noop-layers 3 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 "
            "--schedules-method dualpipev --moe-fb-overlap --num-experts 8 --moe-router-topk 2 --moe-permute-fusion "
            "--moe-token-dispatcher-type alltoall --moe-grouped-gemm --moe-ffn-hidden-size 1024 --expert-model-parallel-size 2",
            "priced",
            "",
        ),
        ("--virtual-optimizer --swap-layer-input", "priced without some arguments", ""),
        ("--tensor-model-parallel-size 16 --pipeline-model-parallel-size 4", "cannot run", "heads_per_tp: tp 16"),
        ("$(cat more.txt)", "not understood", "may hold arguments"),
    ],
)
def test_a_shipped_script_gets_a_verdict_and_its_reason(tmp_path: Path, arguments: str, verdict: str, said: str) -> None:
    (tmp_path / "mindspeed_llm").mkdir()
    script = tmp_path / "examples" / "mcore" / "pretrain_x_ptd.sh"
    script.parent.mkdir(parents=True)
    script.write_text(START + arguments + "\n", encoding="utf-8")
    ((found, read),) = outcomes(tmp_path)
    assert (found.file, found.verdict) == ("examples/mcore/pretrain_x_ptd.sh", verdict), found.why
    assert said in " ".join(found.why)
    assert (read is None) == (verdict == "not understood")
    if verdict == "priced without some arguments":
        assert found.ignored == ["virtual-optimizer", "swap-layer-input"]


def test_a_file_that_starts_no_training_of_ours_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "megatron" / "core").mkdir(parents=True)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "bert.sh").write_text("torchrun --nproc_per_node 8 pretrain_bert.py --num-layers 2\n")
    (tmp_path / "examples" / "notes.sh").write_text("echo nothing\n")
    ((found, read),) = outcomes(tmp_path)
    assert (found.verdict, read) == ("another training, or none", None)


def test_a_name_states_the_devices() -> None:
    assert hardware_of("mindspeed-llm", "pretrain_qwen3_8b_4K_ptd_A3.sh") == "atlas-900-a3-superpod"
    assert hardware_of("mindspeed-llm", "pretrain_qwen3_8b_4K_ptd.sh") == "atlas-800t-a2"
    assert hardware_of("megatron-lm", "train_A3.sh") == "h100-sxm-80gb"


RECIPE = """
from megatron.bridge.perf_recipes.common import base
from megatron.bridge.training.comm_overlap import CommOverlapConfig
import torch

def {name}() -> object:
    cfg = base()
    cfg.model.tensor_model_parallel_size = {tp}
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = None
    cfg.model.context_parallel_size = 2
    cfg.model.recompute_granularity = "selective"
    cfg.model.recompute_modules = ["core_attn"]
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)
    cfg.train.micro_batch_size = 1
    cfg.optimizer.exp_avg_dtype = torch.bfloat16
    return cfg
"""
BASE = """
from megatron.bridge.recipes.common import _pretrain_common

def base() -> object:
    cfg = _pretrain_common()
    cfg.model.seq_length = 8192
    cfg.train.global_batch_size = 256
    return cfg
"""


def test_a_recipe_of_megatron_bridge_is_read_without_what_it_imports(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "megatron" / "bridge" / "perf_recipes"
    (folder / "llama" / "h100").mkdir(parents=True)
    (folder / "common.py").write_text(BASE)
    one, other = (f"llama3_70b_pretrain_64gpu_h100_{kind}_config" for kind in ("bf16", "fp8cs"))
    text = RECIPE.format(name=one, tp=4) + RECIPE.format(name=other, tp=3) + RECIPE.format(name="llama3_70b_sft_config", tp=1)
    (folder / "llama" / "h100" / "llama3.py").write_text(text)
    first, second = recipes(tmp_path)
    assert (first.num_devices, first.seq_length, first.global_batch_size, first.precision) == (64, 8192, 256, "bf16")
    assert first.strategy == {
        "tp": 4, "pp": 4, "vpp": 1, "cp": 2, "ep": 1, "etp": 1, "micro_batch_size": 1, "recompute": "core_attn",
        "switches": {"tp_comm_overlap": True},
    }  # fmt: skip
    assert (second.precision, second.fp8_recipe) == ("fp8", "tensorwise")
    (good, _), (bad, _) = outcomes(tmp_path)
    assert (good.verdict, bad.verdict) == ("priced", "not understood")  # tp 3 divides no 64 devices


LISTED = """
from megatron.bridge.perf_recipes.common import base

def kimi_k2_pretrain_256gpu_gb200_bf16_config() -> object:
    cfg = base()
    cfg.model.pipeline_model_parallel_size = 2
    cfg.model.virtual_pipeline_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_layout = [
        ["embedding"] + ["decoder"] * 2, ["decoder"] * 3, ["decoder"] * 3, ["decoder", "loss"]
    ]
    return cfg
"""


def test_a_recipe_lists_the_layers_of_its_virtual_stages(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "megatron" / "bridge" / "perf_recipes"
    (folder / "kimi" / "gb200").mkdir(parents=True)
    (folder / "common.py").write_text(BASE)
    (folder / "kimi" / "gb200" / "kimi_k2.py").write_text(LISTED)
    (found,) = recipes(tmp_path)
    assert found.strategy["layer_layout"] == [[2, 3], [3, 1]]  # by chunk, then rank


NORMS_AGAIN = """
from megatron.bridge.perf_recipes.common import base

def {name}() -> object:
    cfg = base()
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.recompute_granularity = "selective"
    cfg.model.recompute_modules = ["layernorm"]
    return cfg
"""


def test_a_recipe_is_judged_with_the_scaling_that_its_name_states(tmp_path: Path) -> None:
    """Core recomputes norms in FP8 unless the scaling is delayed."""
    folder = tmp_path / "src" / "megatron" / "bridge" / "perf_recipes"
    (folder / "llama" / "b200").mkdir(parents=True)
    (folder / "common.py").write_text(BASE)
    names = [f"llama3_70b_pretrain_64gpu_b200_{scaling}_config" for scaling in ("fp8ds", "fp8cs", "fp8mx_fsdp")]
    (folder / "llama" / "b200" / "llama3.py").write_text("".join(NORMS_AGAIN.format(name=name) for name in names))
    delayed, current, mx = (outcome for outcome, _ in outcomes(tmp_path))
    assert delayed.verdict == "cannot run"
    assert "delayed" in delayed.why[0]
    assert (current.verdict, mx.verdict) == ("priced", "priced")
