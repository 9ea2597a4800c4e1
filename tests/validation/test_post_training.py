"""Published post-training steps beside their predictions, as docs/post-training.md shows them."""

import math
from functools import cache

import numpy as np
import pytest

from app.rl.records import Assumed, step_of
from app.rl.schemas import RlValidationDocument
from app.rl.validation import validation_document
from calibration.records.post_training import PostTrainingRecord, read_post_training_records
from cost_models.post_training.constants import constant
from cost_models.post_training.rollout_side import Scheduling, rollout_times
from scripts.case_studies import write_left_out_systems
from scripts.case_studies.write_post_training import PAGE, RUNS, errors_of

RECORDS = [one for one in read_post_training_records(RUNS) if isinstance(one, PostTrainingRecord)]


@cache
def document() -> RlValidationDocument:
    return validation_document(read_post_training_records(RUNS))


def test_the_page_has_the_errors_of_this_version() -> None:
    assert errors_of(document()) in PAGE.read_text(encoding="utf-8"), "`make docs` writes the table"


@pytest.mark.slow
def test_the_pages_have_the_errors_of_systems_that_were_left_out() -> None:
    rows = write_left_out_systems.left_out()
    for page in write_left_out_systems.PAGES:
        assert write_left_out_systems.table(page, rows) in page.path.read_text(encoding="utf-8"), "`make docs` writes the table"
    assert {row.name: row.steps for row in rows}["ascend"] == 10  # as many as the warning says, and within what it says
    within = {row.name: row.factor for row in rows}
    assert within["ascend"] < 3.0
    for family in ("gpu", "ascend"):
        assert math.exp(constant(f"step_log_error_{family}")) == pytest.approx(within[family], rel=0.02)


def test_every_record_is_predicted_or_refused_with_a_sentence() -> None:
    rows = document().rows
    assert len(rows) == 116
    for row in rows:
        assert (row.predicted is None) == (row.refused is not None)
        assert row.predicted is None or (row.predicted > 0.0 and row.unit)


def test_steps_are_met_and_ranked() -> None:
    rows = [row for row in document().rows if row.kind == "rl_step" and row.unit == "s" and row.error_fraction is not None]
    assert len(rows) >= 55
    assert np.median([abs(row.error_fraction or 0.0) for row in rows]) < 0.22
    assert (document().summary.kinds["rl_step"].pairs_in_order_fraction or 0.0) >= 0.9


def test_asynchronous_steps_of_one_system_are_faster_at_every_size() -> None:
    seconds = {row.id: row.predicted for row in document().rows if row.predicted is not None}
    for size, stale in (("32", "async"), ("64", "async"), ("128", "stale0.5")):
        assert seconds[f"verl-fa-7b-{size}-{stale}"] < seconds[f"verl-fa-7b-{size}-sync"]
    sync = [seconds[f"verl-fa-7b-{size}-sync"] for size in ("32", "64", "128")]
    assert sync == sorted(sync, reverse=True)


@pytest.mark.parametrize("record", [one for one in RECORDS if one.kind == "rollout"], ids=lambda one: one.id)
def test_published_rollouts_under_both_ways_to_send_answers(record: PostTrainingRecord) -> None:
    job = step_of(record, Assumed())
    made = {
        one: rollout_times(
            job.serving,
            job.layout,
            job.lengths,
            job.prompt_tokens,
            max_requests=job.max_requests,
            memory_fraction=job.memory_fraction,
            scheduling=one,
        ).makespan_s
        for one in Scheduling
    }
    assert made[Scheduling.GROUPS] > made[Scheduling.ANSWERS] > made[Scheduling.LONGEST]
    assert made[Scheduling.GROUPS] == pytest.approx(record.measured["rollout_time_s_verl"], rel=0.25)
    assert made[Scheduling.LONGEST] == pytest.approx(record.measured["rollout_time_s_seer"], rel=0.3)


def test_the_supernode_of_the_published_recipe_has_a_price() -> None:
    (row,) = [row for row in document().rows if row.id.startswith("pangu")]
    assert row.refused is None
    assert any("tp = 2" in sentence for sentence in row.assumed)
