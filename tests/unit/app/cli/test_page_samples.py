"""Outputs that pages show are what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.language.choice import speak
from scripts.pages.write_examples import PAGES
from tests.commands import ROOT, command

SHOWN = re.compile(r"^```text\n(.*?)^```\n<!-- /example -->", re.MULTILINE | re.DOTALL)
SCRIPT = str(ROOT / "tests/fixtures/scripts/60-mixtral-8x7b-megatron.sh")
SEARCH = "search deepseek-v3 --hardware atlas-800t-a2 --devices 2048 --save-dir plans".split()
TUNE = ["tune", SCRIPT, "--hardware", "h100-sxm-80gb"]
HYBRID = (
    "search llama-3.1-8b --hardware gb200-nvl72 --devices 576 --global-batch-size 576 --seq-length 8192 "
    "--target torchtitan --tp 1 --pp 1 --cp 1 --micro-batch-size 1"
).split()
JOB = str(ROOT / "examples/llama-2-13b.yaml")
TRACE = ["compare-trace", str(ROOT / "tests/fixtures/traces/step_trace_time.csv"), "--job", JOB, "--step", "11"]
TUTORIAL = "qwen3-8b --hardware atlas-900-a2-podc --devices 16 --seq-length 4096 --global-batch-size 256 --tp 1".split()


def printed(folder: Path, *words: str, columns: int = 1000) -> str:
    settings = {"COLUMNS": str(columns), "MESHPLAN_EXECUTOR": "serial", "MESHPLAN_DATA_DIR": str(folder)}
    try:
        return command(*words, folder=folder, **settings).stdout
    finally:
        speak("en")  # for the tests that follow in this process


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


@pytest.mark.parametrize(
    ("page", "language", "words"),
    [
        ("docs/compare-trace.md", "en", TRACE),
        ("docs/zh/compare-trace.md", "zh", TRACE),
        ("docs/launch.md", "en", HYBRID),
        ("docs/zh/launch.md", "zh", HYBRID),
        ("docs/calibration.md", "en", ["calibrate", "--suggest", JOB]),
    ],
)
def test_pages_of_short_commands_show_what_they_print(page: str, language: str, words: list[str], tmp_path: Path) -> None:
    (shown,) = SHOWN.findall((ROOT / page).read_text(encoding="utf-8"))
    text = printed(tmp_path, "--language", language, *words, columns=110)
    assert shown == "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.parametrize(("page", "language"), [("docs/cli.md", "en"), ("docs/zh/cli.md", "zh")])
def test_the_assumption_of_a_page_is_one_of_its_job(page: str, language: str, tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```\n", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    told = printed(tmp_path, "--language", language, "estimate", JOB, "--show", "assumptions")
    assert shown.strip() in told.replace("\n  ", " ")


def test_every_sample_of_an_output_is_written_by_the_command() -> None:
    """A block of text in a page is an example between its marks; others are commands, patterns and the sample above."""
    marked = re.compile(r"<!-- example: .*?<!-- /example -->", re.DOTALL)
    for path in [*ROOT.glob("README*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/zh/*.md")]:
        page, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        pages = {name for of_language in PAGES.values() for name in of_language}
        assert (page in pages) == bool(marked.search(text)), page
        left = re.findall(r"^```text\n(.*?)^```\n", marked.sub("", text), re.MULTILINE | re.DOTALL)
        outputs = [block for block in left if not block.startswith(("meshplan ", "python "))]
        assert not outputs or page in ("docs/cli.md", "docs/zh/cli.md"), (page, outputs)


@pytest.mark.slow
def test_the_tutorial_names_the_stages_that_explain_prints(tmp_path: Path) -> None:
    (first, last) = re.findall(r"as usual -> (\d+) (\d+):", printed(tmp_path, "explain", *TUTORIAL))[0]
    assert f"stages of {first} and {last} layers" in (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert f"{first} 层与 {last} 层" in (ROOT / "docs/zh/tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_plan_that_does_not_fit_is_not_called_the_fastest(tmp_path: Path) -> None:
    assert "the plan beside it is the fastest that mindspeed-llm@master takes" in printed(tmp_path, "explain", *TUTORIAL)
