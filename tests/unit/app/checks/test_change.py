"""Which change a check judged: what options say, else what a GitHub or GitLab job says, and never a guess."""

import json
from pathlib import Path

import pytest

from app.checks.change import change_of
from documents.errors import InputError

NOTHING = {"commit": None, "branch": None, "change_url": None}
GITHUB = {
    "GITHUB_ACTIONS": "true", "GITHUB_SHA": "aaaa111", "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main",
    "GITHUB_HEAD_REF": "", "GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "team/jobs",
}  # fmt: skip
GITLAB = {
    "GITLAB_CI": "true", "CI_COMMIT_SHA": "cccc333", "CI_COMMIT_REF_NAME": "main", "CI_PROJECT_URL": "https://gitlab.example/team/jobs",
}  # fmt: skip


def accepted(part: str, value: str) -> None:
    if " " in value:
        raise InputError(f"--{part}: {value!r} is not allowed.")


def test_outside_of_a_pipeline_nothing_is_guessed() -> None:
    found = change_of(NOTHING, {"GITHUB_SHA": "aaaa111", "CI_COMMIT_SHA": "cccc333", "HOME": "/root"}, accepted)
    assert (dict(found.values), dict(found.taken_from)) == ({}, {})
    assert found.sentence == "no commit, branch or address of a change was given"


def test_a_push_on_github_names_its_commit() -> None:
    found = change_of(NOTHING, GITHUB, accepted)
    assert found.values == {
        "commit": "aaaa111",
        "branch": "main",
        "change_url": "https://github.example/team/jobs/commit/aaaa111",
    }
    assert found.taken_from == {"commit": "GITHUB_SHA", "branch": "GITHUB_REF_NAME", "change_url": "GITHUB_SHA"}
    assert found.sentence.startswith("commit aaaa111 (GITHUB_SHA), branch main (GITHUB_REF_NAME), change_url https")


def test_a_pull_request_on_github_names_its_head_and_not_the_merge_that_is_made_for_the_run(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"head": {"sha": "bbbb222"}}}))
    given = {**GITHUB, "GITHUB_REF": "refs/pull/12/merge", "GITHUB_HEAD_REF": "fast", "GITHUB_EVENT_PATH": str(event)}
    found = change_of(NOTHING, given, accepted)
    assert found.values == {"commit": "bbbb222", "branch": "fast", "change_url": "https://github.example/team/jobs/pull/12"}
    assert found.taken_from == {"commit": "GITHUB_EVENT_PATH", "branch": "GITHUB_HEAD_REF", "change_url": "GITHUB_REF"}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"pull_request": 3}', '{"pull_request": {"head": {"sha": 3}}}', "\xff", "[" * 5000]
)
def test_an_event_that_says_no_commit_leaves_that_of_the_run(tmp_path: Path, text: str) -> None:
    event = tmp_path / "event.json"
    event.write_text(text, encoding="latin-1")
    given = {**GITHUB, "GITHUB_REF": "refs/pull/12/merge", "GITHUB_EVENT_PATH": str(event)}
    found = change_of(NOTHING, given, accepted)
    assert (found.values["commit"], found.taken_from["commit"]) == ("aaaa111", "GITHUB_SHA")


def test_a_merge_request_on_gitlab_is_its_own_address() -> None:
    found = change_of(NOTHING, GITLAB, accepted)
    assert found.values["change_url"] == "https://gitlab.example/team/jobs/-/commit/cccc333"
    merge = {
        **GITLAB, "CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.example/team/jobs",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "fast", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "dddd444",
    }  # fmt: skip
    found = change_of(NOTHING, merge, accepted)
    assert found.values == {
        "commit": "dddd444", "branch": "fast", "change_url": "https://gitlab.example/team/jobs/-/merge_requests/7"
    }  # fmt: skip
    assert found.taken_from["commit"] == "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"
    assert change_of(NOTHING, {**merge, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": ""}, accepted).values["commit"] == "cccc333"


def test_options_stand_above_the_environment_and_are_held_to_what_is_accepted() -> None:
    found = change_of({**NOTHING, "branch": "mine"}, GITHUB, accepted)
    assert (found.values["branch"], found.taken_from["branch"], found.values["commit"]) == ("mine", "--branch", "aaaa111")
    with pytest.raises(InputError, match="--change_url: 'a b'"):
        change_of({**NOTHING, "change_url": "a b"}, GITHUB, accepted)


def test_a_variable_that_no_history_takes_is_passed_over_and_said() -> None:
    found = change_of(NOTHING, {**GITHUB, "GITHUB_REF_NAME": "a b"}, accepted)
    assert "branch" not in found.values
    assert found.passed_over == ("GITHUB_REF_NAME is passed over: --branch: 'a b' is not allowed",)
