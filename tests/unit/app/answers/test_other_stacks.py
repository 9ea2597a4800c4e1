"""The price of a launch file whose framework is priced as another stack than the plan."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import DONE

JOB = (
    "search", "qwen3-8b", "--hardware", "h100-sxm-80gb", "--devices", "8", "--seq-length", "4096", "--global-batch-size", "64",
    "--tp", "2", "--pp", "1",
)  # fmt: skip


def test_a_file_of_another_stack_says_its_own_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*JOB, "--target", "torchtitan", "--save-dir", str(tmp_path / "plans")]) == DONE
    printed = " ".join(capsys.readouterr().out.split())
    file = next((tmp_path / "plans").glob("plan-1.megatron-lm.sh"))
    assert main(["estimate", str(file), "--hardware", "h100-sxm-80gb", "--json"]) == DONE
    own = json.loads(capsys.readouterr().out)["estimate"]
    own_s, peak, sure = own["step_time_s"], f"{own['peak_memory_bytes'] / 2**30:.2f} GiB", f"{own['fits_probability']:.1%}"
    plan_s = json.loads((tmp_path / "plans" / "report.json").read_text())["plans"][0]["estimate"]["step_time_s"]
    assert abs(own_s / plan_s - 1) > 0.05
    assert f"plan-1.torchtitan.toml, {file} (its own price: {own_s:.3f} s, peak {peak}, fits with {sure})" in printed
    comments = re.sub(r"\n#\s*", " ", file.read_text())
    assert f"megatron-lm@0.12 takes {own_s:.3f} s a step and {peak} at its peak, and fits with {sure}: the price of" in comments
    assert "price of the plan is that of" not in (tmp_path / "plans" / "plan-1.torchtitan.toml").read_text()


def test_a_file_of_the_plans_stack_has_the_plans_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*JOB, "--save-dir", str(tmp_path / "plans"), "--json"]) == DONE
    launches = [plan["launch"] for plan in json.loads(capsys.readouterr().out)["plans"]]
    assert {each["megatron-lm"].get("step_time_s") for each in launches} == {None}
    assert "price of the plan is that of" not in (tmp_path / "plans" / "plan-1.megatron-lm.sh").read_text()


def test_a_file_of_another_stack_says_its_own_price_with_a_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stages wait for one another, which the closed form leaves out and `estimate` of the file simulates."""
    job = ("qwen3-8b", "--hardware", "atlas-900-a2-podc", "--devices", "8", "--seq-length", "4096", "--global-batch-size", "32")
    out = tmp_path / "plans"
    assert main(["search", *job, "--tp", "1", "--pp", "4", "--target", "mindformers", "--save-dir", str(out), "--json"]) == DONE
    launch = json.loads(capsys.readouterr().out)["plans"][0]["launch"]["mindspeed-llm"]
    assert launch["launchable"]
    file = str(out / "plan-1.mindspeed-llm.sh")
    assert main(["estimate", file, "--hardware", "atlas-900-a2-podc", "--json"]) == DONE
    assert launch["step_time_s"] == pytest.approx(json.loads(capsys.readouterr().out)["estimate"]["step_time_s"], rel=1e-9)
