"""Tokens per expert of a training log: read from a job or a file, checked against the model, given back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.answers.files import report_files
from app.answers.price import estimate_document
from app.answers.search import search_document
from app.checks.baseline import job_changes, parse_baseline, repriced
from app.jobs.job import Job, load_job, parse_job
from app.jobs.requests import parse_request
from app.text.json_documents import json_text
from documents.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
EXAMPLE = EXAMPLES / "deepseek-v2-lite.yaml"
COUNTS = EXAMPLES / "expert-counts/deepseek-v2-lite.json"
EVEN = [3] * 64


def lite(counts: Any, **training: Any) -> dict[str, Any]:
    return {
        "model": "deepseek-v2-lite",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
        "training": {"precision": "bf16", "expert_counts": counts, **training},
        "strategy": {"ep": 8},
    }


def refusal(counts: Any, **training: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse_job(lite(counts, **training))
    return str(caught.value)


def load(job: Job, ep: int) -> float:
    counts = job.workload.training.expert_counts
    assert counts is not None
    return float(counts.load_factor(ep))


def test_the_example_has_the_load_of_its_log() -> None:
    job = load_job(str(EXAMPLE), {}, {})
    layers = json.loads(COUNTS.read_text())["expert_counts"]
    by_hand = [8 * max(sum(row[i : i + 8]) for i in range(0, 64, 8)) / sum(row) for row in layers]
    assert load(job, 8) == pytest.approx(sum(by_hand) / 26)
    assert load(job, 8) == pytest.approx(1.271, abs=1e-3)
    assert not any("expert_load_factor" in line for line in job.assumptions)


def test_a_resolved_job_gives_the_same_counts() -> None:
    for counts in (EVEN, [EVEN, *[list(range(64))] * 25]):
        document = parse_job(lite(counts)).document
        assert document["training"]["expert_counts"] == counts
        assert document["training"]["expert_load_factor"] is None
        assert parse_job(document).document == document


def test_a_path_starts_at_the_job_file_and_a_flags_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counts.json").write_text(json.dumps(EVEN))
    (tmp_path / "job.json").write_text(json.dumps(lite("counts.json")))
    assert load(load_job(str(tmp_path / "job.json"), {}, {}), 8) == pytest.approx(1.0)
    monkeypatch.chdir(EXAMPLES)
    flag = {"training": {"expert_counts": "expert-counts/deepseek-v2-lite.json"}}
    assert load(load_job(str(tmp_path / "job.json"), flag, {}), 8) > 1.2


@pytest.mark.parametrize(
    ("counts", "part"),
    [
        ("counts.json", "which a server does not read"),
        ([1, 2], "2 counts, but deepseek-v2-lite has 64 routed experts"),
        ([EVEN, EVEN], "2 layers, but deepseek-v2-lite has 26 MoE layers"),
        ([0] * 64, "all counts are 0"),
        ([EVEN] * 25 + [[0] * 64], "expert_counts[25]: all counts are 0"),
        ([-1, *EVEN[1:]], "expert_counts[0]: -1 is not allowed"),
        ([2**63 + 1, *EVEN[1:]], "to 9,223,372,036,854,775,808"),
        ([1.5, *EVEN[1:]], "expert_counts[0]: 1.5 is not allowed"),
        ([EVEN] * 1025, "a list of 1 to 1,024 of them"),
        ([], "expert_counts: [] is not allowed"),
    ],
)
def test_what_cannot_be_counts_of_the_model_is_refused_by_its_place(counts: Any, part: str) -> None:
    message = refusal(counts)
    assert message.startswith("training.expert_counts")
    assert part in message


def test_counts_take_the_place_of_a_factor_and_need_experts() -> None:
    assert "beside training.expert_load_factor" in refusal(EVEN, expert_load_factor=1.2)
    with pytest.raises(InputError, match="llama-2-7b has no experts"):
        parse_job({**lite(EVEN), "model": "llama-2-7b"})
    with pytest.raises(InputError, match="a server does not read"):
        parse_request(lite(str(COUNTS)))


def test_a_capacity_leaves_counts_without_effect_and_says_so() -> None:
    document = parse_job(lite(EVEN)).document
    document["model"]["moe"]["capacity_factor"] = 1.0
    assert any("expert_counts has no effect" in line for line in parse_job(document).warnings)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1, 2", "not valid JSON"),
        ('{"counts": []}', "did you mean 'expert_counts'"),
        ("[[1], [2, 3]]", "2 layers"),
        ("3", "3 is"),
    ],
)
def test_a_file_that_holds_no_counts_is_named(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "counts.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_job(str(EXAMPLE), {"training": {"expert_counts": str(path)}}, {"training.expert_counts": "--expert-counts"})
    assert str(caught.value).startswith(f"--expert-counts: {path}")
    assert part in str(caught.value)


def test_a_baseline_holds_its_counts_and_names_what_changed() -> None:
    job = load_job(str(EXAMPLE), {}, {})
    assert job.strategy is not None
    answer = estimate_document(job, job.strategy, ())
    even = parse_job(lite(EVEN))
    baseline = parse_baseline(json.loads(json_text(answer)), "old.json")
    assert repriced(baseline, even, ()).estimate == answer.estimate
    (change,) = (line for line in job_changes(baseline.job, even.document) if "expert" in line)
    assert change.startswith("training.expert_counts: [[")
    assert len(change) < 200


def test_saved_jobs_name_one_file_of_counts(tmp_path: Path) -> None:
    limits = {"tp": 1, "pp": 1, "cp": 1, "ep": 8, "micro_batch_size": 1, "recompute": "full", "top": 1}
    job = load_job(str(EXAMPLE), {"search": limits}, {})
    for name, text in report_files(search_document(job)).items():
        (tmp_path / name).write_text(text)
    assert "expert_counts: expert_counts.json" in (tmp_path / "plan-1.job.yaml").read_text()
    for name in ("job.yaml", "plan-1.job.yaml"):
        assert load_job(str(tmp_path / name), {}, {}).workload == job.workload
