"""What the table of switches says of a search's use of each holds of prices, over strategies drawn at random."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes import effective_switches
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, SWITCHES, Feature, InSearch, treated
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from frameworks.accepted_switches import rivals, with_taken
from frameworks.legality import legal_mask
from frameworks.registry import TARGETS, offered
from search.space.memory_saving_forms import least_memory_form, memory_saving_forms
from search.space.recompute_modes import recompute_mode
from tests.search_workloads import DENSE, MOE, workload

JOBS = [
    workload(model, hardware=hardware, num_devices=32)
    for model in (DENSE, MOE)
    for hardware in ("atlas-800t-a2", "h100-sxm-80gb")
]
# What a strategy has unless told is not asked: such a kernel may hold a little more memory.
OPEN = (*(treated(InSearch.ON, InSearch.LEAN_ON, InSearch.LEAN_OFF, InSearch.IF_ALLOWED) & ~DEFAULT_FEATURES),)


@st.composite
def strategies(draw: st.DrawFn) -> tuple[Workload, ParallelStrategy]:
    job = draw(st.sampled_from(JOBS))
    pp, vpp, schedule = draw(
        st.sampled_from([(1, 1, Schedule.NONE), (2, 1, Schedule.ONE_F_ONE_B), (2, 2, Schedule.INTERLEAVED),
                         (2, 2, Schedule.DUALPIPE_V), (4, 3, Schedule.INTERLEAVED)])
    )  # fmt: skip
    mode = recompute_mode(draw(st.sampled_from(("none", "full", "layernorm+mlp_act", "block:1"))))
    routed = job.model.moe is not None
    features = DEFAULT_FEATURES
    for feature in draw(st.sets(st.sampled_from([*OPEN, Feature.MOE_COMM_OVERLAP]), max_size=6)):
        features |= feature
    strategy = ParallelStrategy(
        tp=draw(st.sampled_from((1, 2, 8))),
        pp=pp,
        vpp=vpp,
        schedule=schedule,
        ep=draw(st.sampled_from((1, 2, 8, 16))) if routed else 1,
        dispatcher=draw(st.sampled_from([each for each in Dispatcher if each])) if routed else Dispatcher.NONE,
        micro_batch_size=draw(st.sampled_from((1, 2))),
        sequence_parallel=draw(st.booleans()),
        recompute=mode.granularity,
        recompute_method=mode.method,
        recompute_num_layers=mode.num_layers,
        recompute_modules=mode.modules,
        features=features,
    )
    return job, canonical(job, strategy)


@pytest.mark.parametrize("feature", OPEN, ids=lambda feature: feature.name)
@given(drawn=strategies())
def test_a_switch_saves_what_its_entry_says_and_costs_nothing_of_it(
    feature: Feature, drawn: tuple[Workload, ParallelStrategy]
) -> None:
    job, strategy = drawn
    off = replace(strategy, features=strategy.features & ~(feature | rivals(feature)))
    batch = StrategyBatch.of([off, replace(off, features=off.features | feature)])
    if not legal_mask(job, batch).all():
        return
    constants = prior_constants(job.cluster.profile.family)
    priced, played = estimate(job, batch, constants), simulate(job, batch, constants)
    time, peak = priced.step_time_s, priced.peak_memory_bytes
    way = SWITCHES[feature].in_search
    leaner = 1 if way is InSearch.LEAN_ON else 0
    if way is not InSearch.IF_ALLOWED:  # a form is never faster than its strategy under the same placement
        assert played.step_time_s[leaner] >= played.step_time_s[1 - leaner] * (1 - 1e-12)
    if way is InSearch.LEAN_ON:
        assert time[1] >= time[0] * (1 - 1e-12)
        assert peak[1] <= peak[0] or feature is Feature.SWAP_ATTENTION  # the layer at work holds what comes back
    else:
        assert time[1] <= time[0] * (1 + 1e-12)
        assert way is InSearch.LEAN_OFF or peak[1] <= peak[0]
        assert way is not InSearch.LEAN_OFF or peak[1] >= peak[0]


@given(strategies(), st.sampled_from([target.label for target in TARGETS]))
def test_what_a_search_switches_on_makes_no_strategy_illegal(drawn: tuple[Workload, ParallelStrategy], target: str) -> None:
    job, strategy = drawn
    job = replace(job, software=replace(job.software, target=target))
    wanted = treated(InSearch.ON, InSearch.LEAN_OFF) & offered(target, job.cluster.profile.family)
    before = StrategyBatch.of([strategy])
    after = with_taken(job, before, wanted)
    assert legal_mask(job, after)[0] or not legal_mask(job, before)[0]
    assert canonical(job, after.row(0)) == after.row(0)


@given(strategies(), st.sets(st.sampled_from([*treated(InSearch.LEAN_ON, InSearch.LEAN_OFF)])))
def test_leaner_forms_are_every_combination_that_changes_the_strategy(
    drawn: tuple[Workload, ParallelStrategy], chosen: set[Feature]
) -> None:
    job, strategy = drawn
    switches = Feature(sum(chosen))
    batch = StrategyBatch.of([strategy])
    found = memory_saving_forms(job, batch, switches)
    forms = [] if found is None else found[0].features.tolist()
    assert len(set(forms)) == len(forms)
    expected = set()
    for bits in range(1 << len(chosen)):
        turned = [feature for place, feature in enumerate(sorted(chosen)) if bits >> place & 1]
        features, changes = strategy.features, bool(turned)
        for feature in turned:
            lean_on = SWITCHES[feature].in_search is InSearch.LEAN_ON
            changes &= lean_on != (feature in strategy.features)
            features ^= feature
        for feature in turned:
            if SWITCHES[feature].in_search is InSearch.LEAN_ON:
                there = canonical(job, replace(strategy, features=features)).features
                changes &= not features & rivals(feature) and feature in there
        if changes:
            expected.add(int(features))
    assert set(forms) == expected
    if forms:
        constants = prior_constants(job.cluster.profile.family)
        leanest = [least_memory_form(job, batch, turned) for turned in (switches, switches & ~Feature.SWAP_ATTENTION)]
        all_forms = (found[0], batch)  # type: ignore[index]
        least, of_all = (
            min(estimate(job, each, constants).peak_memory_bytes.min() for each in some) for some in (leanest, all_forms)
        )
        assert least <= of_all


def test_why_a_switch_is_idle_is_said_of_every_scope() -> None:
    for feature, switch in SWITCHES.items():
        assert bool(effective_switches.why_idle(feature, effective_switches.NOTHING)) == bool(switch.acts_on)
        assert effective_switches.why_idle(feature, switch.acts_on) == ""
