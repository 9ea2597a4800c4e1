"""Trials around the plans of the lattice: what they may change, what their evaluation is worth, how they are continued."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.priced_keys import LayerPrices
from documents.hashing import fingerprint
from frameworks.legality import legal_mask
from search.errors import SearchError
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import LatticeState
from search.objectives.objective import Criterion
from search.ranking.leaderboard import RankedStrategy
from search.refinement.draft_choices import BY_RANK, BY_TENSOR, ELITES, Draft, DraftChoices
from search.refinement.refined_search import RefinedSearch
from search.refinement.refinement_trials import BATCH_TRIALS, PATIENCE, STAGNATION, RefinementSettings, Stage
from search.results.search_result import SearchResult
from search.session.runner import run_to_end
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space
from search.trials.trial import FITS, ILLEGAL, TOO_LARGE, Trial
from tests.search_workloads import DENSE, request, workload

CONSTANTS = prior_constants("ascend")
TALL = replace(DENSE, num_layers=24, hidden_size=8192, num_attention_heads=64, num_query_groups=64, ffn_hidden_size=24576)
LIMITS = SearchLimits(tp=(4, 8), pp=(2, 4), vpp=(1, 2), cp=(1,))
JOB = workload(TALL, num_devices=16, target="any")
ON_TARGET = workload(TALL, num_devices=16, target="mindspeed-llm")

_ELITES: dict[str, tuple[RankedStrategy, ...]] = {}


def lattice_of(job: Workload, limits: SearchLimits = LIMITS, state: LatticeState | None = None, **options: Any) -> LatticeSearch:
    return LatticeSearch(request(job, search_space(job, limits), CONSTANTS, limits=limits, **options), state=state)


def elites_of(job: Workload, limits: SearchLimits = LIMITS) -> tuple[RankedStrategy, ...]:
    key = fingerprint({"job": job, "limits": repr(limits)})
    if key not in _ELITES:
        lattice = lattice_of(job, limits)
        run_to_end(lattice, None, None)
        _ELITES[key] = lattice.ranked()[:ELITES]
    return _ELITES[key]


def choices_of(job: Workload, elites: tuple[RankedStrategy, ...], limits: SearchLimits = LIMITS) -> DraftChoices:
    return DraftChoices(job, search_space(job, limits), limits, [elite.strategy for elite in elites])


def stage_of(job: Workload, settings: RefinementSettings, stored: list[dict[str, Any]] | None = None) -> Stage:
    elites = elites_of(job)
    return Stage(LayerPrices(job, CONSTANTS), simulate, choices_of(job, elites), elites, settings, stored or [])


def run(stage: Stage) -> Stage:
    while stage.advance():
        pass
    return stage


def described(trials: Any) -> str:
    return json.dumps([trial.to_mapping() for trial in trials], allow_nan=False)


@pytest.mark.parametrize("job", [JOB, ON_TARGET], ids=["any", "mindspeed-llm"])
def test_the_elites_are_the_first_trials_at_the_times_that_the_lattice_gave_them(job: Workload) -> None:
    elites, stage = elites_of(job), stage_of(job, RefinementSettings(len(elites_of(job))))
    run(stage)
    assert [trial.strategy for trial in stage.trials] == [elite.strategy for elite in elites]
    assert [trial.evaluation.peak_memory_bytes for trial in stage.trials] == [elite.peak_memory_bytes for elite in elites]
    for trial, elite in zip(stage.trials, elites, strict=True):
        assert trial.evaluation.step_time_s in (None, pytest.approx(elite.step_time_s, rel=1e-12))
    assert {trial.source for trial in stage.trials} == {"seed"}


@pytest.mark.parametrize(("job", "sampler"), [(JOB, "tpe"), (ON_TARGET, "random")], ids=["any", "mindspeed-llm"])
def test_trials_say_of_a_strategy_what_simulating_it_says(job: Workload, sampler: str) -> None:
    stage, proved_s = run(stage_of(job, RefinementSettings(112, seed=2, sampler=sampler))), elites_of(job)[0].step_time_s
    distinct = [trial for trial in stage.trials if trial.duplicate_of is None]
    legal = [trial for trial in distinct if trial.evaluation.outcome != ILLEGAL]
    assert [bool(found) for found in legal_mask(job, StrategyBatch.of([trial.strategy for trial in distinct]))] == [
        trial.evaluation.outcome != ILLEGAL for trial in distinct
    ]
    found = simulate(job, StrategyBatch.of([trial.strategy for trial in legal]), CONSTANTS)
    for trial, fits, time_s, peak in zip(legal, found.fits, found.step_time_s, found.peak_memory_bytes, strict=True):
        evaluation = trial.evaluation
        assert (evaluation.outcome == FITS) == fits
        assert evaluation.peak_memory_bytes == pytest.approx(peak, rel=1e-12)
        if evaluation.step_time_s is not None:
            assert evaluation.step_time_s == pytest.approx(time_s, rel=1e-12)
        elif evaluation.outcome == FITS:  # a bound ruled it out, and was right
            assert time_s >= (stage.best_s or 0.0) * (1.0 - 1e-12)
    assert stage.best_first()[0].evaluation.value < proved_s  # micro batches in longer turns are faster here
    values = [trial.best_value for trial in stage.trials if trial.best_value is not None]
    assert values == sorted(values, reverse=True)
    assert values[-1] == stage.best_first()[0].evaluation.value


def test_equal_strategies_are_evaluated_once() -> None:
    stage = run(stage_of(ON_TARGET, RefinementSettings(96)))
    repeated = [trial for trial in stage.trials if trial.duplicate_of is not None]
    assert repeated
    for trial in repeated:
        first = stage.trials[trial.duplicate_of or 0]
        assert first.duplicate_of is None
        assert (first.strategy, first.evaluation) == (trial.strategy, trial.evaluation)


def test_a_seed_decides_what_is_tried() -> None:
    first, again, other = (described(run(stage_of(ON_TARGET, RefinementSettings(64, seed=seed))).trials) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("front", [False, True], ids=["tpe", "nsga2"])
def test_a_stage_continued_from_its_stored_trials_proposes_what_one_that_never_stopped_does(front: bool) -> None:
    settings = RefinementSettings(64, seed=4, front=front)
    whole = run(stage_of(JOB, settings))
    trials: list[Trial] = []
    for _ in range(settings.max_trials // BATCH_TRIALS):
        part = stage_of(JOB, settings, json.loads(described(trials)))
        assert part.advance()
        trials = part.trials
    assert described(trials) == described(whole.trials)
    assert [trial.strategy for trial in trials] == [trial.strategy for trial in whole.trials]


def test_a_stage_that_finds_nothing_any_more_stops() -> None:
    stage = run(stage_of(ON_TARGET, RefinementSettings(10_000, sampler="random")))
    assert stage.stopped_by == STAGNATION
    last = [trial for trial in stage.trials[-PATIENCE * BATCH_TRIALS :] if trial.evaluation.step_time_s is not None]
    assert all(trial.evaluation.value > (stage.best_s or 0.0) or trial.duplicate_of is not None for trial in last)


def test_no_plan_of_a_front_is_beaten_in_both() -> None:
    stage = run(stage_of(JOB, RefinementSettings(96, front=True)))
    known = [(trial.evaluation.value, trial.evaluation.peak_memory_bytes) for trial in stage.best_first()]
    result = refined_result(JOB, RefinementSettings(96, front=True))
    assert result.refinement is not None
    front = [(plan.estimate["step_time_s"], plan.estimate["peak_memory_bytes"]) for plan in result.refinement.front]
    assert len(front) > 1
    for time_s, peak in front:
        assert not any(other < time_s * (1 - 1e-9) and (need or 0.0) < peak * (1 - 1e-9) for other, need in known)


def test_a_dimension_that_the_user_limits_stays_as_the_lattice_had_it() -> None:
    limits = replace(
        LIMITS,
        micro_batch_size=(1, 2),
        recompute=(recompute_mode("none"), recompute_mode("full")),
        microbatch_group_size_per_vp_stage=(0,),
        zero_stage=(1,),
    )
    elites = elites_of(JOB, limits)
    for draft in drafts_of(choices_of(JOB, elites, limits)):
        one = draft.strategy
        assert one.micro_batch_size in (1, 2)
        assert draft.recompute == "as_it_is"
        assert one.recompute_modules == RecomputeModule(0)
        assert (one.microbatch_group_size_per_vp_stage, one.optimizer_shard_size) == (0, 0)


def test_a_forbidden_module_is_not_recomputed() -> None:
    limits = replace(LIMITS, forbid=frozenset({"mlp_act"}))
    drafts = drafts_of(choices_of(JOB, elites_of(JOB, limits), limits))
    assert any(draft.strategy.recompute_modules for draft in drafts)
    assert not any(draft.strategy.recompute_modules & RecomputeModule.MLP_ACT for draft in drafts)


def test_a_target_is_asked_for_nothing_that_it_refuses_of_every_elite() -> None:
    wide = [replace(job, cluster=replace(job.cluster, num_devices=64)) for job in (JOB, ON_TARGET)]
    free, bound = (drafts_of(choices_of(job, elites_of(job))) for job in wide)
    assert {draft.recompute for draft in free} > {BY_RANK, BY_TENSOR}
    assert BY_TENSOR not in {draft.recompute for draft in bound}
    assert any(draft.strategy.optimizer_shard_size for draft in free)
    assert not any(draft.strategy.optimizer_shard_size for draft in bound)  # MindSpeed-LLM shards over all ranks


def drafts_of(choices: DraftChoices) -> list[Draft]:
    return [choices.draft(lambda name, offered, own=own: own[name]) for own in choices.seeds()]


def refined(job: Workload, settings: RefinementSettings, **parts: Any) -> RefinedSearch:
    saved = RefinedSearch.part(parts.get("checkpoint"))
    state = None if not saved else LatticeState.from_mapping(saved, Criterion.STEP_TIME, 20)
    options = {"refine": settings.max_trials, "seed": settings.seed, "refine_front": settings.front}
    lattice = lattice_of(job, state=state, **options)
    return RefinedSearch(lattice, lattice, **parts)


def refined_result(job: Workload, settings: RefinementSettings) -> SearchResult:
    found = refined(job, settings)
    return found.result(run_to_end(found, None, None))


def test_the_answer_of_the_lattice_stays_and_the_refinement_stands_beside_it() -> None:
    lattice = lattice_of(ON_TARGET)
    alone = lattice.result(run_to_end(lattice, None, None)).to_mapping()
    result = refined_result(ON_TARGET, RefinementSettings(64))
    beside = result.to_mapping()
    refinement = beside.pop("refinement")
    assert alone.pop("refinement") is None
    alone["timing"].pop("refine_s"), beside["timing"].pop("refine_s")
    assert json.dumps(alone) == json.dumps(beside)
    best, counts = refinement["plans"][0], refinement["counts"]
    assert result.best is not None
    assert best["of_plan_id"] == result.best.plan_id
    assert best["estimate"]["fidelity"] == "simulated"
    assert best["estimate"]["fits"]
    assert best["gain_fraction"] == pytest.approx(1.0 - best["estimate"]["step_time_s"] / result.best.estimate["step_time_s"])
    assert refinement["gain_fraction"] == best["gain_fraction"] > 0.0
    assert "micro batches a chunk takes in turn" in best["change"]
    assert counts["trials"] == refinement["max_trials"] == 64
    assert counts["fits_memory"] == counts["pruned_by_bound"] + counts["simulated"]
    assert refinement["stopped_by"] == "max_trials"
    json.dumps(refinement, allow_nan=False)


def test_a_refined_search_continues_where_another_process_left_it() -> None:
    settings = RefinementSettings(64, seed=7)
    whole = refined_result(JOB, settings)
    checkpoint: Any = None
    trials: list[dict[str, Any]] = []
    steps = 0
    while True:
        part = refined(JOB, settings, checkpoint=checkpoint, trials=trials)
        if not part.advance():
            break
        steps += 1
        checkpoint = json.loads(json.dumps(part.checkpoint(), allow_nan=False))
        trials = json.loads(described(part.trials))
    assert steps > 64 // BATCH_TRIALS
    assert json.dumps(part.result().to_mapping()) == json.dumps(whole.to_mapping())


@pytest.mark.parametrize("checkpoint", [{}, {"whole": None, "elites": 3}, {"whole": None, "elites": [[1]]}])
def test_a_checkpoint_of_something_else_is_refused(checkpoint: dict[str, Any]) -> None:
    with pytest.raises(SearchError, match="checkpoint: not one that a search of this version"):
        refined(JOB, RefinementSettings(8), checkpoint=checkpoint)


def test_a_limit_during_the_refinement_leaves_the_proof_as_it_is() -> None:
    found = refined(JOB, RefinementSettings(512))
    stopped_by = run_to_end(found, None, lambda progress: progress.phase != "refine" or progress.sampled == 0)
    result = found.result(stopped_by)
    assert stopped_by == "interrupt"
    assert result.proof.proved_best
    assert result.proof.stopped_by is None
    assert result.refinement is not None
    assert result.refinement.stopped_by == "interrupt"
    assert result.refinement.counts.trials == BATCH_TRIALS


def test_without_a_plan_nothing_is_refined() -> None:
    job = replace(JOB, model=replace(TALL, num_layers=240))
    found = refined(job, RefinementSettings(64))
    result = found.result(run_to_end(found, None, None))
    assert not result.plans
    assert result.refinement is None
    assert result.nearest
    assert not any(trial.evaluation.outcome == TOO_LARGE for trial in found.trials)
