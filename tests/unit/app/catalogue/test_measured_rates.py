"""``meshplan hardware calibrate --measurements``: what ``hardware measure`` found, in a profile of one's own."""

from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.measuring.session import run
from calibration.measurements.cases import Case
from hardware_profiles.catalogue import profile
from tests.measured import FakeBackend, one_call_s

HARDWARE = "a100-sxm-80gb"


def measured(folder: Path, *, slowdown: float = 1.0, kind: str = "cuda", compute_capability: float | None = None) -> Path:
    path = folder / "measurements.json"

    def seconds_of(case: Case) -> float:
        return slowdown * one_call_s(case) * (10.0 if case.precision == "fp32" else 1.0)

    backend = FakeBackend(kind=kind, num_ranks=8, compute_capability=compute_capability, seconds_of=seconds_of)
    run(backend, path, 0.1)
    return path


def test_sustained_rates_and_curves_go_into_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, site = measured(tmp_path), tmp_path / "site.yaml"
    assert main(["hardware", "calibrate", HARDWARE, "--measurements", str(path), "--output", str(site)]) == DONE
    own, shipped = profile(site), profile(HARDWARE)
    assert own.achievable_matmul_flops_per_s["bf16"] == pytest.approx(99.97e12)  # 100 TFLOPS less a launch
    assert own.matmul_flops_per_s == shipped.matmul_flops_per_s
    assert "fp8" not in own.achievable_matmul_flops_per_s  # an A100 has none, whatever was measured
    stated = own.provenance["achievable_matmul_flops_per_s.bf16"]
    assert (str(stated.basis), stated.source) == ("measured", "own-measurement")
    curves = {(curve.op, curve.group_size) for curve in own.tiers[0].curves}
    assert curves == {(op, 8) for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")}
    printed = capsys.readouterr().out
    assert "achievable_matmul_flops_per_s.bf16 = 99.97 TFLOPS" in printed
    job = ["llama-2-7b", "--hardware", str(site), "--devices", "8", "--tp", "8"]
    assert main(["estimate", *job, "--global-batch-size", "8", "--seq-length", "4096"]) == DONE


@pytest.mark.parametrize(
    ("hardware", "slowdown", "kind", "part"),
    [
        (HARDWARE, 0.1, "cuda", "--measurements: bf16 8192 x 28672 x 4096 reaches 999.7 TFLOPS, more than the bf16 peak 312.0"),
        (HARDWARE, 1.0, "cpu", "is of 'Fake 100', a cpu device, and a100-sxm-80gb is of family nvidia"),
        ("atlas-800t-a2", 1.0, "cuda", "a cuda device, and atlas-800t-a2 is of family ascend"),
    ],
)
def test_what_was_measured_elsewhere_is_refused(
    hardware: str, slowdown: float, kind: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, site = measured(tmp_path, slowdown=slowdown, kind=kind), tmp_path / "site.yaml"
    assert main(["hardware", "calibrate", hardware, "--measurements", str(path), "--output", str(site)]) == BAD_INPUT
    captured = capsys.readouterr()
    assert part in captured.err
    assert captured.err.count("\n") == 1
    assert not site.exists()


def test_rates_come_from_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--measurements", str(measured(tmp_path)), "--op-summary", "op_summary.csv"]
    assert main(["hardware", "calibrate", HARDWARE, *given, "--output", str(tmp_path / "site.yaml")]) == BAD_INPUT
    assert "give one of the two" in capsys.readouterr().err


def test_a_file_that_says_nothing_of_a_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "measurements.json"
    run(FakeBackend(), path, 0.1, ["vector"])
    given = ["--measurements", str(path), "--output", str(tmp_path / "site.yaml")]
    assert main(["hardware", "calibrate", HARDWARE, *given]) == BAD_INPUT
    assert "has no matmul and no collective of two sizes" in capsys.readouterr().err


def test_a_file_of_something_else_is_told_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"format": "meshplan-calibration/1"}', encoding="utf-8")
    given = ["--measurements", str(path), "--output", str(tmp_path / "site.yaml")]
    assert main(["hardware", "calibrate", HARDWARE, *given]) == BAD_INPUT
    assert "meshplan-measurements/1" in capsys.readouterr().err


def test_the_compute_capability_goes_into_a_profile_without_one_and_must_agree_with_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, site = tmp_path / "bare.yaml", tmp_path / "site.yaml"
    bare.write_text(f"like: {HARDWARE}\nname: bare\ncompute_capability: null\n", encoding="utf-8")
    path = measured(tmp_path, compute_capability=8.0)
    assert main(["hardware", "calibrate", str(bare), "--measurements", str(path), "--output", str(site)]) == DONE
    assert (profile(bare).compute_capability, profile(site).compute_capability) == (None, 8.0)
    assert str(profile(site).provenance["compute_capability"].basis) == "measured"
    capsys.readouterr()
    path = measured(tmp_path, compute_capability=9.0)
    other = str(tmp_path / "other.yaml")
    assert main(["hardware", "calibrate", HARDWARE, "--measurements", str(path), "--output", other]) == BAD_INPUT
    assert "is of a device of compute capability 9.0, and a100-sxm-80gb has 8.0" in capsys.readouterr().err
