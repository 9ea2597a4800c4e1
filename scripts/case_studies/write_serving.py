"""Writes the table of docs/serving.md: published serving points, compared with predictions for their jobs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.serving.records import ServingPoint, read_serving_records, serving_point
from cost_models.serving.engine import SERVING_CONSTANTS
from scripts.pages.text import table

PAGE = ROOT / "docs" / "serving.md"
RECORDS = ROOT / "calibration" / "runs" / "serving.jsonl"
POINTS = ("<!-- points: written by scripts/case_studies/write_serving.py (`make docs`) -->\n\n", "<!-- /points -->")
CONSTANTS = ("<!-- constants: written by scripts/case_studies/write_serving.py (`make docs`) -->\n\n", "<!-- /constants -->")


def _shown(point: ServingPoint) -> tuple[str, str, str]:
    """Quantity in words, measured and predicted."""
    if point.quantity.endswith("tpot_s"):
        return "TPOT, ms", f"{point.measured * 1e3:.1f}", f"{point.predicted * 1e3:.1f}"
    kind = "input" if point.quantity.startswith("prefill") else "output"
    return f"{kind} tokens/s a device", f"{point.measured:,.0f}", f"{point.predicted:,.0f}"


def points() -> str:
    """A row a record that has a job."""
    found = [serving_point(record) for record in read_serving_records(RECORDS) if "compared" in record]
    rows = [(f"`{point.id}`", *_shown(point), f"{point.ratio:.2f}") for point in found]
    within = sum(0.8 <= point.ratio <= 1.2 for point in found)
    return table(("point", "what", "published", "predicted", "ratio"), rows) + (
        f"\n{within} of {len(found)} points lie within 20 %.\n"
    )


def constants() -> str:
    """The numbers of serving alone."""
    rows = [
        (f"`{c.name}`", c.meaning, f"{c.ascend:g}", f"{c.gpu:g}", f"{c.low:g} to {c.high:g}", c.basis, c.source)
        for c in SERVING_CONSTANTS
    ]
    return table(("constant", "is", "Ascend", "GPU", "bounds", "basis", "source"), rows)


def with_tables(page: str) -> str:
    """The page with both tables updated."""
    for (start, end), text in ((POINTS, points()), (CONSTANTS, constants())):
        before, rest = page.split(start)
        page = before + start + text + "\n" + end + rest.split(end, 1)[1]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
