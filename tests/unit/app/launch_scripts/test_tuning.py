"""``meshplan tune`` and ``meshplan estimate SCRIPT``: the answer, the difference, and what is refused."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.answers.recommended import recommended_plan
from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.cli.main import main
from app.jobs.job import parse_job
from app.launch_scripts.launch import Given
from app.launch_scripts.schemas import ScriptChange, TuneDocument
from app.launch_scripts.service import _may_run, _proposed
from app.launch_scripts.shell_launch import ShellLaunch
from app.launch_scripts.table import changes_text, print_tuning
from app.text.json_documents import plain
from app.text.terminal import plain_text
from frameworks.registry import BY_NAME

FOLDER = Path(__file__).resolve().parents[3] / "fixtures/scripts"
HARDWARE = "atlas-900-a2-podc"
SCRIPT = """#!/bin/bash
TP=8
DISTRIBUTED_ARGS="
    --nproc_per_node 8 \\
    --nnodes ${NNODES:-1} \\
"
GPT_ARGS="
    --tensor-model-parallel-size ${TP} \\
    --sequence-parallel \\
    --num-layers 8 \\
    --hidden-size 4096 \\
    --ffn-hidden-size 11008 \\
    --num-attention-heads 32 \\
    --seq-length 4096 \\
    --micro-batch-size 1 \\
    --global-batch-size 16 \\
    --swiglu --normalization RMSNorm --disable-bias-linear --attention-dropout 0.0 --hidden-dropout 0.0 \\
    --position-embedding-type rope \\
    --untie-embeddings-and-output-weights \\
    --recompute-granularity full \\
    --recompute-method uniform \\
    --recompute-num-layers 1 \\
    --vocab-size 32000 \\
    --make-vocab-size-divisible-by 1 \\
    --use-mcore-models \\
    --data-path $DATA_PATH \\
    --bf16
"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py $GPT_ARGS --distributed-backend nccl | tee log
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def tuned(capsys: pytest.CaptureFixture[str], path: Path, *flags: str, code: int = 0) -> dict[str, Any]:
    assert main(["tune", str(path), "--hardware", HARDWARE, "--json", *flags]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    TuneDocument.model_validate(document)
    return document


def refusal(capsys: pytest.CaptureFixture[str], path: Path, *flags: str) -> str:
    code = main(["tune", str(path), "--hardware", HARDWARE, *flags])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    return printed.err


def test_the_best_plan_is_faster_and_the_changed_script_says_it(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    document = tuned(capsys, script, "--output", str(script.with_name("best.sh")))
    assert document["strategy"]["tp"] == 8
    assert document["job"]["cluster"]["num_devices"] == 8
    assert document["speedup"] > 1.05
    assert document["speedup"] == document["estimate"]["step_time_s"] / document["best"]["estimate"]["step_time_s"]
    (script.parent / "job.yaml").write_text(json.dumps(document["job"]), encoding="utf-8")
    assert main(["search", str(script.parent / "job.yaml"), "--json"]) == 0
    assert document["speedup_error_fraction"] == json.loads(capsys.readouterr().out)["paired_error"]["fraction"]
    assert "-TP=8\n" in document["diff"]
    assert document["not_understood"] == []
    best = script.with_name("best.sh")
    assert best.read_text(encoding="utf-8") == document["script"]
    again = tuned(capsys, best)
    assert again["strategy"] == document["best"]["strategy"]
    assert again["estimate"] == document["best"]["estimate"]
    assert (again["diff"], again["changes"], again["speedup"], again["speedup_error_fraction"]) == ("", [], 1.0, None)
    assert again["job"]["model"]["num_layers"] == 8


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch to try the difference with")
def test_the_difference_is_one_that_patch_takes(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    document = tuned(capsys, script)
    subprocess.run(["patch", str(script)], input=document["diff"], text=True, check=True, capture_output=True, timeout=20)
    assert script.read_text(encoding="utf-8") == document["script"]


def test_the_table_says_yours_the_best_and_the_lines(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    assert main(["tune", str(script), "--hardware", HARDWARE, "--show", "diff"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\nYours +TP8 ", printed)
    assert re.search(r"\nRun +DP8 ", printed)
    assert "Change these lines:\n--- script\n" in printed


def test_an_estimate_of_a_script_is_the_price_of_its_plan(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    document = tuned(capsys, script)
    assert main(["estimate", str(script), "--hardware", HARDWARE, "--devices", "8", "--simulate", "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)
    assert estimate["strategy"] == document["strategy"]
    assert estimate["estimate"] == document["estimate"]


def test_what_matters_and_is_not_said_is_asked_for(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    script.write_text(SCRIPT.replace("TP=8\n", ""), encoding="utf-8")
    message = refusal(capsys, script)
    assert "line 7: --tensor-model-parallel-size ${TP}" in message
    assert "--set TP=VALUE" in message
    assert tuned(capsys, script, "--set", "TP=4", "--time-limit", "5")["strategy"]["tp"] == 4
    script.write_text(SCRIPT.replace("${NNODES:-1}", "$NNODES"), encoding="utf-8")
    assert "--devices" in refusal(capsys, script)
    script.write_text(SCRIPT.replace("    --vocab-size 32000 \\\n", "").replace("11008", "11264"), encoding="utf-8")
    assert "--vocab-size" in refusal(capsys, script)


def test_what_is_passed_over_is_listed_with_its_line(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    text = SCRIPT.replace("--bf16\n", "--rampup-batch-size 8 8 99 --bf16 \\\n    $EXTRA\n").replace("TP=8", "source env.sh\nTP=8")
    script.write_text(text, encoding="utf-8")
    found = {(entry["line"], entry["text"]) for entry in tuned(capsys, script)["not_understood"]}
    assert {(2, "source env.sh"), (28, "rampup-batch-size"), (29, "$EXTRA")} <= found


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no command in it starts pretrain_gpt.py"),
        ("echo pretrain_gpt.py\n", "no command in it starts"),
        ('A="\n', "line 1: the quote"),
        ("x=1\neval \"torchrun '$X' pretrain_gpt.py\"\n", "num-layers is not given"),
        (
            "torchrun pretrain_gpt.py --num-layers 2\ntorchrun pretrain_gpt.py --num-layers 3\n",
            "lines 1 and 2 each start a training",
        ),
        ("torchrun pretrain_gpt.py --num-layers $(cat n)\n", "line 1: --num-layers $(cat n)"),
        ("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 9999999999999\n", "hidden-size"),
        ("torchrun --nproc_per_node 8 pretrain_gpt.py --bf16\n", "num-layers"),
    ],
)
def test_a_script_that_says_no_training_is_refused(
    capsys: pytest.CaptureFixture[str], script: Path, text: str, part: str
) -> None:
    script.write_text(text, encoding="utf-8")
    assert part in refusal(capsys, script)


def test_large_and_missing_files_and_odd_flags_are_refused(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    assert "no such file" in refusal(capsys, script.with_name("none.sh"))
    with script.open("wb") as file:
        file.truncate(100 * 2**20)
    assert "larger than" in refusal(capsys, script)
    script.write_text(SCRIPT, encoding="utf-8")
    assert "--set" in refusal(capsys, script, "--set", "TP")
    assert "mindformers" in refusal(capsys, script, "--target", "mindformers")
    assert "did you mean" in refusal(capsys, script, "--target", "mindsped-llm")


def test_a_job_that_the_framework_does_not_run_is_refused_as_an_estimate_refuses_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # Of the layers of use_legacy: False none trains Llama: no plan for it is legal there.
    text = (FOLDER / "41-llama2-7b.yaml").read_text(encoding="utf-8")
    path = tmp_path / "llama2.yaml"
    named = text.replace("  model_config:\n", "  model_config:\n    model_type: llama\n")
    path.write_text(f"use_legacy: False\n{named}", encoding="utf-8")
    said = refusal(capsys, path)
    assert "MindFormers 1.8 has no training class for llama" in said
    assert "(mindformers_model); a job for mindspeed-llm@master is taken." in said
    assert main(["estimate", str(path), "--hardware", HARDWARE]) == 2
    assert capsys.readouterr().err == said


def test_a_file_that_is_no_script_is_said_to_be_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("README.md", "script.sh"):
        (tmp_path / name).write_text("# Title\n\nWrite a job (or take a preset).\n", encoding="utf-8")
    for text in ("# Title\n\nWrite a job.\n", "# Title\n\n- a: b\nWrite `a: job`.\n"):
        (tmp_path / "notes").write_text(text, encoding="utf-8")
        assert main(["estimate", str(tmp_path / "notes")]) == 2
        assert "notes: neither a job nor a launch script (" in capsys.readouterr().err
    said = refusal(capsys, tmp_path / "README.md")
    assert "README.md: not a launch script (line 3: '(' is not expected here); give a Bash script, its arguments alone," in said
    assert "script.sh: line 3: '(' is not expected here." in refusal(capsys, tmp_path / "script.sh")


def test_an_estimate_takes_what_a_script_does_not_say(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    text = SCRIPT.replace("TP=8\n", "source degrees.conf\n").replace("    --vocab-size 32000 \\\n", "").replace("11008", "11264")
    script.write_text(text, encoding="utf-8")
    degrees = script.with_name("degrees.conf")
    degrees.write_text("TP=${DEGREE}\n", encoding="utf-8")
    flags = ["--set", "DEGREE=4", "--with", str(degrees), "--vocab-size", "32000"]
    assert main(["estimate", str(script), "--hardware", HARDWARE, "--json", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["strategy"]["tp"] == 4
    for flag, value in (("--set", "TP=4"), ("--with", str(degrees)), ("--vocab-size", "32000")):
        assert main(["estimate", "llama2-7b", "--hardware", HARDWARE, "--devices", "8", "--tp", "8", flag, value]) == 2
        assert f"{flag}: only of a launch script" in capsys.readouterr().err


def test_a_new_argument_stands_beside_its_group_or_the_one_in_front(script: Path) -> None:
    release = BY_NAME["mindspeed-llm"].release
    launch = ShellLaunch(SCRIPT, Given("script"), release)
    lines = next(launch.with_values("moe-aux-loss-coeff", ("0.1",))).splitlines()
    at = next(index for index, line in enumerate(lines) if "--moe-aux-loss-coeff" in line)
    before = lines[at - 1].strip().removeprefix("--").split(" ")[0]
    assert release.group_of(before) in ("Parallelism", "Lengths, batch and precision")


def test_a_script_with_the_recommended_plan_is_not_changed_for_a_tie_that_is_less_sure_to_fit() -> None:
    cluster = {"hardware": "atlas-800t-a2", "num_devices": 16}
    job = {"model": "llama-2-7b", "cluster": cluster, "training": {"seq_length": 4096, "global_batch_size": 64}}
    found = search_document(with_usual_target(parse_job(job)))
    recommended, fastest = recommended_plan(found), found.plans[0]
    assert recommended.estimate.fits_probability > fastest.estimate.fits_probability
    own = plain(recommended.estimate)
    assert _proposed(found, own) == recommended
    assert _proposed(found, {**own, "fits_probability": 0.91 * fastest.estimate.fits_probability}) == fastest
    assert _proposed(found, {**own, "step_time_s": 2.0 * own["step_time_s"]}) == recommended


def test_a_recommended_plan_beside_the_fastest_is_said_to_tie_with_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = ("llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "16", "--seq-length", "4096", "--global-batch-size", "64")
    assert main(["search", *job, "--save-dir", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ranks = {plan["plan_id"]: plan["rank"] for plan in found["plans"]}
    rank = ranks[found["recommended"]["plan_id"]]
    assert rank > 1
    assert main(["tune", str(tmp_path / f"plan-{rank}.mindspeed-llm.sh"), "--hardware", "atlas-800t-a2"]) == 0
    assert "another plan is proved the fastest; yours ties with it" in " ".join(capsys.readouterr().out.split())


def test_a_plan_within_the_error_of_the_script_s_own_is_named_beside_it(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    document = TuneDocument.model_validate(tuned(capsys, script))
    assert document.diff
    written = io.StringIO()
    print_tuning(plain_text(written, 200), document.model_copy(update={"tie": "A tie."}), ())
    lines = written.getvalue().splitlines()
    assert lines[1].split(maxsplit=1) == ["Run", "your plan: none for the same model, batch and devices is measurably faster"]
    assert document.best is not None
    (beside,) = (line for line in lines if line.startswith("Or "))
    assert beside.split(maxsplit=1)[1].startswith(f"{document.best.strategy.name}: ")
    assert "no measurable gain" in beside
    assert not any(line.startswith("Yours") for line in lines)


def test_the_plan_to_change_to_is_named_where_a_script_is_kept(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    cluster = {"hardware": "atlas-800t-a2", "num_devices": 16}
    job = parse_job({"model": "llama-2-7b", "cluster": cluster, "training": {"seq_length": 4096, "global_batch_size": 64}})
    other = search_document(with_usual_target(job)).plans[0]
    own = {"fits": False, "fits_probability": 0.7, "step_time_s": other.estimate.step_time_s / 1.16}
    kept = _may_run(job, own, other)
    assert kept is not None
    assert f"change to {other.strategy.name}, which is 16.0% slower" in kept
    document = TuneDocument.model_validate(tuned(capsys, script))
    assert document.best is not None
    written = io.StringIO()
    print_tuning(plain_text(written, 300), document.model_copy(update={"kept": kept, "diff": ""}), ())
    lines = [line for line in written.getvalue().splitlines() if line.startswith(("Step", "Memory"))]
    assert [line.split(maxsplit=1)[1].startswith(f"{document.best.strategy.name}: ") for line in lines] == [True, True]


def test_estimate_tune_and_explain_give_a_script_one_time(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    piped = script.with_name("piped.sh")
    piped.write_text(
        SCRIPT.replace("TP=8", "TP=2").replace("--seq-", "--pipeline-model-parallel-size 4 --seq-"), encoding="utf-8"
    )
    times = []
    for command in ("estimate", "tune", "explain"):
        assert main([command, str(piped), "--hardware", HARDWARE, "--json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["estimate"]["step_time_s"])
    assert times[1:] == pytest.approx([times[0]] * 2, rel=1e-12)


def test_samples_of_unknown_length_reach_into_the_interval(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    packed = script.with_name("packed.sh")
    script.write_text(SCRIPT.replace("--bf16", "--bf16 --use-flash-attn"), encoding="utf-8")
    packed.write_text(SCRIPT.replace("--bf16", "--bf16 --use-flash-attn --reset-attention-mask"), encoding="utf-8")
    stated, doubted = tuned(capsys, script), tuned(capsys, packed)
    for part in ("best", "estimate"):
        known, unknown = (found[part] if part == "estimate" else found[part]["estimate"] for found in (stated, doubted))
        assert unknown["step_time_low_s"] < known["step_time_low_s"]
        assert unknown["step_time_high_s"] == pytest.approx(known["step_time_high_s"])


def test_changes_of_the_layout_come_first_and_name_what_a_checkpoint_needs() -> None:
    names = ("moe-token-dispatcher-type", "swap-optimizer", "use-flash-attn", "tensor-model-parallel-size")
    changes = [ScriptChange(argument=name, was=None, now="2", line=None) for name in names]
    assert changes_text(changes).startswith("tensor-model-parallel-size 2, moe-token-dispatcher-type 2")
    one = {"recompute-num-layers": False, "micro-batch-size": False, "num-layers": True, "pipeline-model-parallel-size": True}
    for name, converts in one.items():
        assert ("convert" in changes_text([ScriptChange(argument=name, was="1", now="2", line=1)])) is converts


@pytest.mark.parametrize("command", ["estimate", "tune"])
def test_no_devices_are_refused(command: str, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(script), "--hardware", "h100-sxm-80gb", "--devices", "0"]) == 2
    assert "devices: 0 is not allowed; give 1 to" in capsys.readouterr().err
