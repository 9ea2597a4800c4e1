"""Every move of one layer is tried, and the best of those that may be made is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.answers.search import search_document
from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from app.text.json_documents import json_text
from cost_models.shapes.strategy import LayerLayout
from scripts.checks.layer_moves import checked, line, main, moves_of, plans_of
from tests.oracle.placements import Placements, placements

JOB: dict[str, Any] = {
    "model": {
        "num_layers": 5,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "ffn_hidden_size": 5504,
        "vocab_size": 128000,
    },
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 16},
    "software": {"target": "any"},
    "search": {"tp": 2, "pp": 2, "vpp": 2, "micro_batch_size": 1, "recompute": "none", "schedule": "interleaved-1f1b", "top": 1},
}
DOCUMENT: dict[str, Any] = json.loads(json_text(search_document(parse_job(JOB))))
WORKLOAD, (PLAN,) = plans_of(DOCUMENT)
CONSTANTS = constants_for(WORKLOAD)
SLOW = ((1, 3), (1, 0))


@pytest.fixture(scope="module")
def every() -> Placements:
    return placements(WORKLOAD, CONSTANTS, [PLAN])


def answer(folder: Path, layout: LayerLayout | None) -> Path:
    (plan,) = DOCUMENT["plans"]
    strategy = {name: value for name, value in plan["strategy"].items() if name != "noop_layers"} | {"layer_layout": layout}
    path = folder / "answer.json"
    path.write_text(json.dumps({**DOCUMENT, "plans": [{**plan, "strategy": strategy}]}), encoding="utf-8")
    return path


def test_a_move_takes_one_layer_from_a_stage_to_another() -> None:
    after = {(giver, taker): layout for giver, taker, layout in moves_of(((1, 0), (2, 1)))}
    assert len(after) == 3 * 3
    assert after[0, 1] == ((0, 1), (2, 1))
    assert after[2, 0] == ((2, 0), (1, 1))
    assert after[3, 1] == ((1, 1), (2, 0))
    beside = {(giver, taker): layout for giver, taker, layout in moves_of(((1, 0), (2, 1)), neighbours=True)}
    assert beside == {move: after[move] for move in ((0, 1), (2, 1), (2, 3), (3, 2))}


def test_the_best_move_is_the_best_of_all_placements_one_layer_away(every: Placements) -> None:
    slow = replace(PLAN, layer_layout=SLOW)
    times_s = {plan.layer_layout: float(s) for plan, s in zip(every.strategies, every.simulated_s, strict=True)}
    beside = [layout for _, _, layout in moves_of(SLOW)]
    found = checked(WORKLOAD, slow, CONSTANTS)
    assert found.best is not None
    assert found.num_moves == found.num_allowed == len(beside) == 3 * 3
    assert found.best.step_time_s == pytest.approx(min(times_s[layout] for layout in beside), rel=1e-12)
    assert found.best.step_time_s == pytest.approx(times_s[found.best.layout], rel=1e-12)
    assert found.gain_fraction == pytest.approx(1 - found.best.step_time_s / times_s[SLOW], rel=1e-9)
    assert found.best.giver == 1
    assert "a layer from virtual stage 2 to " in line(1, found)


def test_no_move_improves_the_best_of_all_placements(every: Placements) -> None:
    found = checked(WORKLOAD, replace(PLAN, layer_layout=every.least_simulated.layer_layout), CONSTANTS)
    assert (found.best, found.gain_fraction) == (None, 0.0)
    assert line(2, found).startswith("plan 2: ")
    assert line(2, found).endswith("none is faster")


def test_moves_that_do_not_fit_or_that_the_target_refuses_are_left_alone() -> None:
    profile = replace(WORKLOAD.cluster.profile, usable_hbm_bytes=1e9)
    small = replace(WORKLOAD, cluster=replace(WORKLOAD.cluster, profile=profile))
    assert checked(small, replace(PLAN, layer_layout=SLOW), CONSTANTS).num_allowed == 0
    strict = replace(WORKLOAD, software=replace(WORKLOAD.software, target="megatron-lm@0.12"))
    assert checked(strict, replace(PLAN, layer_layout=SLOW), CONSTANTS).num_allowed == 0


def test_the_exit_status_says_whether_a_move_improves_a_plan(
    every: Placements, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--answer", str(answer(tmp_path, SLOW))]) == 1
    assert "takes" in capsys.readouterr().out
    assert main(["--answer", str(answer(tmp_path, SLOW)), "--tolerance", "0.9"]) == 0
    assert main(["--answer", str(answer(tmp_path, every.least_simulated.layer_layout))]) == 0
    assert "none is faster" in capsys.readouterr().out


def test_a_job_is_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps(JOB), encoding="utf-8")
    assert main([str(job), "--devices", "8", "--neighbours"]) in (0, 1)
    assert "moves are allowed" in capsys.readouterr().out


def test_what_cannot_be_checked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    assert main(["--answer", str(other)]) == 2
    assert capsys.readouterr().err == f"{other}: it is no answer of a search; give what `meshplan search --json` prints.\n"
    other.write_text(json.dumps({**DOCUMENT, "plans": []}), encoding="utf-8")
    assert main(["--answer", str(other)]) == 2
    assert capsys.readouterr().err == "the search has no plan\n"
    assert main(["no-such-model", "--hardware", "atlas-800t-a2", "--devices", "8"]) == 2
    assert "no-such-model" in capsys.readouterr().err
