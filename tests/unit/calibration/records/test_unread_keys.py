"""Nothing that a run record says is left out in silence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from calibration.records.training import RunRecord, read_run_records
from calibration.records.unread_keys import unread_sentences

Read = Callable[..., RunRecord]
RUNS = Path(__file__).resolve().parents[4] / "calibration/runs"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"strategy": {"tp": 2, "sp": 2}}, ["strategy.sp is not read."]),
        ({"measured": {"peak_memory_gb": 3}, "speed": 1}, ["speed is not read.", "measured.peak_memory_gb is not read."]),
        ({"model": {"name": "x", "moe": {"experts": 8}, "mla": None}}, ["model.moe.experts is not read."]),
        ({"strategy": {"warp": None}, "notes": {"any": 1}, "source": 3}, []),
        ({"strategy": {"features": ["flash_attention", None, 3]}},
         ["strategy.features: None is no text, left out.", "strategy.features: 3 is no text, left out."]),
        ({"software": {"raw_flags": {"bf16": True}}}, ["software.raw_flags: {'bf16': True} is no text, left out."]),
        ({"strategy": {"recompute": {"modules": 7}}}, ["strategy.recompute.modules: 7 is no text, left out."]),
        ({"model": [], "strategy": "tp2"}, []),  # refused by their sections
    ],
)  # fmt: skip
def test_keys_that_no_reader_takes_are_named(row: dict[str, object], said: list[str]) -> None:
    assert unread_sentences(row) == said


def test_a_record_of_many_unread_keys_says_how_many() -> None:
    said = unread_sentences({"cluster": {f"k{number}": 1 for number in range(25)}})
    assert len(said) == 21
    assert said[-1] == "5 more of its entries are not read."


def test_a_record_is_priced_and_says_what_was_not_read(read: Read) -> None:
    own = {"software.framework": "MindFormers", "software.version": "our fork", "strategy.unknown_degree": 4}
    assert {
        "strategy.unknown_degree is not read.",
        "software.version: 'our fork' names no release that is known, priced as the newest.",
    } <= set(read(own).warnings)
    assert not {sentence for sentence in read().warnings if "not read" in sentence or "no release" in sentence}


@pytest.mark.parametrize("family", ["ascend", "gpu"])
def test_every_key_of_the_shipped_runs_is_known(family: str) -> None:
    records = read_run_records(RUNS / f"{family}.jsonl")
    said = {sentence for record in records if isinstance(record, RunRecord) for sentence in record.warnings}
    assert not {sentence for sentence in said if sentence.endswith(("is not read.", "is no text, left out."))}
