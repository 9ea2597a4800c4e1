"""A job whose lattice is too large for a minute: it is cut, and its answer says so."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.search import search_document
from app.answers.tables.search import proof_text
from app.jobs.job import parse_job
from search.session.progress import Progress
from tests.large_lattices import INFEASIBLE, LARGE


@pytest.mark.parametrize(("job", "finds"), [(LARGE, True), (INFEASIBLE, False)], ids=["feasible", "infeasible"])
def test_a_search_without_a_time_limit_ends_by_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], finds: bool
) -> None:
    monkeypatch.setenv("MESHPLAN_SEARCH_S", "0.5")
    seen: list[Progress] = []
    document = search_document(parse_job({**job, "search": {"top": 2}}), seen.append)
    assert document.proof.stopped_by == "time_limit"
    assert (document.proof.proved_best, document.proof.exhaustive, document.proof.places) == (False, False, 0)
    assert document.counts.lattice is not None
    assert 0 < document.counts.enumerated < 1e-2 * document.counts.lattice
    assert seen[0].lattice == document.counts.lattice
    assert bool(document.plans) == finds
    assert (document.nearest, document.infeasible) == (None, None)  # of the rest, nothing is known
    assert "nothing is proved: cut by time limit after " in proof_text(document)


def test_the_time_limit_of_a_job_stands_above_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHPLAN_SEARCH_S", "0.000001")
    job = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}
    search = {"tp": 1, "vpp": 1, "cp": 1, "top": 1, "recompute": "full"}
    assert search_document(parse_job({**job, "search": search})).proof.stopped_by == "time_limit"
    assert search_document(parse_job({**job, "search": {**search, "time_limit_s": 600}})).proof.proved_best
