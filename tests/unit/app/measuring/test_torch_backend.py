"""PyTorch itself, on the processor, where it is installed; and the sentence where it is not."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.measuring.torch_backend import TorchBackend
from calibration.measurements.cases import Case, Kind
from calibration.measurements.files import read_measurements
from calibration.measurements.timing import Measured, Skipped, measure
from documents.errors import InputError

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is no dependency of meshplan")
SMALL = (
    Case(Kind.MATMUL, "matmul", "bf16", (16, 16, 16)),
    Case(Kind.ATTENTION, "causal_forward", "bf16", (1, 16, 4, 2, 16)),
    Case(Kind.ATTENTION, "full_backward", "bf16", (2, 16, 4, 4, 16)),
    Case(Kind.GROUPED_MATMUL, "grouped_matmul", "bf16", (2, 32, 16, 16)),
    *(Case(Kind.VECTOR, operation, "bf16", (16, 32)) for operation in ("norm", "swiglu", "add", "cast")),
    Case(Kind.DISPATCH, "add", "fp32", (1,)),
)


def test_a_machine_without_pytorch_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it then fails, whether it is installed or not
    path = tmp_path / "site.json"
    assert main(["hardware", "measure", "--device", "cpu", "--out", str(path)]) == BAD_INPUT
    said = capsys.readouterr().err
    assert "torch cannot be imported" in said
    assert "run meshplan with the Python that has it" in said
    assert said.count("\n") == 1
    assert not path.exists()


def test_a_kind_of_device_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="--device: 'gpu' is no known kind of device"):
        TorchBackend("gpu")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--out", "none/site.json"], "in no folder that exists"),
        (["--out", "."], "a folder"),
        (["--hardware", "a100-sxm-80g"], "a100-sxm-80gb"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_bad_flags_are_told_before_pytorch_is_asked_for(
    arguments: list[str], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["hardware", "measure", *arguments]) == BAD_INPUT
    assert part in capsys.readouterr().err


def test_a_file_that_nobody_named_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "measurements.json").write_text("mine", encoding="utf-8")
    assert main(["hardware", "measure"]) == BAD_INPUT
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "measurements.json").read_text(encoding="utf-8") == "mine"


@needs_torch
def test_every_kind_of_case_runs_on_a_processor() -> None:
    found = list(measure(TorchBackend("cpu"), SMALL, 0.01))
    assert [result.case for result in found if isinstance(result, Measured)] == list(SMALL)
    assert all(result.kernel for result in found if isinstance(result, Measured))


@needs_torch
def test_a_processor_has_no_pool_of_memory() -> None:
    (found,) = measure(TorchBackend("cpu"), [Case(Kind.LAYER, "forward_backward", "bf16", (8, 16, 32, 2, 1))], 0.01)
    assert isinstance(found, Skipped)
    assert "no pool" in found.reason


@needs_torch
def test_the_command_writes_a_file_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "site.json"
    arguments = ["--device", "cpu", "--seconds", "0.01", "--only", "dispatch", "--out", str(path), "--json"]
    assert main(["hardware", "measure", *arguments]) == DONE
    found = read_measurements(path)
    assert found.is_complete
    assert found.device.kind == "cpu"
    assert {"torch", "python"} <= dict(found.software).keys()
    assert json.loads(capsys.readouterr().out)["results"][0]["measured_s"] == found.results[0].timing.time_s
