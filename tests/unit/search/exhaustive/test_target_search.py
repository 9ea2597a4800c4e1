"""Plans that a framework takes, and beside them the best that physics alone would allow."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, InSearch, treated
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.simulation.step_times import simulate
from frameworks.legality import legal_mask
from search.errors import SearchError
from search.exhaustive.lattice_search import search
from search.exhaustive.target_search import TargetSearch
from search.feasibility.least_memory_plan import takes_a_plan
from search.results.result_builder import ResultBuilder
from search.results.search_result import SearchResult
from search.session.request import SearchRequest, on_physics
from search.session.runner import run_to_end
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace, search_space
from tests.search_workloads import DENSE, MOE, request, workload

CONSTANTS = prior_constants("ascend")
SMALL = SearchLimits(tp=(2, 8), pp=(1, 2), vpp=(1, 2), etp=(1,), ep=(16,), micro_batch_size=(1, 2))
TARGET = "mindspeed-llm@master"
# Sixteen experts a rank over two nodes: the two-level dispatch, which MindSpeed-LLM lacks, is faster.
JOB = workload(MOE, num_devices=32, target=TARGET)


def spaces(job: Workload, limits: SearchLimits = SMALL) -> tuple[SearchSpace, SearchSpace]:
    return search_space(job, limits), search_space(on_physics(job), limits)


def asked(job: Workload = JOB, limits: SearchLimits = SMALL, **settings: Any) -> SearchRequest:
    space, physics = spaces(job, limits)
    return request(job, space, CONSTANTS, physics=physics, top=5, **settings)


def launchable(
    job: Workload = JOB, limits: SearchLimits = SMALL, checkpoint: dict[str, Any] | None = None, **settings: Any
) -> TargetSearch:
    return TargetSearch(asked(job, limits, **settings), checkpoint=checkpoint)


def found(job: Workload = JOB, limits: SearchLimits = SMALL, **settings: Any) -> SearchResult:
    lattice = launchable(job, limits, **settings)
    return lattice.result(run_to_end(lattice, None, None))


def alone(job: Workload, limits: SearchLimits = SMALL, **settings: Any) -> SearchResult:
    return search(request(job, search_space(job, limits), CONSTANTS, top=5, **settings))


def test_plans_counts_and_proof_are_those_of_a_search_for_the_target_alone() -> None:
    both, target = found().to_mapping(), alone(JOB).to_mapping()
    for name in ("plans", "counts", "rejections", "proof", "baseline"):
        assert both[name] == target[name], name
    assert both["proof"]["proved_best"]
    assert both["proof"]["scope"] == f"lattice of {TARGET}, simulated"


@pytest.mark.parametrize("objective", ["step_time", "memory_headroom"])
def test_physics_best_is_the_first_plan_of_a_search_of_physics_alone(objective: str) -> None:
    both = found(objective=objective)
    first = alone(on_physics(JOB), objective=objective).plans[0]
    best = both.physics_best
    assert best is not None
    value = "step_time_s" if objective == "step_time" else "peak_memory_bytes"
    assert best.estimate[value] == first.estimate[value] <= both.plans[0].estimate[value]
    if objective == "step_time":
        assert (best.plan_id, best.strategy) == (first.plan_id, first.strategy)
        assert best.difference_fraction == both.plans[0].estimate["step_time_s"] / best.estimate["step_time_s"] - 1.0 > 0
        assert best.why.startswith("Plan 1 is ")
        assert "the best that physics allows: it loses" in best.why
        assert "mindspeed_dispatcher" in [broken.rule for broken in best.rules]
    assert best.proved_best
    assert best.stopped_by is None


def test_where_physics_allows_nothing_better_its_best_is_plan_1() -> None:
    job = workload(DENSE, num_devices=8, target=TARGET)
    both = found(job, replace(SMALL, ep=None))
    best = both.physics_best
    assert best is not None
    assert (best.plan_id, best.strategy, best.difference_fraction) == (both.plans[0].plan_id, both.plans[0].strategy, 0.0)
    assert best.rules == ()
    assert best.why == f"Nothing that {TARGET} refuses is better than plan 1."


def test_without_a_plan_for_the_target_physics_still_answers() -> None:
    swapped = replace(SMALL, dispatcher=(Dispatcher.TWO_LEVEL,))
    both = found(JOB, swapped)
    assert both.plans == ()
    assert both.nearest is not None
    best = both.physics_best
    assert best is not None
    assert best.difference_fraction is None
    assert best.estimate["fits"]
    assert best.why == f"{TARGET} takes no plan that fits; this is the best that physics allows."


def test_saved_and_continued_after_every_step_it_ends_as_one_that_never_stopped() -> None:
    whole = found().to_mapping()
    lattice = launchable()
    steps = 0
    while lattice.advance():
        steps += 1
        document = json.loads(json.dumps(lattice.checkpoint(), allow_nan=False))
        lattice = launchable(checkpoint=document)
    assert steps > 5
    assert json.dumps(lattice.result().to_mapping()) == json.dumps(whole)


def test_a_checkpoint_of_a_plain_search_is_refused() -> None:
    with pytest.raises(SearchError, match="checkpoint: not one that a search of this version for a target wrote"):
        launchable(checkpoint={"format": 2})


def test_progress_never_goes_back_and_ends_at_one() -> None:
    lattice = launchable()
    done = [lattice.progress.done_fraction]
    while lattice.advance():
        done.append(lattice.progress.done_fraction)
    assert done == sorted(done)
    assert done[-1] == 1.0


def test_a_search_that_is_cut_before_physics_says_nothing_of_it() -> None:
    lattice = launchable()
    lattice.advance()
    result = lattice.result("time_limit")
    assert result.physics_best is None
    assert result.proof.stopped_by == "time_limit"


def test_a_search_that_is_cut_in_physics_keeps_its_proof_and_says_what_was_cut() -> None:
    lattice = launchable()
    done = 0.0
    while done <= 0.5:
        lattice.advance()
        done = lattice.progress.done_fraction
    result = lattice.result("time_limit")
    assert result.proof.proved_best
    assert result.proof.stopped_by is None
    assert result.physics_best is not None
    assert not result.physics_best.proved_best
    assert result.physics_best.stopped_by == "time_limit"


def test_what_a_target_refuses_counts_however_little_it_is_faster() -> None:
    both = found()
    assert both.physics_best is not None
    best_s = both.physics_best.estimate["step_time_s"]
    assert best_s < both.plans[0].estimate["step_time_s"]
    lattice = launchable()
    while lattice.launchable.advance():
        pass
    times_s = lattice.launchable.state.candidates.structure_s
    times_s.update({structure: max(time_s, best_s) * (1.0 + 1e-4) for structure, time_s in times_s.items()})
    times_s[next(iter(times_s))] = best_s * (1.0 + 1e-4)  # as if the target had a plan that is hardly slower
    while lattice.advance():
        pass
    saved = lattice.checkpoint()["physics"]["finalists"]["simulated"]
    assert min(saved["step_time_s"]) == pytest.approx(best_s, rel=1e-9)


def test_rows_that_the_framework_takes_are_not_priced_twice() -> None:
    job, limits = JOB, replace(SMALL, switches=dict.fromkeys(treated(InSearch.LEAN_ON, InSearch.LEAN_OFF), (False,)))
    num_refused = 0
    physics = on_physics(job)
    for chunk in chunks(physics, search_space(physics, limits), Rejections()):
        legal = charge_illegal(physics, chunk.batch, option_rules(physics), Rejections())
        if len(legal):
            num_refused += int(np.count_nonzero(~legal_mask(physics, legal, TARGET)))
    both = found(job, limits)
    assert both.physics_best is not None
    assert both.physics_best.num_refused == num_refused > 0


@pytest.mark.parametrize(("model", "target"), [(DENSE, TARGET), (MOE, TARGET), (MOE, "mindformers@1.8")])
def test_what_physics_tries_and_a_framework_takes_is_among_what_a_search_for_it_tries(model: ModelShape, target: str) -> None:
    limits = replace(SMALL, ep=None if model is DENSE else (16,))

    def taken(job: Workload) -> set[ParallelStrategy]:
        rows: set[ParallelStrategy] = set()
        for chunk in chunks(job, search_space(job, limits), Rejections()):
            if len(chunk.batch):
                legal = chunk.batch.take(legal_mask(job, chunk.batch, target))
                rows |= {legal.row(index) for index in range(len(legal))}
        return rows

    if model is DENSE:  # MindFormers trains the models that it has a class for
        model = replace(model, qk_layernorm=True, constants=replace(model.constants, model_type="qwen3"))
    job = workload(model, num_devices=32, target=target)
    assert taken(on_physics(job)) <= taken(job)
    assert taken(job)


def test_beside_a_plan_of_physics_stands_what_each_framework_takes_in_its_place() -> None:
    physics = on_physics(JOB)
    result = alone(physics)
    nearest = {entry.target: entry for entry in result.nearest_launchable}
    assert set(nearest) >= {TARGET}
    entry = nearest[TARGET]
    best = result.plans[0]
    assert best.launchable_on == ()
    assert entry.estimate is not None
    assert entry.strategy is not None
    assert entry.strategy["moe_dispatcher"] != best.strategy["moe_dispatcher"] == "two_level"
    assert entry.difference_fraction == entry.estimate["step_time_s"] / best.estimate["step_time_s"] - 1.0
    assert any("two_level" in sentence for sentence in entry.replaced)
    assert f"The nearest on {TARGET} is" in entry.why
    assert alone(JOB).nearest_launchable == ()


def test_a_framework_that_takes_nothing_near_a_plan_says_which_rule_stands_in_the_way() -> None:
    four_norms = replace(JOB, model=replace(MOE, name="four-norms", sandwich_norm=True))
    result = alone(on_physics(four_norms))
    entry = next(entry for entry in result.nearest_launchable if entry.target.startswith("mindformers"))
    assert entry.strategy is None
    assert entry.estimate is None
    assert entry.difference_fraction is None
    assert "mindformers_sandwich_norm" in [broken.rule for broken in entry.rules]
    assert entry.rules[0].sentence in entry.why


def test_a_framework_that_would_train_another_model_takes_nothing_in_its_place() -> None:
    scaled = replace(JOB, model=replace(MOE, constants=ModelConstants(post_norm_residual=3.5)))
    entry = next(entry for entry in alone(on_physics(scaled)).nearest_launchable if entry.target == TARGET)
    assert entry.strategy is None
    assert entry.rules == ()
    assert "residual behind the norm, times 3.5" in entry.why


def test_a_baseline_that_only_the_framework_refuses_is_priced_with_its_violations() -> None:
    space, _ = spaces(JOB)
    answers = ResultBuilder(JOB, space, CONSTANTS, simulate)
    plan = alone(JOB).plans[0]
    given = replace(
        plan.parallel,
        dispatcher=Dispatcher.TWO_LEVEL,
        schedule=Schedule.ONE_F_ONE_B if plan.parallel.pp > 1 else Schedule.NONE,
        vpp=1,
        features=DEFAULT_FEATURES,
    )
    compared = answers.baseline(given, [plan], "given")
    assert compared.estimate["step_time_s"] > 0
    assert compared.speedup_fraction is not None
    assert any("mindspeed_dispatcher" in violation for violation in compared.violations)
    assert f"{TARGET} refuses the baseline" in compared.why


def test_the_leanest_plans_decide_whether_a_target_takes_any() -> None:
    rejections = Rejections()
    assert takes_a_plan(JOB, SearchLimits(), CONSTANTS, rejections)
    none = SearchLimits(dispatcher=(Dispatcher.TWO_LEVEL,), ep=(16,))
    assert not takes_a_plan(JOB, none, CONSTANTS, rejections)
    huge = replace(JOB, model=replace(MOE, num_layers=4000))
    assert not takes_a_plan(huge, SearchLimits(pp=(1,)), CONSTANTS, Rejections())
