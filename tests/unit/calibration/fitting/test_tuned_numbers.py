"""The table of tuned numbers is complete: what cites runs is in it, and what is in it cites runs or stands beside what does."""

import ast
import sys
from pathlib import Path

import pytest
import yaml

from calibration.fitting.tuned_numbers import FORM, RUNS, TUNED, WithoutRuns, numbers_at
from calibration.procedure.free_constants import FREE_CONSTANTS
from cost_models.constants import CONSTANTS, prior_constants
from scripts.pages.write_tuned_numbers import PAGE, with_table

ROOT = Path(__file__).resolve().parents[4]
FAMILIES = ("ascend", "gpu")


def citing_assignments(source: str) -> set[str]:
    """Names of module-level assignments that cite runs: on their own line, or in the comment right above them."""
    lines = source.splitlines()
    found = set()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        start = node.lineno - 1
        while start > 0 and lines[start - 1].startswith("#"):
            start -= 1
        if not any(run in "\n".join(lines[start : node.end_lineno]) for run in RUNS):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        found |= {name.id for name in names}
    return found


def test_every_number_that_cites_runs_is_listed() -> None:
    found = set()
    for package in ("cost_models", "calibration", "search", "frameworks"):
        for path in (ROOT / package).rglob("*.py"):
            if path.name not in ("constants.py", "tuned_numbers.py"):
                found |= citing_assignments(path.read_text(encoding="utf-8"))
    listed = {number.name for number in TUNED if number.module} | {name for name in FORM if not name.endswith(" of profiles")}
    assert found == listed


def test_a_constant_is_listed_exactly_where_its_source_is_runs() -> None:
    cites = {c.name for c in CONSTANTS if any(run in c.source for run in RUNS)}
    assert {number.name for number in TUNED if number.module is None} == cites


def test_the_scan_sees_its_own_line_and_the_comment_above() -> None:
    source = "A = 1  # [runs-fit]\n# why [runs-gpu]\nB, C = 2, 3\nD = 4\nE: int = 5  # [runs-ascend]\n"
    assert citing_assignments(source) == {"A", "B", "C", "E"}


@pytest.mark.parametrize("number", TUNED, ids=lambda n: n.name)
def test_a_number_without_runs_lies_within_its_bounds_and_is_vague(number: WithoutRuns) -> None:
    low, high = number.bounds
    for family in FAMILIES:
        assert low <= number.neutral(family) <= high
        assert low <= number.value(prior_constants(family)) <= high
    known = {c.name: c.log_spread for c in CONSTANTS}
    assert number.log_spread >= known.get(number.name, 0.1)
    assert number.why


def test_a_family_that_sets_no_number_takes_it_from_sources() -> None:
    kept = [(number, family) for number in TUNED for family in FAMILIES if not number.is_tuned_on(family)]
    assert kept
    for number, family in kept:
        assert number.value(prior_constants(family)) == number.neutral(family)
        assert number.name not in FREE_CONSTANTS[family][0]


def test_numbers_come_back_even_after_an_error() -> None:
    inside = [number for number in TUNED if number.module]
    before = [getattr(sys.modules[n.module], n.name) for n in inside if n.module]

    def fail() -> None:
        with numbers_at(dict.fromkeys(TUNED, 0.5)):
            assert all(getattr(sys.modules[n.module], n.name) == 0.5 for n in inside if n.module)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [getattr(sys.modules[n.module], n.name) for n in inside if n.module] == before


def test_the_figures_of_profiles_that_cite_runs_are_listed() -> None:
    found = set()
    for path in (ROOT / "hardware_profiles").rglob("*.yaml"):
        profile = yaml.safe_load(path.read_text(encoding="utf-8"))
        found |= {f"{key} of profiles" for key, entry in profile.items() if "runs-fit" in str(entry)}
    assert found == {name for name in FORM if name.endswith(" of profiles")}


def test_no_module_keeps_a_copy_of_a_number_that_may_move() -> None:
    names = {number.name for number in TUNED if number.module}
    for path in (ROOT / "cost_models").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        taken = {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        assert not taken & names, path


def test_the_list_in_the_documents_is_that_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run `make docs`"
    assert f"{len(TUNED)} numbers: {len([n for n in TUNED if n.module is None])} priors of constants" in page
