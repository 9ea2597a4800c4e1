"""``meshplan sequences plan``, and ``POST /v1/sequences/plans``, which answers the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli.main import main
from app.sequences.schemas import SequencePlanDocument
from tests.unit.app.cli.test_cli_refusals import refusal

JOB: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 32},
    "training": {"seq_length": 131072, "global_batch_size": 32},
    "strategy": {"tp": 8, "recompute": "full"},
}
LENGTHS = np.random.default_rng(0).lognormal(8.0, 1.5, 3000).astype(int).clip(1, 131072).tolist()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    job, lengths = tmp_path / "job.json", tmp_path / "lengths.txt"
    job.write_text(json.dumps(JOB), encoding="utf-8")
    lengths.write_text("\n".join(map(str, LENGTHS)), encoding="utf-8")
    return lengths, job


def test_a_plan_says_what_order_recovers(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lengths, job = files
    order = tmp_path / "order.json"
    command = ["sequences", "plan", str(lengths), "--job", str(job), "--steps", "4"]
    assert main([*command, "--write-order", str(order), "--json"]) == 0
    document = SequencePlanDocument.model_validate_json(capsys.readouterr().out)
    assert (document.num_replicas, document.num_microbatches, document.is_drawn) == (4, 8, False)
    assert document.balanced_step_time_s <= document.after.step_time_s < document.before.step_time_s
    assert document.recovered_fraction is not None
    assert document.recovered_fraction > 0.9
    places = np.array(json.loads(order.read_text(encoding="utf-8"))["step_replica_microbatch_sequence"])
    assert places.shape == (4, 4, 8, 1)
    assert all(sorted(step.ravel().tolist()) == list(range(32)) for step in places)
    assert main(command) == 0
    assert "Rearranging recovers" in capsys.readouterr().out


def test_samples_as_long_as_the_sequence_lose_nothing(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    lengths, job = files
    lengths.write_text("131072,7\n", encoding="utf-8")
    assert main(["sequences", "plan", str(lengths), "--job", str(job)]) == 0
    assert "Attention lies evenly" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "part"),
    [(["--steps", "0"], "--steps: 0"), (["--steps", "1001"], "--steps: 1001"), (["--seed", "-1"], "--seed: -1")],
)
def test_bad_input_is_one_sentence(
    files: tuple[Path, Path], flags: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths, job = files
    assert part in refusal(capsys, "sequences", "plan", lengths, "--job", job, *flags)
    assert "no such file" in refusal(capsys, "sequences", "plan", lengths.parent / "nowhere", "--job", job)
