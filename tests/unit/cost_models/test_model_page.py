"""docs/model.md against the code: its arithmetic, its examples, its tables."""

import ast
import math
import operator
import re
from collections import Counter
from pathlib import Path

import pytest

from cost_models.constants import CONSTANTS
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from scripts.pages.write_constants import with_table
from tests.worked_examples import PAGE, WorkedExample, worked_examples
from tests.workloads import SPARSE, priced, workload

TESTS = Path(__file__).resolve().parents[2]
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def evaluated(node: ast.expr) -> float:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        return node.value
    assert isinstance(node, ast.BinOp), ast.dump(node)
    return float(OPERATORS[type(node.op)](evaluated(node.left), evaluated(node.right)))


@pytest.mark.parametrize("example", worked_examples().values(), ids=lambda e: e.name)
def test_the_arithmetic_gives_the_value(example: WorkedExample) -> None:
    expression = example.working.replace("×", "*").replace("^", "**")
    assert math.isclose(
        evaluated(ast.parse(expression, mode="eval").body), example.value, rel_tol=1e-12, abs_tol=example.tolerance
    )


def test_every_worked_example_is_repeated_by_a_test() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    repeated = Counter(re.findall(r'worked\("([a-z0-9-]+)"\)', sources))
    assert set(repeated) == set(worked_examples())
    # Nothing else on the page looks like an example and escapes the pattern.
    assert len(re.findall(r"^> ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)) == len(worked_examples())


def test_the_table_of_constants_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [f"`{c.name}`" for c in CONSTANTS if f"| `{c.name}` |" not in page] == []
    assert with_table(page) == page, "`make docs` writes the table"


PHYSICS = PAGE.parents[1] / "cost_models"


def map_of(page: str) -> set[tuple[str, str]]:
    """(file, name) of every row of the map."""
    section = page.split("## Map\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .* \| \[([\w/]+\.py)\]\(\.\./cost_models/([\w/]+\.py)\) \| (`.+) \|$", section, flags=re.MULTILINE)
    assert all(shown == target for shown, target, _ in rows)
    names = [(target, name) for _, target, listed in rows for name in re.findall(r"`(\w+)`", listed)]
    assert len(names) == len(set(names)) == section.count("`, `") + len(rows), (
        "a name stands once, and each row has the form of the others"
    )
    return set(names)


def test_the_map_has_every_public_function_and_class_and_nothing_else() -> None:
    public = {
        (path.relative_to(PHYSICS).as_posix(), node.name)
        for path in PHYSICS.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    listed = map_of(PAGE.read_text(encoding="utf-8"))
    assert sorted(public - listed) == [], "missing from the map of docs/model.md"
    assert sorted(listed - public) == [], "in the map of docs/model.md, but not in the code"


def test_the_map_leads_to_sections_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    }
    links = set(re.findall(r"\]\(#([\w-]+)\)", page))
    assert links
    assert sorted(links - headings) == []


def test_every_file_of_the_physics_that_the_page_names_is_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`(?:cost_models/)?([\w/]+\.py)`", page)
    assert [name for name in named if not any((root / name).exists() for root in (PHYSICS, PHYSICS.parent))] == [], (
        "link to it, as the map does"
    )


def test_every_part_of_a_breakdown_is_explained() -> None:
    result = priced(workload(SPARSE), ParallelStrategy(recompute=Recompute.FULL))
    assert result.breakdown is not None
    page = PAGE.read_text(encoding="utf-8").split("## Breakdown")[1].split("## Constants")[0]
    explained = set(re.findall(r"`(\w+)`", page))
    for table in (result.breakdown.time_s, result.breakdown.masked_s, result.breakdown.memory_bytes):
        assert set(table) <= explained
    assert explained - {"time_s", "masked_s", "memory_bytes"} == {
        *result.breakdown.time_s,
        *result.breakdown.masked_s,
        *result.breakdown.memory_bytes,
    }
