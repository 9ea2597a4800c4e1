from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.checks import quick

SOURCES = {
    "pkg/__init__.py": "",
    "pkg/low.py": "X = 1\n",
    "pkg/high.py": "from pkg import low\n",
    "pkg/apart.py": "import json\n",
    "pkg/data/table.yaml": "a: 1\n",
    "tests/conftest.py": "",
    "tests/helpers.py": "from pkg.high import low\n",
    "tests/unit/test_low.py": "from pkg.low import X\n",
    "tests/unit/test_high.py": "def test():\n    import pkg.high\n",
    "tests/unit/test_helped.py": "from tests import helpers\n",
    "tests/unit/test_apart.py": "import pkg.apart\n",
    "tests/api/test_high.py": "import pkg.high\n",
    "tests/unit/pkg/test_z.py": "import pkg.high\n",
    "tests/browser/test_page.py": "from pkg.low import X\n",
}


@pytest.fixture
def imported(tmp_path: Path) -> dict[str, set[str]]:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return quick.imports(tmp_path, SOURCES)


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["pkg/low.py"], ["unit/test_low", "unit/pkg/test_z", "api/test_high", "unit/test_high", "unit/test_helped"]),
        (["pkg/high.py"], ["unit/pkg/test_z", "api/test_high", "unit/test_high", "unit/test_helped"]),
        (["pkg/apart.py"], ["unit/test_apart"]),
        (["tests/helpers.py"], ["unit/test_helped"]),
        (["tests/unit/test_apart.py", "tests/helpers.py"], ["unit/test_apart", "unit/test_helped"]),
        (
            ["tests/conftest.py"],
            ["api/test_high", "unit/pkg/test_z", "unit/test_apart", "unit/test_helped", "unit/test_high", "unit/test_low"],
        ),
        (["README.md"], []),
    ],
)
def test_tests_that_a_change_reaches_are_listed_nearest_first(
    imported: dict[str, set[str]], changed: list[str], tests: list[str]
) -> None:
    assert quick.tests_to_run(quick.distances(imported, changed)) == [f"tests/{name}.py" for name in tests]


def test_a_data_file_counts_as_the_modules_above_it(imported: dict[str, set[str]]) -> None:
    reached = quick.distances(imported, ["pkg/data/table.yaml"])
    assert {file for file, distance in reached.items() if distance == 0} == {
        f"pkg/{name}.py" for name in ("low", "high", "apart", "__init__")
    }


def test_a_browser_test_runs_where_it_is_changed_itself(imported: dict[str, set[str]]) -> None:
    assert "tests/browser/test_page.py" not in quick.tests_to_run(quick.distances(imported, ["pkg/low.py"]))
    assert quick.tests_to_run(quick.distances(imported, ["tests/browser/test_page.py"])) == ["tests/browser/test_page.py"]


def test_the_nearest_tests_run_first_and_none_once_the_time_is_used_up() -> None:
    items: list[Any] = [SimpleNamespace(path=quick.ROOT / name) for name in ("tests/far.py", "tests/near.py")]
    budget = quick.Budget(["tests/near.py", "tests/far.py"], limit_s=float("inf"))
    budget.pytest_collection_modifyitems(items)
    assert [item.path.name for item in items] == ["near.py", "far.py"]
    assert budget.pytest_runtest_protocol(items[0]) is None
    budget.limit_s = 0.0
    assert budget.pytest_runtest_protocol(items[1]) is True
    assert budget.left_out == {"tests/far.py": 1}
