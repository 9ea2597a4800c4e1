"""The map of rooms in CONTRIBUTING.md against the folders."""

import re
from pathlib import Path

import pytest

from scripts.pages.write_rooms import with_map

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")


def rows_of(package: str) -> dict[str, str]:
    """Rooms of a package, as the page's table lists them, with their sentences."""
    found = re.search(rf"^Rooms of `{package}/`[^\n]*:\n\n\| room \| holds \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)/` \| (.+) \|$", found[1], re.MULTILINE)) if found else {}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_has_every_room_and_no_other(package: str) -> None:
    folders = {path.parent.relative_to(ROOT / package).parts[0] for path in (ROOT / package).glob("*/*.py")}
    assert set(rows_of(package)) == folders


@pytest.mark.parametrize("package", [name for name in PACKAGES if rows_of(name)])
def test_each_room_says_what_it_holds_in_sentences(package: str) -> None:
    for room, text in rows_of(package).items():
        assert re.fullmatch(r"[A-Z`].{15,200}[.]", text), f"{package}/{room}: {text}"


def test_each_package_is_in_the_table_of_packages() -> None:
    assert set(re.findall(r"^\| `(\w+)/` \| .+ \| .+ \|$", PAGE, re.MULTILINE)) == set(PACKAGES)


def test_the_map_is_current() -> None:
    assert with_map(PAGE) == PAGE, "run scripts/pages/write_rooms.py"
