"""The small job, priced once."""

from typing import Any

import pytest

from app.answers.price import estimate_document
from app.jobs.job import Job
from app.text.json_documents import plain
from tests.unit.app.checks.jobs import small_job


@pytest.fixture(scope="session")
def job() -> Job:
    return small_job()


@pytest.fixture(scope="session")
def estimate(job: Job) -> dict[str, Any]:
    assert job.strategy is not None
    return plain(estimate_document(job, job.strategy, simulated=True).estimate)
