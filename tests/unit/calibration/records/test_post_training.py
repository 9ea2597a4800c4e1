"""Records of post-training: texts read by their words, every variant of a field, nothing that stops at a bad line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.records.post_training import (
    PostTrainingRecord,
    hardware_of,
    parse_post_training_record,
    read_post_training_records,
)
from calibration.records.training import RefusedRecord
from documents.errors import InputError


def record(**fields: Any) -> PostTrainingRecord:
    found = parse_post_training_record({"id": "one", "kind": "rl_step", "devices": 64, **fields})
    assert isinstance(found, PostTrainingRecord)
    return found


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("h100-sxm", "h100-sxm-80gb"),
        ("h20", "h20-sxm-96gb"),
        ("h200", "h200-sxm-141gb"),
        ("h800 (AReaL paper; the blog only says nodes)", "h800-sxm-80gb"),
        ("gb200-nvl72", "gb200-nvl72"),
        ("cloudmatrix384", "atlas-900-a3-superpod"),
        ("atlas-800t-a3, 1 node (64G x 16)", "atlas-900-a3-superpod"),
        ("atlas-900-a2-podc", "atlas-900-a2-podc"),
        ("ascend npu, 16 a node (A3 class; not named)", "atlas-900-a3-superpod"),
        ("abacus", None),
        ("", None),
    ],
)
def test_a_device_is_found_in_the_words_that_describe_it(text: str, profile: str | None) -> None:
    assert hardware_of(text) == profile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fully_colocated (use_integrated_worker: true)", ("fully-colocated", None, None)),
        ("synchronous", ("fully-colocated", None, None)),
        ("colocated, synchronous (rollout phase only)", ("fully-colocated", None, None)),
        ("async separate 16 train:16 rollout, staleness_threshold 0.5, partial rollout", ("separate", 16, 16)),
        ("one_step_off (4 generate + 12 train)", ("separate", 4, 12)),
        ("async separate 96 rollout:32 train", ("separate", 96, 32)),
        ("async separate: vllm d32 + train d16, max_head_offpolicyness 4", ("separate", 32, 16)),
        ("separate async with train-rollout switch: 2 hybrid + 1 standalone node", ("hybrid", 21, 42)),
    ],
)
def test_a_placement_is_read_from_its_text(text: str, expected: tuple[str, int | None, int | None]) -> None:
    placed = record(placement=text).placed
    assert (placed.kind, placed.rollout_devices, placed.train_devices) == expected


def test_bounds_of_staleness_are_told_apart() -> None:
    assert record(placement="async, max_trajectory_age_steps 8, in-flight weight updates").placed.steps == 8
    assert record(placement="async, max_trajectory_age_steps 8, in-flight weight updates").placed.partial
    assert record(placement="two-step-off").placed.steps == 2
    assert record(placement="async separate 8:8, staleness_threshold 0.3").placed.leftover_fraction == 0.3
    assert record(placement="fully async, interruptible generation").placed.unbounded
    assert not record(placement="separate devices").placed.unbounded


def test_numbers_inside_a_split_keep_their_path_and_texts_are_no_numbers() -> None:
    found = record(measured={"step_time_s": 2, "split_s": {"gen": 1.5}, "total_time": "19h", "bad": True, "none": None})
    assert found.measured == {"step_time_s": 2.0, "split_s.gen": 1.5}


def test_a_bad_line_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    good = json.dumps({"id": "good", "kind": "rl_step"})
    path.write_text(f'{good}\n\n[1]\n{{"kind": "dance"}}\n{{broken\n', encoding="utf-8")
    rows = read_post_training_records(path)
    assert [isinstance(row, RefusedRecord) for row in rows] == [False, True, True, True]
    assert "kind: 'dance' is not allowed" in str(rows[2])


def test_a_file_without_one_readable_record_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"kind": "dance"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="holds no readable post-training record"):
        read_post_training_records(path)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**9) | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "id",
    "model",
    "hardware",
    "devices",
    "placement",
    "train_parallel",
    "rollout_parallel",
    "measured",
    "notes",
    "precision",
)


@given(st.dictionaries(st.sampled_from(FIELDS), anything))
def test_no_value_of_a_field_stops_the_reader(fields: dict[str, Any]) -> None:
    assert parse_post_training_record({**fields, "kind": "rl_step"}) is not None


def test_a_supernodes_devices_are_packages_of_two_dies() -> None:
    assert record(hardware="atlas-900-a3-superpod (CloudMatrix384)", devices=384).dies == 768
    assert record(hardware="atlas-900-a3-superpod", devices=384).dies == 384


def test_experts_counted_outside_tp_are_counted_with_it() -> None:
    assert record(train_parallel={"tp": 4, "ep": 8, "moe_tp_extend_ep": True}).train.ep == 32
    assert record(train_parallel={"tp": 4, "ep": 8}).train.ep == 8
