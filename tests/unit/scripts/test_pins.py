"""What builds and installs the product is pinned: a bad release of another project must not reach it unseen."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_build_requirements_are_those_of_the_constraints() -> None:
    """Constraints do not reach the environment in which pip builds a wheel, so the versions stand in both."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert requires
    assert {*requires} <= {*(ROOT / "constraints.txt").read_text().splitlines()}


def test_the_first_command_of_each_readme_takes_the_constraints() -> None:
    for name in ("README.md", "README.zh.md"):
        commands = re.findall(r"^.*pip install .*$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert commands
        assert "-c constraints.txt" in commands[0], name
