"""Help of commands in the language of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from app.language.choice import helped

USAGE, SHOWS_HELP = "Usage: ", "Show this message and exit."  # texts of the library, in addition to TITLES
TITLES = ("ARGUMENTS_PANEL_TITLE", "OPTIONS_PANEL_TITLE", "COMMANDS_PANEL_TITLE", "DEFAULT_STRING", "REQUIRED_LONG_STRING")


def texts(command: Any) -> Iterator[tuple[Any, str, str]]:
    """Every text of a command and its subcommands: its owner, the attribute, the text without line breaks."""
    for each in _commands(command):
        owners = [(each, ("help",)), *((param, ("help", "rich_help_panel")) for param in each.params)]
        for owner, names in owners:
            for name in names:
                text = getattr(owner, name, None)
                if text:
                    yield owner, name, " ".join(text.split())


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def of_library() -> list[str]:
    """The texts of the library around ours."""
    from typer import rich_utils

    return [USAGE, SHOWS_HELP, *(getattr(rich_utils, title) for title in TITLES)]


def _with_own_words(command: Any) -> None:
    """The command with translated ``--help`` option and usage line, which the library creates on demand."""
    make_option, make_usage = command.get_help_option, command.get_usage

    def help_option(context: Any) -> Any:
        option = make_option(context)
        if option is not None:
            option.help = helped(SHOWS_HELP)
        return option

    command.get_help_option = help_option
    command.get_usage = lambda context: make_usage(context).replace(USAGE, helped(USAGE), 1)


@contextmanager
def translated(application: typer.Typer) -> Iterator[Any]:
    """The command with its help in the language of the process."""
    from typer import main, rich_utils

    command = main.get_command(application)
    for owner, name, text in list(texts(command)):
        setattr(owner, name, helped(text))
    for each in _commands(command):
        _with_own_words(each)
    english = {title: getattr(rich_utils, title) for title in TITLES}
    try:
        for title, text in english.items():
            setattr(rich_utils, title, helped(text))
        yield command
    finally:
        for title, text in english.items():
            setattr(rich_utils, title, text)
