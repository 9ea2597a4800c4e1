import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibration.measurements.cases import default_cases
from calibration.measurements.files import (
    Device,
    Measurements,
    MeasurementsDocument,
    measurements_text,
    one_line,
    read_measurements,
)
from calibration.measurements.rates import collectives, matmul_rates
from calibration.measurements.timing import Measured, Skipped, measure
from documents.errors import InputError
from tests.measured import FakeBackend, one_call_s

Change = Callable[[dict[str, Any]], object]


def found(num_ranks: int = 4) -> Measurements:
    results = list(measure(FakeBackend(), default_cases(num_ranks), 0.1))
    skipped = Skipped(results[0].case, "no reason.")
    taken = tuple(result for result in results if isinstance(result, Measured))
    return Measurements(Device("Fake 100", "cuda", num_ranks), (("fake", "1.0"),), "as told", 0.1, taken, (skipped,), True)


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(measurements_text(found()), encoding="utf-8")
    assert read_measurements(path) == found()
    MeasurementsDocument.model_validate(json.loads(path.read_text(encoding="utf-8")))


def test_an_interrupted_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(measurements_text(Measurements(Device("x", "npu", 1), (), "as told", 3.0)), encoding="utf-8")
    assert not read_measurements(path).is_complete


def _first(document: dict[str, Any], **values: Any) -> None:
    document["results"][0] |= values


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda d: d.update(format="meshplan-calibration/1"), "format: 'meshplan-calibration/1' is not allowed"),
        (lambda d: d.pop("device"), "device: missing"),
        (lambda d: _first(d, kind="matmull"), "results[0].kind: 'matmull' is not allowed (did you mean 'matmul'?)"),
        (lambda d: _first(d, operation="norm"), "operation 'norm' is none of matmul"),
        (lambda d: _first(d, sizes={"rows": 8}), "sizes 'rows' are not those of matmul: rows, columns, depth"),
        (lambda d: _first(d, sizes={"rows": 0, "columns": 1, "depth": 1}), "sizes"),
        (lambda d: _first(d, time_s=0.0), "results[0].time_s: 0.0 is not allowed"),
        (lambda d: _first(d, time_s="fast"), "results[0].time_s: 'fast' is not allowed"),
        (lambda d: _first(d, kernel="two\nlines"), "results[0].kernel"),
        (lambda d: d.update(results=[d["results"][0]] * 10_001), "results"),
    ],
)
def test_what_no_measurement_writes_is_refused_in_a_sentence(change: Change, part: str, tmp_path: Path) -> None:
    document = json.loads(measurements_text(found()))
    change(document)
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_measurements(path)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_words_of_other_programs_fit_on_a_line() -> None:
    assert one_line("out of memory\nTried to allocate") == "out of memory"
    assert one_line("\x1b[31mred") == "[31mred"
    assert one_line("") == "no reason given"


def test_matmuls_come_out_as_rates_the_most_work_first() -> None:
    rates = matmul_rates(found())
    assert [rate.flops for rate in rates] == sorted((rate.flops for rate in rates), reverse=True)
    # 2 x 8192 x 28672 x 4096 FLOP at 100 TFLOPS and a launch of 5 us: 19.242 ms and 5 us
    assert rates[0].flops_per_s == pytest.approx(1.92415e12 / 19.2465e-3, rel=1e-4)


def test_collectives_come_out_as_curves_in_increasing_size() -> None:
    curves = collectives(found())
    assert {(curve.op, curve.group_size) for curve in curves} == {
        (op, 4) for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    }
    for curve in curves:
        assert list(curve.message_bytes) == sorted(curve.message_bytes)
        assert curve.time_us == pytest.approx([5.0 + size / 1e6 for size in curve.message_bytes])


def test_one_size_makes_no_curve() -> None:
    one = [case for case in default_cases(4, only=["collective"]) if case.by_name["message_bytes"] == 2**16]
    results = tuple(result for result in measure(FakeBackend(), one, 0.1) if isinstance(result, Measured))
    assert results
    assert one_call_s(results[0].case) > 0
    assert collectives(Measurements(Device("x", "cuda", 4), (), "as told", 0.1, results)) == ()
