"""``meshplan hardware calibrate``: a profile with the collective times of a user's own cluster."""

from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from hardware_profiles.catalogue import profile

LOG = """data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:
1048576           |      52.50    |      19.97           | success
67108864          |    1530.20    |      43.86           | success
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "all_reduce.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_curves_land_in_the_tier_that_joins_their_ranks(log: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    curves = ("--curve", f"all_reduce:8={log}", "--curve", f"all_reduce:16={log}")
    assert main(["hardware", "calibrate", "atlas-900-a2-podc", *curves, "--output", str(site)]) == DONE
    own, shipped = profile(site), profile("atlas-900-a2-podc")
    assert own.name == "site"
    assert own.matmul_flops_per_s == shipped.matmul_flops_per_s
    inner, outer = (next(c for c in tier.curves if (c.op, c.group_size) in (("all_reduce", 8), ("all_reduce", 16))) for tier in
                    (own.tiers[0], own.tiers[-1]))  # fmt: skip
    assert (inner.group_size, outer.group_size) == (8, 16)
    assert inner.message_bytes == (1048576.0, 67108864.0)
    assert inner.time_s == pytest.approx((52.5e-6, 1530.2e-6))
    assert sum((c.op, c.group_size) == ("all_reduce", 8) for c in own.tiers[0].curves) == 1  # in place of the shipped one


def test_a_written_profile_is_replaced_only_if_asked(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("edited", encoding="utf-8")
    command = ["hardware", "calibrate", "atlas-900-a2-podc", "--curve", f"all_reduce:8={log}", "--output", str(site)]
    assert main(command) == BAD_INPUT
    assert f"--output: {site} exists already; give another file, or --overwrite to replace it." in capsys.readouterr().err
    assert site.read_text(encoding="utf-8") == "edited"
    assert main([*command, "--overwrite"]) == DONE
    assert profile(site).name == "site"


def test_an_answer_calls_it_by_its_name(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    assert main(["hardware", "calibrate", "atlas-900-a2-podc", "--curve", f"all_reduce:8={log}", "--output", str(site)]) == DONE
    moved = site.rename(tmp_path / "copy.yaml")
    capsys.readouterr()
    assert main(["estimate", "llama-2-7b", "--hardware", str(moved), "--devices", "8", "--tp", "8"]) == DONE
    assert capsys.readouterr().out.startswith("llama-2-7b on 8 x site, sequence ")
    shipped = tmp_path / "atlas-900-a2-podc.yaml"  # a file that has the name of a shipped profile
    shipped.write_text(moved.read_text(encoding="utf-8").replace("name: site", "name: atlas-900-a2-podc"), encoding="utf-8")
    assert main(["estimate", "llama-2-7b", "--hardware", str(shipped), "--devices", "8", "--tp", "8"]) == DONE
    assert " ".join(capsys.readouterr().out.split()).split(",")[0] == f"llama-2-7b on 8 x {shipped}"


def test_a_job_runs_on_the_written_profile(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    assert main(["hardware", "calibrate", "atlas-900-a2-podc", "--curve", f"all_reduce:8={log}", "--output", str(site)]) == DONE
    job = ("llama-2-7b", "--hardware", str(site), "--devices", "8", "--global-batch-size", "64", "--tp", "8", "--json")
    assert main(["estimate", *job]) == DONE
    assert '"step_time_s"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "curve", "output", "part"),
    [
        ("atlas-900-a2-pod", "all_reduce:8={log}", "site.yaml", "did you mean 'atlas-900-a2-podc'"),
        ("atlas-900-a2-podc", "all_reduce={log}", "site.yaml", "give OPERATION:RANKS=LOG"),
        ("atlas-900-a2-podc", "all_reduce:1={log}", "site.yaml", "give OPERATION:RANKS=LOG"),
        ("atlas-900-a2-podc", "reduce:8={log}", "site.yaml", "operation 'reduce' is none of"),
        ("atlas-900-a2-podc", "all_reduce:8=none.log", "site.yaml", "cannot be read"),
        ("atlas-900-a2-podc", "all_reduce:8={log}", "site.txt", "ends in .yaml"),
        ("atlas-900-a2-podc", "all_reduce:8={log}", "nowhere/site.yaml", "in a folder that exists"),
        ("atlas-900-a2-podc", "all_reduce:8={log}", "folder.yaml", "folder.yaml is a folder; give a file"),
    ],
)
def test_bad_input_is_one_sentence(
    name: str, curve: str, output: str, part: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.yaml").mkdir()
    arguments = [name, "--curve", curve.format(log=log), "--output", str(tmp_path / output)]
    assert main(["hardware", "calibrate", *arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert part in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / output).is_file()
