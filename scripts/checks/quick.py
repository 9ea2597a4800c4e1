"""Lints the tree and runs the tests nearest to a change, for at most a minute of processor time; says what was left out.

A test is as far from a change as the imports between them. Tests run nearest first, until the time is used up.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAST_START_S = 48.0  # no test starts later, so that the last one ends within a minute
MAX_FILES = 50  # collecting a file takes a tenth of a second
# Servers, browsers and whole fits: they run here only where they are changed themselves.
SLOW_FOLDERS = ("browser", "e2e", "mutation", "storage", "validation", "workers")
ALWAYS = "tests/golden/test_golden_estimates.py"
LINT = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("lint-imports",),
)


def changed_files(base: str) -> list[str]:
    """Files that differ from where the branch left ``base``, committed or not."""
    since = _git("merge-base", "HEAD", base)[0]
    return sorted({*_git("diff", "--name-only", since), *_git("ls-files", "--others", "--exclude-standard")})


def imports(folder: Path, files: Iterable[str]) -> dict[str, set[str]]:
    """The files of the list that each Python file of it imports; a test imports every ``conftest.py`` above it."""
    modules = {_module(file): file for file in files if file.endswith(".py")}
    found: dict[str, set[str]] = {}
    for file in modules.values():
        names = set(_imported(ast.parse((folder / file).read_text(encoding="utf-8"))))
        if Path(file).name.startswith("test_"):
            names |= {_module(str(above / "conftest.py")) for above in Path(file).parents}
        found[file] = {modules[name] for name in names if name in modules} - {file}
    return found


def distances(imported: Mapping[str, set[str]], changed: Iterable[str]) -> dict[str, int]:
    """Imports between each file and the nearest changed one; files that no change reaches are missing."""
    importers: dict[str, list[str]] = {file: [] for file in imported}
    for file, targets in imported.items():
        for target in targets:
            importers[target].append(file)
    found = dict.fromkeys(_touched(changed, imported), 0)
    waiting = deque(found)
    while waiting:
        file = waiting.popleft()
        for importer in importers[file]:
            if importer not in found:
                found[importer] = found[file] + 1
                waiting.append(importer)
    return found


def tests_to_run(reached: Mapping[str, int]) -> list[str]:
    """The test files that a change reaches, nearest first; among equally near ones, files of the same folders come first."""
    changed = [Path(file).parts for file, distance in reached.items() if distance == 0]

    def shared_folders(file: str) -> int:
        folders = Path(file).parts[2:-1]  # below tests/unit
        return max(
            sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(folders, parts, strict=False))) for parts in changed
        )

    tests = [
        file
        for file, distance in reached.items()
        if file.startswith("tests/") and Path(file).name.startswith("test_")
        if distance == 0 or Path(file).parts[1] not in SLOW_FOLDERS
    ]
    return sorted(tests, key=lambda file: (reached[file], -shared_folders(file), file))


def cpu_s() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


class Budget:
    """A plugin of pytest: runs files in the given order, and no further test once the time is used up."""

    def __init__(self, files: list[str], limit_s: float) -> None:
        self.places = {file: place for place, file in enumerate(files)}
        self.limit_s = limit_s
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self.places[_file_of(item)])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if cpu_s() < self.limit_s:
            return None
        self.left_out[_file_of(item)] += 1
        return True


def main() -> int:
    changed = changed_files(sys.argv[1])
    known = [file for file in _git("ls-files", "--cached", "--others", "--exclude-standard") if (ROOT / file).is_file()]
    files = [file for file in tests_to_run(distances(imports(ROOT, known), changed)) if file != ALWAYS]
    near, far = files[:MAX_FILES], files[MAX_FILES:]
    print(f"{len(changed)} changed files reach {len(files)} test files.")
    failed = [command[0] for command in LINT if not _passes(command)]
    budget = Budget([ALWAYS, *near], LAST_START_S)
    status = pytest.main(["-q", "-m", "not slow", "-p", "no:cacheprovider", *budget.places], plugins=[budget])
    print(f"Used {cpu_s():.0f} s of processor time. Left out; `make check` and `make slow` run it:")
    print(f"- types, the dashboard, the Dockerfile, slow tests, and tests of {', '.join(SLOW_FOLDERS)}")
    for file, number in budget.left_out.items():
        print(f"- {file}: {number} tests, for lack of time")
    for folder, number in Counter(str(Path(file).parent) for file in far).items():
        print(f"- {folder}: {number} files further from the change")
    return int(status) or bool(failed)


def _passes(command: tuple[str, ...]) -> bool:
    """Whether the tool finds nothing; findings are printed."""
    run = subprocess.run([Path(sys.executable).parent / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        print(run.stdout + run.stderr)
    return run.returncode == 0


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def _module(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _touched(changed: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """The changed Python files, and the Python files in the folder of a changed data file or above it."""
    known = set(known)
    for file in changed:
        if file in known:
            yield file
            continue
        for folder in list(Path(file).parents)[:-1]:
            if beside := [other for other in known if Path(other).parent == folder]:
                yield from beside
                break


def _file_of(item: pytest.Item) -> str:
    return str(item.path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
