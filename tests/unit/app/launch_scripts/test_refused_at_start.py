"""A script that the validator of Megatron-LM refuses is refused; the cases are assertions of ``validate_args``, read by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.main import main

MODEL = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear --vocab-size 32000 "
    "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 64 --bf16 --sequence-parallel "
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-distributed-optimizer --attention-dropout 0 "
    "--hidden-dropout 0"
)
LATENT = (
    "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128"
)


def script(tmp_path: Path, added: str) -> str:
    path = tmp_path / "pretrain.sh"
    path.write_text(f"torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py {MODEL} {added}\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", ["estimate", "tune"])
@pytest.mark.parametrize(
    ("target", "added", "reason"),
    [
        ("megatron-lm@0.12", "--fp16", "fp16 and bf16 exclude each other"),
        ("megatron-lm@0.19", "--fp16", "fp16 and bf16 exclude each other"),
        (
            "megatron-lm@0.12",
            "--num-layers-per-virtual-pipeline-stage 4 --decoder-first-pipeline-num-layers 15",
            "num-layers-per-virtual-pipeline-stage and decoder-first-pipeline-num-layers exclude each other",
        ),
        (
            "megatron-lm@0.19",
            "--pipeline-model-parallel-layout 'Et*16|t*16L' --decoder-first-pipeline-num-layers 15",
            "pipeline-model-parallel-layout and decoder-first-pipeline-num-layers exclude each other",
        ),
        (
            "megatron-lm@0.19",
            "--num-layers-per-virtual-pipeline-stage 4 --num-virtual-stages-per-pipeline-rank 4",
            "num-layers-per-virtual-pipeline-stage and num-virtual-stages-per-pipeline-rank exclude each other",
        ),
        (
            "megatron-lm@0.12",
            "--recompute-granularity selective --recompute-method block",
            "recompute-granularity=selective and recompute-method exclude each other",
        ),
        ("megatron-lm@0.12", "--optimizer-cpu-offload", "optimizer-cpu-offload needs use-precision-aware-optimizer"),
        ("megatron-lm@0.19", "--max-position-embeddings 2048", "max-position-embeddings 2048 is less than seq-length 4096"),
    ],
)
def test_what_the_validator_refuses_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, target: str, added: str, reason: str
) -> None:
    path = script(tmp_path, added)
    assert main([command, path, "--hardware", "h100-sxm-80gb", "--target", target]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"meshplan: {path}: this script does not start: {reason}")
    assert said.rstrip().endswith(f"({target}).")


def test_a_release_that_starts_a_script_is_preferred(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Latent attention of 0.12 refuses the fused rotary embedding, which a later release has."""
    path, flags = script(tmp_path, LATENT), ("--hardware", "h100-sxm-80gb")
    assert main(["estimate", path, *flags]) == 0
    assert "target megatron-lm@0.19" in capsys.readouterr().out
    assert main(["estimate", path, *flags, "--target", "megatron-lm@0.12"]) == 2
    assert "multi-latent-attention needs no-rope-fusion" in capsys.readouterr().err


def test_what_starts_without_effect_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Query groups without --group-query-attention are dropped without a word."""
    assert main(["estimate", script(tmp_path, "--num-query-groups 8"), "--hardware", "h100-sxm-80gb"]) == 0
    assert "num-query-groups>1 needs group-query-attention" in capsys.readouterr().err
