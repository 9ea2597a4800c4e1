"""Comment lines that all launch files share. Settings that a plan does not decide are marked placeholders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unicodedata import east_asian_width

from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.release import Release

PLACEHOLDER = "SET-ME"
WIDTH = 118
AS_IT_IS = Sentence("The framework runs this plan as it is.")
RESUMES = Sentence("A start resumes from CHECKPOINT_PATH where that holds a checkpoint, else it loads MODEL_PATH.")
# A line breaks at a space, or between two wide characters, of which the second is no closing mark.
_PIECE = re.compile(r"[^\S\n]+|[一-鿿][，。；：、）”！？]*|[^\s一-鿿]+")

_FACTS = re.compile(r"launch: (?P<name>[a-z][a-z0-9-]*)@(?P<version>\S+)(?P<commits>(?: \S+@\S+)+) (?P<state>exact|nearest)")


@dataclass(frozen=True)
class LaunchFacts:
    """A launch file's release, its commits by repository, and whether the framework runs the plan as it is.

    They are one line of the file's comments, the same in every language.
    """

    name: str
    version: str
    commits: Mapping[str, str]
    as_it_is: bool

    def line(self) -> str:
        """The line without its comment mark."""
        commits = " ".join(f"{repository}@{commit}" for repository, commit in self.commits.items())
        return f"launch: {self.name}@{self.version} {commits} {'exact' if self.as_it_is else 'nearest'}"

    @classmethod
    def read(cls, line: str) -> LaunchFacts | None:
        """The facts of a line without its comment mark; ``None`` for another line."""
        found = _FACTS.fullmatch(line)
        if found is None:
            return None
        commits = dict(each.split("@", 1) for each in found["commits"].split())
        return cls(found["name"], found["version"], commits, found["state"] == "exact")


def heading(release: Release, launch: Mapping[str, Any], start: Start) -> list[str]:
    """Comment lines with the plan, the release, its commits, a line for programs (``LaunchFacts``), and every note."""
    commits = ", ".join(Sentence("{} {}", repository, commit) for repository, commit in release.commits.items())
    lines = comment(start.say, Sentence("{} for {} {} ({}).", start.title, release.name, release.version, commits))
    lines += comment(
        start.say,
        AS_IT_IS if launch["launchable"] else Sentence("The nearest that the framework takes:"),
    )
    facts = LaunchFacts(release.name, release.version, release.commits, bool(launch["launchable"]))
    lines.append(f"# {facts.line()}")
    for note in launch["notes"]:
        lines += comment(start.say, note, "- ")
    return lines


def on_every_node(start: Start, environment: Mapping[str, Any], purposes: Mapping[str, str], *commands: str) -> list[str]:
    """Comment lines with the environment and the commands of every node."""
    lines = ["#", *comment(start.say, Sentence("On every node:"))]
    for name, value in environment.items():
        lines.append(f"#   export {name}={shlex.quote(str(value))}  # {start.say(purposes[name])}")
    return [*lines, *(f"#   {command}" for command in commands)]


def comment(say: Callable[[str], str], text: str, lead: str = "") -> list[str]:
    """A sentence as comment lines, in the language of ``say``."""
    lines, line = [], f"# {lead}"
    for piece in _pieces(say(text)):
        if _columns(line + piece.rstrip()) > WIDTH and line.strip("# -"):
            lines.append(line.rstrip())
            line = "#   " if lead else "# "
        line += piece if line.strip("# -") else piece.lstrip()
    return [*lines, line.rstrip()]


def _pieces(text: str) -> Iterator[str]:
    """The parts of a text that stay on one line, each with the space before it."""
    space = ""
    for piece in _PIECE.findall(" ".join(text.split())):
        if piece.isspace():
            space = piece
            continue
        yield space + piece
        space = ""


def _columns(text: str) -> int:
    """Columns of a terminal: a Chinese character takes two."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)
