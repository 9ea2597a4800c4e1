"""The documentation site, which every wheel contains. A checkout has it after `make site`, otherwise the API's page."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from starlette.staticfiles import StaticFiles

SITE = "/docs"
API_PAGE = f"{SITE}/api"
FOLDER = Path(__file__).resolve().parents[1] / "static/docs"


def add_documentation(app: FastAPI, folder: Path = FOLDER) -> None:
    """Add the routes after the API's own pages, whose paths are below the site."""
    is_built = (folder / "index.html").is_file()

    @app.get(SITE, include_in_schema=False)
    def site() -> RedirectResponse:
        return RedirectResponse(f"{SITE}/" if is_built else API_PAGE)

    if is_built:
        app.mount(SITE, StaticFiles(directory=folder, html=True), name="documentation")
