"""Every documented command, run as a user runs it; what a start could change, in processes of their own."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import ROOT, command, process

POST_TRAINING = ROOT / "examples" / "rl-math-7b.yaml"
EXAMPLES = sorted({*(ROOT / "examples").glob("*.yaml")} - {POST_TRAINING})
SMALL = ("search", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "8")
LIMITS = ("--tp", "1..8", "--pp", "1,2", "--vpp", "1", "--cp", "1", "--recompute", "none,full")


def refused(run: subprocess.CompletedProcess[str], part: str, code: int = 2) -> None:
    assert run.returncode == code, run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert run.stderr.count("\n") == 1
    assert part in run.stderr


def documents(run: subprocess.CompletedProcess[str]) -> Any:
    def finite_only(name: str) -> None:
        raise AssertionError(f"{name} in a document")

    return json.loads(run.stdout, parse_constant=finite_only)


def check_schema(value: Any, schema: dict[str, Any], definitions: dict[str, Any], where: str = "document") -> None:
    """The parts of JSON Schema that our documents use."""
    if "$ref" in schema:
        check_schema(value, definitions[schema["$ref"].rsplit("/", 1)[1]], definitions, where)
        return
    if "anyOf" in schema:
        assert any(_matches(value, option, definitions, where) for option in schema["anyOf"]), where
        return
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
    }
    if "const" in schema:
        assert value == schema["const"], where
    if "enum" in schema:
        assert value in schema["enum"], where
    if "type" in schema:
        assert isinstance(value, kinds[schema["type"]]), where
        assert schema["type"] == "boolean" or not isinstance(value, bool), where
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), where
        assert schema.get("additionalProperties") is not False or set(value) <= set(properties), where
        for name, item in value.items():
            extra = schema.get("additionalProperties", {})
            check_schema(item, properties.get(name, extra if isinstance(extra, dict) else {}), definitions, f"{where}.{name}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            check_schema(item, schema.get("items", {}), definitions, f"{where}[{index}]")


def _matches(value: Any, schema: dict[str, Any], definitions: dict[str, Any], where: str) -> bool:
    try:
        check_schema(value, schema, definitions, where)
    except AssertionError:
        return False
    return True


@cache
def schema_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = documents(command("schema", name))
    return found


def agrees_with_schema(document: Any, name: str) -> None:
    schema = schema_of(name)
    check_schema(document, schema, schema["$defs"])


def test_help_and_version() -> None:
    assert "search" in process("--help").stdout
    for name in ("search", "estimate", "validate", "schema", "hardware", "models"):
        assert command(name, "--help").returncode == 0
    assert re.fullmatch(r"meshplan \d+\.\d+\.\d+\S*\n", process("--version").stdout)


def test_no_command_is_usage_and_prints_the_help() -> None:
    run = process()
    assert (run.returncode, run.stderr) == (2, "")
    assert "search" in run.stdout


def test_search_prints_a_table_and_nothing_else_on_standard_output() -> None:
    run = process(*SMALL, *LIMITS, COLUMNS="80")
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in run.stdout
    assert len(lines) <= 18
    assert any(line.startswith("Run ") and "plan " in line for line in lines)
    assert any("--details" in line for line in lines)


def test_search_document() -> None:
    run = command(*SMALL, *LIMITS, "--top", "3", "--json")
    assert run.returncode == 0
    document = documents(run)
    agrees_with_schema(document, "search")
    counts, plans = document["counts"], document["plans"]
    assert counts["enumerated"] == counts["legal"] + sum(rejection["count"] for rejection in document["rejections"])
    assert document["proof"]["proved_best"]
    assert [plan["rank"] for plan in plans] == [1, 2, 3]
    assert {plan["strategy"]["pp"] for plan in plans} <= {1, 2}
    times = [plan["estimate"]["step_time_s"] for plan in plans]
    assert times == sorted(times)
    for plan in plans:
        estimate = plan["estimate"]
        assert math.isclose(math.fsum(estimate["time_breakdown_s"].values()), estimate["step_time_s"], rel_tol=1e-9)
        assert math.isclose(math.fsum(estimate["memory_breakdown_bytes"].values()), estimate["peak_memory_bytes"], rel_tol=1e-9)
        assert estimate["fits"]
        assert estimate["headroom_bytes"] == estimate["memory_limit_bytes"] - estimate["peak_memory_bytes"]


def test_a_saved_plan_is_estimated_as_it_was_ranked(tmp_path: Path) -> None:
    run = command(*SMALL, *LIMITS, "--top", "2", "--save-dir", tmp_path / "out")
    assert run.returncode == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.txt", "report.json", "job.yaml", "plan-1.job.yaml", "plan-2.job.yaml"} <= names
    assert any(re.fullmatch(r"plan-1\.[a-z-]+\.sh", name) for name in names)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    again = documents(command("estimate", tmp_path / "out" / "plan-1.job.yaml", "--simulate", "--json"))
    assert again["estimate"] == report["plans"][0]["estimate"]
    assert again["strategy"] == report["plans"][0]["strategy"]
    script = next(path for path in (tmp_path / "out").glob("plan-1.*.sh"))
    shell = subprocess.run(
        ["bash", "-c", f'set -eu; source "{script}"; printf "%s\\n" "${{ARGUMENTS[@]}}"'],
        capture_output=True,
        text=True,
        check=True,
    )
    framework = script.name.removeprefix("plan-1.").removesuffix(".sh")
    assert shell.stdout.splitlines() == report["plans"][0]["launch"][framework]["arguments"]


def test_the_example_of_post_training_is_estimated() -> None:
    run = command("rl", "estimate", POST_TRAINING, "--json")
    assert run.returncode == 0, run.stderr
    found = documents(run)
    assert found["step_time_low_s"] < found["step_time_s"] < found["step_time_high_s"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_estimated(example: Path) -> None:
    run = command("estimate", example, "--json")
    assert run.returncode == 0, run.stderr
    document = documents(run)
    agrees_with_schema(document, "estimate")
    assert {"name": document["strategy"]["name"], **document["job"]["strategy"]} == document["strategy"]


def test_estimate_from_flags_and_what_does_not_fit_is_an_answer() -> None:
    flags = ("estimate", "llama-2-70b", "--hardware", "atlas-800t-a2", "--devices", "16", "--seq-length", "4096")
    lean = command(*flags, "--global-batch-size", "16", "--tp", "8", "--pp", "2", "--recompute", "full", "--json")
    assert lean.returncode == 0
    run = command(*flags, "--global-batch-size", "16", "--tp", "1", "--pp", "1", "--json")
    assert run.returncode == 0
    document = documents(run)
    assert document["estimate"]["fits"] is False
    assert document["estimate"]["headroom_bytes"] < 0
    assert documents(lean)["estimate"]["peak_memory_bytes"] < document["estimate"]["peak_memory_bytes"]
    assert "DOES NOT FIT" in command(*flags, "--global-batch-size", "16", "--tp", "1").stdout


SIMULATED = (
    "estimate", "llama-2-13b", "--hardware", "atlas-900-a2-podc", "--devices", "8", "--seq-length", "4096",
    "--global-batch-size", "32", "--pp", "4", "--recompute", "block:1",
)  # fmt: skip


def test_what_a_plan_delivers(tmp_path: Path) -> None:
    job = ("llama-2-70b", "--hardware", "atlas-800t-a2", "--devices", "512", "--tp", "8", "--pp", "4", "--recompute", "full")
    log = tmp_path / "log.csv"
    log.write_text("time\n2026-03-01T00:00:00\n2026-03-08T06:30:00\n", encoding="utf-8")
    run = command("goodput", *job, "--mtbf", "3.1h", "--histories", "100", "--json")
    document = documents(run)
    schema = documents(command("schema", "goodput"))
    check_schema(document, schema, schema["$defs"])
    assert document["mtbf_s"] == pytest.approx(11_160)
    shown = command("goodput", *job, "--failure-log", log, "--log-nodes", "64", "--histories", "100", "--details")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "2 interruptions in" in " ".join(shown.stdout.split())
    refused(command("goodput", *job, "--mtbf", "3x"), "--mtbf: '3x' is not allowed")
    refused(command("goodput", *job, "--failure-log", log), "--log-nodes")
    refused(command("goodput", *job, "--failure-log", log, "--log-nodes", "64", "--mtbf", "3h"), "beside --failure-log")
    site = tmp_path / "site.yaml"
    site.write_text("failures_per_node_day: 1\nhistories: 100\n", encoding="utf-8")
    assert documents(command("goodput", *job, "--delivery", site, "--mtbf", "3.1h", "--json"))["mtbf_s"] == pytest.approx(11_160)


def test_a_measured_step_beside_the_predicted_one(tmp_path: Path) -> None:
    trace, job, records = (
        ROOT / "tests" / "fixtures" / "traces" / "step_trace_time.csv",
        ROOT / "examples" / "llama-2-13b.yaml",
        tmp_path / "runs.jsonl",
    )
    run = command("compare-trace", trace, "--job", job, "--step", "11", "--json")
    document = documents(run)
    schema = documents(command("schema", "compare-trace"))
    check_schema(document, schema, schema["$defs"])
    assert (document["trace"]["rank"], document["trace"]["step"]) == (0, 11)
    shown = command("compare-trace", trace, "--job", job, "--records", records)
    assert shown.returncode == 0
    assert f"meshplan calibrate {records} --hardware atlas-900-a2-podc --stack mindspeed-llm" in shown.stderr
    assert "Most of it is in" in shown.stdout
    assert documents(command("validate", records, "--json"))["summary"]
    refused(command("compare-trace", trace, "--job", job, "--rank", "7"), f"{trace}: holds no rank 7; it has 0, 1.")
    refused(command("compare-trace", job, "--job", job), "no column Computing")
    refused(command("compare-trace", tmp_path / "none.json", "--job", job), "cannot be read (No such file or directory)")


def test_a_job_at_many_sizes(tmp_path: Path) -> None:
    job = (
        "llama-2-7b",
        "--hardware",
        "atlas-800t-a2",
        "--global-batch-size",
        "64",
        "--seq-length",
        "4096",
        "--tp",
        "8",
        "--pp",
        "1",
    )
    table = tmp_path / "points.csv"
    document = documents(command("sweep", *job, "--devices", "8..16", "--output", table, "--json"))
    schema = documents(command("schema", "sweep"))
    check_schema(document, schema, schema["$defs"])
    assert [point["num_devices"] for point in document["points"]] == [8, 16]
    assert document["best"]["point"] == 2
    assert len(table.read_text(encoding="utf-8").splitlines()) == 3
    late = command("sweep", *job, "--devices", "8", "--deadline-days", "1")
    assert late.returncode == 4
    assert "the fastest takes" in late.stdout
    cut = command("sweep", *job, "--devices", "8,16", "--time-limit", "0.000001")
    assert cut.returncode == 5
    assert "1 of 2 points" in cut.stderr
    refused(command("sweep", *job, "--devices", "0,8"), "--devices")
    refused(command("sweep", *job, "--devices", "8", "--deadline-days", "0"), "--deadline-days: 0")


def test_a_simulated_estimate_and_its_timeline(tmp_path: Path) -> None:
    trace = tmp_path / "trace_view.json"
    run = command(*SIMULATED, "--timeline", trace, "--json")
    assert run.returncode == 0, run.stderr
    assert str(trace) in run.stderr
    document = documents(run)
    agrees_with_schema(document, "estimate")
    assert document["estimate"]["fidelity"] == "simulated"
    assert document == documents(command(*SIMULATED, "--simulate", "--json"))
    closed = documents(command(*SIMULATED, "--json"))["estimate"]
    assert math.isclose(document["simulation"]["closed_form_step_time_s"], closed["step_time_s"], rel_tol=1e-12)
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    end_us = max(event["ts"] + event["dur"] for event in events)
    assert math.isclose(end_us, document["estimate"]["step_time_s"] * 1e6, rel_tol=1e-9)
    assert {event["pid"] for event in events} == {0, 1, 2, 3}
    shown = command(*SIMULATED, "--simulate", COLUMNS="80").stdout
    assert max(map(len, shown.splitlines())) <= 80
    for part in ("closed form", "simulated", "lower bound", "masked share", "pipeline rank", "peak at"):
        assert part in shown


def test_a_timeline_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    refused(command(*SIMULATED, "--timeline", tmp_path / "missing" / "trace.json"), "--timeline: ")
    # 4 ranks x 100,000 / dp 2 micro batches, a forward and a backward each
    many = command(*SIMULATED, "--global-batch-size", "100000", "--timeline", tmp_path / "trace.json")
    refused(many, "pp 4 x vpp 1 x 50,000 micro batches are 400,000 tasks, more than the 100,000 of a timeline")


def test_validate(tmp_path: Path) -> None:
    lines = (ROOT / "calibration" / "runs" / "ascend.jsonl").read_text().splitlines()[:4]
    runs = tmp_path / "runs.jsonl"
    runs.write_text("\n".join([lines[0], "{broken", *lines[1:]]) + "\n")
    run = command("validate", runs, "--json")
    assert run.returncode == 0, run.stderr
    document = documents(run)
    agrees_with_schema(document, "validate")
    assert [row["refused"] is None for row in document["rows"]] == [True, False, True, True, True]
    assert [json.loads(line)["id"] for line in lines] == [row["id"] for row in document["rows"] if row["refused"] is None]
    row = document["rows"][0]
    assert row["error_fraction"] == pytest.approx(row["predicted_step_time_s"] / row["measured_step_time_s"] - 1)
    assert "median" in command("validate", runs).stdout
    runs.write_text("{broken\n")
    refused(command("validate", runs), "")


def test_catalogues() -> None:
    listed = documents(command("hardware", "list", "--json"))["items"]
    assert "atlas-800t-a2" in {item["name"] for item in listed}
    shown = documents(command("hardware", "show", "atlas-800t-a2", "--json"))
    assert all(stated["source"] and stated["unit"] for stated in shown["provenance"].values())
    assert "atlas-800t-a2" in command("hardware", "list").stdout
    assert "hbm_bytes" in command("hardware", "show", "atlas-800t-a2").stdout
    assert "qwen3-8b" in {item["name"] for item in documents(command("models", "list", "--json"))["items"]}
    assert "qwen3-8b" in command("models", "list").stdout
    assert documents(command("models", "show", "qwen3-8b", "--json"))["model"]["num_layers"] == 36


def test_an_imported_model_is_a_job_s_model(tmp_path: Path) -> None:
    config = next(iter(sorted((ROOT / "tests" / "fixtures" / "huggingface").rglob("*.json"))))
    imported = yaml.safe_load(command("models", "import", config).stdout)
    job = {
        "model": imported["model"],
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 2048, "global_batch_size": 8},
        "strategy": {"dp": 8},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert command("estimate", tmp_path / "job.yaml").returncode == 0
    assert list(imported) == ["model"]
    assert command("models", "import", config, "--json").stdout.startswith("{")


def test_a_count_that_cannot_be_filled_exits_4_and_names_one_that_can() -> None:
    # 37 is prime and divides neither heads, layers, sequence nor batch; 36 = 4 x 9 stages
    arguments = ("search", "llama-2-7b", "--hardware", "atlas-800t-a2", "--global-batch-size", "64", *LIMITS[4:])
    run = command(*arguments, "--devices", "37", "--json")
    assert run.returncode == 4
    document = documents(run)
    agrees_with_schema(document, "search")
    assert document["plans"] == []
    assert re.search(r"\b36\b", document["nearest"])
    assert re.search(r"\b36\b", run.stderr)
    spare = documents(command(*arguments, "--devices-at-most", "37", "--json"))
    assert spare["job"]["cluster"]["num_devices"] == 36
    assert spare["plans"]


def test_a_model_that_does_not_fit_exits_4_and_says_what_would_do() -> None:
    run = command(
        "search", "llama-3.1-70b", "--hardware", "atlas-800t-a2", "--devices", "1", "--global-batch-size", "8", *LIMITS[6:]
    )
    assert run.returncode == 4
    assert "each checked with a plan that fits: 10 devices" in " ".join(run.stdout.split())
    assert run.stderr == "No plan: the answer says why\n"  # not all of it again


def test_a_search_cut_by_its_time_limit_exits_5() -> None:
    run = command(
        "search", "pangu-ultra-moe-718b", "--hardware", "atlas-800t-a2", "--devices", "6144", "--time-limit", "0.01", "--json"
    )
    assert run.returncode == 5
    document = documents(run)
    assert document["proof"]["stopped_by"] == "time_limit"
    assert not document["proof"]["proved_best"]


def test_our_own_faults_exit_1_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise RuntimeError('planted')\n")
    run = process("models", "list", PYTHONPATH=str(tmp_path))
    refused(run, "internal error: RuntimeError: planted. Please report it", code=1)
    assert "Traceback" in process("models", "list", PYTHONPATH=str(tmp_path), MESHPLAN_DEBUG="1").stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_is_one_sentence() -> None:
    started = [sys.executable, "-m", "meshplan", "schema", "job"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = subprocess.run(started, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 1
    assert "standard output: No space left on device" in run.stderr
    assert "Traceback" not in run.stderr


def test_files_are_written_though_nobody_reads_the_answer(tmp_path: Path) -> None:
    folder, table = tmp_path / "plans", tmp_path / "sweep.csv"
    sweep = ("sweep", *SMALL[1:], "--tp", "8", "--pp", "1", "--output", table)
    for arguments in ((*SMALL, *LIMITS, "--save-dir", folder), sweep):
        started = [sys.executable, "-m", "meshplan", *map(str, arguments)]
        with subprocess.Popen(started, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            run.stdout.close()
            assert run.wait(timeout=60) == 0, run.stderr
    assert (folder / "report.json").is_file()
    assert table.is_file()


def test_the_same_search_prints_the_same_plans() -> None:
    first, second = (documents(process(*SMALL, *LIMITS, "--json")) for _ in range(2))
    assert first["plans"] == second["plans"]
    assert first["counts"] == second["counts"]
