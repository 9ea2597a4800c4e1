"""Every command refuses files that never end, and prints nothing that a terminal would act on."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest

from app.text.terminal import _TranslatingConsole, plain_table
from tests.commands import command

SITE = ("--hardware", "atlas-800t-a2", "--devices", "8")
PLAN = ("llama-2-7b", *SITE, "--tp", "8")
ON_A_NODE = ("--log-nodes", "1", "--log-days", "30")
ENDLESS = [
    ("estimate", "FILE"),
    ("search", "FILE"),
    ("sweep", "FILE"),
    ("explain", "FILE"),
    ("estimate", *PLAN, "--calibration", "FILE"),
    ("check", "JOB", "--budget", "FILE"),
    ("check", "JOB", "--baseline", "FILE"),
    ("compare-trace", "FILE", "--job", "JOB"),
    ("validate", "FILE"),
    ("calibrate", "FILE", "--hardware", "atlas-800t-a2", "--stack", "mindspeed-llm"),
    ("goodput", *PLAN, "--failure-log", "FILE", *ON_A_NODE),
    ("goodput", *PLAN, "--delivery", "FILE"),
    ("rl", "validate", "FILE"),
    ("rl", "estimate", "FILE"),
    ("experts", "plan", "FILE", "--job", "MOE"),
    ("experts", "plan", "NPZ", "--job", "MOE"),
    ("sequences", "plan", "FILE", "--job", "JOB"),
    ("serving", "estimate", "FILE"),
    ("tune", "FILE", "--hardware", "atlas-800t-a2", "--devices", "8"),
    ("report", "FILE"),
    ("models", "import", "FILE"),
    ("hardware", "calibrate", "atlas-800t-a2", "--curve", "all_reduce:8=FILE", "--output", "OUT"),
    ("hardware", "calibrate", "atlas-800t-a2", "--op-summary", "FILE", "--output", "OUT"),
]


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    job = {
        "model": "llama-2-7b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"global_batch_size": 64},
        "strategy": {"tp": 8},
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "moe.json").write_text(json.dumps({**job, "model": "deepseek-v2-lite", "strategy": {"ep": 8}}))
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.npz")
    return tmp_path


@pytest.mark.parametrize("file", ["/dev/zero", "pipe"])
@pytest.mark.parametrize("arguments", ENDLESS, ids=lambda words: " ".join(words[:2]))
def test_a_device_or_a_pipe_is_refused_at_once(arguments: tuple[str, ...], file: str, jobs: Path) -> None:
    places = {"JOB": "job.json", "MOE": "moe.json", "OUT": "out.yaml", "NPZ": "pipe.npz", "FILE": file}
    words = [re.sub(r"[A-Z]{3,4}$", lambda found: places.get(found[0], found[0]), word) for word in arguments]
    answer = command(*words, folder=jobs)
    assert answer.returncode == 2, answer
    assert "not a regular file" in answer.stderr, answer.stderr


ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVIL = "\x1b]52;c;cHduCg==\x07\x9b31m\x7f\u202e"
SCRIPT = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32 --hidden-size 4096"
    " --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --ffn-hidden-size 11008"
    f" --swiglu --bf16 --vocab-size 32000 --load x{EVIL} --unknown{EVIL} 1\n"
)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose names and content would write to a terminal."""
    folder = tmp_path_factory.mktemp("evil")
    model = {"name": f"own{EVIL}", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
    job = {
        "model": {**model, "ffn_hidden_size": 11008},
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64},
        "strategy": {"tp": 8},
    }
    (folder / f"job{EVIL}.json").write_text(json.dumps(job))
    (folder / f"budget{EVIL}.json").write_text(json.dumps({"step_time_s": {"max": 0.001}}))
    (folder / f"run{EVIL}.sh").write_text(SCRIPT)
    (folder / f"runs{EVIL}.jsonl").write_text(json.dumps({"id": EVIL, "note": EVIL, "model": {"name": EVIL}}) + "\n")
    (folder / f"bad{EVIL}.yaml").write_text(f"model: {EVIL!r}\n{EVIL}: 1\n")
    (folder / f"failures{EVIL}.csv").write_text(f"time{EVIL}\n{EVIL}\n")
    return folder


PRINTED = [
    ("estimate", f"job{EVIL}.json"),
    ("estimate", f"job{EVIL}.json", "--json"),
    ("estimate", f"bad{EVIL}.yaml"),
    ("estimate", f"none{EVIL}.json"),
    ("estimate", *PLAN, f"--no{EVIL}", "1"),
    ("estimate", *PLAN, "--calibration", f"job{EVIL}.json"),
    ("check", f"job{EVIL}.json", "--budget", f"budget{EVIL}.json"),
    *(("check", f"job{EVIL}.json", "--budget", f"budget{EVIL}.json", "--format", form) for form in ("markdown", "junit", "json")),
    ("tune", f"run{EVIL}.sh", "--hardware", "atlas-800t-a2"),
    ("tune", f"run{EVIL}.sh", "--hardware", "atlas-800t-a2", "--json"),
    ("validate", f"runs{EVIL}.jsonl"),
    ("goodput", *PLAN, "--failure-log", f"failures{EVIL}.csv", *ON_A_NODE),
    ("explain", f"job{EVIL}.json"),
    ("schema", EVIL),
    (f"no{EVIL}",),
]


@pytest.mark.parametrize("arguments", PRINTED, ids=lambda words: repr(" ".join(words[:1]))[1:20])
def test_nothing_is_printed_that_a_terminal_would_act_on(arguments: tuple[str, ...], evil: Path) -> None:
    answer = command(*arguments, folder=evil)
    printed = answer.stdout + answer.stderr
    assert printed
    assert not ACTS.search(printed), ascii(ACTS.findall(printed))


def test_a_terminal_gets_our_own_colours_and_nothing_else() -> None:
    file = io.StringIO()
    console = _TranslatingConsole(file=file, force_terminal=True, color_system="standard", width=80)
    table = plain_table("name")
    table.add_row(f"red{EVIL}")
    console.print(table, style="red")
    console.print(f"text{EVIL}", markup=False)
    assert "\\x1b]52" in file.getvalue()
    assert "\x1b[31m" in file.getvalue()
    assert not ACTS.search(re.sub("\x1b\\[[0-9;]*m", "", file.getvalue()))
