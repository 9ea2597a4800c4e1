"""The description of the API is complete, and the one that the dashboard's types are made from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.http.problems import KINDS, MEDIA_TYPE
from app.server.application import create_app
from app.storage.session import Database
from scripts.pages import write_openapi
from tests.openapi import openapi

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = [(path, method) for path, item in openapi()["paths"].items() for method in item]


def test_the_dashboard_is_built_from_what_a_server_answers(tmp_path: Path) -> None:
    write_openapi.main(tmp_path / "build/openapi.json")
    written = json.loads((tmp_path / "build/openapi.json").read_text(encoding="utf-8"))
    assert written == TestClient(create_app(Database("sqlite:///never-opened.db"))).get("/openapi.json").json()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_error_is_documented_as_a_problem(path: str, method: str) -> None:
    responses = openapi()["paths"][path][method]["responses"]
    errors = {status for status in responses if status >= "400"}
    assert {"403", "401", "500"} <= errors or path in ("/healthz", "/readyz")
    for status in errors:
        assert list(responses[status]["content"]) == [MEDIA_TYPE], (path, status)


def test_names_of_schemas_say_nothing_of_our_modules() -> None:
    assert [name for name in openapi()["components"]["schemas"] if "__" in name] == []


def _numbers(schema: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number") and "const" not in schema:
            found.append((where, schema))
        for name, value in schema.items():
            found += _numbers(value, f"{where}.{name}")
    elif isinstance(schema, list):
        for value in schema:
            found += _numbers(value, where)
    return found


def _referenced(schema: Any, seen: set[str]) -> set[str]:
    """Names of the components that a schema reaches."""
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema)):
        if name not in seen:
            seen.add(name)
            _referenced(openapi()["components"]["schemas"][name], seen)
    return seen


def test_every_number_that_comes_in_is_bounded_on_both_sides() -> None:
    incoming: list[tuple[str, dict[str, Any]]] = []
    for path, method in OPERATIONS:
        operation = openapi()["paths"][path][method]
        incoming += _numbers(operation.get("parameters", []), f"{method} {path}")
        for name in _referenced(operation.get("requestBody", {}), set()):
            incoming += _numbers(openapi()["components"]["schemas"][name], name)
    assert len(incoming) > 50
    lows, highs = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
    unbounded = [where for where, s in incoming if not (any(k in s for k in lows) and any(k in s for k in highs))]
    assert unbounded == []


def test_the_page_on_the_api_lists_every_path_and_problem() -> None:
    page = (ROOT / "docs/rest.md").read_text(encoding="utf-8")
    short = {re.sub(r"\{(study|calibration)_id\}", "{id}", path) for path, _ in OPERATIONS}
    assert [path for path in short if f"{path}`" not in page and f"`{path}" not in page] == []
    documented = dict(re.findall(r"^\| `([a-z-]+)`(?:, `[a-z-]+`)? \| (\d{3}) \|", page, re.MULTILINE))
    documented |= dict(re.findall(r"^\| `[a-z-]+`, `([a-z-]+)` \| (\d{3}) \|", page, re.MULTILINE))
    assert documented == {kind: str(status) for kind, (status, *_) in KINDS.items()}


@pytest.mark.parametrize("page", ["/docs/api", "/redoc"])
def test_the_documentation_pages_load_nothing_from_elsewhere(api: TestClient, page: str) -> None:
    text = api.get(page).text
    sources = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert sources
    assert [source for source in sources if not source.startswith("/")] == []
    for source in sources:
        assert api.get(source).status_code == 200
