"""``meshplan hardware calibrate --op-summary``: matmul rates of a profiled job in a profile of one's own."""

from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from hardware_profiles.catalogue import profile

HARDWARE = "atlas-900-a2-podc"
HEADER = "Op Name,OP Type,Task Type,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types"
MATMUL = 'aclnnMatmul_1,MatMulV2,AI_CORE,{us},"""4096,8192;8192,2048""",DT_BF16;DT_BF16,ND;ND,"""4096,2048""",DT_BF16'


def summary(folder: Path, *rows: str) -> Path:
    path = folder / "op_summary_20250101.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


def test_the_best_rate_is_written_with_where_it_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, site = summary(tmp_path, MATMUL.format(us=500), MATMUL.format(us=490), MATMUL.format(us=520)), tmp_path / "site.yaml"
    assert main(["hardware", "calibrate", HARDWARE, "--op-summary", str(path), "--output", str(site)]) == DONE
    own, shipped = profile(site), profile(HARDWARE)
    # 2 x 4096 x 2048 x 8192 FLOP in 500 us, 77.7 % of the 353.9 TFLOPS of the Cube cores
    assert own.achievable_matmul_flops_per_s["bf16"] == pytest.approx(274.9e12)
    assert own.achievable_matmul_flops_per_s["fp16"] == shipped.achievable_matmul_flops_per_s["fp16"]
    stated = own.provenance["achievable_matmul_flops_per_s.bf16"]
    assert (str(stated.basis), stated.source) == ("measured", "own-measurement")
    assert "77.7% of peak" in stated.note or "77.7 % of peak" in stated.note
    printed = capsys.readouterr().out
    assert "4096,8192;8192,2048" in printed
    assert "achievable_matmul_flops_per_s.bf16 = 274.9 TFLOPS" in printed


def test_small_matmuls_are_reported_and_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = 'm,MatMulV2,AI_CORE,2,"64,64;64,64",DT_BF16;DT_BF16,ND;ND,"64,64",DT_BF16'
    site = tmp_path / "site.yaml"
    arguments = ["hardware", "calibrate", HARDWARE, "--op-summary", str(summary(tmp_path, small)), "--output", str(site)]
    assert main(arguments) == DONE
    assert profile(site).achievable_matmul_flops_per_s == profile(HARDWARE).achievable_matmul_flops_per_s
    assert "large enough" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ([MATMUL.format(us=300)], "more than the bf16 peak 353.9"),  # 458 TFLOPS
        ([MATMUL.format(us=1e9)], "--op-summary"),  # 0.14 GFLOPS, below any device
        ([], "no row is a matmul"),
    ],
)
def test_rates_that_cannot_be_are_refused(rows: list[str], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    arguments = ["hardware", "calibrate", HARDWARE, "--op-summary", str(summary(tmp_path, *rows)), "--output", str(site)]
    assert main(arguments) == BAD_INPUT
    captured = capsys.readouterr()
    assert part in captured.err
    assert captured.err.count("\n") == 1
    assert not site.exists()


@pytest.mark.parametrize(
    ("given", "part"),
    [(["--op-summary", "none.csv"], "cannot be read"), ([], "the log of a benchmark, --op-summary FILE")],
)
def test_something_measured_is_needed(given: list[str], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "calibrate", HARDWARE, *given, "--output", str(tmp_path / "site.yaml")]) == BAD_INPUT
    assert part in capsys.readouterr().err
