"""The change under check, from options or the variables of a GitHub or GitLab job, without guesses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from documents.errors import InputError
from documents.late_methods import dataclass
from documents.reading import read_bytes
from documents.sentences import Sentence, joined

PARTS = ("commit", "branch", "change_url")
MAX_EVENT_BYTES = 8 * 2**20
_EVENT = "GITHUB_EVENT_PATH"

Found = Mapping[str, tuple[str, str]]  # value and source, by part


@dataclass(frozen=True)
class Change:
    """``values`` and ``taken_from`` by part; ``passed_over`` are sentences on variables that a history does not take."""

    values: Mapping[str, str] = field(default_factory=dict)
    taken_from: Mapping[str, str] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """A sentence on the values and their sources."""
        if not self.values:
            return Sentence("no commit, branch or address of a change was given")
        return joined(", ", (Sentence("{} {} ({})", part, value, self.taken_from[part]) for part, value in self.values.items()))


def change_of(given: Mapping[str, str | None], environment: Mapping[str, str], accepted: Callable[[str, str], object]) -> Change:
    """The change given by ``--commit``, ``--branch`` and ``--change-url``, and by variables for missing parts.

    ``accepted`` raises ``InputError`` for a value that a history does not take. For an option this is an error of the user; a
    variable with such a value is passed over.
    """
    found = _of_environment(environment)
    values, taken_from, passed_over = {}, {}, []
    for part in PARTS:
        option = given[part]
        if option is not None:
            accepted(part, option)
            values[part], taken_from[part] = option, f"--{part.replace('_', '-')}"
        elif part in found:
            value, source = found[part]
            try:
                accepted(part, value)
            except InputError as error:
                passed_over.append(Sentence("{} is passed over: {}", source, error).rstrip("."))
            else:
                values[part], taken_from[part] = value, source
    return Change(values, taken_from, tuple(passed_over))


def _of_environment(environment: Mapping[str, str]) -> Found:
    if environment.get("GITHUB_ACTIONS") == "true":
        return dict(_github(environment))
    if environment.get("GITLAB_CI") == "true":
        return dict(_gitlab(environment))
    return {}


def _github(environment: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    kind, _, rest = environment.get("GITHUB_REF", "").removeprefix("refs/").partition("/")
    number = rest.partition("/")[0] if kind == "pull" else ""
    # A pull request's GITHUB_SHA is that of a temporary merge commit.
    head = _head_of_event(environment) if number else None
    commit = head or environment.get("GITHUB_SHA")
    if commit:
        yield "commit", (commit, _EVENT if head else "GITHUB_SHA")
    branch = "GITHUB_HEAD_REF" if environment.get("GITHUB_HEAD_REF") else "GITHUB_REF_NAME"
    if environment.get(branch):
        yield "branch", (environment[branch], branch)
    server, repository = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    if server and repository and number.isdigit():
        yield "change_url", (f"{server}/{repository}/pull/{number}", "GITHUB_REF")
    elif server and repository and commit:
        yield "change_url", (f"{server}/{repository}/commit/{commit}", "GITHUB_SHA")


def _head_of_event(environment: Mapping[str, str]) -> str | None:
    """The commit at the head of the pull request, from the event that started the job; None if the file lacks it."""
    path = Path(environment.get(_EVENT, ""))
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        event: Any = json.loads(read_bytes(path, MAX_EVENT_BYTES))
        found = event["pull_request"]["head"]["sha"]
        return found if isinstance(found, str) else None
    return None


def _gitlab(environment: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    # The first is empty except in pipelines of merged results, whose own commit is temporary.
    commit = next((n for n in ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "CI_COMMIT_SHA") if environment.get(n)), None)
    if commit:
        yield "commit", (environment[commit], commit)
    branch = next((n for n in ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME") if environment.get(n)), None)
    if branch:
        yield "branch", (environment[branch], branch)
    project, number = environment.get("CI_MERGE_REQUEST_PROJECT_URL"), environment.get("CI_MERGE_REQUEST_IID")
    if project and number:
        yield "change_url", (f"{project}/-/merge_requests/{number}", "CI_MERGE_REQUEST_IID")
    elif environment.get("CI_PROJECT_URL") and commit:
        yield "change_url", (f"{environment['CI_PROJECT_URL']}/-/commit/{environment[commit]}", commit)
