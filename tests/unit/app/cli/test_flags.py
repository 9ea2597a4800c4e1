"""Flags under the names and with the units that people know."""

import json
from pathlib import Path

import pytest

from app.answers.tables import estimate as estimate_tables
from app.answers.tables import search as search_tables
from app.cli.main import main
from app.launch_scripts import table as tune_tables
from app.plans import tables as explain_tables
from documents.other_names import OTHER_NAMES

JOB = ("estimate", "qwen3-8b", "--hardware", "atlas-800t-a2", "--devices", "8", "--seq-length", "4096", "--tp", "2")
SAME = (
    "estimate", "Qwen/Qwen3-8B", "--NPU", "Atlas-800T-A2", "--gpus=8", "--seq_len", "4k",
    "--tensor-model-parallel-size", "2",
)  # fmt: skip


def test_other_names_units_and_case_give_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for arguments in ((*JOB, "--global-batch-size", "64"), (*SAME, "--gbs", "6.4e1")):
        assert main([*arguments, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["estimate"] == answers[1]["estimate"]


def test_a_fine_tune_is_told_by_flags_as_by_a_job_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "model: qwen3-8b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\nstrategy: {tp: 2, dp: 4}\n"
        "training: {seq_length: 4096, global_batch_size: 32, task: lora, adapter: {rank: 8, target_modules: [linear_qkv]}}\n"
    )
    answers = {}
    for name, arguments in {
        "file": (str(job),),
        "rank": (str(job), "--lora-rank", "16"),  # the file's modules stay
        "flags": (*JOB[1:], "--dp", "4", "--global-batch-size", "32", "--task", "LoRA", "--adapter-rank", "16"),
        "all weights": (*JOB[1:], "--dp", "4", "--global-batch-size", "32", "--task", "sft"),
    }.items():
        assert main(["estimate", *arguments, "--json"]) == 0
        answers[name] = json.loads(capsys.readouterr().out)["estimate"]["peak_memory_bytes"]
    assert answers["file"] < answers["rank"] < answers["flags"] < answers["all weights"]
    assert main([*JOB, "--dp", "4", "--global-batch-size", "32", "--adapter-rank", "16"]) == 2
    assert "pretrain trains all weights and has no adapters" in capsys.readouterr().err


def test_every_other_name_means_a_flag_and_none_is_one() -> None:
    from typer.main import get_command

    from app.cli.main import application

    commands = get_command(application).commands  # type: ignore[attr-defined]
    flags = {name for each in commands.values() for option in each.params for name in option.opts}
    assert {f"--{name}" for name in OTHER_NAMES.values()} <= flags
    assert not {f"--{name}" for name in OTHER_NAMES} & flags


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--seq-length", "4x"), "--seq-length: '4x' is not allowed; give a whole number, as in 4096, 4,096 or 4k (of 1,024)."),
        (("--devices", "8.5"), "--devices: '8.5' is not allowed; give a whole number, as in 1024, 1,024 or 1Ki."),
        (("--devices", "1e12"), "--devices: 1000000000000 is not allowed; give an integer from 1 to 1,000,000."),
        (("--gpus", "4k"), "--devices: '4k' is not allowed; give a whole number, as in 1024, 1,024 or 1Ki."),
        (("--train-tokens", "many"), "--train-tokens: 'many' is not allowed; give a number, as in 2000000, 2e6, 2M or 2T."),
        (
            ("--inter-node-bytes-per-s", "400gb/s"),
            "--inter-node-bytes-per-s: '400gb/s' is not allowed; give bytes a second, or a rate such as 50GB/s or 400Gbps.",
        ),
    ],
)
def test_a_number_that_is_none_is_shown_with_the_form_it_should_have(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], expected: str
) -> None:
    assert main([*JOB, *arguments]) == 2
    assert capsys.readouterr().err == f"meshplan: {expected}\n"


@pytest.mark.parametrize(
    ("flag", "setting"),
    [
        ("--use-distributed-optimizer", "--zero-stage 1"),
        ("--use-torch-fsdp2", "--zero-stage 3"),
        ("--overlap-grad-reduce", "--switch overlap_grad_reduce=true"),
        ("--use-fused-swiglu", "--switch fused_swiglu=true"),
        ("--nnodes=8", "--devices"),
        ("--lora", "--task lora"),
        ("--bf16", "--precision bf16"),
        ("--fp8", "--precision fp8"),
        ("--fp8-format=hybrid", "--precision fp8"),
        ("--lang=zh", "--language"),
        ("--software=fsdp", "--stack"),
    ],
)
def test_a_flag_of_a_framework_is_answered_with_the_setting_here(
    capsys: pytest.CaptureFixture[str], flag: str, setting: str
) -> None:
    assert main([*JOB, flag]) == 2
    assert capsys.readouterr().err == f"meshplan: {flag.partition('=')[0]}: no such option; the setting is {setting}.\n"


@pytest.mark.parametrize(
    ("command", "sections"),
    [
        ("search", search_tables.SECTIONS),
        ("estimate", estimate_tables.SECTIONS),
        ("tune", tune_tables.SECTIONS),
        ("explain", explain_tables.SECTIONS),
    ],
)
def test_help_names_every_section_that_can_be_shown(command: str, sections: tuple[str, ...]) -> None:
    from typer.main import get_command

    from app.cli.main import application

    options = get_command(application).commands[command].params  # type: ignore[attr-defined]
    (show,) = (option for option in options if "--show" in option.opts)
    assert show.help.partition("commas: ")[2] == ", ".join(sections)


def test_a_time_of_a_site_needs_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["goodput", *JOB[1:], "--mtbf", "72"]) == 2
    assert "--mtbf: '72' is not allowed; give a time with its unit, such as 90s" in capsys.readouterr().err


def test_a_key_that_other_tools_use_is_answered_with_ours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("model: qwen3-8b\ncluster: {hardware: atlas-800t-a2, gpus: 8}\n")
    assert main(["search", str(job)]) == 2
    assert "cluster.gpus: unknown key; did you mean 'num_devices'?" in capsys.readouterr().err


def test_recipe_and_gather_of_8_bits_are_told_by_flags_as_by_a_job_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ("--hardware", "h100-sxm-80gb", "--devices", "8", "--seq-length", "4096", "--global-batch-size", "16", "--tp", "2")
    job = tmp_path / "job.yaml"
    job.write_text(
        "model: qwen3-8b\ncluster: {hardware: h100-sxm-80gb, num_devices: 8}\nstrategy: {tp: 2}\n"
        "training: {seq_length: 4096, global_batch_size: 16, precision: fp8, fp8_recipe: blockwise, fp8_param_gather: false}\n"
    )
    answers = {}
    for name, arguments in {
        "file": (str(job),),
        "flags": ("qwen3-8b", *given, "--precision", "fp8", "--fp8-recipe", "blockwise", "--no-fp8-param-gather"),
        "gathered": ("qwen3-8b", *given, "--precision", "fp8", "--fp8-recipe", "blockwise", "--fp8-param-gather"),
    }.items():
        assert main(["estimate", *arguments, "--json"]) == 0
        answers[name] = json.loads(capsys.readouterr().out)["estimate"]
    assert answers["file"] == answers["flags"]
    assert answers["gathered"]["peak_memory_bytes"] != answers["flags"]["peak_memory_bytes"]
