"""Counts beside what Megatron-Core held, sent and multiplied when it ran the matrix; no PyTorch is needed."""

from functools import cache

import pytest

from app.verification.comparison import HELD
from scripts.oracle import launched, launched_cases
from scripts.oracle.cases import CASES
from scripts.oracle.comparison import TOLERANCE, Row, moved_bytes, rows, sent_bytes
from scripts.oracle.records import RECORDS, recorded
from scripts.oracle.write_verification import CHINESE, PAGE, with_tables

RAN = [(release, case) for release in RECORDS for case in CASES if release in case["releases"]]


@cache
def found(release: str, name: str) -> list[Row]:
    case = next(each for each in CASES if each["name"] == name)
    return list(rows(case, recorded(release)[name], release))


@pytest.mark.parametrize(("release", "name"), [(release, case["name"]) for release, case in RAN])
def test_every_count_is_what_was_executed(release: str, name: str) -> None:
    assert {row.count: row.ratio for row in found(release, name) if abs(row.ratio - 1.0) > TOLERANCE} == {}


LAUNCHED = [(release, case["name"]) for case in launched_cases.CASES for release in case["releases"]]


@pytest.mark.parametrize(("release", "name"), LAUNCHED)
def test_every_count_of_a_launch_file_is_what_was_executed(release: str, name: str) -> None:
    case = next(each for each in launched_cases.CASES if each["name"] == name)
    found = list(launched.rows(case, release, launched.recorded(release)[name]))
    assert any(row.count.endswith(" layer") for row in found)
    tolerances = {"held": HELD, "parameters": 0.0}
    assert {row.count: row.ratio for row in found if abs(row.ratio - 1.0) > tolerances.get(row.count, TOLERANCE)} == {}


@pytest.mark.parametrize("release", launched_cases.RELEASES)
def test_each_launch_file_was_executed_and_no_other(release: str) -> None:
    assert set(launched.recorded(release)) == {name for each, name in LAUNCHED if each == release}


@pytest.mark.parametrize("release", RECORDS)
def test_integers_are_equal(release: str) -> None:
    counted = [row for each, case in RAN if each == release for row in found(release, case["name"])]
    for row in counted:
        if row.count.startswith(("parameters", "order")):
            biases = 9 * 512 if row.case in ("GELU and layer norm", "recompute of the core, learned positions") else 0
            assert row.predicted == row.executed - biases, row  # those of layer norms are left out


@pytest.mark.parametrize("release", RECORDS)
def test_each_case_was_executed_and_no_other(release: str) -> None:
    assert set(recorded(release)) == {case["name"] for each, case in RAN if each == release}


def test_records_hold_what_was_published_of_a_dense_layer() -> None:
    """Two norms' inputs and outputs, heads, MLP and 1 / rms, by hand: 4,007,936 bytes."""
    by_hand = 256 * (2 * 4 * 512 + 2 * 64 * (8 + 2 * 4 + 8) + 4 * 8 + 6 * 1408 + 2 * 4)
    assert recorded("0.19")["dense"][0]["layers"] == {"dense": by_hand}


def test_what_a_rank_sends() -> None:
    assert moved_bytes("all_gather", 800, 4) == 600
    assert moved_bytes("all_reduce", 800, 4) == 1200
    assert moved_bytes("send", 800, 4) == 800
    assert moved_bytes("receive", 800, 4) == 0
    rank = {
        "collectives": {
            "forward|tp:2|all_gather|100|bfloat16": 3,
            "forward|tp:2|all_reduce|64|float32": 2,
            "forward|ep:2|all_to_all|100|bfloat16": 1,
        }
    }
    assert sent_bytes(rank, ("tp",)) == (150 + 128, 128)


@pytest.mark.parametrize("language", [0, 1], ids=["English", "Chinese"])
def test_the_page_shows_these_ratios(language: int) -> None:
    text = (PAGE, CHINESE)[language].read_text(encoding="utf-8")
    assert with_tables(text, language) == text, "run scripts/oracle/write_verification.py"
