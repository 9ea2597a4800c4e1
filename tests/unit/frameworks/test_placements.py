"""What each target can express of placements: the description, its rules, its files."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import Dispatcher, LayerLayout, ParallelStrategy, Recompute, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, MoeShape, Workload
from frameworks.framework import ReadingError
from frameworks.legality import RULES, cautions, violations
from frameworks.megatron_lm import writer as megatron
from frameworks.megatron_lm.dialect import CORE_0_12, CORE_0_19
from frameworks.megatron_lm.layouts import layout_text, read_layout
from frameworks.megatron_lm.nearest import evenest
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from frameworks.placements import ANYWHERE
from frameworks.registry import FRAMEWORKS, TARGETS, placements_of
from frameworks.rule import layout_violates
from tests.placements import placements
from tests.unit.frameworks.legality_workloads import DENSE, MIXTURE, job

EVEN = CORE_0_12.placements
PLACING = (
    *("mtp_stage", "layer_layout", "megatron_stages", "mindspeed_stages", "mindformers_stages", "torchtitan_stages"),
    "mindspeed_fsdp2_stages",
)
DEEPSEEK = "Et*3|(tt|)*29,m|L"  # of Megatron's own documentation
DEEPSEEK_LAYOUT = ((3, *[2] * 15), (*[2] * 14, 0, 0))


def model_of(num_layers: int, dense: int = 0, modules: int = 1) -> ModelShape:
    moe = replace(MIXTURE.moe, num_leading_dense_layers=dense) if isinstance(MIXTURE.moe, MoeShape) else None
    return replace(MIXTURE, num_layers=num_layers, mtp_num_layers=modules, moe=moe)


def placed(layout: LayerLayout, before_head: int) -> ParallelStrategy:
    pp, vpp = len(layout[0]), len(layout)
    schedule = Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B if pp > 1 else Schedule.NONE
    return ParallelStrategy(pp=pp, dp=64 // pp, vpp=vpp, schedule=schedule, layer_layout=layout, mtp_before_head=before_head)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Workload, ParallelStrategy]:
    pp = draw(st.sampled_from((1, 2, 4)))
    vpp = draw(st.sampled_from((1, 2, 3))) if pp > 1 else 1
    num_layers = draw(st.integers(1, 3 * pp * vpp))
    layout, before_head = draw(placements(num_layers, pp, vpp))
    if draw(st.booleans()) and num_layers >= pp * vpp:  # random ones are hardly ever even
        layout = draw(st.sampled_from([default_layout(DENSE_OF[num_layers], pp, vpp), *EVEN.shapes(num_layers, pp, vpp)]))
        before_head = 0
    made = job(model_of(num_layers, dense=draw(st.integers(0, num_layers)), modules=draw(st.integers(1, 2))))
    return made, placed(layout, before_head)


@pytest.mark.parametrize("spare", [0, 1, 2, 3])
@pytest.mark.parametrize("target", ["megatron-lm@0.12", "megatron-lm@0.19", "mindspeed-llm@master"])
def test_virtual_stages_of_embedding_and_loss_may_be_empty(target: str, spare: int) -> None:
    (framework,) = [each for each in FRAMEWORKS if each.target.label == target]
    made = job(replace(DENSE, num_layers=16 - spare))
    plan = replace(placed(default_layout(made.model, 4, 4), 0), layer_layout=None)
    broken = {each.rule for each in violations(made, plan, framework.target)}
    assert ("layers_per_stage" in broken) == (spare > 2)
    if spare <= 2:
        assert not broken & set(PLACING)
        arguments = framework.write(made, plan).arguments
        said = framework.read(list(arguments), 64)
        assert (said.layer_layout or default_layout(made.model, 4, 4)) == default_layout(made.model, 4, 4)


DENSE_OF = {number: replace(DENSE, num_layers=number) for number in range(1, 37)}


@given(drawn())
@settings(max_examples=300)
def test_a_target_accepts_what_its_description_says(case: tuple[Workload, ParallelStrategy]) -> None:
    made, plan = case
    for target in TARGETS:
        broken = {violation.rule for violation in violations(made, plan, target)} & set(PLACING)
        described = placements_of(target.label).expressible(plan.layer_layout or (), plan.mtp_before_head, made.model)
        assert described == (not broken), (target.label, broken)


@given(drawn())
def test_merged_passes_of_virtual_stages_want_no_idle_slot_before_the_last_stage(case: tuple[Workload, ParallelStrategy]) -> None:
    made, plan = case
    merged = replace(plan, features=DEFAULT_FEATURES | Feature.MOE_COMM_OVERLAP, ep=2, mtp_before_head=0)
    if plan.vpp == 1:
        return
    broken = {violation.rule for violation in violations(made, merged, "mindspeed-llm")} & {*PLACING, "mindspeed_fb_noop"}
    described = placements_of("mindspeed-llm", merged_chunks=True).expressible(plan.layer_layout or (), 0, made.model)
    warned = bool(cautions(made, merged, MINDSPEED_LLM.target))
    assert described == (not broken and not warned)
    assert not (broken and warned and "mindspeed_fb_noop" in broken)
    assert placements_of("megatron-lm", merged_chunks=True) == placements_of("megatron-lm")


def contiguous(num_layers: int, stages: int) -> list[tuple[int, ...]]:
    return [counts for counts in product(range(num_layers + 1), repeat=stages) if sum(counts) == num_layers]


@pytest.mark.parametrize(
    ("num_layers", "pp", "vpp"), [(6, 1, 1), (5, 2, 1), (7, 4, 1), (8, 4, 1), (6, 2, 2), (7, 2, 2), (5, 3, 2)]
)
def test_the_shapes_of_an_even_target_are_all_that_it_accepts(num_layers: int, pp: int, vpp: int) -> None:
    every = {tuple(counts[chunk * pp : (chunk + 1) * pp] for chunk in range(vpp)) for counts in contiguous(num_layers, pp * vpp)}
    accepted = {layout for layout in every if EVEN.expressible(layout, 0, DENSE)}
    assert accepted == set(EVEN.shapes(num_layers, pp, vpp))
    assert accepted


def test_405b_with_a_layer_less_at_both_ends_is_one_of_them() -> None:
    layout = ((0, *[1] * 15), *[(1,) * 16] * 6, (*[1] * 15, 0))  # 126 layers, PP16 VPP8 [llama3, section 3.3.2]
    assert EVEN.expressible(layout, 0, DENSE)
    assert layout in EVEN.shapes(126, 16, 8)
    assert evenest(EVEN, 126, 16, 8) is None  # with a layer on each virtual stage there is none


def test_deepseek_of_megatrons_documentation_is_read_and_written() -> None:
    assert read_layout(DEEPSEEK, 16) == (DEEPSEEK_LAYOUT, 1, 1)
    text = layout_text(DEEPSEEK_LAYOUT, 1, 1)
    assert text == "Ettt|" + "tt|" * 29 + "m|L"
    made = job(model_of(61, dense=3), family="nvidia")
    plan = replace(placed(DEEPSEEK_LAYOUT, 1), dp=4)
    written = megatron.arguments(CORE_0_19, made, plan)
    arguments = list(written.arguments)
    assert arguments[arguments.index("--pipeline-model-parallel-layout") + 1] == text
    assert not any("mtp" in note for note in written.notes)
    assert {v.rule for v in violations(made, plan, "megatron-lm@0.19")} & set(PLACING) == set()
    assert CORE_0_19.placements.most_mtp_before_head(16, 2) == 14
    older = megatron.arguments(CORE_0_12, made, plan)
    assert any("mtp_before_head 1 is written as 0" in note for note in older.notes)


def test_no_op_layers_that_fill_whole_virtual_stages_are_legal_written_and_read() -> None:
    # MindSpeed-LLM's recipe for DeepSeek-V3: 64 slots over PP8 VPP4 with no-op layers 47, 62 and 63.
    layout = (*[(2,) * 8] * 2, (*[2] * 7, 1), (*[2] * 7, 0))
    made = replace(job(model_of(61, dense=3)), cluster=replace(job().cluster, num_devices=512))
    plan = replace(placed(layout, 0), tp=2, dp=32, ep=32, sequence_parallel=True, dispatcher=Dispatcher.ALLTOALL)
    assert violations(made, plan, "mindspeed-llm") == ()
    arguments = MINDSPEED_LLM.write(made, plan).arguments
    for name, value in {"num-layers": "64", "noop-layers": "47,62,63", "num-layers-per-virtual-pipeline-stage": "2"}.items():
        assert arguments[arguments.index(f"--{name}") + 1] == value
    assert MINDSPEED_LLM.read(arguments, 512).layer_layout == layout
    assert MINDSPEED_LLM.read_job(arguments, 512).model.num_layers == 61


@given(st.data())
@settings(max_examples=200)
def test_any_layout_comes_back_from_its_text(data: st.DataObject) -> None:
    pp, vpp = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    layout, before_head = data.draw(placements(data.draw(st.integers(1, 40)), pp, vpp))
    modules = data.draw(st.integers(0, 2))
    before_head = min(before_head, max(pp - 2, 0)) if modules else 0
    assert read_layout(layout_text(layout, modules, before_head), pp) == (layout, before_head, modules)


@pytest.mark.parametrize(
    ("text", "pp", "layout", "before_head"),
    [
        ("Et*3|(t|)*4tm|L", 7, ((3, 1, 1, 1, 1, 1, 0),), 1),
        ("E|t*3|(t|)*5mL", 4, ((0, 3, 1, 1), (1, 1, 1, 0)), 0),
        ("E||t|L", 2, ((0, 0), (1, 0)), 0),
        ("E,(tt|t|)*2,L", 5, ((2, 1, 2, 1, 0),), 0),
        ("EttL", 1, ((2,),), 0),
    ],
)
def test_the_grammar_of_layouts(text: str, pp: int, layout: LayerLayout, before_head: int) -> None:
    assert read_layout(text, pp)[:2] == (layout, before_head)


@pytest.mark.parametrize(
    ("text", "pp", "words"),
    [
        ("Et|tmt|L", 3, "in this order"),
        ("Et|t|x|L", 4, "no list of stages"),
        ("t|EtL", 2, "in this order"),
        ("Et|t|L|", 4, "in this order"),
        ("Et|tm|m|L", 4, "m on 2 stages"),
        ("Etm|L", 2, "not on the first rank"),
        ("Et|t|tL", 2, "has 3 stages, which pp 2 does not divide"),
        ("E(t|)*999999L", 2, "has more than"),
    ],
)
def test_a_text_that_no_strategy_means_is_refused_in_one_sentence(text: str, pp: int, words: str) -> None:
    with pytest.raises(ReadingError, match=words):
        read_layout(text, pp)


def test_physics_alone_places_everything() -> None:
    assert placements_of("any") is ANYWHERE
    assert ANYWHERE.most_mtp_before_head(4, 2) == 7
    batch = StrategyBatch.of([placed(((0, 0), (9, 0)), 1)])
    assert not layout_violates(job(model_of(9)), batch, lambda *case: not ANYWHERE.expressible(*case)).any()


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.target.label)
@given(case=drawn())
@settings(max_examples=40)
def test_what_is_written_of_any_placement_is_one_that_the_target_can_express(framework, case) -> None:  # type: ignore[no-untyped-def]
    made, plan = case
    drafted, notes = framework.nearest(made, plan)
    replaced = any("layer_layout" in note or "mtp_before_head" in note for note in notes)
    before_head = drafted.mtp_before_head
    assert before_head <= framework.placements.most_mtp_before_head(drafted.pp, drafted.vpp)
    if not framework.placements.expressible(plan.layer_layout or (), plan.mtp_before_head, made.model):
        assert replaced == ((drafted.layer_layout, before_head) != (plan.layer_layout, plan.mtp_before_head))
        return
    assert not replaced
    # It cannot be told how many layers such a model has, or has no pipelines.
    if (framework.untold(made) and framework.target.name == "torchtitan") or framework.unwritable(made, plan) or framework.named:
        return
    read = framework.read(framework.write(made, plan).arguments, 64)
    found = read.layer_layout or default_layout(made.model, read.pp, read.vpp, read.schedule)
    assert (found, read.mtp_before_head) == (plan.layer_layout, plan.mtp_before_head)


@st.composite
def rows_of_one_pipeline(draw: st.DrawFn) -> tuple[Workload, ParallelStrategy, ParallelStrategy]:
    """Two strategies with the same pipeline, placement and switches of the pipeline, and nothing else in common."""
    made, first = draw(drawn())
    merged = DEFAULT_FEATURES | (Feature.MOE_COMM_OVERLAP if draw(st.booleans()) else Feature(0))
    first = replace(first, features=merged, ep=2)
    other = replace(
        first,
        dp=draw(st.sampled_from((1, 2, 8))),
        tp=draw(st.sampled_from((1, 2, 8))),
        cp=draw(st.sampled_from((1, 2))),
        ep=draw(st.sampled_from((2, 4))),
        micro_batch_size=draw(st.sampled_from((1, 2, 4))),
        zero_stage=draw(st.sampled_from((0, 1, 2))),
        recompute=draw(st.sampled_from(Recompute)),
        recompute_num_layers=draw(st.integers(0, 2)),
        features=merged | (Feature.SWAP_OPTIMIZER if draw(st.booleans()) else Feature(0)),
    )
    return made, first, other


@given(rows_of_one_pipeline())
@settings(max_examples=200)
def test_a_verdict_about_a_placement_holds_for_all_rows_of_the_pipeline(
    case: tuple[Workload, ParallelStrategy, ParallelStrategy],
) -> None:
    made, first, other = case
    batch = StrategyBatch.of([first, other])
    for rule in RULES:
        if rule.reads_placement:
            one, same = rule.violates(made, batch)
            assert one == same, rule.name


@given(drawn(), st.data())
@settings(max_examples=200)
def test_rules_that_are_not_asked_of_placements_do_not_look_at_them(
    case: tuple[Workload, ParallelStrategy], data: st.DataObject
) -> None:
    made, plan = case
    layout, before_head = data.draw(placements(made.model.num_layers, plan.pp, plan.vpp))
    merged = plan.features | (Feature.MOE_COMM_OVERLAP if data.draw(st.booleans()) else Feature(0))
    here = replace(plan, features=merged, ep=2, recompute=data.draw(st.sampled_from(Recompute)), recompute_num_layers=1)
    batch = StrategyBatch.of([here, replace(here, layer_layout=layout, mtp_before_head=before_head)])
    for rule in RULES:
        if not rule.reads_placement:
            one, other = rule.violates(made, batch)
            assert one == other, rule.name


def test_the_rules_that_are_asked_of_placements() -> None:
    assert {rule.name for rule in RULES if rule.reads_placement} == {
        *PLACING,
        "mindspeed_fb_noop",
        "mindspeed_linear_noop",
        "mindspeed_tensor_plan",
        "mindspeed_adapters_empty_stage",
    }
