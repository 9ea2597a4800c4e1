"""Frozen classes with late methods behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import typing
from pathlib import Path

import pytest

from documents import late_methods

ROOT = Path(__file__).resolve().parents[3]
Made = tuple[typing.Any, typing.Any]


def _classes(decorate: typing.Any) -> dict[str, typing.Any]:
    """The same classes under either decorator."""

    @decorate(frozen=True)
    class Point:
        x: int
        y: float = 0.5
        marks: list[int] = dataclasses.field(default_factory=list)
        hidden: str = dataclasses.field(default="no", repr=False, compare=False)

    @decorate(frozen=True)
    class Child(Point):
        z: int = 3
        doubled: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "doubled", 2 * self.z)

    @decorate(frozen=True, kw_only=True)
    class Named:
        second: int
        first: tuple[int, ...] = ()

    @decorate(frozen=True, eq=False, repr=False)
    class Bare:
        it: int

    @decorate(frozen=True)
    class Own:
        it: int
        rest: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.it == other.it

        def __repr__(self) -> str:
            return "own"

    @decorate(frozen=True)
    class One:
        it: object

    @decorate(frozen=True)
    class Nothing:
        pass

    class Plain(Point):
        pass

    return {kind.__name__: kind for kind in (Point, Child, Named, Bare, Own, One, Nothing, Plain)}


STANDARD, LATE = _classes(dataclasses.dataclass), _classes(late_methods.dataclass)
CALLS: list[tuple[str, tuple[typing.Any, ...], dict[str, typing.Any]]] = [
    ("Point", (1,), {}),
    ("Point", (1, 2.0, [3]), {}),
    ("Point", (), {"x": 1, "hidden": "yes"}),
    ("Child", (1,), {"z": 4}),
    ("Named", (), {"second": 2}),
    ("Bare", (1,), {}),
    ("Own", (1, 2), {}),
    ("One", ((1, 2),), {}),
    ("Nothing", (), {}),
    ("Plain", (7,), {}),
]


def made(name: str, values: typing.Any, named: typing.Any) -> Made:
    return STANDARD[name](*values, **named), LATE[name](*values, **named)


@pytest.mark.parametrize(("name", "values", "named"), CALLS)
def test_an_object_is_what_the_standard_library_makes(name: str, values: typing.Any, named: typing.Any) -> None:
    standard, late = made(name, values, named)
    assert vars(late) == vars(standard)
    assert dataclasses.asdict(late) == dataclasses.asdict(standard)
    if name != "Bare":
        assert repr(late) == repr(standard)
    parameters = (inspect.signature(type(record)).parameters.values() for record in (standard, late))
    of_standard, of_late = [[(each.name, each.kind) for each in taken] for taken in parameters]
    assert of_late == of_standard
    assert [field.name for field in dataclasses.fields(late)] == [field.name for field in dataclasses.fields(standard)]


@pytest.mark.parametrize(("name", "values", "named"), CALLS)
def test_equal_and_hashed_as_there(name: str, values: typing.Any, named: typing.Any) -> None:
    pairs = zip(made(name, values, named), made(name, values, named), strict=True)
    (same_standard, same_late) = [one == other for one, other in pairs]
    assert same_late is same_standard
    standard, late = made(name, values, named)
    for record in (standard, late):
        assert record != object()
    try:
        expected = hash(standard)
    except TypeError:
        with pytest.raises(TypeError):
            hash(late)
    else:
        assert (hash(late) == expected) is (name != "Bare")


@pytest.mark.parametrize(("name", "values", "named"), CALLS)
def test_nothing_of_an_object_changes(name: str, values: typing.Any, named: typing.Any) -> None:
    for record in made(name, values, named):
        for field in dataclasses.fields(record):
            with pytest.raises(dataclasses.FrozenInstanceError, match=f"'{field.name}'"):
                setattr(record, field.name, 0)
            with pytest.raises(dataclasses.FrozenInstanceError, match=f"'{field.name}'"):
                delattr(record, field.name)
        if name == "Plain":  # a class that is no dataclass has attributes beside the fields
            record.other = 1
            del record.other
        else:
            with pytest.raises(dataclasses.FrozenInstanceError):
                record.other = 1


@pytest.mark.parametrize("classes", [STANDARD, LATE], ids=["standard", "late"])
def test_what_a_class_takes(classes: dict[str, typing.Any]) -> None:
    point = classes["Point"](1)
    assert point.marks is not classes["Point"](1).marks
    assert dataclasses.replace(point, y=2.0) == classes["Point"](1, 2.0)
    assert dataclasses.replace(classes["Child"](1), z=5).doubled == 10
    assert copy.deepcopy(point) == point
    assert classes["Point"](1) != classes["Child"](1)
    assert classes["Point"](1, hidden="a") == classes["Point"](1, hidden="b")
    assert dataclasses.is_dataclass(point)
    match point:
        case object(x=found):
            assert found == 1
    for wrong in ({"values": ()}, {"values": (1, 2, [], "", 5)}, {"values": (1,), "w": 1}):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            classes["Point"](*wrong.pop("values"), **wrong)
    with pytest.raises(TypeError):
        classes["Named"](2)


@late_methods.dataclass(frozen=True)
class Kept:
    """At the top of a module, as what is pickled must be."""

    x: int
    inner: tuple[Kept, ...] = ()


def test_an_object_can_be_pickled() -> None:
    record = Kept(1, (Kept(2),))
    assert pickle.loads(pickle.dumps(record)) == record


def test_an_object_that_holds_itself_has_a_text() -> None:
    holder: list[typing.Any] = []
    record = _classes(late_methods.dataclass)["One"](holder)
    holder.append(record)
    assert repr(record).endswith("One(it=[...])")


def test_init_is_compiled_when_the_first_object_is_made() -> None:
    kind = _classes(late_methods.dataclass)["Child"]
    before = kind.__init__
    kind(1)
    assert kind.__init__ is not before
    assert list(inspect.signature(kind).parameters) == ["x", "y", "marks", "hidden", "z"]
    compiled = kind.__init__
    kind(2)
    assert kind.__init__ is compiled


@pytest.mark.parametrize("package", ["app", "calibration", "cost_models", "documents", "frameworks", "hardware_profiles"])
def test_frozen_records_have_late_methods(package: str) -> None:
    early = re.compile(r"^from dataclasses import .*\bdataclass\b(.|\n)*^ *@dataclass\(frozen=True(?!, slots)", re.MULTILINE)
    files = (ROOT / package).rglob("*.py")
    assert [str(file.relative_to(ROOT)) for file in files if early.search(file.read_text(encoding="utf-8"))] == []


def test_other_dataclasses_are_those_of_the_standard_library() -> None:
    @late_methods.dataclass
    class Changing:
        it: int

    @late_methods.dataclass(frozen=True, slots=True)
    class Slotted:
        it: int

    @dataclasses.dataclass(frozen=True)
    class Early:
        it: int

    @late_methods.dataclass(frozen=True)
    class OfEarly(Early):
        more: int = 2

    assert OfEarly(1) == OfEarly(1, 2) != OfEarly(1, 3)
    changing = Changing(1)
    changing.it = 2
    assert changing == Changing(2)
    assert not hasattr(Slotted(1), "__dict__")
