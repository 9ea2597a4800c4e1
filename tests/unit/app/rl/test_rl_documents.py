"""Post-training as documents: estimates, searches, predictions of records, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.rl.export import plan_of
from app.rl.job import RlJob, parse_rl_job
from app.rl.models import model_of, trained_window
from app.rl.service import placement_search, rl_document, rl_search_document
from app.rl.validation import validation_document
from calibration.records.post_training import parse_post_training_record
from cost_models.post_training.placements import PlacementKind, Staleness
from documents.errors import InfeasibleError, InputError
from search.executors.executor import SERIAL
from tests.travelling_calls import Travelling

JOB: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
    "post_training": {"prompts": 32, "samples": 8, "lengths": {"mean": 500, "cap": 500, "sigma": 0}},
}
STEP = {
    "id": "a-step",
    "kind": "rl_step",
    "model": "llama-3.1-8b",
    "hardware": "h100-sxm",
    "devices": 16,
    "placement": "fully_colocated",
    "algorithm": "GRPO",
    "prompts_per_step": 64,
    "samples_per_prompt": 32,
    "max_sequence_length": 4096,
    "mean_response_length": 1019.0,
    "measured": {"step_time_s": 92.8},
}


def job(**section: Any) -> RlJob:
    return parse_rl_job({**JOB, "post_training": {**JOB["post_training"], **section}})


def test_answers_of_sparse_attention_have_no_price() -> None:
    with pytest.raises(InputError, match=r"sparse attention is not priced; deepseek-v3\.2 has it"):
        parse_rl_job({**JOB, "model": "deepseek-v3.2", "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 2048}})


def test_the_step_is_the_sum_of_its_phases() -> None:
    for placement in ("fully-colocated", "separate"):
        found = rl_document(job(placement=placement))
        assert sum(found.parts_s.values()) == pytest.approx(found.step_time_s, rel=1e-9)
        assert found.tokens_per_s == pytest.approx(32 * 8 * 650 / found.step_time_s)


@pytest.mark.parametrize("placement", ["fully-colocated", "separate"])  # weights are moved, or sent
@pytest.mark.parametrize(
    ("hardware", "factor", "is_unsure"), [("h100-sxm-80gb", 1.45, False), ("atlas-900-a3-superpod", 2.9, True)]
)
def test_the_range_of_a_step_is_that_of_its_kind_of_devices(
    hardware: str, factor: float, is_unsure: bool, placement: str
) -> None:
    cluster = {"hardware": hardware, "num_devices": 32}
    post_training = {**JOB["post_training"], "placement": placement}
    found = rl_document(parse_rl_job({**JOB, "cluster": cluster, "post_training": post_training}))
    assert found.step_time_s / found.step_time_low_s >= 0.99 * factor
    assert found.step_time_high_s / found.step_time_s >= 0.99 * factor
    assert found.step_time_s / found.step_time_low_s < 1.1 * factor
    assert any("The range of the step is wide" in warning for warning in found.warnings) is is_unsure


def step_time_s(placement: str, devices: int, **section: Any) -> float:
    """Of answers with a spread, without a layout of training."""
    spread = {"lengths": {"mean": 300, "cap": 900}, "samples": 4, "placement": placement, **section}
    cluster = {**JOB["cluster"], "num_devices": devices}
    return rl_document(parse_rl_job({**JOB, "cluster": cluster, "post_training": {**JOB["post_training"], **spread}})).step_time_s


@pytest.mark.parametrize("steps", [0, 2])
def test_no_device_more_in_a_pool_slows_a_step(steps: int) -> None:
    sizes = (8, 9, 12, 15, 16, 20, 24, 31, 48)
    stale = {"steps": steps, "partial": steps > 0}
    rollouts = [step_time_s("separate", 8 + n, rollout_devices=n, train_devices=8, staleness=stale) for n in sizes]
    trainings = [step_time_s("separate", 8 + n, rollout_devices=8, train_devices=n, staleness=stale) for n in sizes]
    for times in (rollouts, trainings):
        assert all(later <= earlier * (1.0 + 1e-9) for earlier, later in pairwise(times))


def test_no_device_more_slows_a_colocated_step() -> None:
    times = [step_time_s("fully-colocated", devices) for devices in (8, 9, 12, 15, 16, 20, 24, 31, 48)]
    assert all(later <= earlier * (1.0 + 1e-9) for earlier, later in pairwise(times))


def test_devices_that_training_has_no_use_for_are_said() -> None:
    found = rl_document(job(placement="separate", rollout_devices=5, train_devices=11, prompts=4, samples=2))
    assert found.train_devices == 11
    assert found.strategy.num_devices < 11
    assert any("left idle" in warning for warning in found.warnings)


def test_staleness_gains_until_one_side_sets_the_pace() -> None:
    found = rl_document(job(placement="separate", staleness={"steps": 1, "partial": True}))
    changes = {variant.change: variant.step_time_s for variant in found.variants}
    steps = [changes["synchronous"], found.step_time_s, changes["staleness 2"], changes["any staleness"]]
    assert steps[0] > steps[1]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(steps))


def test_a_search_without_a_time_limit_ends_by_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHPLAN_SEARCH_S", "0.000001")
    found = rl_search_document(job(max_staleness=0))
    assert (found.stopped_by, found.priced > 0, found.num_done < found.num_splits) == ("time_limit", True, True)
    assert rl_search_document(job(max_staleness=0, time_limit_s=600)).stopped_by is None


@pytest.mark.parametrize("after", [1, 8])
def test_a_search_finds_the_same_whoever_prices_its_splits(after: int) -> None:
    others = Travelling(after)
    found = rl_search_document(job(max_staleness=1), executor=others)
    assert found.model_dump() == rl_search_document(job(max_staleness=1)).model_dump()
    assert 0 < others.num_taken < found.num_splits


def test_a_search_elsewhere_refuses_what_it_refuses_here() -> None:
    without_room = parse_rl_job({**JOB, "model": "llama-3.1-70b", "cluster": {**JOB["cluster"], "num_devices": 8}})
    others, refused = Travelling(1), []
    for executor in (SERIAL, others):
        search = placement_search(without_room, executor=executor)
        while search.advance():
            pass
        refused.append(search.refused)
    assert refused[0] == refused[1] != []
    assert others.num_taken > 0


def test_a_search_ranks_placements_and_shows_what_staleness_buys() -> None:
    found = rl_search_document(job(max_staleness=2))
    assert [plan.step_time_s for plan in found.plans] == sorted(plan.step_time_s for plan in found.plans)
    assert {plan.placement for plan in found.plans} >= {"fully-colocated", "separate"}
    staleness = [plan.staleness_steps for plan in found.pareto]
    assert staleness == sorted(set(staleness))
    rates = [plan.tokens_per_s for plan in found.pareto]
    assert rates == sorted(rates)
    assert found.best.step_time_s == found.plans[0].step_time_s


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"lengths": {"cap": 10}}, "lengths.mean: missing"),
        ({"lengths": {"mean": 20, "cap": 10}}, "above the cap"),
        ({"lengths": {"mean": 5, "cap": 10, "quantile_level": 0.9}}, "together with quantile_length"),
        ({"lengths": {"cap": 10, "histogram": "no.csv"}}, "no file is read for a request"),
        ({"prompts": 200_000, "samples": 2}, "answers a step"),
        ({"placement": "separate", "rollout_devices": 16}, "do not make two pools"),
        ({"placement": "sideways"}, "placement"),
    ],
)
def test_what_cannot_be_priced_is_refused_with_the_field(section: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        rl_document(job(**section))


def test_a_layout_that_does_not_divide_its_pool_has_no_plan() -> None:
    with pytest.raises(InfeasibleError, match="does not fill 16 devices"):
        rl_document(parse_rl_job({**JOB, "strategy": {"tp": 8, "pp": 3}}))


def test_models_are_known_by_their_usual_names() -> None:
    assert model_of("Qwen/Qwen2.5-7B-Instruct").num_layers == 28
    assert model_of("DeepSeek-R1").name == "deepseek-v3"
    assert trained_window(model_of("qwen2.5-math-7b")) == 4096
    with pytest.raises(InputError, match="is not known"):
        model_of("gpt-9")


def rows(*records: dict[str, Any]) -> list[Any]:
    return validation_document([parse_post_training_record(record) for record in records]).rows


def test_a_record_is_predicted_and_says_what_was_assumed() -> None:
    (row,) = rows(STEP)
    assert row.refused is None
    assert row.unit == "s"
    assert row.error_fraction == pytest.approx(row.predicted / 92.8 - 1.0)
    assert abs(row.error_fraction) < 0.3
    assert any("training layout" in sentence for sentence in row.assumed)


def test_names_and_sources_move_no_prediction() -> None:
    (plain,) = rows(STEP)
    (other,) = rows({**STEP, "id": "another", "source": {"title": "elsewhere"}, "measured": {"step_time_s": 5.0}})
    assert other.predicted == plain.predicted


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": "gpt-9"}, "is not known"),
        ({"hardware": "abacus"}, "names no known device"),
        ({"devices": None}, "devices: missing"),
        ({"kind": "staleness_quality"}, "not predicted"),
        ({"kind": "inference_decode"}, "input_length: missing"),
        ({"devices": 1, "model": "kimi-k2"}, "fit"),
    ],
)
def test_a_record_that_cannot_be_priced_has_a_sentence_and_no_number(change: dict[str, Any], sentence: str) -> None:
    (row,) = rows({**STEP, **change})
    assert row.predicted is None
    assert row.error_fraction is None
    assert sentence in row.refused


def test_published_steps_are_ranked_as_they_were_measured() -> None:
    sync = {**STEP, "model": "deepseek-v3", "train_parallel": {"tp": 1, "pp": 16, "ep": 16}, "rollout_parallel": {"tp": 32}}
    short = {**sync, "prompts_per_step": 32, "samples_per_prompt": 16, "max_sequence_length": 1536, "mean_response_length": 701}
    ahead = "async, separate train and generation devices, max_trajectory_age_steps 1, in-flight weight updates"
    one, two, off = rows({**short, "devices": 256}, {**short, "devices": 512}, {**short, "devices": 512, "placement": ahead})
    assert one.predicted > two.predicted > off.predicted
    assert one.predicted == pytest.approx(134.0, rel=0.2)


def test_the_command_answers_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs.jsonl"
    runs.write_text(json.dumps(STEP) + "\n", encoding="utf-8")
    assert main(["rl", "validate", str(runs), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["rows"][0]) >= {"id", "kind", "predicted", "measured", "unit", "error_fraction", "refused"}
    assert main(["rl", "validate", str(runs), "--rows"]) == 0
    assert "a-step" in capsys.readouterr().out
    runs.write_text("{}\n", encoding="utf-8")
    assert main(["rl", "validate", str(runs)]) == 2
    assert "no readable post-training record" in capsys.readouterr().err
    path = tmp_path / "job.json"
    path.write_text(json.dumps(JOB), encoding="utf-8")
    assert main(["rl", "estimate", str(path)]) == 0
    assert "a step" in capsys.readouterr().out


def test_an_answer_is_saved_with_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = tmp_path / "job.json", tmp_path / "answer"
    ascend = {**JOB, "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 16}, "strategy": {"tp": 4}}
    path.write_text(json.dumps(ascend), encoding="utf-8")
    assert main(["rl", "estimate", str(path), "--save-dir", str(folder)]) == 0
    assert sorted(file.name for file in folder.iterdir() if not file.name.startswith(".")) == [
        "post-training.mindspeed-rl.yaml",
        "post-training.verl.sh",
        "report.json",
    ]
    document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert document["launches"][1]["text"] == (folder / "post-training.verl.sh").read_text(encoding="utf-8")
    assert "tensor_model_parallel_size: 4" in (folder / "post-training.mindspeed-rl.yaml").read_text(encoding="utf-8")
    assert main(["rl", "estimate", str(path), "--save-dir", str(folder)]) == 2
    assert "holds another answer" in capsys.readouterr().err
    assert main(["rl", "estimate", str(path), "--save-dir", str(folder), "--overwrite"]) == 0
    assert main(["rl", "estimate", str(path), "--overwrite"]) == 2


def test_the_plan_of_a_step_says_what_was_priced() -> None:
    found = job(placement="separate", rollout_devices=8, staleness={"leftover_fraction": 0.5, "partial": True})
    plan = plan_of(found, found.step(PlacementKind.SEPARATE, 8, 8, found.staleness))
    assert (plan.train_devices, plan.rollout_devices, plan.staleness, plan.partial) == (8, 8, 0.5, True)
    assert sum(plan.stage_layers) == found.job.workload.model.num_layers
    assert plan.tp * plan.pp * plan.cp <= plan.train_devices
    assert plan_of(found, found.step(PlacementKind.SEPARATE, 8, 8, Staleness(None))).unbounded


def test_a_cluster_of_one_node_leaves_none_beside_the_reference() -> None:
    """By default the reference takes whole nodes; of 8 devices with 8 in a node none would train."""
    given = {**JOB, "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8}}
    section = {**JOB["post_training"], "placement": "train-infer-colocated"}
    with pytest.raises(InputError, match="a whole node of 8 devices, and of 8 none is left to train"):
        rl_document(parse_rl_job({**given, "post_training": section}))
    with pytest.raises(InputError, match="8 of 8 devices leave none for the reference"):
        rl_document(parse_rl_job({**given, "post_training": {**section, "train_devices": 8}}))
