"""Writes build/openapi.json, the description of the REST API, for the types of the dashboard; no server is started."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.http.openapi import openapi_document
from app.server.application import create_app
from app.storage.session import Database


def main(path: Path = ROOT / "build/openapi.json") -> None:
    with Database("sqlite:///never-opened.db") as database:
        document = openapi_document(create_app(database))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
