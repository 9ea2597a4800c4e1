"""Scripts of layers of one block: the program that reads their symbols, and rows that the tokenizer decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import command

HYBRID = (
    "--bf16 --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type none --normalization RMSNorm "
    "--squared-relu --hidden-size 4480 --ffn-hidden-size 15680 --num-attention-heads 40 --kv-channels 128 "
    "--group-query-attention --num-query-groups 8 --mamba-head-dim 80 --mamba-num-heads 128 --mamba-num-groups 8 "
    "--mamba-state-dim 128 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 "
    "--tensor-model-parallel-size 4 --use-distributed-optimizer --tokenizer-type HuggingFaceTokenizer"
)
SYMBOLS = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
GIVEN = ("--hardware", "h100-sxm-80gb", "--vocab-size", "131072", "--details")


@pytest.mark.parametrize("argument", ["hybrid-layer-pattern", "hybrid-override-pattern"])
def test_a_program_that_builds_usual_layers_is_refused(tmp_path: Path, argument: str) -> None:
    # gpt_builder reads no symbols, and a GPT has other layers than the price [megatron-0.19, gpt_builders.py].
    path = tmp_path / "train.sh"
    text = f"torchrun --nproc_per_node 8 \\\n  PROGRAM {HYBRID} \\\n  --{argument} {SYMBOLS}\n"
    path.write_text(text.replace("PROGRAM", "pretrain_gpt.py"), encoding="utf-8")
    refused = command("estimate", path, *GIVEN)
    assert refused.returncode != 0
    assert "line 3" in refused.stderr
    assert "pretrain_gpt.py builds layers of attention and MLP all the same; start pretrain_hybrid.py" in refused.stderr
    for program in ("pretrain_hybrid.py", "pretrain_mamba.py"):
        path.write_text(text.replace("PROGRAM", program), encoding="utf-8")
        assert command("estimate", path, *GIVEN).returncode == 0


def test_rows_that_are_given_are_not_said_to_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(
        f"torchrun --nproc_per_node 8 pretrain_hybrid.py {HYBRID} --hybrid-layer-pattern {SYMBOLS}\n", encoding="utf-8"
    )
    answered = command("estimate", path, *GIVEN)
    assert answered.returncode == 0, answered.stderr
    assert "model.vocab_size = 131072 (given beside the script)" in " ".join(answered.stdout.split())
    assert "vocab-size is not given" not in answered.stdout
