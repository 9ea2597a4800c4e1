"""``meshplan hardware new``: the beginning of a user's own profile."""

from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from hardware_profiles.catalogue import profile


def test_a_job_runs_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = tmp_path / "ours.yaml"
    assert main(["hardware", "new", "--like", "H100-SXM-80GB", "--output", str(ours)]) == DONE
    assert str(ours) in capsys.readouterr().out
    assert profile(ours).tiers == profile("h100-sxm-80gb").tiers
    job = ("llama-2-7b", "--hardware", str(ours), "--devices", "8", "--global-batch-size", "64", "--tp", "8", "--json")
    assert main(["estimate", *job]) == DONE
    assert '"step_time_s"' in capsys.readouterr().out


def test_an_edited_file_is_replaced_only_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = tmp_path / "my.yaml"
    ours.write_text("edited", encoding="utf-8")
    command = ["hardware", "new", "--like", "l40s-48gb", "--output", str(ours)]
    assert main(command) == BAD_INPUT
    assert f"--output: {ours} exists already; give another file, or --overwrite to replace it." in capsys.readouterr().err
    assert ours.read_text(encoding="utf-8") == "edited"
    assert main([*command, "--overwrite"]) == DONE
    assert profile(ours).tiers == profile("l40s-48gb").tiers


@pytest.mark.parametrize(
    ("like", "output", "part"),
    [
        ("h100", "ours.yaml", "did you mean 'h100-nvl-94gb' (H100 NVL)"),
        ("h100-sxm-80gb", "ours.txt", "ends in .yaml"),
        ("h100-sxm-80gb", "nowhere/ours.yaml", "in a folder that exists"),
        ("h100-sxm-80gb", "Ours_1.yaml", "'Ours_1' is not allowed; give lower-case letters"),
    ],
)
def test_bad_input_writes_nothing(like: str, output: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "new", "--like", like, "--output", str(tmp_path / output)]) == BAD_INPUT
    assert part in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
