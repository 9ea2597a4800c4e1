"""Whatever a command prints in Chinese holds no English of ours, and what a user wrote stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from tests.language import CHINESE, english_in, latin_in

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
DEVICES = (*"--hardware atlas-800t-a2 --devices 16 --seq-length 4096 --global-batch-size 256".split(),)
# Every section of the longer answers, over dense models and experts, two vendors, and scripts of three frameworks.
LONG = (
    ("search", "deepseek-v2-lite", *DEVICES, "--top", "5", "--details"),
    ("search", "qwen3-30b-a3b", *DEVICES, "--top", "5", "--target", "any", "--details"),
    ("search", "llama-2-13b", "--hardware", "h100-sxm-80gb", *DEVICES[2:], "--top", "5", "--details"),
    ("explain", *USUAL, "--tp", "8", "--details"),
    ("explain", "examples/deepseek-v2-lite.yaml", "--details"),
    ("goodput", *USUAL, "--tp", "8", "--mtbf", "3h", "--details"),
    ("estimate", "examples/lora-qwen3-8b.yaml", "--details"),
    ("estimate", "examples/deepseek-v2-lite.yaml", "--details"),
    ("tune", "tests/fixtures/scripts/61-deepseek-v3-671b-a3.sh", "--hardware", "atlas-900-a3-superpod", "--devices", "256"),
    ("tune", "tests/fixtures/scripts/04-mixtral-8x7b-s4.sh", "--hardware", "atlas-800t-a2"),
    ("tune", "tests/fixtures/scripts/42-mixtral-8x7b.yaml", "--hardware", "atlas-800t-a2"),
    ("rl", "search", "examples/rl-math-7b.yaml", "--details"),
    ("serving", "estimate", "deepseek-v3", *"--hardware atlas-800t-a3 --devices 64 --prompt-tokens 1024".split()),
    ("hardware", "show", "atlas-900-a3-superpod"),
    ("hardware", "list"),
    ("models", "import", "tests/fixtures/huggingface/qwen3.json"),
)
# Faults that readers met, and the text around them.
MET = (
    "在显存上于 90% 的步中为 1.04、1.09；spread of the inference of trained models over domains of data",
    "bandwidth.hccs                    -3.8%  +4.1%",
    "MindSpeed-LLM 在 pp 8 上可取 0 至 0",
    "MindFormers 可训练的的层有 2 个",
    "strategy.features：moe_permutation_async_comm changes 启动参数：估算按不含它们计。",
    "速度是基线（常用方案）（49.35 s）的 1.75 倍",
    "delivery.price 每设备小时：USD 1.383",
    "  training.precision = bf16 来自预置（trained in FP8 mixed precision）",
    "schedule fill                     135",
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
    check(printed(capsys, *words))


@pytest.mark.slow
@pytest.mark.parametrize("words", LONG, ids=lambda words: " ".join(words)[:60])
def test_so_do_the_longer_answers(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    check(printed(capsys, *words))


def check(text: str) -> None:
    """Chinese, and nothing else but names, identifiers, and lines of a user's script."""
    assert CHINESE.search(text)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("-", "+", "@@", "#!", "diff "))]
    told = "\n".join(line for line in lines if CHINESE.search(line) or "  " not in line.strip())
    assert english_in("\n".join(lines)) == []
    assert latin_in(told) == []


@pytest.mark.parametrize("text", MET)
def test_the_faults_that_readers_met_are_seen(text: str) -> None:
    assert latin_in(text) != []


def test_the_assumptions_of_a_saved_plan_are_told_in_chinese(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A job file keeps the reasons of its defaults as English text."""
    job = tmp_path / "job.yaml"
    model = "model: deepseek-v2-lite\ncluster: {hardware: atlas-800t-a2, num_devices: 16}\n"
    job.write_text(model + TRAINING + "strategy: {ep: 8, recompute: full}\n", encoding="utf-8")
    main(["estimate", str(job), "--json"])
    resolved = json.loads(capsys.readouterr().out)["job"]
    assert "not stated" in resolved["assumed"]["training.router_balance"]["why"]
    job.write_text(json.dumps({**resolved}), encoding="utf-8")
    text = printed(capsys, "estimate", str(job), "--show", "assumptions")
    assert "时间按均衡的专家估算" in text
    check(text.replace(str(job), "…"))


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
