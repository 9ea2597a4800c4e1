"""The hand-worked numbers of docs/model.md, which the tests repeat.

A worked example is one line, ``> `name`: arithmetic = **value** unit``. A test compares the model with ``worked("name")``;
``tests/unit/cost_models/test_model_page.py`` holds the arithmetic to the value and each name to a test.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs/model.md"
LINE = re.compile(r"^> `(?P<name>[a-z0-9-]+)`: (?P<working>.+) = \*\*(?P<value>[-+0-9.,e]+)\*\*", re.MULTILINE)


@dataclass(frozen=True)
class WorkedExample:
    """``tolerance`` is half a unit in the last digit that the page prints; whole numbers are exact."""

    name: str
    working: str
    value: float
    tolerance: float


@cache
def worked_examples() -> dict[str, WorkedExample]:
    """By name, in the page's order."""
    found: dict[str, WorkedExample] = {}
    for match in LINE.finditer(PAGE.read_text(encoding="utf-8")):
        name, printed = match["name"], Decimal(match["value"].replace(",", ""))
        assert name not in found, f"{name} is worked twice"
        exponent = int(printed.as_tuple().exponent)
        exact = exponent == 0 and "e" not in match["value"]
        tolerance = abs(float(printed)) * 1e-12 if exact else 0.5000001 * 10.0**exponent
        found[name] = WorkedExample(name, match["working"], float(printed), tolerance)
    return found


def worked(name: str) -> Any:
    """The page's number, to compare with ``==``."""
    example = worked_examples()[name]
    return pytest.approx(example.value, abs=example.tolerance, rel=0.0)
