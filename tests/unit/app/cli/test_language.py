"""The language of a command: who asks for Chinese reads it on the terminal and in errors, and programs read the same JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import command

CHINESE = re.compile(r"[\u4e00-\u9fff]")
SENTENCE = re.compile(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}")
DIFF = re.compile(r"(?:[-+ ]{1,4}|@@)")
JOB = ("llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "8", "--global-batch-size", "64", "--seq-length", "4096")
SERVED = ("qwen3-32b", *JOB[1:5], "--prompt-tokens", "2000", "--response-tokens", "300", "--decode", "tp4", "--prefill", "tp4")


@pytest.mark.parametrize(
    ("environment", "flags", "is_chinese"),
    [
        ({}, (), False),
        ({}, ("--language", "zh"), True),
        ({}, ("--language=zh",), True),
        ({"MESHPLAN_LANGUAGE": "zh"}, (), True),
        ({"MESHPLAN_LANGUAGE": "zh"}, ("--language", "en"), False),
        ({"MESHPLAN_LANGUAGE": "en", "LANG": "zh_CN.UTF-8"}, (), False),
        ({"LANG": "zh_CN.UTF-8"}, (), True),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, (), False),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US.UTF-8"}, (), True),
    ],
)
def test_flag_variable_and_locale_choose_the_language(
    environment: dict[str, str], flags: tuple[str, ...], is_chinese: bool
) -> None:
    for words in ((*flags, "estimate", "no-such-model"), ("estimate", "no-such-model", *flags)):
        refused = command(*words, **environment)
        assert refused.returncode == 2
        assert bool(CHINESE.search(refused.stderr)) is is_chinese


@pytest.mark.parametrize(("words", "environment"), [(("--language", "fr"), {}), ((), {"MESHPLAN_LANGUAGE": "fr"})])
def test_another_language_is_refused(words: tuple[str, ...], environment: dict[str, str]) -> None:
    refused = command(*words, "models", "list", **environment)
    name = "--language" if words else "MESHPLAN_LANGUAGE"
    assert refused.stderr == f"meshplan: {name}: 'fr' is no known language; known: en, zh.\n"


@pytest.mark.parametrize("words", [("--language",), ("models", "list", "--language"), ("--language=", "models", "list")])
def test_a_language_that_is_not_named_is_refused(words: tuple[str, ...]) -> None:
    assert command(*words).stderr == "meshplan: --language: '' is no known language; known: en, zh.\n"


def test_a_word_of_a_command_does_not_keep_the_language_from_it() -> None:
    """`report` is a command of its own, and may be the name of a file or of a study for others."""
    for words in (("models", "show", "report"), ("report", "no-such.json"), ("estimate", "report")):
        refused = command(*words, "--language", "zh")
        assert CHINESE.search(refused.stderr), refused.stderr
        assert "--language" not in refused.stderr


def test_of_two_languages_the_last_one_holds() -> None:
    assert CHINESE.search(command("--language", "en", "models", "show", "x", "--language=zh").stderr)
    assert not CHINESE.search(command("--language=zh", "models", "show", "x", "--language", "en").stderr)


def test_what_follows_a_double_dash_is_no_option() -> None:
    assert "'--language'" in command("models", "show", "--", "--language").stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("estimate", *JOB, "--tp", "x"), "--tp：不允许 'x'；请给出整数，如 8、1e3。"),
        (("estimate", *JOB, "--typo"), "没有该选项：--typo"),
        (("search", *JOB, "--out", "x"), "没有该选项：--out（可能的选项：--"),
        (("serch", "x"), "没有该命令：'serch'，是否想写 'search'"),
        (("estimate", *JOB), "strategy：缺失；请在任务文件中给出，或用 --tp 8 --pp 4 等选项。"),
        (("estimate", "no-such.yaml"), "no-such.yaml：没有该文件。"),
        (("estimate", *JOB, "--tp", "16"), "strategy：tp 16 x cp 1 x pp 1 = 16 不能整除集群的 8 个设备；16 个设备则可以。"),
        (("search", "llama-2-7b", "--hardware", "910b", "--devices", "8"), "未知的硬件 '910b'（是否想写 "),
        (("experts", "plan"), "缺少参数 "),
    ],
)
def test_errors_are_told_in_chinese(words: tuple[str, ...], expected: str) -> None:
    refused = command("--language", "zh", *words)
    assert refused.returncode != 0
    assert refused.stderr.startswith(f"meshplan: {expected}")
    assert refused.stdout == ""


def test_an_estimate_for_people_is_in_chinese() -> None:
    printed = command("--language", "zh", "estimate", *JOB, "--tp", "8", "--details")
    assert printed.returncode == 0
    for part in ("时间去向", "显存去向", "假设", "（未给出）"):
        assert part in printed.stdout
    left = [line for line in printed.stdout.splitlines() if SENTENCE.search(line) and not CHINESE.search(line)]
    assert left == []


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("hardware", "list"),
        ("hardware", "show", "atlas-800t-a2"),
        ("models", "list"),
        ("goodput", *JOB, "--tp", "8", "--mtbf", "3h"),
        ("explain", *JOB, "--tp", "8"),
        ("serving", "estimate", *SERVED),
        ("rl", "estimate", "examples/rl-math-7b.yaml"),
        ("experts", "plan", "generated", "--job", "examples/deepseek-v2-lite.yaml"),
        ("tune", "tests/fixtures/scripts/22-llama2-13b-s4.sh", "--hardware", "atlas-900-a2-podc"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_answers_of_every_kind_are_in_chinese(words: tuple[str, ...], tmp_path: Path) -> None:
    printed = command("--language", "zh", *words, MESHPLAN_DATA_DIR=str(tmp_path), COLUMNS="1000")
    assert printed.returncode == 0
    lines = [line for line in printed.stdout.splitlines() if not DIFF.match(line)]
    names = re.compile(r"`[^`]*`|\[[^\]]*\]|'[^']*'")
    assert [line for line in lines if SENTENCE.search(names.sub("", line))] == []


@pytest.mark.parametrize("form", ["table", "markdown", "junit", "sarif", "annotations", "codequality"])
def test_a_check_says_in_chinese_what_it_found(form: str, tmp_path: Path) -> None:
    job, budget = tmp_path / "job.yaml", tmp_path / "budget.yaml"
    job.write_text("model: llama-2-7b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\nstrategy: {tp: 8, recompute: full}\n")
    budget.write_text("step_time_s: {max: 1}\n")
    found = command("check", job, "--budget", budget, "--format", form, "--language", "zh", COLUMNS="1000")
    assert found.returncode == 3
    assert "而只允许至多 1.000 s" in found.stdout
    text = re.sub(r"https?://\S+|shortDescription", "", found.stdout)
    assert [line for line in text.splitlines() if SENTENCE.search(line)] == []
    english = command("check", job, "--budget", budget, "--format", form)
    assert "but at most 1.000 s is allowed" in english.stdout
    assert not CHINESE.search(english.stdout)


def test_what_stands_in_the_way_is_told_in_chinese() -> None:
    refused = command("--language", "zh", "search", "llama-2-70b", "--hardware", "atlas-800t-a2", "--devices", "1")
    assert refused.returncode == 4
    assert "没有既合法又显存足够的策略" in refused.stdout
    assert not SENTENCE.search(refused.stderr)


def test_json_is_the_same_in_every_language() -> None:
    words = ("estimate", *JOB, "--tp", "8", "--json")
    assert command("--language", "zh", *words).stdout == command(*words).stdout


def test_a_report_is_in_the_language_of_its_command(tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    found = command("search", *JOB, "--tp", "8", "--pp", "1", "--json")
    answer.write_text(found.stdout, encoding="utf-8")
    chinese = command("--language", "zh", "report", answer, "--format", "markdown").stdout
    assert "结论" in chinese
    assert command("report", answer, "--format", "markdown", "--language", "zh").stdout == chinese
    english = command("--language", "zh", "report", answer, "--format", "markdown", "--language", "en").stdout
    assert not CHINESE.search(english)


@pytest.mark.parametrize("words", [(), ("search",), ("db",), ("serving", "search")])
def test_help_is_in_chinese(words: tuple[str, ...]) -> None:
    shown = command("--language", "zh", *words, "--help", COLUMNS="200").stdout
    assert "选项" in shown
    assert f"用法：{' '.join(('meshplan', *words))} [OPTIONS]" in shown
    assert [line for line in shown.splitlines() if SENTENCE.search(line) and not CHINESE.search(line)] == []
    assert not CHINESE.search(command(*words, "--help").stdout)
