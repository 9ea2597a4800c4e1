"""The help of commands in the language of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from app.language.choice import helped

_HELP = "显示此帮助并退出。"
_TITLES = {
    "ARGUMENTS_PANEL_TITLE": "参数",
    "OPTIONS_PANEL_TITLE": "选项",
    "COMMANDS_PANEL_TITLE": "命令",
    "DEFAULT_STRING": "[默认：{}]",
    "REQUIRED_LONG_STRING": "[必填]",
}


def texts(command: Any) -> Iterator[tuple[Any, str, str]]:
    """Each text of a command and of those below it: its owner, the attribute, the text without line breaks."""
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


def _with_help_option(command: Any) -> None:
    """The library makes the option ``--help`` of a command when it is asked for."""
    made = command.get_help_option

    def help_option(context: Any) -> Any:
        option = made(context)
        if option is not None:
            option.help = _HELP
        return option

    command.get_help_option = help_option


@contextmanager
def translated(application: typer.Typer) -> Iterator[Any]:
    """What answers to the command line, with its help in the language of the process."""
    from typer import main, rich_utils

    command = main.get_command(application)
    for owner, name, text in list(texts(command)):
        setattr(owner, name, helped(text))
    for each in _commands(command):
        _with_help_option(each)
    english = {title: getattr(rich_utils, title) for title in _TITLES}
    try:
        for title, said in _TITLES.items():
            setattr(rich_utils, title, said)
        yield command
    finally:
        for title, said in english.items():
            setattr(rich_utils, title, said)
