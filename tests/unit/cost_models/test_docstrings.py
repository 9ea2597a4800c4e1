"""What functions of the physics say of the columns that they take and return."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import cost_models

PHYSICS = Path(cost_models.__file__).parent
# Types whose values are columns, or hold them.
COLUMNS = re.compile(
    r"\b(Floats|IntColumn|ArrayLike|NDArray|LayerKeys|StrategyBatch|LayerCosts|LayerActivations|KeptLayers|PassTimes|Group|PricedGroup)\b"
)


class Function(NamedTuple):
    place: str
    parameters: list[str]
    doc: str
    takes_columns: bool


def functions_of(source: str, place: str) -> list[Function]:
    """Public functions and methods, those of private classes left out."""
    tree = ast.parse(source)
    owners = [("", tree.body)] + [
        (f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    found = []
    for owner, body in owners:
        for node in body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            arguments = [
                a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")
            ]
            types = " ".join(ast.unparse(part) for part in (*(a.annotation for a in arguments), node.returns) if part is not None)
            name = f"{place}: {owner}{node.name}"
            doc = ast.get_docstring(node) or ""
            found.append(Function(name, [a.arg for a in arguments], doc, COLUMNS.search(types) is not None))
    return found


def described(doc: str) -> list[tuple[str, str]]:
    """Name and type of each entry of the section Parameters."""
    section = re.search(r"^Parameters\n-{10}\n(.*?)(?=\n\n|\Z)", doc, flags=re.MULTILINE | re.DOTALL)
    return [] if section is None else re.findall(r"^(\w+) : (.+)\n    \S", section[1], flags=re.MULTILINE)


FUNCTIONS = [
    function
    for path in sorted(PHYSICS.rglob("*.py"))
    for function in functions_of(path.read_text(encoding="utf-8"), path.relative_to(PHYSICS).as_posix())
]


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.takes_columns and f.parameters], ids=lambda f: f.place)
def test_a_function_of_columns_describes_every_parameter(function: Function) -> None:
    assert [name for name, _ in described(function.doc)] == function.parameters


def test_a_parameter_left_out_is_noticed() -> None:
    section = "    Parameters\n    ----------\n    a : Floats\n        One.\n"
    source = f'def f(a: Floats, b: int) -> Floats:\n    """Adds.\n\n{section}    """\n'
    (function,) = functions_of(source, "planted")
    assert function.takes_columns
    assert [name for name, _ in described(function.doc)] == ["a"] != function.parameters


def test_a_third_of_the_physics_is_documentation() -> None:
    code = documentation = 0
    for path in PHYSICS.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        lines = {number for number, line in enumerate(source.splitlines(), 1) if line.strip()}
        said = {number for number in lines if source.splitlines()[number - 1].lstrip().startswith("#")}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                said |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)) & lines
        code, documentation = code + len(lines - said), documentation + len(said)
    assert documentation / (code + documentation) > 1 / 3
