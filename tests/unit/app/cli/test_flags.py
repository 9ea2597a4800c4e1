"""Flags under the names and with the units that people know."""

import json
from pathlib import Path

import pytest

from app.cli.main import main
from documents.other_names import OTHER_NAMES

JOB = ("estimate", "qwen3-8b", "--hardware", "atlas-800t-a2", "--devices", "8", "--seq-length", "4096", "--tp", "2")
SAME = (
    "estimate", "Qwen/Qwen3-8B", "--NPU", "Atlas-800T-A2", "--gpus=8", "--seq_len", "4k",
    "--tensor-model-parallel-size", "2",
)  # fmt: skip


def test_other_names_units_and_case_give_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for arguments in ((*JOB, "--global-batch-size", "64"), (*SAME, "--gbs", "6.4e1")):
        assert main([*arguments, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["estimate"] == answers[1]["estimate"]


def test_every_other_name_means_a_flag_and_none_is_one() -> None:
    from typer.main import get_command

    from app.cli.main import application

    commands = get_command(application).commands  # type: ignore[attr-defined]
    flags = {name for each in commands.values() for option in each.params for name in option.opts}
    assert {f"--{name}" for name in OTHER_NAMES.values()} <= flags
    assert not {f"--{name}" for name in OTHER_NAMES} & flags


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--seq-length", "4x"), "--seq-length: '4x' is not allowed; give a whole number, as in 4096, 4,096 or 4k (of 1,024)."),
        (("--devices", "8.5"), "--devices: '8.5' is not allowed; give a whole number, as in 1024, 1,024 or 1Ki."),
        (("--devices", "1e12"), "--devices: 1000000000000 is not allowed; give an integer from 1 to 1,000,000."),
        (("--gpus", "4k"), "--devices: '4k' is not allowed; give a whole number, as in 1024, 1,024 or 1Ki."),
        (("--train-tokens", "many"), "--train-tokens: 'many' is not allowed; give a number, as in 2000000, 2e6, 2M or 2T."),
        (
            ("--inter-node-bytes-per-s", "400gb/s"),
            "--inter-node-bytes-per-s: '400gb/s' is not allowed; give bytes a second, or a rate such as 50GB/s or 400Gbps.",
        ),
    ],
)
def test_a_number_that_is_none_is_shown_with_the_form_it_should_have(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], expected: str
) -> None:
    assert main([*JOB, *arguments]) == 2
    assert capsys.readouterr().err == f"meshplan: {expected}\n"


def test_a_time_of_a_site_needs_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["goodput", *JOB[1:], "--mtbf", "72"]) == 2
    assert "--mtbf: '72' is not allowed; give a time with its unit, such as 90s" in capsys.readouterr().err


def test_a_key_that_other_tools_use_is_answered_with_ours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("model: qwen3-8b\ncluster: {hardware: atlas-800t-a2, gpus: 8}\n")
    assert main(["search", str(job)]) == 2
    assert "cluster.gpus: unknown key; did you mean 'num_devices'?" in capsys.readouterr().err
