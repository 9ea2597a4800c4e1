"""Answers in the same process: those of the commands, refusals as from a server, and data frames."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mypy import api as mypy

import meshplan
from meshplan import local
from meshplan.errors import MeshplanError
from meshplan.local import LocalPlan, SearchResult

ROOT = Path(__file__).resolve().parents[3]
JOB = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}


@pytest.fixture(scope="module")
def found() -> SearchResult:
    return meshplan.search(JOB, search={"top": 2})


class Frame:
    """What pandas and polars make of columns, as far as it matters here."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        assert len({len(values) for values in columns.values()}) == 1
        self.columns = columns


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in, since neither library belongs to the tests."""
    module = ModuleType("pandas")
    module.DataFrame = Frame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", module)
    monkeypatch.setitem(sys.modules, "polars", None)  # importing it fails
    return module


def test_a_search_ranks_plans_and_proves_the_first(found: SearchResult) -> None:
    assert [plan.rank for plan in found.plans] == [1, 2, 4]  # the recommended one is listed beyond `top`
    assert found.best.rank == 4
    assert found.best.plan_id == found.document["recommended"]["plan_id"]
    assert found.proved_best
    assert found.best.fits
    assert found.best.launchable_on == ["mindspeed-llm@master"]
    assert repr(found.best).startswith("<LocalPlan: ")
    assert found.best.peak_memory_bytes < 64e9
    json.dumps(found.document)


def test_an_estimate_of_a_plan_is_that_of_the_search(found: SearchResult) -> None:
    again = meshplan.estimate({**found.job, "strategy": found.best.strategy}, simulate=True)
    assert again.step_time_s == pytest.approx(found.best.step_time_s)
    assert again.strategy == found.best.strategy


def test_a_timeline_ends_with_the_step(found: SearchResult, tmp_path: Path) -> None:
    played = found.best.timeline()
    assert played.step_time_s == pytest.approx(found.best.step_time_s)
    assert played.num_ranks == len(played.bubble_s) == found.best.strategy["pp"]
    played.save(tmp_path / "step.json")
    assert json.loads((tmp_path / "step.json").read_text())["traceEvents"]


def test_a_job_is_a_mapping_a_file_or_a_preset() -> None:
    file = ROOT / "examples/deepseek-v2-lite.yaml"
    by_path, by_text = (meshplan.estimate(given) for given in (file, str(file)))
    assert by_path.document == by_text.document
    by_name = meshplan.estimate("llama-2-7b", cluster=JOB["cluster"], strategy={"tp": 8})
    assert by_name.step_time_s == meshplan.estimate({**JOB, "strategy": {"tp": 8}}).step_time_s


def test_fields_go_by_their_names_into_the_section_that_has_them() -> None:
    by_name = meshplan.estimate("llama-2-7b", hardware="atlas-800t-a2", devices=8, tp=8, seq_length=2048, target="any")
    by_section = meshplan.estimate(
        JOB, strategy={"tp": 8}, training={"seq_length": 2048}, software={"target": "any"}, cluster="atlas-800t-a2"
    )
    assert by_name.document == by_section.document
    assert meshplan.search(JOB, tp=8, top=1).best.strategy["tp"] == 8  # a limit of the search, no strategy to beat


def test_an_estimate_says_its_numbers_by_name() -> None:
    priced = meshplan.estimate(JOB, tp=8)
    assert sum(priced.time_breakdown_s.values()) == pytest.approx(priced.step_time_s)
    assert sum(priced.memory_breakdown_bytes.values()) == pytest.approx(priced.peak_memory_bytes)
    assert priced.step_time_interval_s is not None
    assert priced.step_time_interval_s[0] < priced.step_time_s < priced.step_time_interval_s[1]
    assert (priced.tokens_per_s, priced.mfu_fraction) == (priced.numbers["tokens_per_s"], priced.numbers["mfu_fraction"])
    assert priced.warnings == []
    unvalidated = meshplan.estimate(JOB, hardware="mi300x", tp=8)
    assert any("unvalidated" in sentence for sentence in unvalidated.warnings)


def test_two_plans_are_compared_in_a_sentence(found: SearchResult) -> None:
    first, second, _ = found.plans
    word = "slower" if first.step_time_s > second.step_time_s else "faster"
    assert re.match(rf"This plan is [\d.]+% {word} than the other: it ", first.compare(second))


def test_a_search_is_saved_as_the_command_saves_it_and_not_over_another(found: SearchResult, tmp_path: Path) -> None:
    found.save(tmp_path / "plans")
    names = {path.name for path in (tmp_path / "plans").iterdir()}
    assert {"report.json", "job.yaml", "plan-1.job.yaml", "plan-2.mindspeed-llm.sh"} <= names
    for plan in found.plans:
        assert plan.files().keys() <= names
        assert all((tmp_path / "plans" / name).read_text() == text for name, text in plan.files().items())
    with pytest.raises(MeshplanError, match=r"^folder: .* or overwrite=True to replace it\.$"):
        found.save(tmp_path / "plans")
    found.save(tmp_path / "plans", overwrite=True)
    assert found.report().startswith("<!doctype html>")
    assert found.report("markdown", "zh").startswith("# llama-2-7b")
    with pytest.raises(MeshplanError, match="form: 'pdf' is no known name; did you mean 'pdf-ready'"):
        found.report("pdf")  # type: ignore[arg-type]


def test_checks_sweeps_and_deliveries_are_those_of_the_commands(frames: ModuleType) -> None:
    checked = meshplan.check(JOB, tp=8, budget={"step_time_s": {"max": 1.0}})
    assert (checked["status"], checked["exit_code"]) == ("broken", 3)
    again = meshplan.check(JOB, tp=8, baseline=meshplan.estimate(JOB, tp=8).document)
    assert again["status"] == "passed"
    swept = meshplan.sweep(JOB, devices=[8, 16], pp=1, tp=[4, 8])
    assert swept.to_frame().columns["num_devices"] == [8, 16]
    assert repr(swept) == "<SweepResult: 2 points>"
    less = meshplan.goodput(JOB, tp=8, mtbf_s=1e6).document["effective_time_fraction"]
    assert 0.0 < less < 1.0


def test_sections_replace_fields_of_the_job_and_leave_the_others() -> None:
    longer = meshplan.estimate({**JOB, "training": {"global_batch_size": 64}}, training={"seq_length": 2048}, strategy={"tp": 8})
    assert longer.job["training"]["seq_length"] == 2048
    assert longer.job["training"]["global_batch_size"] == 64


def test_an_explanation_has_what_the_command_says() -> None:
    explained = meshplan.explain(JOB, strategy={"tp": 8})
    assert explained.document["bound_by"]
    assert explained.strategy["tp"] == 8


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({**JOB, "strategy": {"tp": 3}}, "does not divide the 8 devices"),
        (JOB, "strategy: missing"),
        ({**JOB, "strategy": {"tp": float("nan")}}, "strategy.tp: nan"),
        ({**JOB, "cluster": 5}, "cluster"),
        ("nothing.yaml", "no such file"),
        (5, "job: 5 is not allowed; give a mapping, the path of a job file, or a preset's name"),
        (None, "job: null is not allowed"),
    ],
)
def test_a_refusal_is_one_sentence(job: Any, says: str) -> None:
    with pytest.raises(MeshplanError, match=says) as refusal:
        meshplan.estimate(job)
    assert refusal.value.status == 422
    assert "\n" not in refusal.value.detail


def test_a_field_that_no_section_has_is_told_with_its_nearest() -> None:
    with pytest.raises(MeshplanError, match="hardwar: neither a section of a job nor a field of one; did you mean 'hardware'"):
        meshplan.search("llama-2-7b", hardwar="atlas-800t-a2", devices=8)
    with pytest.raises(MeshplanError, match="training: 5 is not allowed; give a mapping") as refusal:
        meshplan.search(JOB, training=5)
    assert (refusal.value.pointer, refusal.value.hint) == ("#/training", "Give a mapping of its fields.")


def test_names_are_there_for_who_types_and_for_who_checks_types(tmp_path: Path) -> None:
    assert {"search", "estimate", "sweep", "check", "goodput", "Client", "AsyncClient", "SearchResult"} <= set(dir(meshplan))
    script = tmp_path / "script.py"
    script.write_text(
        "import meshplan\n"
        "def best(devices: int) -> meshplan.SearchResult:\n"
        "    return meshplan.search('llama-2-7b', hardware='atlas-800t-a2', devices=devices)\n"
        "reveal_type(best(8).best.step_time_s)\n"
        "reveal_type(best(8).best.timeline().plot())\n"
        "meshplan.serach('llama-2-7b')\n"
    )
    said, _, _ = mypy.run(["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(script)])
    assert re.findall(r'Revealed type is "(?:builtins\.)?([^"]+)"', said) == ["float", "meshplan.local.Drawing"]
    assert 'Module has no attribute "serach"' in said
    assert said.count(": error: ") == 1


def test_a_search_without_a_plan_says_the_nearest_that_has_one() -> None:
    large = {"model": "pangu-ultra-moe-718b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}
    none = meshplan.search(large)
    assert none.plans == []
    with pytest.raises(MeshplanError, match="There is no plan: "):
        assert none.best


def test_frames_have_a_row_for_each_plan_part_and_bar(found: SearchResult, frames: ModuleType) -> None:
    plans = found.to_frame().columns
    assert plans["rank"] == [1, 2, 4]
    assert plans["step_time_s"] == [plan.step_time_s for plan in found.plans]
    assert plans["tp"][0] == found.best.strategy["tp"]
    parts = found.best.to_frame("pandas").columns
    seconds = [value for quantity, value in zip(parts["quantity"], parts["value"], strict=True) if quantity == "time_breakdown_s"]
    assert sum(seconds) == pytest.approx(found.best.step_time_s)
    played = found.best.timeline()
    bars = played.to_frame().columns
    assert len(bars["kind"]) == len(played.tasks["kind"])
    assert "forward" in " ".join(set(bars["kind"])).lower()


def test_a_library_that_is_not_there_is_named(found: SearchResult, frames: ModuleType) -> None:
    with pytest.raises(MeshplanError, match="to_frame needs polars"):
        found.to_frame("polars")
    with pytest.raises(MeshplanError, match="library: 'excel' is not allowed"):
        found.to_frame("excel")  # type: ignore[arg-type]


def test_a_foreign_package_of_the_same_name_is_said(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/__init__.py").write_text("")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import app; import meshplan\n"
        "try: meshplan.estimate({})\nexcept meshplan.MeshplanError as error: print(error.status, error, error.hint)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert shown.stdout.startswith("0 app is another package in this process, imported from "), shown.stderr
    assert "meshplan.Client" in shown.stdout


def test_plans_are_estimates() -> None:
    assert issubclass(LocalPlan, local.Estimate)


def test_an_estimate_loads_neither_a_server_nor_a_database() -> None:
    code = (
        "import sys, meshplan\n"
        "meshplan.estimate('llama-2-7b', cluster={'hardware': 'atlas-800t-a2', 'num_devices': 8}, strategy={'tp': 8})\n"
        "sys.exit(bool({'fastapi', 'httpx', 'optuna', 'sqlalchemy'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
