"""The comment on a merge request, against servers that answer as GitHub and GitLab document."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.checks import comment as comment_module
from app.checks.comment import MAX_COMMENT, CommentError, comment

TOKEN = "a-token"
GITHUB = "/repos/team/jobs/issues"
GITLAB = "/projects/7/merge_requests/12/notes"


@dataclass
class Forge:
    """What the API holds, and what it was asked."""

    service: str
    url: str = ""
    user: int | None = 5  # None: a token without a user, as a GitHub job has
    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    status: int | None = None  # of every answer, where it is not as usual
    raw: bytes | None = None

    @property
    def environment(self) -> dict[str, str]:
        if self.service == "github":
            return {
                "GITHUB_API_URL": self.url, "GITHUB_REPOSITORY": "team/jobs",
                "GITHUB_REF": "refs/pull/12/merge", "GITHUB_TOKEN": TOKEN,
            }  # fmt: skip
        return {
            "CI_API_V4_URL": self.url, "CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "12", "MESHPLAN_GITLAB_TOKEN": TOKEN,
        }  # fmt: skip

    def add(self, body: str, user: int = 5, kind: str = "Bot") -> dict[str, Any]:
        who = {"id": user, "type": kind}
        self.comments.append({"id": len(self.comments) + 1, "body": body, "user": who, "author": who})
        return self.comments[-1]

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        listing, one = (f"{GITHUB}/12/comments", f"{GITHUB}/comments") if self.service == "github" else (GITLAB, GITLAB)
        change = "PATCH" if self.service == "github" else "PUT"
        if path == "/user":
            return (200, {"id": self.user}) if self.user is not None else (403, {})
        if (method, path) == ("GET", listing):
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        if (method, path) == ("POST", listing):
            return 201, self.add(body["body"])
        head, _, number = path.rpartition("/")
        if (method, head) == (change, one):
            self.comments[int(number) - 1]["body"] = body["body"]
            return 200, {}
        return 404, {}


@pytest.fixture(params=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    held = Forge(request.param)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            given = self.headers.get("Authorization") if held.service == "github" else self.headers.get("PRIVATE-TOKEN")
            assert given == (f"Bearer {TOKEN}" if held.service == "github" else TOKEN)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            held.asked.append((self.command, parts.path))
            status, answer = held.answer(self.command, parts.path, parse_qs(parts.query), body)
            content = json.dumps(answer).encode() if held.raw is None else held.raw
            self.send_response(held.status or status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    held.url = f"http://127.0.0.1:{server.server_port}"
    yield held
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_run_writes_one_comment_and_the_next_writes_over_it(forge: Forge) -> None:
    for number in range(250):  # the last run's may lie pages back
        forge.add(f"talk {number}", user=8, kind="User")
    assert comment(forge.service, "first", ["job.yaml"], forge.environment) == "written"
    assert comment(forge.service, "second", ["job.yaml"], forge.environment) == "brought up to date"
    assert [c["body"].splitlines()[1] for c in forge.comments[250:]] == ["second"]
    assert comment(forge.service, "other", ["other.yaml"], forge.environment) == "written"
    assert len(forge.comments) == 252


def test_a_marker_that_somebody_else_wrote_is_left_alone(forge: Forge) -> None:
    comment(forge.service, "ours", ["job.yaml"], forge.environment)
    marker = forge.comments.pop()["body"].splitlines()[0]
    forge.add(f"{marker}\nforged", user=8, kind="User")
    for user in (5, None):
        forge.user = user
        comment(forge.service, "ours", ["job.yaml"], forge.environment)
        assert forge.comments[0]["body"].endswith("forged")
        assert forge.comments[-1]["body"].endswith("ours")


def test_a_long_report_is_cut_at_a_line(forge: Forge) -> None:
    comment(forge.service, "a line of the report\n" * 10_000, ["job.yaml"], forge.environment)
    body = forge.comments[0]["body"]
    assert MAX_COMMENT < len(body) + 100 < MAX_COMMENT + 200
    assert "of the report\n\n*Cut here" in body


@pytest.mark.parametrize(
    ("status", "raw", "part"),
    [
        (401, None, "the token is not known"),
        (403, None, "may not write comments"),
        (404, None, "sees no such merge request"),
        (429, None, "too many requests"),
        (403, b'{"message": "You have exceeded a secondary rate limit."}', "429: too many requests"),
        (302, None, "answers GET with 302"),
        (200, b"no json", "is not what it documents"),
        (200, b'{"id": 1}', "is not what it documents"),
        (200, b" " * 2000, "longer than"),
    ],
)
def test_what_the_api_refuses_is_one_sentence(
    forge: Forge, status: int, raw: bytes | None, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comment_module, "MAX_ANSWER_BYTES", 1000)
    forge.status, forge.raw = status, raw
    with pytest.raises(CommentError, match=part):
        comment(forge.service, "text", ["job.yaml"], forge.environment)


def test_a_job_that_runs_for_no_merge_request_says_what_is_missing(forge: Forge) -> None:
    for name in forge.environment:
        with pytest.raises(CommentError, match=f"{name} is not set"):
            comment(forge.service, "text", ["job.yaml"], {**forge.environment, name: ""})
        with pytest.raises(CommentError, match=f"{name} is not of the form") as caught:
            comment(forge.service, "text", ["job.yaml"], {**forge.environment, name: "../a b\n"})
        assert ("a b" in str(caught.value)) == ("TOKEN" not in name)
    assert forge.asked == []


def test_an_api_that_is_not_there_is_one_sentence() -> None:
    environment = Forge("gitlab", url="http://127.0.0.1:9").environment
    with pytest.raises(CommentError, match="cannot be reached"):
        comment("gitlab", "text", ["job.yaml"], environment)
