"""Writes docs/openapi.json, the description of the REST API."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from app.http.openapi import document_text
from app.server.application import create_app
from app.storage.session import Database

if __name__ == "__main__":
    app = create_app(Database("sqlite:///never-opened.db"))
    (ROOT / "docs/openapi.json").write_text(document_text(app), encoding="utf-8")
