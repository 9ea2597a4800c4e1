"""The page of systems: switches do what they say, and the page says what its script prices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from app.cli.main import main
from frameworks.legality import violations
from scripts.case_studies.write_systems import (
    PAGE,
    SYSTEMS,
    System,
    balance_section,
    command,
    everything_on,
    head,
    load_that_explains,
    memory_section,
    step_and_peak,
    systems_section,
    without,
)
from scripts.pages.text import table, wrapped


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_switch_changes_the_job_and_leaves_it_legal(system: System) -> None:
    on, off = everything_on(), without(system)
    assert on != off
    assert violations(*off) == violations(*on) == ()


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_no_system_makes_a_step_longer(system: System) -> None:
    assert step_and_peak(system)["step_time_s"] > step_and_peak()["step_time_s"]


def test_the_load_that_explains_a_gain_grows_with_it() -> None:
    small, large = load_that_explains(0.02), load_that_explains(0.10)
    assert small is not None
    assert large is not None
    assert 1.0 < small < large
    assert load_that_explains(100.0) is None


def test_the_command_of_the_page_prices_everything_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command(), "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert estimate["step_time_s"] == pytest.approx(step_and_peak()["step_time_s"])
    assert estimate["peak_memory_bytes"] == pytest.approx(step_and_peak()["peak_memory_bytes"])


@pytest.mark.parametrize("section", [head, systems_section, balance_section, memory_section])
def test_the_page_agrees_with_the_script(section: Callable[..., str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert wrapped(section()).strip() in text, "the model or its calibration changed: run `make docs` and review the diff"


def test_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / link).is_file(), link


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    assert table(("a", "b"), [("x", "1.0 s"), ("y", "**+2**")]) == "| a | b |\n| --- | ---: |\n| x | 1.0 s |\n| y | **+2** |\n"


def test_paragraphs_are_filled_and_tables_stay() -> None:
    text = "# A\n\none\ntwo\n\n| " + "x" * 200 + " |\nthree\n- " + "word " * 40 + "\n  more\n"
    found = wrapped(text).split("\n")
    assert found[:5] == ["# A", "", "one two", "", "| " + "x" * 200 + " |"]
    assert found[5] == "three"
    assert found[6].startswith("- word")
    assert found[7].startswith("  word")
    assert found[7].endswith("more")
