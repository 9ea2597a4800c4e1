"""How much memory a user wants to stay free."""

import pytest

from app.jobs.headroom import headroom_bytes
from app.jobs.job import parse_job
from documents.errors import InputError

LIMIT = 80 * 2**30
JOB = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0, 0),
        (1.5e9, 1.5e9),
        ("4GiB", 4 * 2**30),
        ("4 GB", 4e9),
        ("65536MiB", 64 * 2**30),
        ("4gib", 4 * 2**30),
        ("5%", LIMIT / 20),
        ("2.5 %", LIMIT / 40),
        ("1024", 1024),
    ],
)
def test_a_headroom_is_bytes_a_quantity_or_a_part_of_the_limit(given: int | float | str, expected: float) -> None:
    assert headroom_bytes(given, LIMIT, {}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({"min_headroom": "4Gobs"}, ["search.min_headroom", "'4Gobs'", "GiB", "such as 5%"]),
        ({"min_headroom": "much"}, ["search.min_headroom", "'much'", "such as 4GiB"]),
        ({"min_headroom": "-1GiB"}, ["search.min_headroom", "'-1GiB'"]),
        ({"min_headroom": -1}, ["search.min_headroom", "-1 is not allowed"]),
        ({"min_headroom": "100%"}, ["search.min_headroom", "'100%'", "60.3 GiB that can be filled, give less"]),
        ({"min_headroom": "9" * 40}, ["search.min_headroom"]),
        ({"fit_confidence": 0.4}, ["search.fit_confidence", "0.4", "0.5 to 0.99"]),
        ({"fit_confidence": 1}, ["search.fit_confidence", "0.5 to 0.99"]),
    ],
)
def test_what_is_no_headroom_or_confidence_is_said(search: dict[str, object], expected: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parse_job({**JOB, "search": search})
    assert all(text in str(error.value) for text in expected), str(error.value)


def test_the_resolved_job_states_both_and_gives_the_same_room() -> None:
    job = parse_job({**JOB, "search": {"min_headroom": "5%", "fit_confidence": 0.95}})
    limit = job.workload.cluster.profile.usable_hbm_bytes
    assert (job.workload.room.min_headroom_bytes, job.workload.room.confidence) == (pytest.approx(limit / 20), 0.95)
    assert (job.document["search"]["min_headroom"], job.document["search"]["fit_confidence"]) == ("5%", 0.95)
    assert parse_job(job.document).workload.room == job.workload.room
    plain = parse_job(JOB)
    assert (plain.workload.room.min_headroom_bytes, plain.workload.room.confidence) == (0.0, 0.9)
