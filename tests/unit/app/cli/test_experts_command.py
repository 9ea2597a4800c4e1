"""``meshplan experts plan``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from app.cli.main import main
from app.experts.schemas import ExpertPlanDocument
from tests.unit.app.cli.test_cli_refusals import refusal

ROOT = Path(__file__).parents[4]
COUNTS = ROOT / "examples" / "expert-counts" / "deepseek-v2-lite.json"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    document = {
        "model": "deepseek-v2-lite",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
        "training": {"seq_length": 4096, "global_batch_size": 512},
        "software": {"stack": "mindspeed-llm"},
        "strategy": {"pp": 1, "ep": 16, "recompute": "full"},
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def planned(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> ExpertPlanDocument:
    assert main(["experts", "plan", *map(str, arguments), "--json"]) == 0
    return ExpertPlanDocument.model_validate_json(capsys.readouterr().out)


def test_counts_of_a_log_become_a_plan_and_maps(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = planned(capsys, COUNTS, "--job", job, "--max-copies", "0", "--write-maps", tmp_path / "maps")
    assert document.is_worth
    assert (document.num_ranks, document.num_nodes, len(document.layers)) == (16, 2, 26)
    # Measured: 1.50 in the median of layers as they lie, 1.07 placed heaviest first.
    assert 1.45 < document.load_before < 1.6
    assert document.load_bound <= document.load_after < 1.07
    assert document.step_time_balanced_s < document.step_time_after_s < document.step_time_before_s
    for name, total_s in (("exposed_before_s", document.step_time_before_s), ("exposed_after_s", document.step_time_after_s)):
        waited_s = sum(getattr(layer, name) for layer in document.layers)
        assert waited_s == pytest.approx(total_s - document.step_time_balanced_s)
    assert [layer.layer for layer in document.layers] == list(range(1, 27))
    written = json.loads((tmp_path / "maps" / "expert_map.json").read_text(encoding="utf-8"))
    assert [ranks["device_expert"] for ranks in written["layer_list"][3]["device_list"]] == document.placement[3]
    again = planned(capsys, COUNTS, "--job", job, "--max-copies", "0", "--placement", tmp_path / "maps" / "eplb.json")
    assert again.load_before == document.load_after
    assert again.step_time_before_s == document.step_time_after_s
    assert again.moves.num_inside + again.moves.num_between < document.moves.num_inside + document.moves.num_between


def test_a_term_too_short_for_its_moves_changes_nothing(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = planned(capsys, COUNTS, "--job", job, "--valid-steps", "1", "--max-copies", "0")
    nothing = planned(capsys, "generated", "--job", job, "--generate-steps", "10", "--early", "--valid-steps", "1", "--seed", "3")
    for found in (document, nothing):
        paid_s = found.step_time_before_s - found.step_time_after_s - found.moves.per_step_s
        assert paid_s > 0.0 if found.is_worth else found.step_time_after_s == found.step_time_before_s


def test_a_person_is_told_why(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experts", "plan", "generated", "--job", str(job), "--generate-steps", "12", "--steps-held-back", "2"]) == 0
    printed = capsys.readouterr().out
    for part in ("64 experts on 16 ranks in 2 nodes", "layers change", "Forecast of 2 held-back steps", "exposed by imbalance"):
        assert part in printed


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["generated", "--valid-steps", "0"], "--valid-steps: 0 is not allowed"),
        (["generated", "--max-copies", "9"], "--max-copies: 9"),
        (["generated", "--generate-steps", "0"], "--generate-steps: 0"),
        (["generated", "--generate-steps", "99999"], "99,999 is not allowed"),
        (["generated", "--generate-steps", "4", "--steps-held-back", "3"], "3 of 4 steps"),
        ([COUNTS, "--seed", "1"], "--seed: given beside"),
        (["nowhere.csv"], "LOADS: nowhere.csv: no such file"),
        ([COUNTS, "--placement", "nowhere.json"], "--placement: nowhere.json"),
    ],
)
def test_bad_input_is_one_sentence(job: Path, arguments: list[str | Path], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert part in refusal(capsys, "experts", "plan", *arguments, "--job", job)


@pytest.mark.parametrize(
    ("strategy", "part"), [(None, "strategy: missing"), ({"tp": 8}, "strategy.ep: 1 is not allowed"), ({"ep": 3}, "strategy")]
)
def test_jobs_without_ranks_to_balance_are_refused(
    job: Path, strategy: dict[str, int] | None, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {**yaml.safe_load(job.read_text(encoding="utf-8")), "strategy": strategy}
    job.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert part in refusal(capsys, "experts", "plan", COUNTS, "--job", job)
