"""Rows of the embedding: stated, those of the one model with these layers, or asked for. Memory of joint settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import command

DENSE = "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope --bf16"
BATCH = "--seq-length 4096 --max-position-embeddings 131072 --micro-batch-size 1 --global-batch-size 64"
UNTIED = "--untie-embeddings-and-output-weights"
# Llama 2 70B and Llama 3.1 70B have these layers, rotary bases of 10,000 and 500,000, and 32,000 and 128,256 rows.
SEVENTY = (
    "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention "
    f"--num-query-groups 8 {UNTIED} {DENSE} {BATCH} --tensor-model-parallel-size 8 --sequence-parallel"
)
OWN = f"--num-layers 16 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 {UNTIED} {DENSE} {BATCH}"


def answer(tmp_path: Path, text: str, *flags: str, hardware: str = "h100-sxm-80gb") -> tuple[dict[str, object], str]:
    path = tmp_path / "train.sh"
    path.write_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {text}\n", encoding="utf-8")
    given = command("estimate", path, "--hardware", hardware, "--json", *flags)
    return (json.loads(given.stdout) if given.returncode == 0 else {}, given.stderr)


def rows(tmp_path: Path, text: str, *flags: str) -> int:
    document, message = answer(tmp_path, text, *flags)
    assert document, message
    job = document["job"]
    assert isinstance(job, dict)
    return int(job["model"]["vocab_size"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SEVENTY} --rotary-base 500000 --use-rope-scaling", 128256),
        (SEVENTY, 32000),
        (f"{SEVENTY} --make-vocab-size-divisible-by 4008", 32064),  # 8 x 4,008, which 32,000 rows fill up to
        (f"{SEVENTY} --rotary-base 500000 --make-vocab-size-divisible-by 16032", 128256),
        (f"{OWN} --make-vocab-size-divisible-by 70000", 70000),
        (f"{OWN} --vocab-size 70000 --make-vocab-size-divisible-by 1", 70000),
    ],
)
def test_rows_are_those_of_the_constants_and_the_padding(tmp_path: Path, text: str, expected: int) -> None:
    assert rows(tmp_path, text) == expected


def test_padding_for_another_number_of_ranks_is_asked_about(tmp_path: Path) -> None:
    # 8 x 16,032 = 128,256 is the vocabulary of Llama 3; 2 x 16,032 = 32,064 is none.
    text = f"{OWN} --rotary-base 500000 --tensor-model-parallel-size 2 --make-vocab-size-divisible-by 16032"
    _, message = answer(tmp_path, text)
    assert "16032 x tp 2 = 32064 rows, but 16032 x 8 = 128256 is a known vocabulary; give --vocab-size" in message
    assert rows(tmp_path, text, "--vocab-size", "128256") == 128256


def test_an_unknown_vocabulary_is_asked_for(tmp_path: Path) -> None:
    _, message = answer(tmp_path, OWN)
    assert "no preset has the same layers; give --vocab-size" in message


def test_fully_sharded_data_parallelism_of_torch_is_refused_where_megatrons_own_is_priced(tmp_path: Path) -> None:
    eight = f"{OWN} --vocab-size 128256 --use-torch-fsdp2 --no-gradient-accumulation-fusion"
    document, message = answer(tmp_path, eight)
    assert not document
    assert "use-torch-fsdp2" in message


def test_activation_recompute_beside_block_recompute_lowers_the_peak(tmp_path: Path) -> None:
    # The recipe was measured to fit into 64 GB; block recompute of one layer alone does not.
    text = (
        "--use-mcore-models --pipeline-model-parallel-size 4 --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 "
        "--num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
        f"--global-batch-size 128 --vocab-size 32000 --make-vocab-size-divisible-by 1 {UNTIED} {DENSE} --use-fused-rmsnorm "
        "--use-fused-swiglu --use-fused-rotary-pos-emb --use-flash-attn --use-distributed-optimizer --reuse-fp32-param "
        "--transformer-impl local --recompute-granularity full --recompute-method block --recompute-num-layers 1"
    )
    peaks = []
    for more in ("", " --recompute-activation-function"):
        document, message = answer(tmp_path, text + more, hardware="atlas-800t-a2")
        assert document, message
        estimate = document["estimate"]
        assert isinstance(estimate, dict)
        peaks.append(estimate["peak_memory_bytes"] / 2**30)
    assert 3.0 < peaks[0] - peaks[1] < 4.5
    assert peaks[1] == pytest.approx(56.1, abs=0.35)
    told = command("estimate", tmp_path / "train.sh", "--hardware", "atlas-800t-a2")
    assert told.returncode == 0, told.stderr
    assert "recompute 1 a rank, others mlp_act" in told.stdout
