"""A session on a device that is made up: what lies in the file, also after an interrupt, and what is said of it."""

import json
import sys
from pathlib import Path
from statistics import median

import pytest

from app.measuring.schemas import MeasureDocument
from app.measuring.session import measure_document, run
from app.measuring.tables import print_measured
from app.text.terminal import plain_text
from calibration.measurements.cases import Kind, default_cases
from calibration.measurements.files import read_measurements
from calibration.measurements.timing import Measured, Skipped
from documents.errors import InputError
from hardware_profiles import catalogue
from tests.measured import FakeBackend

A100 = catalogue.named("a100-sxm-80gb")


def test_the_file_holds_every_case_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    found = run(FakeBackend(num_ranks=4, refused={Kind.VECTOR: "none here."}), path, 0.1)
    assert read_measurements(path) == found
    assert found.is_complete
    cases = default_cases(4)
    assert len(found.results) + len(found.skipped) == len(cases)
    assert {skipped.case.kind for skipped in found.skipped} == {Kind.VECTOR}
    assert dict(found.software) == {"fake": "1.0"}
    assert "0.1 s" in found.method


def test_an_interrupt_leaves_what_was_measured_until_then(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    found = run(FakeBackend(stops_at=4), path, 0.1)
    assert read_measurements(path) == found
    assert (len(found.results), found.is_complete) == (3, False)


def test_the_file_is_whole_after_every_case_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    path, lengths = tmp_path / "site.json", []

    def look(result: Measured | Skipped, number: int, total: int) -> None:
        assert len(read_measurements(path).results) == number
        assert [entry.name for entry in tmp_path.iterdir()] == ["site.json"]
        lengths.append(total)

    run(FakeBackend(), path, 0.1, ["vector"], look)
    assert lengths == [4] * 4


def test_other_ranks_measure_and_do_not_write(tmp_path: Path) -> None:
    backend = FakeBackend(num_ranks=2, rank=1)
    run(backend, tmp_path / "site.json", 0.1)
    assert len(backend.prepared) == len(default_cases(2))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(tmp_path: Path) -> None:
    backend = FakeBackend()
    with pytest.raises(InputError, match=r"--out: .* cannot be written"):
        run(backend, tmp_path / "none" / "site.json", 0.1)
    assert backend.prepared == []


def test_collectives_alone_need_several_ranks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start several with torchrun"):
        run(FakeBackend(), tmp_path / "site.json", 0.1, ["collective"])


def test_each_measurement_stands_beside_what_the_model_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "site.json"
    document = measure_document(run(FakeBackend(num_ranks=2), path, 0.1), path, A100)
    MeasureDocument.model_validate(json.loads(document.model_dump_json()))
    for row in document.results:
        if row.modelled_s is not None:
            assert row.measured_over_modelled == pytest.approx(row.measured_s / row.modelled_s)
    backward = [row.measured_over_modelled for row in document.results if row.operation.endswith("_backward")]
    assert document.medians["attention backward"] == pytest.approx(median(filter(None, backward)))
    assert {"matmul bf16", "attention forward", "vector", "collective all reduce"} <= document.medians.keys()
    layer = next(row for row in document.results if row.kind == "layer")
    assert layer.pool_over_allocated == 1.25  # 1250 bytes reserved for 1000 allocated
    assert {row.kind for row in document.results if row.modelled_s is None} == {"layer", "matmul"}  # the A100 has no FP8
    print_measured(plain_text(sys.stdout, 120), document)
    printed = capsys.readouterr().out
    assert "bf16 8192 x 8192 x 8192" in printed
    assert "measured / modelled" in printed
    assert "Median of measured / modelled: matmul bf16 " in printed
    assert "The allocator's pool is 25.0% above what it gave out" in printed


def test_without_a_profile_nothing_is_modelled(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    document = measure_document(run(FakeBackend(), path, 0.1, ["matmul"]), path, None)
    assert document.hardware is None
    assert {row.modelled_s for row in document.results} == {None}
    assert document.medians == {}
