"""Files that a framework ships, read with the rules: what each verdict takes."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        ("--mtp-mem-efficient-logits --swap-layer-input", "priced without some arguments", ""),
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
        assert found.ignored == ["mtp-mem-efficient-logits", "swap-layer-input"]


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
