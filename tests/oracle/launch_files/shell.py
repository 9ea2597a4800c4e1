"""Arguments out of a launch script: the part of Bash that such scripts use, read without running anything.

Assignments, ``${NAME}`` and ``${NAME:-default}``, arrays, ``$((...))`` of products, continued lines and comments are understood;
branches are read as if every line ran. What stays unknown remains as it is written.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

MAX_CHARACTERS = 200_000
_ASSIGNMENT = re.compile(
    r"(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*)?(?P<name>[A-Za-z_]\w*)(?P<more>\+?)=(?P<value>.*)", re.DOTALL
)
_VARIABLE = re.compile(
    r"\$\{(?P<braced>\w+)(?:\[[@*]\])?(?::?-(?P<default>[^{}]*))?\}|\$\(\((?P<product>[^()]*)\)\)|\$(?P<bare>\w+)"
)
_QUOTED_ARRAY = re.compile(r'"(\$\{\w+\[@\]\})"')  # one word for each element, quoted or not
_LAUNCHERS = ("pretrain_gpt.py", "posttrain_gpt.py", "train.py")
MAX_EXPANSIONS = 2_000


class LaunchFileError(ValueError):
    """A launch file that cannot be read; the message says what and where."""


@dataclass
class Script:
    """``arguments`` of the training program, ``launcher`` arguments of torchrun, and exported or set ``variables``."""

    arguments: list[str] = field(default_factory=list)
    launcher: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def read_script(text: str) -> Script:
    """The training program's arguments in a shell script, or a bare list of arguments. Raises ``LaunchFileError``."""
    if len(text) > MAX_CHARACTERS:
        raise LaunchFileError(f"launch file: {len(text)} characters; {MAX_CHARACTERS} are allowed")
    script = Script()
    loose: list[str] = []
    for line in _logical_lines(text):
        match = _ASSIGNMENT.fullmatch(line)
        if match:
            _assign(script, match)
            continue
        words = _words(_expanded(script.variables, _QUOTED_ARRAY.sub(r"\1", line)))
        place = next((i for i, word in enumerate(words) if word.endswith(_LAUNCHERS)), None)
        if place is not None:
            script.launcher, script.arguments = words[:place], words[place + 1 :]
        elif words and words[0].startswith("--"):
            loose += words
    if not script.arguments:
        script.arguments = loose or _words(script.variables.get("ARGUMENTS", ""))
    if not script.arguments:
        raise LaunchFileError("launch file: no training command (pretrain_gpt.py) and no list of arguments in it")
    script.arguments = _before_redirection(script.arguments)
    return script


def _before_redirection(words: list[str]) -> list[str]:
    end = next(
        (i for i, word in enumerate(words) if word in ("|", ">", "2>&1", "&", "&&", ";") or word.startswith(">")), len(words)
    )
    return words[:end]


def _logical_lines(text: str) -> list[str]:
    """Lines with continuations, open quotes and open arrays joined, comments gone."""
    lines: list[str] = []
    pending = ""
    for raw in text.splitlines():
        line = raw.rstrip()
        if line.lstrip().startswith("#"):
            continue
        pending = f"{pending} {line}".strip() if pending else line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1].rstrip()
        elif not _is_open(pending):
            if pending:
                lines.append(pending)
            pending = ""
        else:
            pending = _without_comment(pending)
    return [*lines, pending] if pending else lines


def _is_open(line: str) -> bool:
    if line.count('"') % 2:
        return True
    return bool(re.match(r"\S+=\(", line)) and not re.search(r"\)\s*(#.*)?$", line)


def _without_comment(line: str) -> str:
    return re.sub(r"\s#[^\"']*$", "", line)


def _assign(script: Script, match: re.Match[str]) -> None:
    value = match["value"].strip()
    if value.startswith("("):
        value = value[1:].rpartition(")")[0]
    elif value[:1] in "\"'" and value[:1]:
        quote = value[0]
        end = value.find(quote, 1)
        value = value[1:end] if end > 0 else value[1:]
    else:
        value = re.split(r"\s+#|;", value)[0]
    value = _expanded(script.variables, value)
    if match["more"]:
        value = f"{script.variables.get(match['name'], '')} {value}"
    script.variables[match["name"]] = value.strip()


def _expanded(variables: dict[str, str], text: str) -> str:
    """Known variables and products replaced, over and over, up to a bound."""
    for _ in range(8):
        count = 0

        def value(found: re.Match[str]) -> str:
            if found["product"] is not None:
                return _product(_expanded_once(variables, found["product"]), found[0])
            name = found["braced"] or found["bare"]
            default = found["default"]
            return variables.get(name, default if default is not None else found[0])

        expanded, count = _VARIABLE.subn(value, text, count=MAX_EXPANSIONS)
        if not count or expanded == text or len(expanded) > MAX_CHARACTERS:
            break
        text = expanded
    return text


def _expanded_once(variables: dict[str, str], text: str) -> str:
    return re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda found: variables.get(found[1], found[0]), text)


def _product(text: str, unknown: str) -> str:
    result = 1
    for factor in text.split("*"):
        if not factor.strip().isdecimal():
            return unknown
        result *= int(factor.strip()[:12])
    return str(result)


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError as error:
        raise LaunchFileError(f"launch file: {str(error).lower()} near {text[:80]!r}") from None
