"""Runs of publications that nothing was fitted to or tuned on: they are read whole and stay apart."""

import json
from pathlib import Path

import pytest

from calibration.records.training import RunRecord, read_run_records
from calibration.splits.groups import publication
from scripts.accuracy.blind import BlindRuns
from tests.validation.conftest import RUNS

FILES = ("held_out", "opened")


def records(name: str) -> list[RunRecord]:
    return [record for record in read_run_records(RUNS / f"{name}.jsonl") if isinstance(record, RunRecord)]


def lines(name: str) -> list[str]:
    return Path(RUNS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", FILES)
def test_every_row_is_read_with_all_of_its_flags(name: str) -> None:
    found = records(name)
    assert len(found) == len(lines(name))
    assert [record.id for record in found if record.flags.not_understood] == []


def test_a_run_is_blind_or_opened_and_teaches_nothing() -> None:
    taught = {publication(record) for family in ("ascend", "gpu") for record in records(family)}
    for name in FILES:
        assert "" not in {publication(record) for record in records(name)}
        assert taught.isdisjoint({publication(record) for record in records(name)})
    ids = [record.id for name in FILES for record in records(name)]
    assert len(set(ids)) == len(ids) > 170


@pytest.mark.parametrize("name", FILES)
def test_rows_say_where_they_stand_and_when(name: str) -> None:
    for line in lines(name):
        source = json.loads(line)["source"]
        assert source["url"].startswith("https://"), line
        assert all(source[key] for key in ("locator", "date", "title")), line


@pytest.mark.parametrize("name", FILES)
def test_every_run_keeps_its_first_prediction_inside_an_interval(name: str) -> None:
    runs = BlindRuns(name)
    for kept in (*runs.first, *runs.before):
        assert 0.0 < kept.low_s < kept.step_time_s < kept.high_s
