"""A batch that few replica counts divide is warned of where one beside it would do."""

from __future__ import annotations

import pytest

from app.answers.batch_divisors import with_note_on_batch
from app.jobs.job import parse_job


@pytest.mark.parametrize(
    ("batch", "devices", "common", "nearest", "shared"),
    [
        (500, 64, 4, 512, 64),  # 448 is 10 % away
        (1000, 64, 8, 1024, 64),
        (100, 64, 4, 96, 32),  # 128 is 28 % away
        (509, 96, 1, 528, 48),  # 480 is 6 % away, and no multiple of 96 is nearer
        (1001, 768, 1, 1024, 256),  # 960 shares 192
    ],
)
def test_the_batch_within_reach_that_shares_most_is_named(
    batch: int, devices: int, common: int, nearest: int, shared: int
) -> None:
    assert warnings(batch, devices) == (
        f"Batch {batch:,} and {devices:,} devices have no divisor above {common:,} in common, "
        f"so few values of dp divide the batch; batch {nearest:,} shares {shared:,}.",
    )


@pytest.mark.parametrize(
    ("batch", "devices"),
    [
        (512, 64),  # every degree divides it
        (496, 64),  # 512 shares four times as much, which is less than eight
        (7, 8),  # nothing within 5 %
        (1024, 768),  # 768 is too far away
        (1, 1),
    ],
)
def test_a_batch_without_a_better_one_near_is_taken_without_a_word(batch: int, devices: int) -> None:
    assert warnings(batch, devices) == ()


def warnings(batch: int, devices: int) -> tuple[str, ...]:
    job = parse_job(
        {
            "model": "llama-2-7b",
            "cluster": {"hardware": "atlas-800t-a2", "num_devices": devices},
            "training": {"seq_length": 4096, "global_batch_size": batch},
        }
    )
    noted = with_note_on_batch(job)
    assert with_note_on_batch(noted).warnings == noted.warnings  # said once
    return noted.warnings
