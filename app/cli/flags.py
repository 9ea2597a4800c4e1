"""Flags as people write them: other names of a flag, numbers with units, and any case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from documents.other_names import usual_name


def with_own_reading(command: Any) -> Any:
    """The command with flags under other names too, and numbers with units."""
    command.context_settings = {**command.context_settings, "token_normalize_func": usual_name}
    for each in _commands(command):
        for option in each.params:
            if option.param_type_name != "option":
                continue
            if option.type_descriptor.annotation in (int, float):
                option.process_value = _reading(option, option.process_value)
            if not option.required and option.callback is None:
                option.process_value = _where_given(option, option.process_value)
    return command


def _commands(command: Any) -> list[Any]:
    return [command, *(inner for each in getattr(command, "commands", {}).values() for inner in _commands(each))]


def _where_given(option: Any, convert: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Typer builds a validator for each option of a command, which takes longer than to parse them all; most are not given."""
    left_out = () if option.multiple or option.nargs == -1 else None
    return lambda context, value: left_out if value is None else convert(context, value)


def _reading(option: Any, convert: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    whole = option.type_descriptor.annotation is int

    def process_value(context: Any, value: Any) -> Any:
        if isinstance(value, str):
            from app.jobs.written_numbers import given_number  # pydantic, which most commands load later or never

            negative = value.strip().startswith("-")  # its bounds say what is allowed
            value = given_number(value.strip().lstrip("-"), option.name, option.opts[0], whole=whole) * (-1 if negative else 1)
        return convert(context, value)

    return process_value
