"""Comment lines that all launch files share. Settings that a plan does not decide are marked placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.release import Release

PLACEHOLDER = "SET-ME"
WIDTH = 118


def heading(release: Release, launch: Mapping[str, Any], start: Start) -> list[str]:
    """Comment lines with the plan, the release, its commits, and every note."""
    commits = ", ".join(Sentence("{} {}", repository, commit) for repository, commit in release.commits.items())
    lines = comment(Sentence("{} for {} {} ({}).", start.title, release.name, release.version, commits))
    lines += comment(
        Sentence("The framework runs this plan as it is.")
        if launch["launchable"]
        else Sentence("The nearest that the framework takes:")
    )
    for note in launch["notes"]:
        lines += comment(note, "- ")
    return lines


def comment(text: str, lead: str = "") -> list[str]:
    """A sentence as comment lines."""
    lines, line = [], f"# {lead}"
    for word in " ".join(text.split()).split(" "):
        if len(line) + len(word) > WIDTH and line.strip("# -"):
            lines.append(line.rstrip())
            line = "#   " if lead else "# "
        line += Sentence("{} ", word)
    return [*lines, line.rstrip()]
