"""Every file that meshplan writes, given to every command that reads one: it works, or one line says what the file is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import command

JOB = "plans/plan-1.job.yaml"
DEVICES = ("--hardware", "atlas-800t-a2")
SIZE = ("llama-2-7b", *DEVICES, "--devices", "8", "--global-batch-size", "64", "--seq-length", "4096", "--micro-batch-size", "1")
FSDP = ("llama-3.1-8b", *"--hardware h100-sxm-80gb --devices 8 --global-batch-size 64 --seq-length 8192 --zero-stage 3".split())
READERS: dict[str, Callable[[str], tuple[str, ...]]] = {
    **{name: lambda file, name=name: (name, file) for name in ("estimate", "search", "explain", "goodput", "verify", "validate")},
    "sweep": lambda file: ("sweep", file, "--devices", "8"),
    "check": lambda file: ("check", file, "--budget", "budget.yaml"),
    "check --baseline": lambda file: ("check", JOB, "--baseline", file),
    "check --budget": lambda file: ("check", JOB, "--budget", file),
    "report": lambda file: ("report", file),
    "tune": lambda file: ("tune", file, *DEVICES),
    "verify --counts": lambda file: ("verify", JOB, "--counts", file),
    "calibrate": lambda file: ("calibrate", file, *DEVICES, "--stack", "mindspeed-llm", "--output", "written.json"),
    "calibrate --suggest": lambda file: ("calibrate", "--suggest", file),
    "compare-trace": lambda file: ("compare-trace", file, "--job", JOB),
    "compare-trace --job": lambda file: ("compare-trace", "timeline.json", "--job", file),
    "models import": lambda file: ("models", "import", file),
    "hardware show": lambda file: ("hardware", "show", file),
    "--hardware": lambda file: ("estimate", JOB, "--hardware", file),
    "--calibration": lambda file: ("estimate", JOB, "--calibration", file),
    "--delivery": lambda file: ("goodput", JOB, "--delivery", file),
    "sequences plan": lambda file: ("sequences", "plan", file, "--job", JOB),
    "rl estimate": lambda file: ("rl", "estimate", file),
    "rl validate": lambda file: ("rl", "validate", file),
    "serving estimate": lambda file: ("serving", "estimate", file),
    "db restore": lambda file: ("db", "restore", file),
}
# Refusals of a file that is of the right kind: what else the command needs.
NEEDS = (
    *(
        "missing",
        "has no strategy",
        "No module named",
        "is verified for",
        "no command in it starts",
        "must be empty",
        "not empty",
    ),
    *("the stack has fused kernels of its own", "give a baseline of the same model", "its timeline holds no rank"),
    "has no training class for",  # the first lines of the file say so, too
)


def ran(folder: Path, *words: str | Path) -> tuple[int, str, str]:
    settings = {"MESHPLAN_EXECUTOR": "serial", "MESHPLAN_DATA_DIR": str(folder / "data"), "MESHPLAN_SEARCH_S": "1"}
    done = command(*words, folder=folder, COLUMNS="1000", **settings)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "budget.yaml").write_text("step_time_s: {max: 60}\n")
    for words in (
        ("search", *SIZE, "--top", "1", "--save-dir", "plans"),
        ("search", *FSDP, "--top", "1", "--target", "torchtitan", "--save-dir", "fsdp"),
        ("check", JOB, "--write-baseline", "baseline.json"),
        *(("check", JOB, "--budget", "budget.yaml", "--format", f, "--output", f"check.{f}") for f in ("json", "junit", "sarif")),
        ("check", JOB, "--budget", "budget.yaml", "--format", "markdown", "--output", "check.md"),
        ("report", "plans/report.json", "--output", "report.html"),
        ("report", "plans/report.json", "--format", "markdown", "--output", "report.md"),
        ("estimate", JOB, "--timeline", "timeline.json"),
        ("hardware", "new", "--like", "atlas-800t-a2", "--output", "site.yaml"),
        ("sweep", *SIZE[:3], "--devices", "8", "--micro-batch-size", "1", "--output", "sweep.csv"),
        ("db", "upgrade"),
        ("db", "backup", "studies.meshplan"),
    ):
        code, _, told = ran(folder, *words)
        assert code in (0, 5), (words, told)
    for name, words in {
        "estimate.json": ("estimate", JOB, "--json"),
        "goodput.json": ("goodput", JOB, "--json"),
        "sweep.json": ("sweep", *SIZE[:3], "--devices", "8", "--micro-batch-size", "1", "--json"),
        "suggest.json": ("calibrate", "--suggest", JOB, "--json"),
        "preset.yaml": ("models", "show", "llama-2-7b"),
        "schema.json": ("schema", "job"),
    }.items():
        (folder / name).write_text(ran(folder, *words)[1], encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_file_works_or_the_refusal_says_what_it_is(reader: str, written: Path) -> None:
    files = [path for path in sorted(written.rglob("*")) if path.is_file() and "data" not in path.parts]
    assert len(files) > 25
    unexplained = []
    for path in files:
        file = path.relative_to(written).as_posix()
        code, _, told = ran(written, *READERS[reader](file))
        last = told.strip().rpartition("\n")[2]
        is_named = ". It is " in last or f"{file} is " in last
        if code not in (0, 3, 4, 5) and not is_named and not any(each in last for each in NEEDS):
            unexplained.append((file, code, last[:300]))
    assert unexplained == []


def test_the_report_of_a_plan_says_what_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "plan-1.job.yaml").write_text("model: llama-2-7b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\n")
    _, _, told = ran(tmp_path, "report", "plan-1.job.yaml")
    assert told.count("\n") == 1
    assert "It is a job file, which `meshplan search` and `meshplan estimate` read" in told
