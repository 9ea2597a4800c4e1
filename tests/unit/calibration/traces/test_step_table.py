"""``step_trace_time.csv``."""

from __future__ import annotations

import pytest

from calibration.traces.measured import TraceError
from calibration.traces.step_table import read_step_table

HEADER = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)


def table(*rows: str, header: str = HEADER) -> list[str]:
    return [header, *rows]


def test_a_row_fills_its_step() -> None:
    """6 s compute, 3 s exposed communication of which 1 s receives, 1 s free: 10 s. 2 s ran beside compute."""
    found = read_step_table(table("0,7,6000000,3000000,2000000,5000000,1000000,9000000,1000000,2000000,500"), None, None)
    assert (found.rank, found.step, found.step_time_s) == (0, 7, pytest.approx(10.0))
    assert found.exposed_s == pytest.approx({"compute": 6.0, "communication": 2.0, "pipeline": 1.0, "free": 1.0})
    assert found.masked_s == pytest.approx({"communication": 2.0})


def test_the_rank_that_computes_longest_and_its_median_step() -> None:
    rows = [f"{rank},{step},{1000 * step + rank},0,0,0,0,0,0,0,0" for rank in (0, 1) for step in (1, 2, 3)]
    found = read_step_table(table(*rows), None, None)
    assert (found.rank, found.step, found.ranks) == (1, 2, (0, 1))
    assert found.step_times_s == pytest.approx({1: 1.001e-3, 2: 2.001e-3, 3: 3.001e-3})
    assert read_step_table(table(*rows), 0, 3).step_time_s == pytest.approx(3e-3)


def test_a_cluster_table_has_rows_of_stages_that_are_no_rank() -> None:
    header = HEADER.replace("Device_id,Step", "Step,Type,Index")
    found = read_step_table(table('1,stage,"(0, 1)",9,0,0,0,0,0,0,0,0', "1,rank,1,5,0,0,0,0,0,0,0,0", header=header), None, None)
    assert (found.rank, found.exposed_s["compute"]) == (1, pytest.approx(5e-6))


def test_a_step_that_was_not_named() -> None:
    found = read_step_table(table("0,,5,0,0,0,1,6,0,0,0"), None, None)
    assert (found.step, found.step_times_s) == (None, {})
    with pytest.raises(TraceError, match="does not number its steps"):
        read_step_table(table("0,,5,0,0,0,1,6,0,0,0"), None, 3)


@pytest.mark.parametrize(
    ("lines", "wanted", "sentence"),
    [
        (["a,b", "1,2"], (None, None), "no column Computing"),
        (table(), (None, None), "holds no row of a device"),
        (table("0,1,x,0,0,0,0,0,0,0,0"), (None, None), "line 2, column Computing: 'x' is no time in microseconds"),
        (table("0,1,nan,0,0,0,0,0,0,0,0"), (None, None), "line 2, column Computing: 'nan'"),
        (table("0,1,-1,0,0,0,0,0,0,0,0"), (None, None), "line 2, column Computing: '-1'"),
        (table("0,1,0,0,0,0,0,0,0,0,0"), (None, None), "the step took no time"),
        (table("0,1,5,0,0,0,0,0,0,0,0"), (3, None), "holds no rank 3; it has 0"),
        (table("0,1,5,0,0,0,0,0,0,0,0"), (None, 2), "holds no step 2; it has 1"),
        (table("0,1,5"), (None, None), "is no time"),
    ],
)
def test_what_is_wrong_is_said(lines: list[str], wanted: tuple[int | None, int | None], sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_step_table(lines, *wanted)
