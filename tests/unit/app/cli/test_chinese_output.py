"""Whatever a command prints in Chinese holds no English of ours, and what a user wrote stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from frameworks.legality import RULES
from tests.language import CHINESE, english_in

JOB = "model: llama-2-7b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\n"
TRAINING = "training: {seq_length: 4096, global_batch_size: 64}\n"
NAMES = ("run 3, final (v2).yaml", "a 1 or 2, b; c.yaml", "the best: 'plan' and [more].yaml")
WRONG = (
    *("model: 5", "modle: x", "a: [", "- 1", "training: {seq_length: -1}", "training: {seq_length: '4096'}"),
    *("training: {seq_lenght: 1}", "training: {precision: fp7}", "training: null", "cluster: 5"),
    *(f"{TRAINING}strategy: {{{given}}}" for given in ("tp: 0", "tp: 1.5", "tp: 3", "tp: 16", "schedule: foo, pp: 2", "vpp: 2")),
    *(f"{TRAINING}strategy: {{{given}}}" for given in ("ep: 4", "zero_stage: 9", "features: [foo]", "layer_layout: [[1]]")),
    *(f"{TRAINING}strategy: {{{given}}}" for given in ("micro_batch_size: 7", "pp: 2, schedule: zbv", "tp: 8, cp: 2")),
    *(f"{TRAINING}strategy: {{{given}}}" for given in ("recompute: half", "recompute: {granularity: some}")),
    *(f"{TRAINING}software: {{{given}}}" for given in ("stack: foo", "target: foo", "calibration: '/no/such, file.json'")),
    *(f"{TRAINING}search: {{{given}}}" for given in ("tp: {min: 5, max: 2}", "tp: {}", "objective: foo", "forbid: [tp]")),
    *(f"{TRAINING}search: {{{given}}}" for given in ("fit_confidence: 2", "max_trials: 0", "headroom: many", "top: 0")),
    *(f"{TRAINING}delivery: {{{given}}}" for given in ("mtbf_s: -1", "mtbf_s: 1, failures_per_node_day: 1", "spares: x")),
    f"{TRAINING}strategy: {{tp: 8}}\nassumed: {{x: 1}}",
)
USUAL = ("llama-2-7b", *"--hardware atlas-800t-a2 --devices 8 --global-batch-size 64 --seq-length 4096".split())
COMMANDS = (
    ("estimate", *USUAL, "--tp", "2", "--pp", "2", "--recompute", "full"),
    ("estimate", *USUAL, "--tp", "2", "--memory-plan"),
    ("estimate", *USUAL, "--tp", "8", "--simulate"),
    ("estimate", "examples/deepseek-v2-lite.yaml"),
    ("estimate", "examples/inline-model.yaml"),
    ("goodput", *USUAL, "--tp", "8", "--mtbf", "3h"),
    ("search", *USUAL, "--micro-batch-size", "1", "--top", "3"),
    ("search", "llama-2-70b", "--hardware", "atlas-800t-a2", "--devices", "1"),
    ("sweep", *USUAL[:3], "--devices", "8,16", "--micro-batch-size", "1", "--train-tokens", "1e12"),
    ("explain", *USUAL, "--tp", "8"),
    ("check", "examples/ci/job.yaml", "--budget", "examples/ci/budget.yaml"),
    ("tune", "tests/fixtures/scripts/60-mixtral-8x7b-megatron.sh", "--hardware", "h100-sxm-80gb"),
    ("rl", "estimate", "examples/rl-math-7b.yaml"),
    ("hardware", "show", "atlas-800t-a2"),
    ("models", "list"),
    ("compare-trace", "tests/fixtures/traces/torch.pt.trace.json"),
    ("models", "show", "nothing"),
    ("hardware", "show", "910b"),
    ("report", "no-such.json"),
    ("estimate", *USUAL, "--tpy", "2"),
    ("estimate", *USUAL, "--tp", "x"),
    ("nothing",),
)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("MESHPLAN_DATA_DIR", str(tmp_path))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["--language", "zh", *words])
    found = capsys.readouterr()
    return found.out + found.err


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:60])
def test_a_command_prints_chinese(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *words)
    assert CHINESE.search(text)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("-", "+", "@@", "#!", "diff "))]
    assert english_in("\n".join(lines), *(rule.name.replace("_", " ") for rule in RULES)) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", [None, *WRONG])
def test_an_error_is_told_in_chinese_and_keeps_the_name_of_the_file(
    name: str, given: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if given is not None:
        path.write_text(given if given in ("a: [", "- 1") else JOB + given + "\n", encoding="utf-8")
    text = printed(capsys, "estimate", str(path))
    assert CHINESE.search(text), text
    assert english_in(text, str(path)) == [], text
    main(["--language", "en", "estimate", str(path)])
    assert (str(path) in text) is (str(path) in capsys.readouterr().err)


@pytest.mark.parametrize("label", ["house moe, or not (v2)", "step", "No plan exists.", "a; b: c"])
def test_the_name_of_a_model_stays_as_it_is(label: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = {"num_layers": 2, "hidden_size": 1024, "ffn_hidden_size": 4096, "num_attention_heads": 8, "vocab_size": 32000}
    job = {
        "model": {"name": label, **shape},
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64},
        "strategy": {"tp": 8},
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    assert f"{label}，8 x atlas-800t-a2" in printed(capsys, "estimate", str(path))
