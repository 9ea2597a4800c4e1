"""docs/cli.md and its Chinese page name every command and flag that exists, and none that does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from app.cli.main import application
from app.jobs.fields import DEFAULT_TRIALS, ClusterSection, SearchSettings, SoftwareSection, StrategySection, TrainingSection
from cost_models.shapes.strategy import Schedule
from documents.other_names import OTHER_NAMES, OTHER_SETTINGS
from search.objectives.table import OBJECTIVES

PAGES = [(Path(__file__).parents[4] / "docs" / name).read_text(encoding="utf-8") for name in ("cli.md", "zh/cli.md")]
both_pages = pytest.mark.parametrize("page", PAGES, ids=("English", "Chinese"))


def flags_of(command: object) -> set[str]:
    return {name for parameter in command.params for name in getattr(parameter, "opts", ()) if name.startswith("--")} - {"--help"}


def commands() -> dict[str, set[str]]:
    found = {}
    for name, command in typer.main.get_command(application).commands.items():
        for child, grandchild in getattr(command, "commands", {"": command}).items():
            found[f"meshplan {name} {child}".strip()] = flags_of(grandchild)
    return found


@both_pages
@pytest.mark.parametrize("command", commands())
def test_every_command_has_a_section_with_its_flags(command: str, page: str) -> None:
    section = next(part for part in page.split("\n### ")[1:] if command in part.partition("\n")[0])
    assert {flag for flag in commands()[command] if f"`{flag}`" not in section} == set()


@both_pages
def test_no_flag_is_documented_that_does_not_exist(page: str) -> None:
    known = set().union(*commands().values(), {"--version", "--help", "--install-completion", "--show-completion"})
    known |= {f"--{name}" for name in (*OTHER_NAMES, *OTHER_SETTINGS)}
    assert set(re.findall(r"`(--[a-z-]+)`", page)) <= known


@both_pages
@pytest.mark.parametrize("section", [ClusterSection, TrainingSection, SoftwareSection, StrategySection, SearchSettings])
def test_every_field_of_a_job_is_documented(section: type[ClusterSection], page: str) -> None:
    missing = [name for name in section.model_fields if not re.search(rf"[`,{{ ]{name}[`,:}} ]", page)]
    assert missing == []


def test_the_help_of_an_estimate_names_every_schedule() -> None:
    parameters = typer.main.get_command(application).commands["estimate"].params
    text = next(parameter.help for parameter in parameters if parameter.name == "schedule")
    assert text.split(", ") == [kind.label for kind in Schedule if kind is not Schedule.NONE]


def test_the_help_of_a_search_and_the_page_of_objectives_name_every_objective() -> None:
    parameters = typer.main.get_command(application).commands["search"].params
    text = next(parameter.help for parameter in parameters if parameter.name == "objective")
    listed = re.split(r", | or ", text.split(";")[0].replace(" (default)", ""))
    assert listed == list(OBJECTIVES)
    page = (Path(__file__).parents[4] / "docs" / "sweep.md").read_text(encoding="utf-8")
    rows = page.split("| objective | ranks by |")[1].split("\n\n")[0].split("\n")[2:]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])) == sorted(OBJECTIVES)


def test_the_help_of_a_search_names_the_default_of_trials() -> None:
    parameters = typer.main.get_command(application).commands["search"].params
    text = next(parameter.help for parameter in parameters if parameter.name == "max_trials")
    assert text.endswith(f"(default {DEFAULT_TRIALS})")
