"""Prints the share of lines and branches that the tests of the last `make coverage` reached."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage


def main() -> None:
    found = Coverage()
    found.load()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        found.json_report(outfile=str(path))
        totals = json.loads(path.read_text(encoding="utf-8"))["totals"]
    shares = [
        f"{totals[f'covered_{part}'] / totals[f'num_{whole}']:.1%} of {totals[f'num_{whole}']:,} {whole}"
        for part, whole in (("lines", "statements"), ("branches", "branches"))
    ]
    print(f"Unit and API tests reach {' and '.join(shares)}; `.venv/bin/coverage report -m` says which not.")


if __name__ == "__main__":
    main()
