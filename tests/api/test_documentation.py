"""The documentation site under /docs, the API's own page below it, and what stands there where no site was built."""

import re
from functools import partial
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.server import application
from app.server.documentation import add_documentation
from app.storage.session import Database


def _served(database: Database, monkeypatch: pytest.MonkeyPatch, folder: Path) -> TestClient:
    monkeypatch.setattr(application, "add_documentation", partial(add_documentation, folder=folder))
    app: FastAPI = application.create_app(database)
    return TestClient(app, base_url="http://127.0.0.1:8765")


@pytest.fixture
def documented(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TestClient:
    folder = tmp_path / "site"
    (folder / "zh").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>meshplan</h1>", encoding="utf-8")
    (folder / "zh" / "tutorial.html").write_text("<h1>教程</h1>", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("not of the site", encoding="utf-8")
    return _served(database, monkeypatch, folder)


def test_the_site_is_served_page_by_page(documented: TestClient) -> None:
    first = documented.get("/docs", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (307, "/docs/")
    assert documented.get("/docs").text == "<h1>meshplan</h1>"
    assert documented.get("/docs/zh/tutorial.html").text == "<h1>教程</h1>"


def test_the_page_of_the_api_lies_below_it(documented: TestClient) -> None:
    page = documented.get("/docs/api").text
    assert "swagger-ui" in page
    assert re.findall(r"/docs/api/oauth2-redirect", page)
    assert "text/html" in documented.get("/docs/api/oauth2-redirect").headers["content-type"]


@pytest.mark.parametrize(
    "path", ["/docs/bogus", "/docs/zh", "/docs/../secret.txt", "/docs/%2e%2e/secret.txt", "/docs/zh/..%2f..%2f..%2fsecret.txt"]
)
def test_what_is_not_of_the_site_is_a_problem(documented: TestClient, path: str) -> None:
    answer = documented.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "not of the site" not in answer.text


def test_its_pages_may_load_nothing_from_elsewhere(documented: TestClient) -> None:
    policy = documented.get("/docs/zh/tutorial.html").headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "http" not in policy


def test_without_a_site_the_page_of_the_api_stands_in(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = _served(database, monkeypatch, tmp_path)
    assert "swagger-ui" in bare.get("/docs").text
