from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.job import parse_job
from app.reports.schemas import SearchDocument
from app.searching import search_document

ROOT = Path(__file__).resolve().parents[3]
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64},
}


@pytest.mark.parametrize("sampler", ["exhaustive", "tpe", "nsga2", "random"])
def test_every_sampler_answers_in_the_same_form(sampler: str) -> None:
    search = {"sampler": sampler, "top": 3, "tp": [1, 2], "cp": 1, **({} if sampler == "exhaustive" else {"max_trials": 40})}
    document = search_document(parse_job({**JOB, "search": search}))
    SearchDocument.model_validate(document, strict=True)
    assert document["plans"]
    assert document["proof"]["proved_best"] == (sampler == "exhaustive")
    assert document["counts"]["sampled"] == (None if sampler == "exhaustive" else 40)
    assert document["job"]["search"]["sampler"] == sampler


def test_a_sampler_without_a_number_of_trials_is_resolved_to_one() -> None:
    job = parse_job({**JOB, "search": {"sampler": "random"}})
    assert job.document["search"]["max_trials"] == job.settings.max_trials == 1000
    assert parse_job({**JOB, "search": {}}).document["search"]["max_trials"] is None


def test_an_exhaustive_search_does_not_wait_for_optuna() -> None:
    script = (
        "import sys\n"
        "from app.job import parse_job\n"
        "from app.searching import search_document\n"
        f"search_document(parse_job({ {**JOB, 'search': {'tp': 8, 'pp': 1, 'cp': 1}}!r}))\n"
        "print('optuna' in sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "False"
