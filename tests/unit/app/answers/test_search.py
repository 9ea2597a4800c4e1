from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from app.answers.schemas import SearchDocument
from app.answers.search import request_of, search_document, spaces_of
from app.calibrations.constants import constants_for
from app.jobs.fields import HowToSearch
from app.jobs.job import load_job, parse_job
from app.text.json_documents import json_bytes, json_text
from documents.errors import InputError
from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile
from hardware_profiles.writer import profile_document
from search.session.request import SearchOptions

ROOT = Path(__file__).resolve().parents[4]
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64},
}


@pytest.mark.parametrize("sampler", ["exhaustive", "tpe", "nsga2", "random"])
def test_every_sampler_answers_in_the_same_form(sampler: str) -> None:
    search = {"sampler": sampler, "top": 3, "tp": [1, 2], "cp": 1, **({} if sampler == "exhaustive" else {"max_trials": 40})}
    document = search_document(parse_job({**JOB, "search": search}))
    SearchDocument.model_validate_json(json_bytes(document), strict=True)
    assert document.plans
    assert document.proof.proved_best == (sampler == "exhaustive")
    assert document.counts.sampled == (None if sampler == "exhaustive" else 40)
    assert document.job["search"]["sampler"] == sampler


def test_a_sampler_without_a_number_of_trials_is_resolved_to_one() -> None:
    job = parse_job({**JOB, "search": {"sampler": "random"}})
    assert job.document["search"]["max_trials"] == job.settings.max_trials == 1000
    assert parse_job({**JOB, "search": {}}).document["search"]["max_trials"] is None


SAMPLED = {"sampler": "nsga2", "max_trials": 7, "seed": 3}
REFINED = {"refine": 8, "refine_front": True, "seed": 5, "by_tensor": True, "max_simulations": 9}


@pytest.mark.parametrize("given", [SAMPLED, REFINED], ids=["sampled", "refined"])
def test_every_option_of_a_search_is_a_field_of_a_job_and_reaches_the_request(given: dict[str, Any]) -> None:
    assert {option.name for option in fields(SearchOptions)} == {*SAMPLED, *REFINED} <= set(HowToSearch.model_fields)
    job = parse_job({**JOB, "software": {"target": "any"}, "search": {"tp": 8, "pp": 1, **given}})
    space, physics = spaces_of(job)
    assert physics is None
    assert request_of(job, space, constants_for(job.workload)).options == SearchOptions(**given)


@pytest.mark.parametrize(
    ("software", "search", "name"),
    [
        ({"target": "mindspeed-llm"}, {"by_tensor": True}, "by_tensor"),
        ({"target": "any"}, {"by_tensor": True, "sampler": "tpe"}, "by_tensor"),
        ({"target": "any"}, {"by_tensor": True, "objective": "memory_headroom"}, "by_tensor"),
        ({"target": "any"}, {"refine": 8, "objective": "memory_headroom"}, "refine"),
        ({"target": "any"}, {"refine": 8, "deadline_days": 1e5}, "refine"),
        ({"target": "any"}, {"max_trials": 8}, "max_trials"),
        ({"target": "any"}, {"seed": 8}, "seed"),
    ],
)
def test_an_option_that_a_search_does_not_read_is_refused(software: dict[str, Any], search: dict[str, Any], name: str) -> None:
    training = {**JOB["training"], "train_tokens": 1e11}
    with pytest.raises(InputError, match=rf"^search\.{name}: "):
        search_document(parse_job({**JOB, "training": training, "software": software, "search": search}))


def test_an_exhaustive_search_does_not_wait_for_optuna() -> None:
    script = (
        "import sys\n"
        "from app.jobs.job import parse_job\n"
        "from app.answers.search import search_document\n"
        f"search_document(parse_job({ {**JOB, 'search': {'tp': 8, 'pp': 1, 'cp': 1}}!r}))\n"
        "print('optuna' in sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "False"


def site_profile(bytes_per_s: float, flops_per_s: float) -> dict[str, Any]:
    """A site's own profile whose rates are all extreme."""
    document = profile_document(catalogue.named("atlas-800t-a2"))
    tiers = document["tiers"]
    for part in (document["hbm_bytes_per_s"], document["host_link_bytes_per_s"]):
        part |= {"value": bytes_per_s, "unit": "B/s"}
    for tier in tiers:
        tier["curves"] = []
        tier["bandwidth_bytes_per_s"] |= {"value": bytes_per_s, "unit": "B/s"}
    tiers[0]["link_bytes_per_s"] |= {"value": bytes_per_s, "unit": "B/s"}
    for part in (*document["matmul_flops_per_s"].values(), document["vector_flops_per_s"]):
        part |= {"value": flops_per_s, "unit": "FLOPS"}
    return document


@pytest.mark.parametrize(("bytes_per_s", "flops_per_s"), [(1e14, 1e18), (1e9, 1e9), (1e14, 1e9), (1e9, 1e18)])
def test_a_profile_as_absurd_as_is_allowed_is_searched_in_finite_numbers(bytes_per_s: float, flops_per_s: float) -> None:
    profile = parse_profile(site_profile(bytes_per_s, flops_per_s), "site.yaml")
    job = parse_job({**JOB, "search": {"tp": [1, 8], "pp": [1, 2], "cp": 1, "recompute": ["none", "full"]}}, profile=profile)
    document = search_document(job)
    assert json_text(document)  # refuses what is not finite
    assert all(plan.estimate.step_time_s > 0 for plan in document.plans)


def test_a_profile_beyond_that_is_refused_by_name(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(json_text(site_profile(1e300, 1e15)).replace("1e+300", "1.0e+300"))  # as YAML writes it
    with pytest.raises(InputError, match=r"bytes_per_s: 1e\+300 B/s is not allowed; give 1e\+\d+ to 1e\+\d+ B/s"):
        load_job("llama-2-7b", {"cluster": {"hardware": str(site), "num_devices": 16}}, {})
