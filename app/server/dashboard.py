"""The dashboard: built files, and the page itself for every address of its own."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.exceptions import HTTPException

FILE_METHODS = ("GET", "HEAD")
FOLDER = Path(__file__).resolve().parents[1] / "static/dashboard"
_SERVER_PATHS = ("/v1", "/docs", "/redoc", "/openapi.json", "/static-offline-docs", "/healthz", "/readyz", "/metrics")


def _refuse_server_paths(request: Request) -> None:
    """Unknown paths under the server's own prefixes are not passed to the dashboard."""
    path = request.url.path
    if any(path == known or path.startswith(f"{known}/") for known in _SERVER_PATHS):
        raise HTTPException(404)


def add_dashboard(app: FastAPI) -> None:
    """Add the last routes: files by name; any other navigation (`Accept: text/html`) gets the page."""
    router = APIRouter(dependencies=[Depends(_refuse_server_paths)])
    router.frontend("/", directory=FOLDER, fallback="index.html", check_dir=True)
    app.include_router(router)
