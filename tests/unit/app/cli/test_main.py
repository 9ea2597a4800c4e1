"""The command that is called is built alone, and the program's own help loads nothing that prices."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from app.cli import main as module
from app.cli.main import application, main

_GROUP = typer.main.get_group(application)


@pytest.mark.parametrize("name", list(_GROUP.commands))
def test_a_command_is_built_alone_as_it_is_among_all(name: str) -> None:
    alone = typer.main.get_group(module._called([name, "--json"])).commands
    assert list(alone) == [name]
    assert [each.name for each in alone[name].params] == [each.name for each in _GROUP.commands[name].params]


@pytest.mark.parametrize("argv", [[], ["--help"], ["--version"], ["serach"]])
def test_all_are_built_where_none_is_called(argv: list[str]) -> None:
    assert module._called(argv) is application


def paths(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group below one, as it is called."""
    for name, below in getattr(command, "commands", {}).items():
        yield (*names, name)
        yield from paths(below, (*names, name))


@pytest.mark.parametrize("names", list(paths(_GROUP)), ids=" ".join)
def test_every_command_tells_its_help_for_h(names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*names, "-h"]) == 0
    assert f"Usage: meshplan {' '.join(names)}" in capsys.readouterr().out


def test_a_wrong_name_is_told_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serach"]) == 2
    assert "search" in capsys.readouterr().err


def test_help_loads_nothing_that_prices() -> None:
    script = (
        "import sys; from app.cli.main import main; main(['--help']); sys.exit('numpy' in sys.modules or 'yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
