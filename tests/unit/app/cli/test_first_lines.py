"""The first lines of an answer: about a dozen on any terminal, in both languages, with all that a person acts on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import app.answers.price
import app.answers.search
import app.launch_scripts.service
import app.plans.explained
from app.cli.main import main
from tests.commands import command
from tests.language import CHINESE, english_in

JOB = (
    *("llama-2-13b", "--hardware", "atlas-800t-a2", "--devices", "16"),
    *("--global-batch-size", "128", "--seq-length", "4096", "--micro-batch-size", "1"),
)
PLAN = (*JOB, "--tp", "8", "--pp", "2")
COMMANDS = {
    "search": ("search", *JOB, "--top", "5"),
    "estimate": ("estimate", *PLAN),
    "explain": ("explain", *PLAN),
    "tune": ("tune", "tests/fixtures/scripts/60-mixtral-8x7b-megatron.sh", "--hardware", "h100-sxm-80gb"),
}
MOST_LINES = {80: 15, 120: 13, 200: 13}
PARTS = {
    "search": ("Run", "Step", "Memory", "Gain", "Proof", "Assumed", "Next"),
    "estimate": ("Plan", "Step", "Memory", "Assumed", "Next"),
    "explain": ("Plan", "Step", "Memory", "Bound by", "Change", "Proof", "Assumed", "Next"),
    "tune": ("Run", "Step", "Memory", "Yours", "Proof", "Next"),
}
ANSWERS = (
    (app.answers.search, "search_document"),
    (app.answers.price, "estimate_document"),
    (app.plans.explained, "explain_document"),
    (app.launch_scripts.service, "tune_document"),
)


@pytest.fixture(scope="module")
def answered() -> dict[object, Any]:
    """The answers so far: of each command, all tests ask for one and the same job."""
    return {}


@pytest.fixture(autouse=True)
def _computed_once(answered: dict[object, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths, languages and sections are a matter of printing, so that one answer serves them all."""

    def once(name: str, computed: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*given: Any, **asked: Any) -> Any:
            key = name, *(value for value in asked.values() if isinstance(value, bool))
            if key not in answered:
                answered[key] = computed(*given, **asked)
            return answered[key]

        return answer

    if request.function is not test_a_plan_that_does_not_fit_names_its_limit:  # of another plan
        for module, name in ANSWERS:
            monkeypatch.setattr(module, name, once(name, getattr(module, name)))


@pytest.mark.parametrize("columns", MOST_LINES)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_answer_is_a_dozen_lines_within_the_terminal(name: str, language: str, columns: int) -> None:
    told = command("--language", language, *COMMANDS[name], COLUMNS=str(columns))
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert len(lines) <= MOST_LINES[columns], told.stdout
    assert [line for line in lines if cell_len(line) > columns or line != line.rstrip()] == []
    if language == "zh":
        assert CHINESE.search(told.stdout)
        names = re.sub(r"\bno (?=[a-z]+_)", "", told.stdout)  # a part of the name of a plan, the same in all languages
        assert english_in(names) == []
    else:
        labels = [line.split("  ")[0] for line in lines[1:]]
        assert [part for part in PARTS[name] if part not in labels] == []


def test_the_first_lines_say_time_rate_memory_and_how_sure_they_are() -> None:
    shown = command(*COMMANDS["search"], COLUMNS="200").stdout
    document = json.loads(command(*COMMANDS["search"], "--json").stdout)
    (plan,) = [plan for plan in document["plans"] if plan["plan_id"] == document["recommended"]["plan_id"]]
    estimate = plan["estimate"]
    assert f"plan {plan['rank']}: " in shown
    assert f"{estimate['step_time_s']:.3f} s (80 %: " in shown
    assert f"{estimate['tokens_per_s'] / 1e3:.1f} K tokens/s (" in shown
    assert f"{estimate['peak_memory_bytes'] / 2**30:.1f} of {estimate['memory_limit_bytes'] / 2**30:.1f} GiB" in shown
    assert f"fits with {estimate['fits_probability']:.1%}" in shown
    (proved,) = [plan["rank"] for plan in document["plans"] if plan["plan_id"] == document["proof"]["plan_id"]]
    assert f"plan {proved} is proved the fastest" in shown
    facts = [sentence for sentence in document["assumptions"] if not sentence.startswith("search.")]
    named = [sentence.partition(" (")[0].partition(", ")[0].partition(" from ")[0] for sentence in facts[:3]]
    assert [name for name in named if f"{name}; " not in shown] == []


def test_the_rest_is_printed_by_name_or_as_a_whole() -> None:
    few, whole = (command(*COMMANDS["search"], *flags).stdout for flags in ((), ("--details",)))
    assert whole.startswith(few)
    assert "why the rest was rejected" not in few
    assert all(
        text in whole for text in ("why the rest was rejected", "Switches beside the usual", "# group strategy".split()[0])
    )
    some = command(*COMMANDS["search"], "--show", "rejections,switches").stdout
    assert "why the rest was rejected" in some
    assert "Switches beside the usual" in some
    assert "can be launched on" not in some
    wrong = command(*COMMANDS["search"], "--show", "rejection")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--show: 'rejection' is no known section; did you mean 'rejections'?" in wrong.stderr


def test_flags_that_ask_for_a_part_print_it() -> None:
    assert "pipeline rank" in command(*COMMANDS["estimate"], "--simulate").stdout
    assert "pipeline rank" not in command(*COMMANDS["estimate"]).stdout
    assert "Micro batch 1" in command(*COMMANDS["estimate"], "--memory-plan").stdout


def test_a_saved_answer_names_the_file_that_launches_its_plan(tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    shown = command(*COMMANDS["search"], "--save-dir", folder, COLUMNS="400").stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("Next")]
    named = [Path(word.rstrip(",;")) for word in line.split() if word.startswith(str(folder))]
    assert named
    assert all(path.is_file() and path.suffix in (".sh", ".yaml") for path in named)
    assert "why the rest was rejected" in (folder / "report.txt").read_text(encoding="utf-8")


def test_a_plan_that_does_not_fit_names_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *JOB, "--tp", "1", "--pp", "1", "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert main(["estimate", *JOB, "--tp", "1", "--pp", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    limit, device = (f"{estimate[name] / 2**30:.1f} GiB" for name in ("fit_limit_bytes", "memory_limit_bytes"))
    assert f"DOES NOT FIT: the limit is {limit} ({device}, less what makes a fit 90 % sure)" in shown
    assert "meshplan explain says which change would make it fit" in shown
