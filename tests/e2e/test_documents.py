"""Every command of the documentation runs, page by page, in a folder with the files that the page names and does not bring."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import DONE
from app.measuring.session import run
from app.settings import PREFIX
from tests.measured import FakeBackend, one_call_s

ROOT = Path(__file__).parents[2]
CHINESE = ROOT / "docs" / "zh"  # the same commands, as tests/architecture/test_chinese_pages.py holds
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if CHINESE not in page.parents)]
FIXTURES = ROOT / "tests" / "fixtures"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\S+/)?meshplan (.*)$", re.MULTILINE)
NEVER_END = ("serve", "worker")  # their flags are read and no more
LOG = """data_size(Bytes): | avg_time(us): | alg_bandwidth(GB/s): | check_result:
1048576 | 52.5 | 20.0 | success
67108864 | 1530.2 | 43.9 | success
"""
SUMMARY = (
    "Op Name,OP Type,Task Type,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types\n"
    + 'm,MatMulV2,AI_CORE,500,"""4096,8192;8192,2048""",DT_BF16;DT_BF16,ND;ND,"""4096,2048""",DT_BF16\n' * 3
)


def _scripts(folder: Path) -> None:
    shutil.copy(FIXTURES / "scripts" / "22-llama2-13b-s4.sh", folder / "pretrain_gpt.sh")
    shutil.copy(FIXTURES / "scripts" / "61-deepseek-v3-671b-a3.sh", folder / "pretrain_deepseek3.sh")
    (folder / "path" / "to").mkdir(parents=True)
    shutil.copy(FIXTURES / "huggingface" / "deepseek-v2-lite.json", folder / "path" / "to" / "config.json")


def _runs(folder: Path) -> None:
    records = [json.loads(line) for line in (ROOT / "calibration" / "runs" / "ascend.jsonl").read_text().splitlines()]
    picked = [each for each in records if "ModelLink" in each["software"]["framework"]][:12]
    own = [{**each, "id": f"own-{each['id']}", "cluster": {**each["cluster"], "hardware": "site"}} for each in picked]
    (folder / "runs.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in picked + own))


def _job(folder: Path) -> None:
    shutil.copy(ROOT / "examples" / "llama-2-13b.yaml", folder / "job.yaml")
    (folder / "budget.yaml").write_text("step_time_s: {max: 1000}\n")


def _site(folder: Path) -> None:
    _job(folder)
    (folder / "site.yaml").write_text("mtbf_s: 30000\nspares: 2\n")
    (folder / "interruptions.csv").write_text("time\n2026-01-03T10:00:00\n2026-02-04T11:00:00\n")


def _logs(folder: Path) -> None:
    _runs(folder)
    (folder / "all_reduce.log").write_text(LOG)
    (folder / "op_summary_20250101.csv").write_text(SUMMARY)


def _own_run(folder: Path) -> None:
    """The record that the tutorial shows, as it shows it."""
    shown = re.search(r"^```json\n(.*?)^```", (ROOT / "docs" / "tutorial.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown is not None
    (folder / "runs.jsonl").write_text(shown[1])


def _questions(folder: Path) -> None:
    _scripts(folder)
    _own_run(folder)


def _measurements(folder: Path) -> None:
    _runs(folder)
    run(FakeBackend(kind="npu", num_ranks=8, seconds_of=lambda case: one_call_s(case) * 4), folder / "node.json", 0.1)


def _traces(folder: Path) -> None:
    _job(folder)
    for name in ("step_trace_time.csv", "trace_view.json"):
        shutil.copy(FIXTURES / "traces" / name, folder)


FILES: dict[str, Callable[[Path], None]] = {
    "README.md": _scripts,
    "calibration.md": _logs,
    "check.md": _job,
    "cli.md": _scripts,
    "compare-trace.md": _traces,
    "faq.md": _questions,
    "goodput.md": _site,
    "measuring.md": _measurements,
    "tutorial.md": _own_run,
}


def commands_of(page: Path) -> list[str]:
    blocks = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    return COMMAND.findall(blocks)


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("examples", "calibration"):
        (tmp_path / name).symlink_to(ROOT / name)
    if page.name in FILES:
        FILES[page.name](tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"{PREFIX}DATABASE_URL", f"sqlite:///{tmp_path / 'meshplan.db'}")
    main(["db", "upgrade"])
    for command in commands_of(page):
        arguments = shlex.split(command, comments=True)
        if arguments[0] in NEVER_END:
            arguments.append("--help")
        capsys.readouterr()
        assert main(arguments) == DONE, (command, capsys.readouterr().err)
