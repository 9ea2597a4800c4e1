"""Lengths of packed samples on one line, and the doubt of a script that packs samples of unknown lengths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.sequences.packing import packed_fraction
from documents.errors import InputError
from tests.commands import command

MODEL = (
    "--num-layers 4 --hidden-size 1024 --ffn-hidden-size 2816 --num-attention-heads 8 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --seq-length 65536 "
    "--max-position-embeddings 65536 --vocab-size 32000 --bf16 --micro-batch-size 1 --global-batch-size 16 "
)
GPU = ("--hardware", "h100-sxm-80gb")


def test_the_share_is_the_mean_square_over_the_mean_times_the_sequence(tmp_path: Path) -> None:
    # 30 samples of 1,000 and 10 of 3,000: mean 1,500, mean square (30 x 1e6 + 10 x 9e6) / 40 = 3e6; 3e6 / 1,500 = 2,000.
    assert packed_fraction("1000:30,3000:10", 8000) == pytest.approx(0.25)
    path = tmp_path / "lengths.csv"
    path.write_text("length,count\n1000,30\n3000,10\n", encoding="utf-8")
    assert packed_fraction(str(path), 8000) == pytest.approx(0.25)
    assert packed_fraction("1000:32000", 8000) == pytest.approx(0.25)  # exponential: the mean square is 2 m^2
    assert packed_fraction("1000:1000", 8000) == pytest.approx(0.125)  # all samples are alike
    assert packed_fraction("8000:8000", 8000) == 1.0


@pytest.mark.parametrize("given", ["", "no-such-file", "10:5", "5:10,x", "0:4"])
def test_what_is_no_length_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="--lengths"):
        packed_fraction(given, 8000)


def test_a_script_that_packs_has_a_doubt_that_lengths_take_away(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {MODEL} --reset-attention-mask\n", encoding="utf-8")
    plain = json.loads(command("estimate", path, *GPU, "--json").stdout)
    assert plain["warnings"][0].startswith("reset-attention-mask: samples share a sequence")
    stated = json.loads(command("estimate", path, *GPU, "--json", "--lengths", "1000:32000").stdout)
    assert not any("samples share" in warning for warning in stated["warnings"])
    fraction = stated["job"]["training"]["mean_squared_length_fraction"]
    assert fraction == pytest.approx(2 * 1000 / 65536)
    low, time = plain["estimate"]["step_time_low_s"], stated["estimate"]["step_time_s"]
    assert low < time < 0.6 * plain["estimate"]["step_time_s"]  # attention is most of the work at this length
