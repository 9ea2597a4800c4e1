"""Every schedule is whole, its traits are those of its tasks, and no other file knows it by name."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cost_models.schedules
from cost_models.schedules.orders import rank_orders, rank_tables
from cost_models.schedules.schedule import Fewest, Pairs, PipelineShape, ScheduleRules
from cost_models.schedules.tasks import Pass, Task
from cost_models.shapes import strategy as strategy_module
from cost_models.shapes.canonical import schedules_of
from cost_models.shapes.strategy import Schedule
from frameworks.physics import pipeline as pipeline_rules
from tests.oracle.event_loop import held_at_peak
from tests.pipelines import oracle_rule, shape
from tests.unit.cost_models.simulation.test_theory import Rank, ends

ROOT = Path(cost_models.schedules.__file__).parents[2]
ROOM = Path(cost_models.schedules.__file__).parent
PRODUCT = ("app", "calibration", "cost_models", "documents", "frameworks", "hardware_profiles", "meshplan", "search")
RECORDS = {kind.__name__: {field.name for field in fields(kind)} for kind in (ScheduleRules, Pairs)} | {
    "Fewest": set(Fewest._fields)
}
ENTRIES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOM.glob("*.py"))}
PIPELINES = [schedule for schedule in Schedule if schedule.rules.chunks != "none"]
by_label = pytest.mark.parametrize("schedule", PIPELINES, ids=lambda schedule: schedule.label)


def parts(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Every keyword of the records of an entry."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RECORDS:
            yield from ((node, str(keyword.arg)) for keyword in node.keywords)


HALVES = [
    pytest.param(path, call.func.id, part, id=f"{path.stem}-{call.func.id}-{part}")
    for path, tree in ENTRIES.items()
    for call, part in parts(tree)
    if isinstance(call.func, ast.Name)
]


def imported(text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of that text."""
    half = ModuleType("half_done")
    monkeypatch.setitem(sys.modules, half.__name__, half)
    exec(compile(text, "half_done", "exec"), half.__dict__)
    return half


@pytest.mark.parametrize(("path", "record", "part"), HALVES)
def test_half_a_schedule_cannot_be_imported(path: Path, record: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (call,) = {call for call, name in parts(tree) if name == part and isinstance(call.func, ast.Name) and call.func.id == record}
    call.keywords = [keyword for keyword in call.keywords if keyword.arg != part]
    with pytest.raises(TypeError, match=part):
        imported(ast.unparse(tree), monkeypatch)


def test_every_part_of_every_schedule_is_left_out_once() -> None:
    entries = {path.stem for path, tree in ENTRIES.items() if any(True for _ in parts(tree))}
    left_out = {(path.stem, record, part) for path, record, part in (half.values for half in HALVES)}
    assert len(entries) == len(Schedule)
    for record in ("ScheduleRules", "Fewest"):
        assert left_out >= {(entry, record, part) for entry in entries for part in RECORDS[record]}
    assert {part for _, record, part in left_out if record == "Pairs"} == RECORDS["Pairs"]


@pytest.mark.parametrize(
    ("find", "put", "message"),
    [
        ("ZBV = 6, zbv.RULES\n", "ZBV = 6\n", "rules"),
        ("ZBV = 6, zbv.RULES\n", "ZBV = 6, gpipe.RULES\n", "two schedules have one label"),
        ("ZBV = 6, zbv.RULES\n", "ZBV = 60, zbv.RULES\n", "without a gap"),
    ],
)
def test_a_member_that_is_not_whole_cannot_be_imported(
    find: str, put: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(strategy_module.__file__).read_text(encoding="utf-8")
    assert text.count(find) == 1, "strategy.py has changed: bring this test up to date"
    with pytest.raises(TypeError, match=message):
        imported(text.replace(find, put), monkeypatch)


def test_every_file_with_rules_has_its_member() -> None:
    entries = {path.stem for path, tree in ENTRIES.items() if any(True for _ in parts(tree))}
    modules = {stem: getattr(strategy_module, stem, None) for stem in entries}
    assert {stem: getattr(module, "RULES", None) for stem, module in modules.items()} == {
        stem: next((one.rules for one in Schedule if module is not None and one.rules is module.RULES), None)
        for stem, module in modules.items()
    }
    assert None not in modules.values(), "strategy.py gives every entry of the room a member"


def pipeline(schedule: Schedule, pp: int = 4, times: int = 4, **options: Any) -> PipelineShape:
    """So many ranks, each with the fewest chunks that the schedule has, and ``times`` pp micro batches."""
    vpp = {"one": 1, "two": 2, "several": 2}[schedule.rules.chunks]
    return shape(schedule, pp, times * pp, vpp=vpp, **options)


def tasks(of: PipelineShape) -> list[Task]:
    return [task for order in rank_orders(of) for task in order]


@by_label
def test_a_schedule_runs_the_chunks_that_it_names(schedule: Schedule) -> None:
    several = {vpp for vpp in (1, 2, 3, 4) if schedule.rules.runs(4, vpp)}
    assert several == {"one": {1}, "two": {2}, "several": {2, 3, 4}}[schedule.rules.chunks]
    assert not schedule.rules.runs(1, min(several))
    for vpp in several:
        of = shape(schedule, 4, 16, vpp=vpp)
        assert {task.chunk for task in tasks(of)} == set(range(vpp * schedule.rules.num_streams))


@by_label
def test_streams_enter_where_the_released_code_begins(schedule: Schedule) -> None:
    of = pipeline(schedule)
    paths = [oracle_rule(of).path(k) for k in range(of.num_microbatches)]
    assert len({path[0] for path in paths}) == schedule.rules.num_streams
    first, last = {path[0][0] for path in paths}, {path[-1][0] for path in paths}
    assert bool(first & last) == schedule.rules.ends_meet
    turns = any(one[0] == other[0] for path in paths for one, other in pairwise(path))
    assert turns == schedule.rules.is_vee


@by_label
def test_groups_of_micro_batches_matter_where_there_are_some(schedule: Schedule) -> None:
    of_groups = [[rank.tolist() for rank in rank_tables(pipeline(schedule, group_size=size))] for size in (4, 8)]
    assert (of_groups[0] != of_groups[1]) == schedule.rules.in_groups


@by_label
def test_weight_gradients_are_tasks_where_backwards_are_split(schedule: Schedule) -> None:
    split = any(task.kind is Pass.WEIGHT_GRADIENT for task in tasks(pipeline(schedule)))
    assert split == schedule.rules.splits_backward


@by_label
def test_detaching_changes_the_order_where_it_can(schedule: Schedule) -> None:
    either = [tasks(pipeline(schedule, detach_weight_gradients=detached)) for detached in (False, True)]
    assert (either[0] != either[1]) == schedule.rules.can_detach


@by_label
def test_ranks_without_idle_time_of_their_own_overlap_steps(schedule: Schedule) -> None:
    of = pipeline(schedule)
    _, own_s, _ = ends(of, Rank(forward=1.0, backward=2.0, weight_gradient=1.0, pair=0.0))
    busy_s = 3.0 * of.num_microbatches / schedule.rules.num_streams
    assert (own_s == busy_s) == schedule.rules.overlaps_steps


@by_label
def test_a_steady_state_holds_no_more_for_more_micro_batches(schedule: Schedule) -> None:
    def held(times: int) -> int:
        of = pipeline(schedule, times=times)
        return sum(held_at_peak(oracle_rule(of).program(0), of.num_chunks))

    assert (held(8) == held(16)) == schedule.rules.has_steady_state


@by_label
def test_passes_merge_as_the_entry_says(schedule: Schedule) -> None:
    of, pairs = pipeline(schedule, times=8, merge_pairs=True), schedule.rules.pairs
    merged = [task for task in tasks(of) if task.kind is Pass.PAIR]
    assert bool(merged) == (pairs is not None)
    if pairs is None:
        return
    assert all(task.backward_chunk == 1 - task.chunk for task in merged) == pairs.of_other_chunk
    alone = [sum(task.kind is Pass.FORWARD for task in order) for order in rank_orders(of)]
    assert pairs.unmerged(of, of.pp) == min(alone)
    longer = pipeline(schedule, times=16, merge_pairs=True)
    rank = Rank(forward=1.0, backward=2.0, weight_gradient=1.0, pair=3.0)
    each_s = (ends(longer, rank)[0] - ends(of, rank)[0]) / (longer.num_microbatches - of.num_microbatches)
    assert each_s == pytest.approx((6.0 if pairs.wait else 3.0) / schedule.rules.num_streams)


@by_label
@pytest.mark.parametrize("pp", [2, 4, 6])
def test_fewer_micro_batches_than_the_fewest_are_refused(schedule: Schedule, pp: int) -> None:
    fewest = schedule.rules.fewest_microbatches.of(pp)
    vpp = pipeline(schedule).vpp
    assert fewest % schedule.rules.num_streams == 0
    assert len(rank_tables(shape(schedule, pp, fewest, vpp=vpp))) == pp
    with pytest.raises(ValueError, match=f"at least {fewest}"):
        rank_tables(shape(schedule, pp, fewest - schedule.rules.num_streams, vpp=vpp))


@pytest.mark.parametrize("schedule", [one for one in PIPELINES if one.rules.splits_backward], ids=lambda one: one.label)
@pytest.mark.parametrize("pp", [2, 4, 6])
def test_the_fewest_micro_batches_are_those_of_the_longest_warm_up(schedule: Schedule, pp: int) -> None:
    def warm_up(m: int) -> int:
        order = oracle_rule(shape(schedule, pp, m)).program(0)
        kinds = [step.kind for step in order]
        return min(kinds.index(kind) for kind in ("B", "BW") if kind in kinds)

    fewest, streams = schedule.rules.fewest_microbatches.of(pp), schedule.rules.num_streams
    assert warm_up(8 * pp) == warm_up(fewest + streams)  # the released DualPipeV wants one more than its order takes
    if schedule.rules.chunks == "one" and streams == 1:
        assert warm_up(fewest - 1) < warm_up(fewest)


def test_the_usual_schedule_of_a_shape_is_one_and_comes_first() -> None:
    for vpp in (1, 2, 3, 5):
        assert [schedule.rules.usual for schedule in schedules_of(4, vpp)].count(True) == 1
        assert schedules_of(4, vpp)[0].rules.usual
    assert [schedule.rules.usual for schedule in schedules_of(1, 1)] == [True]


def test_rules_name_the_schedules_that_they_refuse() -> None:
    def labels(words: str) -> set[str]:
        known = {schedule.label for schedule in Schedule}
        return set(words.replace(",", " ").replace(":", " ").replace(";", " ").split()) & known

    rules = {schedule.label: schedule.rules for schedule in PIPELINES}
    of_chunks, needs_pp = pipeline_rules.SCHEDULE.requirement.split(";")
    above, two, _ = of_chunks.split(" vpp ", 2)
    assert labels(above) == {label for label, one in rules.items() if one.chunks == "several"}
    assert labels(two) == {label for label, one in rules.items() if one.chunks == "two"}
    assert labels(needs_pp) == {label for label, one in rules.items() if one.ends_meet}
    filled = {label for label, one in rules.items() if one.fewest_microbatches.a_rank and not one.in_groups}
    assert labels(pipeline_rules.SCHEDULE_FILL.requirement) == filled
    assert labels(pipeline_rules.DUALPIPE_HALVES.requirement) == {label for label, one in rules.items() if one.num_streams > 1}
    apart = pipeline_rules.OVERLAP_NEEDS_PAIRS.requirement.split(" run each on its own")[0]
    assert labels(apart) == {label for label, one in rules.items() if one.pairs is None}


# Files that may name schedules, as words of theirs. None compares a schedule with a member.
NAMED = {
    "calibration/records/strategy.py": "names of schedules in run records",
    "frameworks/megatron_lm/table.py": "schedules that Megatron-LM has",
    "frameworks/mindformers/table.py": "schedules that MindFormers has",
    "frameworks/mindspeed_llm/table.py": "schedules that MindSpeed-LLM has",
    "frameworks/torchtitan/table.py": "schedules that torchtitan has",
    "cost_models/shapes/strategy.py": "the members",
}
MEMBERS = {schedule.name for schedule in Schedule}


def product_files() -> dict[str, ast.Module]:
    paths = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py") if ROOM not in path.parents]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def members_in(node: ast.AST) -> set[str]:
    """Schedules that an expression or a pattern names."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "Schedule"
    } & MEMBERS


def compared(tree: ast.Module) -> set[str]:
    """Schedules with which something is compared."""
    return {member for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.MatchValue) for member in members_in(node)}


def test_no_other_file_knows_a_schedule_by_name() -> None:
    files = product_files()
    assert {name: found for name, tree in files.items() if (found := compared(tree))} == {}
    named = {name: members_in(tree) - {"NONE"} for name, tree in files.items()}
    assert {name for name, found in named.items() if found} == {*NAMED} - {"cost_models/shapes/strategy.py"}


@pytest.mark.parametrize(
    "planted",
    ["s.schedule is Schedule.ZBV", "b.schedule == Schedule.GPIPE", "s.schedule in (Schedule.ZB1P, other)", "x <= Schedule.ZB2P"],
)
def test_a_comparison_with_a_name_is_noticed(planted: str) -> None:
    assert compared(ast.parse(planted))
    assert compared(ast.parse("match s:\n    case Schedule.DUALPIPE:\n        pass")) == {"DUALPIPE"}
    assert not compared(ast.parse("table = {Schedule.ZBV: 'zero_bubble_v'}"))


def test_tables_by_schedule_have_an_entry_for_each() -> None:
    assert np.array_equal(
        strategy_module.by_schedule(lambda rules: rules.is_vee), [schedule.rules.is_vee for schedule in Schedule]
    )
