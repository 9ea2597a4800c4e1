"""Answers about sizes, delivery, post-training and services come first; what was assumed stands behind them."""

from __future__ import annotations

import pytest

from app.cli.main import main

USUAL = "llama-2-7b --hardware atlas-800t-a2 --devices 8 --global-batch-size 64 --seq-length 4096".split()
COMMANDS = {
    "goodput": ("goodput", *USUAL, "--tp", "8"),
    "sweep": ("sweep", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "8", "--micro-batch-size", "1"),
    "rl": ("rl", "estimate", "examples/rl-math-7b.yaml"),
}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main([*words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_answer_is_printed_before_its_assumptions(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    brief, full = printed(capsys, *COMMANDS[name]), printed(capsys, *COMMANDS[name], "--details")
    (told,) = [number for number, line in enumerate(brief) if line.startswith("Assumed")]
    assert told > 5
    assert brief[-1].startswith("Next")
    left = int(brief[-1].split("--details prints ")[1].split()[0])
    (all_told,) = [number for number, line in enumerate(full) if line.startswith("Assumed")]
    assert full[:all_told] == brief[:told]
    assert sum(" = " in line for line in full[all_told:]) >= left
