"""Outputs that pages show are what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import ROOT, command

SHOWN = re.compile(r"^```text\n(.*?)^```\n<!-- /example -->", re.MULTILINE | re.DOTALL)
SCRIPT = str(ROOT / "tests/fixtures/scripts/60-mixtral-8x7b-megatron.sh")
SEARCH = "search deepseek-v3 --hardware atlas-800t-a2 --devices 2048 --save-dir plans".split()
TUNE = ["tune", SCRIPT, "--hardware", "h100-sxm-80gb"]
TUTORIAL = "qwen3-8b --hardware atlas-900-a2-podc --devices 16 --seq-length 4096 --global-batch-size 256 --tp 1".split()


def printed(folder: Path, *words: str, columns: int = 1000) -> str:
    settings = {"COLUMNS": str(columns), "MESHPLAN_EXECUTOR": "serial", "MESHPLAN_DATA_DIR": str(folder)}
    return command(*words, folder=folder, **settings).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "language", "words"),
    [
        ("README.md", "en", SEARCH),
        ("README.zh.md", "zh", SEARCH),
        ("docs/tune.md", "en", TUNE),
        ("docs/zh/tune.md", "zh", TUNE),
    ],
)
def test_pages_show_what_their_command_prints(page: str, language: str, words: list[str], tmp_path: Path) -> None:
    (shown,) = SHOWN.findall((ROOT / page).read_text(encoding="utf-8"))
    text = printed(tmp_path, "--language", language, *words, columns=110)
    assert shown == "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.slow
def test_the_tutorial_names_the_stages_that_explain_prints(tmp_path: Path) -> None:
    (first, last) = re.findall(r"as usual -> (\d+) (\d+):", printed(tmp_path, "explain", *TUTORIAL))[0]
    assert f"stages of {first} and {last} layers" in (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert f"{first} 层与 {last} 层" in (ROOT / "docs/zh/tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_plan_that_does_not_fit_is_not_called_the_fastest(tmp_path: Path) -> None:
    assert "the plan beside it is the fastest that mindspeed-llm@master takes" in printed(tmp_path, "explain", *TUTORIAL)
