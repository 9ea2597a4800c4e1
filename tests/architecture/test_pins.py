"""What an installation brings along: pinned by hash, with licences, and no address of a registry."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from scripts.packaging.write_licences import bundled, licence_of, required

ROOT = Path(__file__).resolve().parents[2]
PINS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PAGE = dict(re.findall(r"^\| ([\w@./-]+) \| \S+ \| (.+) \|$", (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8"), flags=re.M))


def test_the_pins_with_hashes_are_those_that_the_tests_run_with() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), flags=re.M))
    pins = {name.lower().replace("_", "-").replace(".", "-"): pin for name, pin in pins.items()}
    assert {name: pins[name.replace(".", "-")] for name in required()} == required()


def test_every_package_has_hashes_and_no_address() -> None:
    blocks = re.split(r"\n(?=\w)", PINS.strip())
    assert len(blocks) == len(required())
    for block in blocks:
        first, *rest = block.splitlines()
        assert re.fullmatch(r"[\w.-]+==\S+( ; .+)? \\", first), first
        assert rest
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in rest), block[:200]
    assert "://" not in PINS


def test_every_dependency_of_users_is_pinned() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    blocks = [
        project.partition("\ndependencies = [")[2].partition("\n]")[0],
        *re.findall(r"^(?:postgres|telemetry|dask) = (.+)", project, re.M),
    ]
    named = {name.lower() for block in blocks for name in re.findall(r'"([\w.-]+)(?:\[\w+\])?>=', block)}
    assert named
    assert named <= set(required())


def test_the_page_of_licences_lists_each_package_once() -> None:
    assert set(PAGE) - {"package"} == set(required()) | set(bundled())


@pytest.mark.parametrize("name", sorted(required()))
def test_the_licence_of_a_package_is_the_one_that_it_states(name: str) -> None:
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip("an extra that the tests do not install")
    assert installed == required()[name]
    assert PAGE[name] == licence_of(name)
    assert "unknown" not in PAGE[name]
