"""The dashboard's files: the page at every address of its own, and nowhere else."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.server.dashboard import FOLDER

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def _is_page(response: Any) -> bool:
    return response.status_code == 200 and '<div id="root">' in response.text


@pytest.mark.parametrize("path", ["/", "/studies", "/studies/new", "/studies/x/plans/y?sort=-mfu", "/no-such-page"])
def test_a_browser_gets_the_page_at_every_address_of_the_dashboard(api: TestClient, path: str) -> None:
    assert _is_page(api.get(path, headers=BROWSER))


@pytest.mark.parametrize("path", ["/v1", "/v1/bogus", "/v1/studies/a/b", "/docs/bogus", "/metrics/bogus"])
def test_a_browser_gets_a_problem_at_unknown_addresses_of_the_server(api: TestClient, refused: Any, path: str) -> None:
    refused(api.get(path, headers=BROWSER), 404, "unknown-path")


def test_programs_get_the_page_at_the_root_only(api: TestClient, refused: Any) -> None:
    assert _is_page(api.get("/"))
    refused(api.get("/studies"), 404, "unknown-path")
    refused(api.get("/assets/no-such-file.js", headers={"Accept": "*/*"}), 404, "unknown-path")


@pytest.mark.parametrize(
    "path", ["/../http/dashboard.py", "/assets/%2e%2e/%2e%2e/%2e%2e/main.py", "/assets/..%2f..%2findex.html"]
)
def test_no_file_outside_the_folder_is_served(api: TestClient, refused: Any, path: str) -> None:
    refused(api.get(path), 404, "unknown-path")


def test_methods_that_change_nothing_here_are_refused(api: TestClient, refused: Any) -> None:
    answer = api.post("/", json={})
    refused(answer, 405, "method-not-allowed")
    assert answer.headers["Allow"] == "GET, HEAD"


def test_pages_may_run_no_script_but_the_servers_files(api: TestClient) -> None:
    page = api.get("/studies", headers=BROWSER)
    policy = page.headers["Content-Security-Policy"]
    unchanged = api.get("/studies", headers={**BROWSER, "If-None-Match": page.headers["ETag"]})
    assert (unchanged.status_code, unchanged.headers["Content-Security-Policy"]) == (304, policy)
    assert api.get("/v1/studies").headers["Content-Security-Policy"] == "default-src 'self'; frame-ancestors 'none'"
    assert policy.startswith("default-src 'self';")
    assert "script-src" not in policy
    assert "unsafe" not in policy.replace("style-src 'self' 'unsafe-inline'", "")


def test_a_file_is_asked_for_again_but_sent_once(api: TestClient) -> None:
    first = api.get("/assets/index.js")
    assert first.headers["Cache-Control"] == "no-cache"
    assert api.get("/assets/index.js", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304


def _named_in(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="([^"]+)"', page)


def test_the_page_loads_nothing_from_elsewhere(api: TestClient) -> None:
    named = _named_in(api.get("/").text)
    assert "/assets/index.js" in named
    for path in named:
        assert path.startswith("/")
        assert api.get(path).status_code == 200


def _with_imports(names: list[str]) -> set[str]:
    """The scripts and all that they import before they run."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            names += re.findall(r'(?:from|import)"\./([\w-]+\.js)"', (FOLDER / "assets" / name).read_text(encoding="utf-8"))
    return found


RARER = "rarer.en.js"


@pytest.mark.parametrize(
    "page",
    [
        ["studies.js"],
        ["study.js", "PlanCharts.js", "StudyLabels.js"],
        ["plan.js"],
        *([page, RARER] for page in ("accuracy.js", "Profile.js", "sweep.js", "rl.js", "checks.js", "compare.js", "experts.js")),
    ],
)
def test_the_scripts_of_a_page_are_below_500_kb_compressed(page: list[str]) -> None:
    scripts = _with_imports(["index.js", "en.js", *page])
    assert {"index.js", "vendor.js", "en.js"} < scripts
    assert sum(len(gzip.compress((FOLDER / "assets" / name).read_bytes())) for name in scripts) < 500_000


def test_no_file_of_the_build_carries_a_hash_in_its_name() -> None:
    built = [path for path in Path(FOLDER).rglob("*") if path.is_file()]
    assert len(built) > 10
    assert [
        path.name for path in built if re.search(r"-[\w-]{8}\.(js|css|woff2)$", path.name) and "inter-" not in path.name
    ] == []


def test_what_browsers_load_is_sent_compressed(api: TestClient, job: dict[str, Any]) -> None:
    script = api.get("/assets/index.js")
    assert script.headers["Content-Encoding"] == "gzip"
    assert script.content == (FOLDER / "assets/index.js").read_bytes()
    assert api.get("/v1/models").headers["Content-Encoding"] == "gzip"
    plain = api.get("/assets/index.js", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert plain.content == script.content
    strategies = [{"tp": tp} for tp in (1, 2, 4, 8)]
    answer = api.post("/v1/estimates", json={**job, "strategies": strategies})
    assert len(answer.content) > 1000
    assert "Content-Encoding" not in answer.headers


def test_events_are_sent_as_they_come(api: TestClient, job: dict[str, Any]) -> None:
    study = api.post("/v1/studies", json=job).json()["id"]
    api.post(f"/v1/studies/{study}:cancel")
    answer = api.get(f"/v1/studies/{study}/events", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert "Content-Encoding" not in answer.headers
