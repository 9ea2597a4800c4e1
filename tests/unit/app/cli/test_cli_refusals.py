"""Bad input ends in one sentence and exit code 2, whichever command gets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from app.cli.main import main

ROOT = Path(__file__).parents[4]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert code == 2, printed
    assert printed.out == ""
    assert printed.err.startswith("meshplan: ")
    assert printed.err.count("\n") == 1
    return printed.err


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nmodel: *b\n"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (BOMB, "aliases (*name) are not allowed"),
        ("model: llama-2-7b\ncluster: [1, 2]\n", "cluster: a list is not allowed; give a mapping"),
        (
            "model: {num_layers: 1000000000000, hidden_size: 64, num_attention_heads: 1}\n"
            "cluster: {hardware: atlas-800t-a2, num_devices: 8}\n",
            "num_layers",
        ),
        ("model: llama-2-7b\ncluster: {hardware: ./site.yaml, num_devices: 8}\n", "unit"),
        (
            "model: llama-2-7b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\nstrategy: {pp: 2, layer_layout: [16, 17]}\n",
            "strategy.layer_layout: [16, 17] places 33 layers; give the 32 of llama-2-7b to 2 stages.",
        ),
        ("model: llama-2-7b\nclster: {}\n", "clster: unknown key; did you mean 'cluster'?"),
    ],
)
def test_bad_job_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, part: str) -> None:
    profile = yaml.safe_load((ROOT / "hardware_profiles" / "ascend" / "atlas-800t-a2.yaml").read_text())
    del profile["hbm_bytes"]["unit"]
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(profile))
    (tmp_path / "job.yaml").write_text(content)
    assert part in refusal(capsys, "search", tmp_path / "job.yaml")


FLAGS = ("--hardware", "atlas-800t-a2", "--devices", "8")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("search", "lama-2-7b", *FLAGS), "llama-2-7b"),
        (("search", "llama-2-7b", "--hardware", "atlas-800", "--devices", "8"), "did you mean 'atlas-800"),
        (("search", "llama-2-7b", "--hardware", "atlas-800t-a2"), "cluster.num_devices (--devices): missing"),
        (
            ("search", "llama-2-7b", *FLAGS, "--global-batch-size", "-4"),
            "--global-batch-size: -4 is not allowed; give an integer from 1",
        ),
        (("search", "llama-2-7b", *FLAGS, "--tp", "1,x"), "--tp"),
        (("search", "llama-2-7b", *FLAGS, "--tp", ".."), "--tp: '..' is not allowed; give a range"),
        (("search", "llama-2-7b", *FLAGS, "--switch", "mc3=true"), "did you mean 'mc2'?"),
        (("search", "llama-2-7b", *FLAGS, "--objective", "speed"), "--objective: 'speed' is not allowed"),
        (("search", "llama-2-7b", *FLAGS, "--devices-at-most", "9"), "--devices-at-most: given beside --devices"),
        (("search", "llama-2-7b", *FLAGS, "--save-dir", "pyproject.toml"), "--save-dir: pyproject.toml is a file"),
        (("search", "llama-2-7b", *FLAGS, "--save-dir", "pyproject.toml/out"), "--save-dir: pyproject.toml/out cannot be made"),
        (("search", "llama-2-7b", *FLAGS, "--target", "megatron"), "megatron-lm"),
        (
            ("search", "llama-2-7b", *FLAGS, "--target", "megatron-lm"),
            "megatron-lm runs on nvidia and amd devices, and atlas-800t-a2 is of family ascend; give any, mindspeed-llm",
        ),
        (("search", "absent.yaml", *FLAGS), "absent.yaml: no such file."),
        (("search", "docs", *FLAGS), "docs"),
        (("search", "llama-2-7b", *FLAGS, "--no-such-flag"), "--no-such-flag"),
        (("estimate", "llama-2-7b", *FLAGS), "strategy: missing"),
        (("estimate", "llama-2-7b", *FLAGS, "--tp", "3"), "tp 3 x cp 1 x pp 1 = 3 does not divide the 8 devices"),
        (("estimate", "llama-2-7b", *FLAGS, "--pp", "3", "--global-batch-size", "100"), "of the cluster; 6 devices would do."),
        (("estimate", "llama-2-7b", *FLAGS, "--tp", "8", "--ep", "2"), "strategy: "),
        (("estimate", "llama-2-7b", *FLAGS, "--tp", "eight"), "--tp"),
        (("estimate", "llama-2-7b", *FLAGS, "--tp", "8", "--mtp-before-head", "1"), "1 is given, but llama-2-7b predicts no"),
        (("validate", "absent.jsonl"), "absent.jsonl"),
        (("hardware", "show", "atlas-800"), "did you mean 'atlas-800"),
        (("models", "show", "qwen"), "qwen3"),
        (("models", "import", "absent.json"), "absent.json"),
        (("search", "", *FLAGS), "model: missing; give a preset's name"),
        (("check", "", "--write-baseline", "x.json"), "model: missing; give a preset's name"),
        (("sweep", "llama-2-7b", *FLAGS[:2], "--devices", "..8"), "give a list such as 512,1024, or a range with both ends"),
        (("search", "x" * 5000, *FLAGS), "is not a preset"),
        (("search", "x" * 5000 + ".json", *FLAGS), "cannot be read (File name too long)"),
        (("search", "a\0b", *FLAGS), "is not a preset"),
        (("schema", "jobs"), "did you mean 'job'?"),
        (("plan",), "plan"),
    ],
)
def test_bad_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str) -> None:
    assert part in refusal(capsys, *arguments)


def test_a_config_with_a_missing_field_and_a_binary_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "hidden_size": 4096}))
    message = refusal(capsys, "search", config, *FLAGS)
    assert "config.json" in message
    assert "missing" in message
    (tmp_path / "job.yaml").write_bytes(bytes(range(256)))
    assert "not a text file" in refusal(capsys, "search", tmp_path / "job.yaml")


@pytest.mark.parametrize("command", ["search", "sweep", "explain", "goodput", "check"])
def test_every_command_that_searches_takes_an_executor(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "model: llama-2-7b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\nsweep: {devices: [8]}\n", encoding="utf-8"
    )
    more = ("--write-baseline", tmp_path / "baseline.json") if command == "check" else ()
    assert "--executor: 'process://0' is not allowed" in refusal(capsys, command, job, *more, "--executor", "process://0")


JOB = """\
model: llama-2-7b
cluster: {hardware: atlas-800t-a2, num_devices: 8}
training: {seq_length: 4096, global_batch_size: 64}
strategy: {tp: 8, micro_batch_size: 1}
"""


@pytest.mark.parametrize(
    ("arguments", "flag", "is_read"),
    [
        (("check", "job.yaml", "--budget", "other.yaml"), "--output", "job.yaml"),
        (("check", "job.yaml", "--budget", "other.yaml"), "--output", "./other.yaml"),
        (("check", "job.yaml"), "--write-baseline", "job.yaml"),
        (("sweep", "job.yaml"), "--output", "job.yaml"),
        (("estimate", "job.yaml"), "--timeline", "job.yaml"),
        (("report", "other.yaml"), "--output", "other.yaml"),
        (("tune", "other.yaml", "--hardware", "atlas-800t-a2"), "--output", "other.yaml"),
        (("compare-trace", "other.yaml", "--job", "job.yaml"), "--records", "other.yaml"),
        (("compare-trace", "other.yaml", "--job", "job.yaml"), "--records", "job.yaml"),
        (("calibrate", "other.yaml", "--hardware", "atlas-800t-a2", "--stack", "mindspeed-llm"), "--output", "other.yaml"),
        (("sequences", "plan", "other.yaml", "--job", "job.yaml"), "--write-order", "other.yaml"),
    ],
)
def test_outputs_are_refused_before_the_work_and_never_written_over_inputs(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    flag: str,
    is_read: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("job.yaml").write_text(JOB, encoding="utf-8")
    Path("other.yaml").write_text(
        "no document: [of any command\n", encoding="utf-8"
    )  # so that whatever reads it first says something else
    refused = {
        is_read: f"{flag}: {Path(is_read)} is a file that the command reads; give another.",
        "folder": f"{flag}: folder is a folder; give a file.",
        "none/x": f"{flag}: none/x is in no folder that exists; give a file.",
    }
    for path, sentence in refused.items():
        assert refusal(capsys, *arguments, flag, path) == f"meshplan: {sentence}\n"
    assert Path("job.yaml").read_text(encoding="utf-8") == JOB


def test_an_output_that_may_not_be_written_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # who runs the tests may be allowed all
    said = refusal(capsys, "sweep", tmp_path / "job.yaml", "--output", tmp_path / "x.csv")
    assert said.endswith("x.csv cannot be written (Permission denied).\n")


@pytest.mark.parametrize(
    ("arguments", "flag", "written"),
    [
        (("tune", "other.yaml", "--hardware", "atlas-800t-a2"), "--output", "mine"),
        (("sweep", "job.yaml"), "--output", "mine"),
        (("report", "other.yaml"), "--output", "mine"),
        (("calibrate", "other.yaml", "--hardware", "atlas-800t-a2", "--stack", "mindspeed-llm"), "--output", "mine"),
        (("hardware", "new", "--like", "atlas-800t-a2"), "--output", "mine.yaml"),
        (("hardware", "calibrate", "atlas-800t-a2", "--curve", "all_reduce:8=other.yaml"), "--output", "mine.yaml"),
        (("hardware", "measure", "--device", "cpu"), "--out", "mine"),
        (("estimate", "job.yaml"), "--timeline", "mine"),
        (("verify", "job.yaml"), "--save-counts", "mine"),
        (("sequences", "plan", "other.yaml", "--job", "job.yaml"), "--write-order", "mine"),
        (("experts", "plan", "other.yaml", "--job", "job.yaml"), "--write-maps", "maps"),
    ],
)
def test_a_file_that_exists_is_replaced_only_if_asked(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    flag: str,
    written: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("maps").mkdir()
    mine = [Path("mine"), Path("mine.yaml"), Path("maps/expert_map.json"), Path("maps/eplb.json")]
    for file in mine:
        file.write_text("mine", encoding="utf-8")
    Path("job.yaml").write_text(JOB, encoding="utf-8")
    Path("other.yaml").write_text("no document: [of any command\n", encoding="utf-8")
    said = refusal(capsys, *arguments, flag, written)
    assert said.startswith(f"meshplan: {flag}: {written}")
    assert "exists already; give another file, or --overwrite to replace it." in said
    assert all(file.read_text(encoding="utf-8") == "mine" for file in mine)


def test_a_file_that_exists_is_replaced_where_that_is_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job, timeline = tmp_path / "job.yaml", tmp_path / "timeline.json"
    job.write_text(JOB, encoding="utf-8")
    timeline.write_text("mine", encoding="utf-8")
    assert main(["estimate", str(job), "--timeline", str(timeline), "--overwrite"]) == 0
    assert timeline.read_text(encoding="utf-8") != "mine"
    capsys.readouterr()
    assert "nothing to replace without --timeline" in refusal(capsys, "estimate", job, "--overwrite")


@pytest.mark.parametrize(
    ("command", "flags", "start"),
    [
        ("search", ("--devices", "8", "--stack", "torchtitan"), "--stack: 'torchtitan' is a target, which --target"),
        (
            "sweep",
            ("--devices", "8", "--software", "megatron-lm@0.19"),
            "--software: 'megatron-lm@0.19' is a target, which --target",
        ),
        ("sweep", ("--devices", "8", "--software", "spdf"), "--software: 'spdf' is not allowed; give one of"),
        ("sweep", (), "cluster.num_devices (--devices): missing"),
        ("sweep", ("--devices", "8,0"), "--devices: "),
    ],
)
def test_a_refusal_names_the_flag_that_was_given(
    capsys: pytest.CaptureFixture[str], command: str, flags: tuple[str, ...], start: str
) -> None:
    said = refusal(capsys, command, "qwen3-8b", "--hardware", "h100-sxm-80gb", *flags)
    assert said.startswith(f"meshplan: {start}"), said
