"""Docstrings of the cost model add to the signature: shapes, units, meaning. They do not repeat it."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

import cost_models

PHYSICS = Path(cost_models.__file__).parent
MODEL_PAGE = PHYSICS.parent / "docs" / "model.md"
ARRAYS = {"Floats", "IntColumn", "ArrayLike", "NDArray"}
SHAPE = re.compile(r"``\[[^`]+\]``")
# A function that takes arrays of any shape says how they combine instead.
BROADCASTS = re.compile(r"\b(elementwise|broadcast|scalar|one number|any shape)\b", flags=re.IGNORECASE)
ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: : (.+))?((?:\n    .*)*)$", flags=re.MULTILINE)
UNITS = r"s|bytes?|flops|tokens?|fractions?|shares?|factors?|sizes?|parameters|w|usd"
UNIT_IN_NAME = re.compile(rf"(^|_)({UNITS})(_|$)|_per_\w+$")
UNIT_IN_WORDS = re.compile(
    rf"\b({UNITS}|seconds?|hours?|power|ranks?|sequences?|probabilit\w+|copies|layers|numbers?|domains|passes|rows|"
    r"micro batch(es)?|ind(ex|ices)|bits|multiple|ratio|steps)\b|\[(s|B|FLOPs|1)\]",
    flags=re.IGNORECASE,
)
MOST_REPEATED = 3  # functions that may describe a parameter in the same words
SHARED_FROM = 8  # functions of a type from which the page explains it once


class Function(NamedTuple):
    place: str
    parameters: dict[str, str]
    returned: str
    doc: str

    @property
    def returns_arrays(self) -> bool:
        return bool(ARRAYS & set(re.findall(r"\w+", self.returned)))


def functions_of(source: str, place: str) -> list[Function]:
    """All functions and methods with a docstring."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and (doc := ast.get_docstring(node)):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            types = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
            found.append(Function(f"{place}: {node.name}", types, ast.unparse(node.returns) if node.returns else "", doc))
    return found


def described(doc: str) -> list[tuple[str, str, str]]:
    """Names, shape and unit, and description of each entry of the section Parameters."""
    section = re.search(r"^Parameters\n-{10}\n(.*?)(?=\n\n|\Z)", doc, flags=re.MULTILINE | re.DOTALL)
    entries = [] if section is None else ENTRY.findall(section[1])
    return [(names, said, " ".join(text.split())) for names, said, text in entries]


def idle_entries(function: Function) -> list[str]:
    """Entries that say no more than the signature, or name no parameter of it."""
    return [
        name
        for names, said, text in described(function.doc)
        for name in names.split(", ")
        if name not in function.parameters or not (text or said) or (not text and said == function.parameters[name])
    ]


def shapeless(function: Function) -> bool:
    return function.returns_arrays and SHAPE.search(function.doc) is None and BROADCASTS.search(function.doc) is None


def unitless(function: Function) -> bool:
    """Whether neither the name nor the docstring of a function that returns numbers says of what."""
    name = function.place.split(": ")[1]
    numbers = function.returned == "float" or (function.returns_arrays and "bool" not in function.returned)
    return numbers and UNIT_IN_NAME.search(name) is None and UNIT_IN_WORDS.search(function.doc) is None


def repeated(functions: list[Function]) -> dict[str, int]:
    """Descriptions that stand on too many functions, each with their number."""
    uses = Counter(text for function in functions for _, _, text in described(function.doc) if text)
    return {text: count for text, count in uses.items() if count > MOST_REPEATED}


FUNCTIONS = [
    function
    for path in sorted(PHYSICS.rglob("*.py"))
    for function in functions_of(path.read_text(encoding="utf-8"), path.relative_to(PHYSICS).as_posix())
]
PUBLIC = [function for function in FUNCTIONS if not function.place.split(": ")[1].startswith("_")]


def test_an_entry_says_more_than_the_signature() -> None:
    assert {function.place: idle for function in FUNCTIONS if (idle := idle_entries(function))} == {}


def test_no_description_of_a_parameter_is_repeated() -> None:
    assert repeated(FUNCTIONS) == {}


def test_a_public_function_of_arrays_says_their_shape() -> None:
    assert [function.place for function in PUBLIC if shapeless(function)] == []


def test_a_public_function_of_numbers_says_their_unit() -> None:
    assert [function.place for function in PUBLIC if unitless(function)] == []


def test_every_shared_type_is_explained_once() -> None:
    users = defaultdict(set)
    for function in FUNCTIONS:
        for annotation in function.parameters.values():
            for name in re.findall(r"\w+", annotation):
                users[name].add(function.place)
    classes = {
        node.name
        for path in PHYSICS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    section = MODEL_PAGE.read_text(encoding="utf-8").split("\n## Shared types\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(?:\w+)`(?:, `\w+`)* \| [^|]{20,} \|$", section, flags=re.MULTILINE)
    assert {name for name in classes if len(users[name]) >= SHARED_FROM} - set(rows) == set()
    assert set(rows) <= classes


PLANTED = '''
def pace(times: Floats, n: int) -> Floats:
    """Pace of a pipeline.

    Parameters
    ----------
    {entry}
    """
'''


@pytest.mark.parametrize(
    ("entry", "idle"),
    [
        ("times : ``[stage, n]``", []),
        ("times\n        Of whole ranks.", []),
        ("times, n : ``[n]``", []),
        ("times : Floats", ["times"]),
        ("n", ["n"]),
        ("gone : ``[n]``", ["gone"]),
    ],
)
def test_an_idle_entry_is_noticed(entry: str, idle: list[str]) -> None:
    (function,) = functions_of(PLANTED.format(entry=entry), "planted")
    assert idle_entries(function) == idle


def test_a_missing_shape_and_a_missing_unit_are_noticed() -> None:
    silent, spoken = functions_of(
        'def pace(a: Floats) -> Floats:\n    """Pace."""\n\n'
        'def gap(a: Floats) -> Floats:\n    """Seconds between two steps, ``[n]``."""\n',
        "planted",
    )
    assert (shapeless(silent), unitless(silent)) == (True, True)
    assert (shapeless(spoken), unitless(spoken)) == (False, False)


def test_a_repeated_description_is_noticed() -> None:
    (function,) = functions_of(PLANTED.format(entry="times\n        Of whole ranks."), "planted")
    assert repeated([function] * MOST_REPEATED) == {}
    assert repeated([function] * (MOST_REPEATED + 1)) == {"Of whole ranks.": MOST_REPEATED + 1}
