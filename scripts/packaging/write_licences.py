"""Writes THIRD_PARTY.md: the licence of each package that an installation or the dashboard brings along.

    build/resolve/bin/python scripts/packaging/write_licences.py

Python packages are those of requirements.txt, read from the environment that `make constraints` makes; the dashboard's are
those of its lock file.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "THIRD_PARTY.md"
# What older metadata calls them, in the identifiers of SPDX.
SPDX = {
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
HEAD = """# Third-party software

What an installation with all extras for users (`postgres`, `telemetry`, `dask`) and the dashboard's build
hold. `make constraints` writes this page. All of it is used as published: packages under LGPL or MPL are
separate files that you may replace. Each package carries its licence's text.
"""


def required() -> dict[str, str]:
    """Version by name of the packages in requirements.txt."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.MULTILINE))


def licence_of(name: str) -> str:
    """SPDX expression of an installed package."""
    found = metadata(name)
    if expression := found.get("License-Expression"):
        return str(expression)
    classifiers = found.get_all("Classifier") or []
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    named = [each for each in named if each != "OSI Approved"] or [(found.get("License") or "unknown").splitlines()[0]]
    return " AND ".join(SPDX.get(each, each) for each in named)  # metadata does not say which: all are kept


def bundled() -> dict[str, tuple[str, str]]:
    """Version and licence by name of the packages that the dashboard's build may hold."""
    lock = json.loads((ROOT / "dashboard/package-lock.json").read_text(encoding="utf-8"))
    found = {path.rpartition("node_modules/")[2]: each for path, each in lock["packages"].items() if path and not each.get("dev")}
    return {name: (each["version"], each.get("license", "unknown")) for name, each in found.items()}


def table(title: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"## {title}", "", "| package | version | licence |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {version} | {licence} |" for name, version, licence in sorted(rows)), ""])


def main() -> None:
    python = [(name, version, licence_of(name)) for name, version in required().items()]
    dashboard = [(name, version, licence) for name, (version, licence) in bundled().items()]
    TARGET.write_text("\n".join([HEAD, table("Python", python), table("Dashboard", dashboard)]), encoding="utf-8")


if __name__ == "__main__":
    main()
