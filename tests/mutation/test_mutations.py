"""The tests notice when the model breaks: each fault, put into a copy of the sources, must turn the named tests red."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "app", "calibration", "cost_models", "docs", "documents", "frameworks", "hardware_profiles", "meshplan", "migrations",
    "search", "tests",
)  # fmt: skip
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
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "unshrunk.py").write_text(PLUGIN, encoding="utf-8")
    return copy


def write(path: Path, source: str) -> None:
    path.write_text(source, encoding="utf-8")
    second = next(SECONDS)
    os.utime(path, (second, second))


Run = Callable[[list[str]], tuple[int, str]]


@pytest.fixture(scope="module")
def run(tree: Path) -> Iterator[Run]:
    """Runs tests of the copy, and returns the exit status and what pytest printed."""
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "-p", "unshrunk"]
    options = ["-x", "-q", *plugins, "--hypothesis-profile", "unshrunk"]
    # Loading every installed plugin would take longer than the tests.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "tests.mutation.forked_pytest"]
    numbers = itertools.count()
    with subprocess.Popen(command, cwd=tree, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        asked, answered = process.stdin, process.stdout
        assert asked is not None
        assert answered is not None

        def run_tests(tests: list[str]) -> tuple[int, str]:
            output = tree / f"output-{next(numbers)}.txt"
            print(json.dumps([str(output), *options, *tests]), file=asked, flush=True)
            status = int(answered.readline())
            return status, output.read_text(encoding="utf-8")

        yield run_tests


@pytest.fixture(scope="module")
def noticing() -> set[str]:
    """The tests that have turned red."""
    return set()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: re.sub(r"\W+", "-", m["breaks"]))
def test_a_fault_is_noticed(tree: Path, run: Run, noticing: set[str], mutation: dict[str, Any]) -> None:
    path = tree / mutation["file"]
    source = path.read_text(encoding="utf-8")
    assert source.count(mutation["find"]) == 1, f"{mutation['file']} has changed: bring the mutation up to date"
    write(path, source.replace(mutation["find"], mutation["replace"]))
    try:
        status, printed = run([f"tests/{test}" for test in mutation["tests"]])
    finally:
        write(path, source)
    # Red because an assertion failed, not because the fault broke the import.
    assert ENDINGS.get(status) == "failed", printed
    assert "AssertionError" in printed or "assert " in printed, printed
    failed = re.search(r"^FAILED (.+?)(?: - |$)", printed, re.MULTILINE)
    assert failed is not None, printed
    noticing.add(failed[1])


def test_what_noticed_a_fault_passes_without_it(run: Run, noticing: set[str]) -> None:
    if not noticing:
        pytest.skip("no fault was tried")
    status, printed = run(sorted(noticing))
    assert status == 0, printed
