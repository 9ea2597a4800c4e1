"""A comment on a merge request that each run replaces, through the APIs of GitHub and GitLab."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from documents.errors import show
from documents.sentences import Sentence

SERVICES = ("github", "gitlab")
TIMEOUT_S = 20.0
MAX_COMMENT = 60_000  # characters; GitHub takes 65,536 bytes
PAGE, MAX_PAGES = 100, 20  # comments of a page, and pages that are searched for the comment of the last run
MAX_ANSWER_BYTES = 16 * 2**20


class CommentError(Exception):
    """The comment was not written; the message is one sentence."""


def comment(service: str, text: str, jobs: Sequence[str], environment: Mapping[str, str]) -> str:
    """Replace the last comment on the same jobs with ``text``, or add one; return which of the two.

    ``environment``: variables of the CI job, with the API's address, the merge request and the token.
    """
    marker = f"<!-- meshplan check {hashlib.sha256(repr(list(jobs)).encode()).hexdigest()[:16]} -->"
    body = f"{marker}\n{text}"
    if len(body) > MAX_COMMENT:
        body = f"{body[:MAX_COMMENT].rpartition(chr(10))[0]}\n\n*Cut here; the job's report holds the rest.*\n"
    listing, one, headers, change = (_github if service == "github" else _gitlab)(environment)
    try:
        with httpx.Client(headers=headers, timeout=TIMEOUT_S) as client:
            own = _is_own(client, environment, service)
            found = next((c for c in _comments(client, listing) if own(c) and str(c.get("body")).startswith(marker)), None)
            if found is None:
                _answer(client, "POST", listing, {"body": body})
                return "written"
            _answer(client, change, one.format(int(found["id"])), {"body": body})
            return Sentence("brought up to date")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CommentError(Sentence("the API cannot be reached ({})", type(error).__name__)) from None
    except (KeyError, TypeError, ValueError):
        raise CommentError(Sentence("the API's answer is not what it documents")) from None


Requests = tuple[str, str, dict[str, str], str]  # address of the list, address of one comment, headers, method of a change


def _github(environment: Mapping[str, str]) -> Requests:
    base = _base(environment, "GITHUB_API_URL")
    repository = _given(environment, "GITHUB_REPOSITORY", r"[\w.-]+/[\w.-]+")
    number = _given(environment, "GITHUB_REF", r"refs/pull/\d+/(?:merge|head)").split("/")[2]
    headers = {
        "Authorization": f"Bearer {_given(environment, 'GITHUB_TOKEN', r'[!-~]+')}",
        "Accept": "application/vnd.github+json",
    }
    issues = f"{base}/repos/{repository}/issues"
    return f"{issues}/{number}/comments", f"{issues}/comments/{{}}", headers, "PATCH"


def _gitlab(environment: Mapping[str, str]) -> Requests:
    base = _base(environment, "CI_API_V4_URL")
    project, number = (_given(environment, name, r"\d+") for name in ("CI_PROJECT_ID", "CI_MERGE_REQUEST_IID"))
    headers = {"PRIVATE-TOKEN": _given(environment, "MESHPLAN_GITLAB_TOKEN", r"[!-~]+")}
    notes = f"{base}/projects/{project}/merge_requests/{number}/notes"
    return notes, f"{notes}/{{}}", headers, "PUT"


def _base(environment: Mapping[str, str], name: str) -> str:
    return _given(environment, name, r"https?://[!-~]+").rstrip("/").replace("{", "%7B").replace("}", "%7D")


def _given(environment: Mapping[str, str], name: str, form: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise CommentError(Sentence("{} is not set; it is in a job that runs for a merge request and is given a token", name))
    if len(value) > 1000 or not re.fullmatch(form, value):
        raise CommentError(
            Sentence(
                "{} is not of the form that a merge request's job has{}",
                name,
                "" if "TOKEN" in name else Sentence(": {}", show(value)),
            )
        )
    return value


def _is_own(client: httpx.Client, environment: Mapping[str, str], service: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a comment is ours: anyone may write our marker. The token of a GitHub job has no user of its own."""
    who = "author" if service == "gitlab" else "user"
    response = _sent(client, "GET", f"{_base(environment, 'CI_API_V4_URL' if service == 'gitlab' else 'GITHUB_API_URL')}/user")
    if response[0] == 200:
        own = json.loads(response[1])["id"]
        return lambda found: found[who]["id"] == own
    return lambda found: found[who].get("type") == "Bot"


def _comments(client: httpx.Client, listing: str) -> Iterator[Mapping[str, Any]]:
    for page in range(1, MAX_PAGES + 1):
        found = _answer(client, "GET", f"{listing}?per_page={PAGE}&page={page}")
        yield from found
        if len(found) < PAGE:
            return


def _answer(client: httpx.Client, method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
    status, content = _sent(client, method, url, body)
    if status == 403 and b"rate limit" in content.lower():  # GitHub's other status for too many requests
        status = 429
    if not 200 <= status < 300:
        why = {
            401: Sentence(": the token is not known"),
            403: Sentence(": the token may not write comments"),
            404: Sentence(": the token sees no such merge request"),
            429: Sentence(": too many requests; the next run writes it"),
        }
        raise CommentError(Sentence("the API answers {} with {}{}", method, status, why.get(status, "")))
    return json.loads(content)


def _sent(client: httpx.Client, method: str, url: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
    """Send a request; return status and content, read up to a limit."""
    with client.stream(method, url, json=body) as response:
        content = b""
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise CommentError(Sentence("the API's answer is longer than {:,} bytes", MAX_ANSWER_BYTES))
        return response.status_code, content
