"""A new framework is a folder and an entry in the registry: both are made here in a copy, and everything else follows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOY = '''"""A framework with three arguments, of which one excludes another."""

from collections.abc import Mapping, Sequence
from typing import Any

from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload
from frameworks.draft import Draft
from frameworks.facts import fact_rule, number, switch
from frameworks.framework import Framework, LaunchArguments, ReadJob, Start
from frameworks.placements import ANYWHERE
from frameworks.offer_rules import offered_rule, schedule_rule
from frameworks.release import Argument, Exclusion, Kind, Release, read_tokens
from frameworks.table import SwitchArgument, Table
from frameworks.target import Target

RELEASE = Release(
    "toy",
    "1.0",
    {"toy/toy": "abc"},
    {"All": (Argument("split", Kind.INTEGER), Argument("mc2", Kind.SWITCH, False))},
    exclusions=(Exclusion(("mc2", "split>4"), "[toy, README]", "toy_mc2"),),
)
TABLE = Table({"tp": "split"}, (SwitchArgument(Feature.MC2, "mc2"),), {Dispatcher.ALLTOALL: ""}, {}, {Schedule.ONE_F_ONE_B: ""})
RULES = (
    offered_rule("toy_features", "[toy, README]", "toy", TABLE),
    schedule_rule("toy_schedule", "[toy, README]", "toy", TABLE),
    fact_rule(RELEASE, {"mc2": switch(Feature.MC2), "split": number("tp")}, "toy_mc2", "mc2 splits tensors in 4 at most"),
)


def nearest(workload: Workload, planned: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    draft = Draft(workload, planned)
    draft.offered(TABLE, "toy")
    draft.drop_broken(RULES[2])
    return draft.finish()


def write(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    s, notes = nearest(workload, planned)
    return LaunchArguments(s, ("--split", str(s.tp), *(("--mc2",) if Feature.MC2 in s.features else ())), {"TOYS": "1"}, notes)


def read(arguments: Sequence[str], _num_devices: int | None) -> ParallelStrategy:
    given, _ = read_tokens(RELEASE, list(arguments))
    return ParallelStrategy(tp=int(given["split"][0]), features=Feature.MC2 if "mc2" in given else Feature(0))


def read_job(arguments: Sequence[str], num_devices: int | None) -> ReadJob:
    model = ModelShape("toy", 1, 64, 64, 1, 1, 64, 64)
    return ReadJob(model, read(arguments, num_devices), None, None, "bf16", ())


def file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    return f"# {start.title}: {release.name}, {purposes['TOYS']}\\n{' '.join(launch['arguments'])}"


TARGET = Target("toy", "1.0", families=("ascend",))
TOY = Framework(TARGET, RELEASE, TABLE, RULES, nearest, write, read, read_job, "txt", {"TOYS": "how many"}, file, ANYWHERE, ())
'''
ASKED = """
import importlib.util
from dataclasses import replace
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.framework import Start
from frameworks.legality import RULES, first_violation, launchable_on, violations
from frameworks.registry import parse_target
from frameworks.registry import BY_NAME, TARGETS, offered
from tests.unit.frameworks.legality_workloads import DENSE_PLAN, job
from cost_models.shapes.strategy import Schedule

plan = replace(DENSE_PLAN, vpp=1, schedule=Schedule.ONE_F_ONE_B, features=Feature.MC2)
wide = replace(plan, tp=8, dp=2)
assert [target.label for target in TARGETS][-1] == "toy@1.0"
assert parse_target("toy").release == "1.0"
assert [rule.name for rule in RULES][-3:] == ["toy_features", "toy_schedule", "toy_mc2"]
assert launchable_on(job(), plan)[-1] == "toy@1.0"
assert "toy@1.0" not in launchable_on(job(), wide)
assert [(v.rule, v.sentence) for v in violations(job(), wide, "toy")] == [("toy_mc2", "mc2 over tp 8 excludes tp 8")]
assert RULES[first_violation(job(), StrategyBatch.of([wide]), "toy")[0]].name == "toy_mc2"
block = launch_block(job(), plan)["toy"]
assert (block["launchable"], block["arguments"]) == (True, ["--split", "4", "--mc2"])
assert BY_NAME["toy"].read(block["arguments"], None) == replace(plan, pp=1, dp=1, sequence_parallel=False, schedule=Schedule.NONE)
block = launch_block(job(), wide)["toy"]
assert block["arguments"] == ["--split", "8"]
assert block["notes"][-1] == "Not as planned: mc2 is left out: it excludes tp 8."
assert launch_file("toy", block, Start("Plan 1", 64, 8)) == ("txt", "# Plan 1: toy, how many\\n--split 8")
assert Feature.MC2 in offered("toy", "ascend") and Feature.COC not in offered("toy", "ascend")
spec = importlib.util.spec_from_file_location("write_legality", "scripts/pages/write_legality.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert "`toy@1.0`" in module.document() and "| `toy_mc2` | toy |" in module.document()
"""


SECOND = """
from dataclasses import replace as changed

TWO = changed(
    TOY, target=changed(TARGET, release="2.0", other_releases=("2.1",)), rules=RULES[:2],
    release=changed(RELEASE, version="2.0", exclusions=()),
    nearest=lambda w, s: (s, ()), write=lambda w, s: LaunchArguments(s, ("--split", "2.0"), {}, ()),
)
"""
ASKED_OF_TWO = """
from dataclasses import replace
from cost_models.shapes.switches import Feature
from cost_models.shapes.strategy import Schedule
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.legality import launchable_on, rules_for, violations
from frameworks.registry import offered, parse_target
from tests.unit.frameworks.legality_workloads import DENSE_PLAN, job

wide = replace(DENSE_PLAN, vpp=1, schedule=Schedule.ONE_F_ONE_B, features=Feature.MC2, tp=8, dp=2)
assert [parse_target(text).label for text in ("toy", "toy@2.1")] == ["toy@1.0", "toy@2.0"]
assert [label for label in launchable_on(job(), wide) if "toy" in label] == ["toy@2.0"]
assert [v.rule for v in violations(job(), wide, "toy")] == ["toy_mc2"]
assert not violations(job(), wide, "toy@2.0")
assert "toy_mc2" not in [rule.name for rule in rules_for("toy@2.0")]
assert Feature.MC2 in offered("toy@2.0", "ascend")
for target, label in (("any", "toy@2.0"), ("toy", "toy@1.0"), ("toy@2.0", "toy@2.0"), ("mindspeed-llm", "toy@2.0")):
    made = replace(job(), software=replace(job().software, target=target))
    block = launch_block(made, wide)["toy"]
    assert (block["target"], block["launchable"]) == (label, label == "toy@2.0")
    assert launch_file("toy", block, Start("Plan 1", 64, 8))[1].endswith("2.0" if label == "toy@2.0" else "8")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for package in ("cost_models", "frameworks", "hardware_profiles", "documents", "scripts", "tests/unit/frameworks"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "frameworks" / "toy").mkdir()
    (tmp_path / "frameworks" / "toy" / "__init__.py").write_text('"""A toy."""\n', encoding="utf-8")
    return tmp_path


def register(checkout: Path, toy: str, entries: str = "TOY", asked: str = ASKED) -> subprocess.CompletedProcess[str]:
    """One folder and one entry, and what the copy then answers."""
    (checkout / "frameworks" / "toy" / "framework.py").write_text(toy, encoding="utf-8")
    registry = checkout / "frameworks" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    text, found = re.subn(r"^(FRAMEWORKS: .* = \([^)]*)\)", rf"\1, {entries})", text, flags=re.MULTILINE)
    assert found == 1
    text = text.replace("from frameworks.target", f"from frameworks.toy.framework import {entries}\nfrom frameworks.target")
    registry.write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", asked]
    return subprocess.run(command, cwd=checkout, env={"PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=False)


def test_a_folder_and_an_entry_make_a_framework(checkout: Path) -> None:
    asked = register(checkout, TOY)
    assert asked.returncode == 0, asked.stderr


def test_a_second_release_has_rules_arguments_and_a_target_of_its_own(checkout: Path) -> None:
    asked = register(checkout, TOY + SECOND, "TOY, TWO", ASKED_OF_TWO)
    assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize(
    ("whole", "half", "sentence"),
    [
        # a fact whose rule is not among the rules
        (
            '"mc2 splits tensors in 4 at most"),\n)',
            '"mc2 splits tensors in 4 at most"),\n)[:2]',
            "name toy_mc2, which are no rules",
        ),
        # a rule without a fact
        ('"[toy, README]", "toy_mc2")', '"[toy, README]")', "toy_mc2: the facts of toy with this rule are about nothing"),
        # a condition on an argument of which no plan says anything
        ('"split": number("tp")', '"splits": number("tp")', "KeyError: 'split'"),
    ],
)
def test_half_a_framework_does_not_start(checkout: Path, whole: str, half: str, sentence: str) -> None:
    assert whole in TOY
    asked = register(checkout, TOY.replace(whole, half))
    assert asked.returncode == 1
    assert sentence in asked.stderr.splitlines()[-1]
