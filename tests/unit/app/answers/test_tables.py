"""What a person reads: named as it is given, no wider than the terminal, nothing invisible at the end of a line."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.answers.search import search_document
from app.answers.strategies import RecomputeDocument, StrategyDocument, recompute_text
from app.answers.tables.search import print_search
from app.answers.targets import with_usual_target
from app.cli.main import main
from app.jobs.job import parse_job
from app.text.json_documents import plain
from app.text.terminal import plain_text
from cost_models.shapes.effective_switches import usual_features
from cost_models.shapes.strategy import ParallelStrategy, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Software, Workload
from search.plans.plan import strategy_to_mapping
from search.space.recompute_modes import recompute_mode
from tests.search_workloads import workload

RUNS = Path(__file__).parents[4] / "calibration" / "runs" / "ascend.jsonl"
CROWDED: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "search": {"grad_reduce_in_bf16": [True, False], "top": 12},
}
SEARCH = ("search", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "8", "--tp", "1,2", "--top", "3")


@pytest.mark.parametrize("columns", [80, 120])
def test_reports_keep_to_the_width_and_end_lines_in_no_spaces(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    few_runs = tmp_path / "runs.jsonl"
    few_runs.write_text("".join(RUNS.read_text(encoding="utf-8").splitlines(keepends=True)[:20]), encoding="utf-8")
    for arguments in (SEARCH, ("validate", str(few_runs)), ("hardware", "show", "atlas-800t-a2"), ("models", "list")):
        assert main(list(arguments)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > columns or line != line.rstrip()] == []


def test_a_search_says_the_interval_of_its_best_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(SEARCH)) == 0
    assert "(80 %: " in capsys.readouterr().out


def test_a_search_lists_plans_by_time_names_those_that_tie_and_the_one_to_run() -> None:
    tighter = {**CROWDED, "model": "llama-2-13b", "training": {"global_batch_size": 128}}
    document = search_document(with_usual_target(parse_job(tighter)))
    printed = io.StringIO()
    print_search(plain_text(printed, 140), document)
    text = " ".join(printed.getvalue().split())
    tied = [plan for plan in document.plans if plan.rank_group == 1]
    assert len(tied) > 2
    assert f"Plans 1 to {len(tied)} cannot be told apart: they lie within" in text
    assert "(only 3 jobs measured under several plans, so widened)" in text
    assert " # group strategy " in text
    (fastest,) = [plan for plan in document.plans if plan.fastest]
    assert fastest.rank == 1
    times = [plan.estimate.step_time_s for plan in document.plans]
    assert times == sorted(times)
    assert document.recommended is not None
    chosen = document.plans[document.recommended.rank - 1]
    assert chosen.plan_id == document.recommended.plan_id
    assert f"Run plan {chosen.rank}: {chosen.strategy.name}" in text
    assert f"Why {document.recommended.why}" in text
    assert "plan 1 is proved the fastest of mindspeed-llm@master's lattice" in text


def test_the_plan_to_run_and_the_size_of_the_lattice_do_not_depend_on_the_length_of_the_list() -> None:
    cluster = {"hardware": "atlas-800t-a2", "num_devices": 16}
    job = {"model": "llama-2-7b", "cluster": cluster, "training": {"seq_length": 4096, "global_batch_size": 64}}
    found = {top: search_document(with_usual_target(parse_job({**job, "search": {"top": top}}))) for top in (1, 5, 20, 100)}
    recommended = found[20].recommended
    assert recommended is not None
    assert recommended.rank == 3  # beyond a list of one
    assert [document.recommended for document in found.values()] == [recommended] * len(found)
    assert [plan.rank for plan in found[1].plans] == [1, 3]
    assert found[1].proof.plan_id == found[20].proof.plan_id == found[1].plans[0].plan_id
    assert {(each.counts.lattice, each.counts.lattice_legal) for each in found.values()} == {(6160, 2157)}
    assert found[100].counts.simulated != found[20].counts.simulated  # the effort of a run does depend on it
    told, gains = [], set()
    for document in found.values():
        printed = io.StringIO()
        print_search(plain_text(printed, 200), document, ("counts",))
        told += [line for line in printed.getvalue().splitlines() if line.startswith("Lattice: ")]
        gains |= {line for line in printed.getvalue().splitlines() if line.startswith("Gain ")}
    assert len(gains) == 1
    assert [line.partition(" This search")[0] for line in told] == ["Lattice: 6,160 strategies, 2,157 of them legal."] * len(
        found
    )


def test_a_baseline_in_the_group_of_plan_1_is_not_measurably_slower() -> None:
    second = plain(search_document(parse_job(CROWDED)).plans[1])["strategy"]
    again = search_document(parse_job({**CROWDED, "strategy": second}))
    assert again.baseline is not None
    assert again.baseline.rank_group == 1
    printed = io.StringIO()
    print_search(plain_text(printed, 140), again)
    assert "1.03x (± 8.6%, a tie) over your plan" in " ".join(printed.getvalue().split())


@pytest.mark.parametrize(
    ("schedule", "vpp", "group_size", "expected"),
    [
        (Schedule.INTERLEAVED, 2, 0, "PP4 VPP2 DP4 MBS1 4 empty slots"),
        (Schedule.INTERLEAVED, 2, 8, "PP4 VPP2 DP4 MBS1 groups of 8 4 empty slots"),
        (Schedule.DUALPIPE_V, 2, 0, "PP4 VPP2 DP4 MBS1 dualpipev 4 empty slots"),
        (Schedule.ONE_F_ONE_B, 1, 0, "PP4 DP4 MBS1"),
        (Schedule.ZB1P, 1, 0, "PP4 DP4 MBS1 zb1p"),
    ],
)
def test_a_strategy_names_a_schedule_that_its_degrees_do_not_tell(
    schedule: Schedule, vpp: int, group_size: int, expected: str
) -> None:
    strategy = ParallelStrategy(pp=4, dp=4, vpp=vpp, schedule=schedule, microbatch_group_size_per_vp_stage=group_size)
    resolved = StrategyDocument.model_validate(strategy_to_mapping(workload(num_devices=16), strategy))
    assert resolved.name == expected


@pytest.mark.parametrize(("slots", "said"), [(0, ""), (1, " 1 empty slot"), (2, " 2 empty slots")])
def test_one_empty_slot_is_singular(slots: int, said: str) -> None:
    made = strategy_to_mapping(workload(num_devices=16), ParallelStrategy(tp=2, dp=8, sequence_parallel=True))
    assert StrategyDocument.model_validate({**made, "noop_layers": slots}).name == f"TP2 DP8 MBS1{said}"


def test_a_name_has_every_switch_with_a_price_that_is_not_the_default() -> None:
    plain = ParallelStrategy(tp=2, dp=8, sequence_parallel=True)
    switched = replace(plain, features=plain.features | Feature.TP_COMM_OVERLAP | Feature.SWAP_ATTENTION)
    bare = replace(plain, features=plain.features & ~(Feature.FLASH_ATTENTION | Feature.OVERLAP_GRAD_REDUCE))
    names = [
        StrategyDocument.model_validate(strategy_to_mapping(workload(num_devices=16), each)).name
        for each in (plain, switched, bare)
    ]
    assert names[0] == "TP2 DP8 MBS1"
    assert names[1] == "TP2 DP8 MBS1 tp_comm_overlap swap_attention"
    assert names[2] == "TP2 DP8 MBS1 no flash_attention no overlap_grad_reduce"


def name_of(made: Workload, strategy: ParallelStrategy) -> str:
    return StrategyDocument.model_validate(strategy_to_mapping(made, strategy)).name


def test_a_name_says_which_fused_kernels_are_off_where_the_model_has_what_they_fuse() -> None:
    made = workload(num_devices=16)
    plain = ParallelStrategy(tp=2, dp=8, sequence_parallel=True)
    bare = replace(plain, features=plain.features & ~(Feature.FUSED_SWIGLU | Feature.FUSED_ROPE))
    assert name_of(made, bare) == "TP2 DP8 MBS1 no fused_swiglu no fused_rope"
    ungated = replace(made, model=replace(made.model, gated_linear_unit=False, learned_positions=True))
    assert name_of(ungated, plain) == name_of(ungated, bare) == "TP2 DP8 MBS1"


def test_a_name_says_what_is_on_where_it_is_usually_off() -> None:
    made = workload(num_devices=16)
    eager = replace(made, software=Software("fsdp"))  # without kernels of its own: fused ones are off by default
    plain = ParallelStrategy(tp=2, dp=8, sequence_parallel=True, features=usual_features(eager))
    fused = replace(plain, features=plain.features | Feature.FUSED_SWIGLU)
    assert name_of(eager, plain) == "TP2 DP8 MBS1"
    assert name_of(eager, fused) == "TP2 DP8 MBS1 fused_swiglu"


@pytest.mark.parametrize("name", ["full", "full:2", "block:3", "layernorm+mlp_act"])
def test_recompute_reads_as_the_flag_takes_it(name: str) -> None:
    mode = recompute_mode(name)
    recompute = RecomputeDocument(
        granularity=mode.granularity.label,
        method=mode.method.label,
        num_layers=mode.num_layers,
        modules=name.split("+"),
        layers_per_stage=None,
    )
    assert recompute_text(recompute) == f"recompute {name}"
