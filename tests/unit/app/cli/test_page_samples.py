"""Outputs that pages show are what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import ROOT, command

SHOWN = re.compile(r"^```\n((?:Run|采用) .*?)^```", re.MULTILINE | re.DOTALL)
TUTORIAL = "qwen3-8b --hardware atlas-900-a2-podc --devices 16 --seq-length 4096 --global-batch-size 256 --tp 1".split()


def printed(folder: Path, *words: str) -> str:
    settings = {"COLUMNS": "1000", "MESHPLAN_EXECUTOR": "serial", "MESHPLAN_DATA_DIR": str(folder)}
    return command(*words, **settings).stdout


@pytest.mark.slow
def test_the_pages_on_scripts_show_what_tune_prints(tmp_path: Path) -> None:
    script = "tests/fixtures/scripts/60-mixtral-8x7b-megatron.sh"
    for page, language in (("docs/tune.md", "en"), ("docs/zh/tune.md", "zh")):
        text = printed(tmp_path, "--language", language, "tune", script, "--hardware", "h100-sxm-80gb")
        (shown,) = SHOWN.findall((ROOT / page).read_text(encoding="utf-8"))
        assert shown in text, page


@pytest.mark.slow
def test_the_tutorial_names_the_stages_that_explain_prints(tmp_path: Path) -> None:
    (first, last) = re.findall(r"as usual -> (\d+) (\d+):", printed(tmp_path, "explain", *TUTORIAL))[0]
    assert f"stages of {first} and {last} layers" in (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert f"{first} 层与 {last} 层" in (ROOT / "docs/zh/tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_plan_that_does_not_fit_is_not_called_the_fastest(tmp_path: Path) -> None:
    assert "the plan beside it is the fastest that mindspeed-llm@master takes" in printed(tmp_path, "explain", *TUTORIAL)
