"""A job whose lattice is too large for a minute, on the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.commands import command, measured
from tests.large_lattices import LARGE


def test_the_size_of_a_large_lattice_is_the_first_that_a_search_says(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(LARGE))
    run = command("search", tmp_path / "job.json", "--top", "1", MESHPLAN_SEARCH_S="0.5")
    assert run.returncode == 5
    assert run.stderr.splitlines()[0].startswith("0%: enumerating and bounding a lattice of 134,136,000: ")
    assert run.stderr.splitlines()[-1] == "The search was cut by time limit: better plans may exist."
    printed = " ".join(run.stdout.split())
    assert "nothing is proved: cut by time limit after " in printed
    assert " strategies of a lattice of 134,136,000, so better plans may exist" in printed


@pytest.mark.slow
def test_without_a_limit_such_a_job_is_answered_within_a_minute_and_a_gibibyte(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(LARGE))
    begun_s = time.monotonic()
    run, used = measured("search", tmp_path / "job.json", "--json", MESHPLAN_SEARCH_S="45")
    wall_s = time.monotonic() - begun_s
    document = json.loads(run.stdout)
    assert (run.returncode, document["proof"]["stopped_by"], document["proof"]["proved_best"]) == (5, "time_limit", False)
    assert len(document["plans"]) == 20
    assert used["memory_kib"] < 1 << 20
    assert min(wall_s, used["cpu_s"]) < 60.0  # on a machine that does nothing else
