"""The tests notice when the model breaks: each fault, put into a copy of the sources, must turn the named tests red."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("cost_models", "hardware_profiles", "documents", "app/__init__.py", "app/catalogue", "docs", "tests")
MUTATIONS = yaml.safe_load((Path(__file__).parent / "mutations.yaml").read_text(encoding="utf-8"))
# A failing example needs no shrinking here.
PLUGIN = """
from hypothesis import Phase, settings
settings.register_profile("unshrunk", deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
"""
# Compiled files are told from their sources by second and size: each version that is written has a second of its own.
SECONDS = itertools.count(1)
ENDINGS = {0: "passed", 1: "failed", 2: "could not collect"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the chosen tests need, away from the checkout."""
    copy = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        source, target = ROOT / name, copy / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "unshrunk.py").write_text(PLUGIN, encoding="utf-8")
    return copy


def write(path: Path, source: str) -> None:
    path.write_text(source, encoding="utf-8")
    second = next(SECONDS)
    os.utime(path, (second, second))


def run(tree: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "-p", "unshrunk"]
    options = ["-x", "-q", *plugins, "--hypothesis-profile", "unshrunk"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    # Loading every installed plugin would take longer than the tests.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def noticing() -> set[str]:
    """The tests that have turned red."""
    return set()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: re.sub(r"\W+", "-", m["breaks"]))
def test_a_fault_is_noticed(tree: Path, noticing: set[str], mutation: dict[str, Any]) -> None:
    path = tree / mutation["file"]
    source = path.read_text(encoding="utf-8")
    assert source.count(mutation["find"]) == 1, f"{mutation['file']} has changed: bring the mutation up to date"
    write(path, source.replace(mutation["find"], mutation["replace"]))
    try:
        result = run(tree, [f"tests/{test}" for test in mutation["tests"]])
    finally:
        write(path, source)
    # Red because an assertion failed, not because the fault broke the import.
    assert ENDINGS.get(result.returncode) == "failed", result.stdout + result.stderr
    assert "AssertionError" in result.stdout or "assert " in result.stdout, result.stdout
    failed = re.search(r"^FAILED (.+?)(?: - |$)", result.stdout, re.MULTILINE)
    assert failed is not None, result.stdout
    noticing.add(failed[1])


def test_what_noticed_a_fault_passes_without_it(tree: Path, noticing: set[str]) -> None:
    if not noticing:
        pytest.skip("no fault was tried")
    result = run(tree, sorted(noticing))
    assert result.returncode == 0, result.stdout
