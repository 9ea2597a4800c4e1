"""The layers between packages, and proof that the check sees a violation."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "app",
    "benchmarks",
    "calibration",
    "cost_models",
    "documents",
    "execution",
    "frameworks",
    "hardware_profiles",
    "meshplan",
    "migrations",
    "scripts",
    "search",
)

# One planted line per contract: module -> import. Each must be named in the report.
VIOLATIONS = {
    "app/text/planted.py": "import app.jobs.job",
    "app/http/planted.py": "def later() -> None:\n    import app.studies.service",
    "app/studies/queue.py": "import app.workers.loop",
    "app/studies/repository.py": "import app.studies.runner",  # a circle inside a room
    "app/verification/planted.py": "import execution.meters",
    "execution/planted.py": "import documents.shell.text",
    "calibration/planted.py": "import search",
    "calibration/records/categories.py": "import frameworks.target",
    "calibration/records/planted.py": "import calibration.splits.groups",
    "cost_models/shapes/planted.py": "import cost_models.memory.peak",
    "cost_models/layer/planted.py": "from hardware_profiles import planted",
    "cost_models/step/data_parallel.py": "import cost_models.step.traffic",
    "cost_models/step/result.py": "import logging",
    "frameworks/facts.py": "import frameworks.megatron_lm.table",
    "frameworks/mindformers/table.py": "import frameworks.megatron_lm.table",
    "frameworks/megatron_lm/rules_0_12.py": "import frameworks.registry",
    "hardware_profiles/planted.py": "import cost_models.shapes.workload",
    "hardware_profiles/schema.py": "import yaml",
    "meshplan/planted.py": "import app",
    "meshplan/errors.py": "import meshplan.client",  # a circle of modules
    "migrations/env.py": "import cost_models.shapes.workload",
    "migrations/versions/planted.py": "import app.settings",
    "scripts/pages/text.py": "import benchmarks.rest",
    "scripts/pages/planted.py": "import scripts.accuracy.text",
    "search/planted.py": "import rich",
    "search/plans/planted.py": "import search.ranking.ties",
    "search/space/recompute_modes.py": "import search.space.search_space",  # a circle inside a room
    "search/space/planted_sql.py": "import sqlalchemy",
    "search/space/planted.py": "import optuna",
}


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's report on a copy, from outside the checkout and without its cache."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    return subprocess.run(command, cwd=checkout, env={"PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_planted_violations_of_every_contract_are_caught(checkout: Path) -> None:
    for path, line in VIOLATIONS.items():
        with (checkout / path).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    report = lint_imports(checkout)
    assert report.returncode == 1, report.stdout + report.stderr
    broken = re.search(r"(\d+) kept, (\d+) broken", report.stdout)
    assert broken is not None, report.stdout
    assert int(broken[1]) == 0, f"a contract saw nothing:\n{report.stdout}"
    for path in VIOLATIONS:
        module = path.removesuffix(".py").replace("/", ".")
        named = (f"{module} ->", f"- .{module.rpartition('.')[2]} ->")  # circles are told by the names of siblings
        assert any(name in report.stdout for name in named), f"{module} is not named:\n{report.stdout}"


def imported_roots(source: str) -> set[str]:
    """First part of every absolute import."""
    roots = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            roots.add(node.module.split(".")[0])
    return roots


def test_physics_needs_nothing_but_numpy_and_harmless_modules_of_the_standard_library() -> None:
    allowed = {
        *("__future__", "abc", "collections", "dataclasses", "enum", "functools", "heapq", "itertools", "math", "operator"),
        *("types", "typing", "numpy", "cost_models", "documents", "hardware_profiles"),
    }
    modules = list((ROOT / "cost_models").rglob("*.py"))
    assert modules
    surplus = {str(path.relative_to(ROOT)): imported_roots(path.read_text(encoding="utf-8")) - allowed for path in modules}
    assert {path: roots for path, roots in surplus.items() if roots} == {}


def test_the_launcher_needs_the_standard_library_only() -> None:
    standard = {"gc", "importlib", "meshplan", "pathlib", "sys", "typing"}
    for path in (ROOT / "meshplan").glob("__*__.py"):
        assert imported_roots(path.read_text(encoding="utf-8")) <= standard, path


def test_starting_the_command_loads_no_http_library() -> None:
    code = "import sys, meshplan, meshplan.__main__; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
