"""A file that a command refuses is named by what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main

HARDWARE = ("--hardware", "atlas-800t-a2")
FILES: dict[str, bytes] = {
    "run.sh": b"#!/bin/bash\ntorchrun pretrain_gpt.py --num-layers 32\n",
    "paper.pdf": b"%PDF-1.7\n\xff\xfe",
    "noise.bin": bytes(range(128, 256)),
    "study.json": json.dumps({"id": "ab", "kind": "search", "state": "succeeded", "result": {}}).encode(),
    "report.json": json.dumps({"plans": [], "priced_with": {}, "job": {}, "pad": "x" * 300_000}).encode(),
    "job.yaml": b"model: qwen3-8b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\nstrategy: {tp: 2}\n",
    "broken.yaml": b"model: qwen3-8b\ncluster: [\n",
    "trace.json": b'{"traceEvents": []}',
}


@pytest.mark.parametrize(
    ("arguments", "file", "expected"),
    [
        (("search",), "run.sh", "It is a launch script, which `meshplan tune` and `meshplan estimate` read."),
        (("search",), "paper.pdf", "It is a PDF document."),
        (("estimate",), "noise.bin", "It is a binary file."),
        (("explain",), "report.json", "its plans are jobs in plan-N.job.yaml of the same folder."),
        (("tune", *HARDWARE), "study.json", "It is a study of a server, which `meshplan report ID` and the dashboard read."),
        (("tune", *HARDWARE), "paper.pdf", "It is a PDF document."),
        (("calibrate", *HARDWARE, "--stack", "mindspeed-llm"), "job.yaml", "It is a job file, which `meshplan search`"),
        (("validate",), "report.json", "It is the answer of a search, which `meshplan report` reads"),
        (("report",), "job.yaml", "It is a job file, which `meshplan search` and `meshplan estimate` read."),
        (("search",), "trace.json", "It is a profiler's trace, which `meshplan compare-trace` reads."),
    ],
)
def test_a_wrong_file_is_named_by_what_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], file: str, expected: str
) -> None:
    path = tmp_path / file
    path.write_bytes(FILES[file])
    assert main([arguments[0], str(path), *arguments[1:]]) == 2
    assert expected in capsys.readouterr().err


def test_a_fault_in_the_right_kind_of_file_is_not_told_what_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(FILES["broken.yaml"])
    assert main(["search", str(path)]) == 2
    assert "It is" not in capsys.readouterr().err


def test_a_report_is_not_written_under_the_name_of_another_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["report", str(tmp_path / "report.json"), "--output", str(tmp_path / "x.pdf")]) == 2
    assert "--output: x.pdf would not hold what its name says; give a name that ends in .html." in capsys.readouterr().err
    assert not (tmp_path / "x.pdf").exists()


def test_a_block_of_more_layers_than_a_stage_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    # 36 layers on two stages: 18 a stage.
    job = ("qwen3-8b", *HARDWARE, "--devices", "8", "--seq-length", "4096", "--global-batch-size", "64", "--pp", "2")
    assert main(["estimate", *job, "--recompute", "block:99", "--json"]) == 0
    assert "block:99 is more than the 18 layers of a virtual stage" in capsys.readouterr().out
    assert main(["estimate", *job, "--recompute", "block:18", "--json"]) == 0
    assert "is more than" not in capsys.readouterr().out


def test_a_baseline_of_another_model_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = (*HARDWARE, "--devices", "8", "--seq-length", "4096", "--global-batch-size", "64", "--tp", "2", "--json")
    assert main(["estimate", "llama-3.1-8b", *job]) == 0
    other = tmp_path / "other.json"
    other.write_text(capsys.readouterr().out)
    own = tmp_path / "job.yaml"
    own.write_bytes(FILES["job.yaml"])
    own.write_text(own.read_text() + "training: {seq_length: 4096, global_batch_size: 64}\n")
    assert main(["check", str(own), "--baseline", str(other)]) == 2
    assert "is of 'llama-3.1-8b', and the job trains qwen3-8b; give a baseline of the same model" in capsys.readouterr().err
