from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import COLUMNS, INDICES, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from frameworks.legality import legal_mask
from search.errors import SearchError
from search.exhaustive.lattice_search import search
from search.plans.estimator import Estimator
from search.sampled.sampler_search import BATCH_TRIALS, SamplerSearch, sample
from search.session.request import SAMPLERS
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import memory_saving_forms
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace, search_space
from search.trials.trial import Trial, trials_from_mappings
from tests.search_workloads import DENSE, MOE, request, workload

CONSTANTS = prior_constants("ascend")
LARGE = replace(DENSE, hidden_size=8192, num_attention_heads=64, num_query_groups=64, ffn_hidden_size=24576)
JOB = workload(MOE, num_devices=16, seq_length=8192)
SPACE = search_space(JOB, SearchLimits(micro_batch_size=(1, 2)))


def run(
    sampler: str = "random", job: Workload = JOB, space: SearchSpace = SPACE, estimator: Estimator = estimate, **settings: Any
) -> SamplerSearch:
    asked = request(job, space, CONSTANTS, sampler=sampler, **{"max_trials": 96, **settings})
    sampled = SamplerSearch(asked, estimator=estimator)
    while sampled.advance():
        pass
    return sampled


def described(trials: list[Trial]) -> str:
    return json.dumps([trial.to_mapping() for trial in trials], allow_nan=False)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_search_continued_from_its_stored_trials_proposes_what_one_that_never_stopped_does(sampler: str) -> None:
    whole = run(sampler, max_trials=3 * BATCH_TRIALS, seed=3)
    trials: list[Trial] = []
    for _ in range(3):
        stored = json.loads(described(trials))
        part = SamplerSearch(
            request(JOB, SPACE, CONSTANTS, sampler=sampler, seed=3, max_trials=3 * BATCH_TRIALS),
            trials=trials_from_mappings(JOB, SPACE, stored),
        )
        assert part.advance()
        trials = part.trials
    assert described(trials) == described(whole.trials)
    assert [trial.strategy for trial in trials] == [trial.strategy for trial in whole.trials]
    assert not part.advance()
    assert json.dumps(part.result().to_mapping()) == json.dumps(whole.result().to_mapping())


def test_seeds_decide_what_is_tried() -> None:
    assert described(run(seed=1).trials) == described(run(seed=1).trials)
    assert described(run(seed=1).trials) != described(run(seed=2).trials)


@cache  # one for all samplers
def lattice_of_the_job() -> NDArray[np.int64]:
    lattice = []
    for chunk in chunks(JOB, SPACE, Rejections()):
        legal = charge_illegal(JOB, chunk.batch, option_rules(JOB), Rejections())
        lattice.append(hashed(legal))
        forms = memory_saving_forms(JOB, legal, SPACE.leaner)
        if forms is not None:
            lattice.append(hashed(charge_illegal(JOB, forms[0], option_rules(JOB), Rejections())))
    return np.concatenate(lattice)


def hashed(batch: StrategyBatch) -> NDArray[np.int64]:
    """A number for each strategy, of all its columns. The lattice has over a million rows: a set of them takes half a minute."""
    factors = np.random.default_rng(7).integers(1, 2**62, len(COLUMNS) + len(INDICES))
    named = zip((*COLUMNS, *INDICES), factors, strict=True)
    return sum((getattr(batch, name) * factor for name, factor in named), np.zeros(len(batch), dtype=np.int64))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_trial_is_a_strategy_of_the_lattice_with_the_price_it_has_alone(sampler: str) -> None:
    trials = run(sampler).trials
    in_lattice = np.isin(hashed(StrategyBatch.of([trial.strategy for trial in trials])), lattice_of_the_job())
    assert {"fits", "illegal"} <= {trial.evaluation.outcome for trial in trials}
    for trial, is_in_lattice in zip(trials, in_lattice, strict=True):
        evaluation = trial.evaluation
        alone = StrategyBatch.of([trial.strategy])
        assert is_in_lattice == legal_mask(JOB, alone)[0] == (evaluation.outcome != "illegal")
        if evaluation.outcome == "illegal":
            assert evaluation.constraints["legality"] >= 1
            assert evaluation.rule is not None
            continue
        priced = estimate(JOB, alone, CONSTANTS)
        assert evaluation.step_time_s == pytest.approx(priced.step_time_s[0], rel=1e-12)
        assert (evaluation.constraints["memory"] <= 0) == bool(priced.fits[0]) == (evaluation.outcome == "fits")


def test_best_so_far_is_the_running_minimum_of_what_fits() -> None:
    best = np.inf
    trials = run().trials
    for trial in trials:
        if trial.evaluation.outcome == "fits":
            best = min(best, trial.evaluation.value)
        assert trial.best_value == (None if np.isinf(best) else best)
    assert np.isfinite(best)


def test_a_strategy_that_returns_is_answered_without_being_priced_again() -> None:
    priced: list[ParallelStrategy] = []

    def counted(job: Workload, batch: StrategyBatch, constants: Any, *, breakdown: bool = False) -> Estimate:
        priced.extend(batch.row(index) for index in range(len(batch)))
        return estimate(job, batch, constants, breakdown=breakdown)

    job = workload(DENSE, num_devices=8)
    space = search_space(job, SearchLimits(tp=(1, 2), pp=(1,), micro_batch_size=(1,), recompute=(recompute_mode("full"),)))
    given = ParallelStrategy(tp=1)
    trials = run(job=job, space=space, estimator=counted, baseline=given).trials
    distinct = {trial.strategy for trial in trials}
    assert len(priced) == len(set(priced)) <= len(distinct) < len(trials)
    for trial in trials:
        if trial.duplicate_of is not None:
            first = trials[trial.duplicate_of]
            assert (first.strategy, first.evaluation, first.duplicate_of) == (trial.strategy, trial.evaluation, None)


def test_the_baseline_is_tried_first() -> None:
    given = ParallelStrategy(tp=4, pp=2, ep=8, sequence_parallel=True, recompute=recompute_mode("full").granularity)
    given = replace(given, recompute_method=recompute_mode("full").method, recompute_num_layers=1)
    first = run(baseline=given).trials[0]
    assert first.source == "baseline"
    assert (first.strategy.tp, first.strategy.pp, first.strategy.ep, first.strategy.dp) == (4, 2, 8, 2)
    assert run().trials[0].source == "baseline"  # the rule of thumb's


def test_a_baseline_outside_the_space_is_only_compared_with() -> None:
    sampled = run(baseline=ParallelStrategy(tp=4, pp=2, ep=8, features=Feature.MC2, sequence_parallel=True))
    assert {trial.source for trial in sampled.trials} == {"sampled"}
    comparison = sampled.result().baseline
    assert comparison is not None
    assert comparison.source == "given"


def test_counts_are_of_what_was_tried_and_nothing_is_proved() -> None:
    sampled = run("tpe")
    result = sampled.result()
    counts = result.counts
    assert counts.sampled == 96
    assert counts.enumerated == len({trial.strategy for trial in sampled.trials})
    assert counts.enumerated == counts.legal + sum(rejection.count for rejection in result.rejections)
    assert not result.proof.exhaustive
    assert not result.proof.proved_best
    assert result.proof.stopped_by is None
    progress = sampled.progress
    assert (progress.done_fraction, progress.sampled, progress.enumerated) == (1.0, 96, counts.enumerated)
    assert result.plans[0].estimate["step_time_s"] == progress.best_step_time_s == sampled.trials[-1].best_value


def test_a_sampler_never_beats_the_exhaustive_search() -> None:
    best = search(request(JOB, SPACE, CONSTANTS, top=1)).plans[0].estimate["step_time_s"]
    for sampler in SAMPLERS:
        found = run(sampler).result().plans[0].estimate["step_time_s"]
        assert found >= best * (1 - 1e-12)


def test_headroom_is_an_objective() -> None:
    sampled = run(objective="memory_headroom")
    fitting = [trial.evaluation for trial in sampled.trials if trial.evaluation.outcome == "fits"]
    assert sampled.result().plans[0].estimate["peak_memory_bytes"] == min(e.peak_memory_bytes or 0 for e in fitting)


def test_where_nothing_fits_the_answer_says_that_not_all_was_tried() -> None:
    job = workload(LARGE, num_devices=1)
    sampled = run(job=job, space=search_space(job))
    result = sampled.result()
    assert {trial.evaluation.outcome for trial in sampled.trials} == {"too_large"}
    assert result.plans == ()
    assert result.nearest is not None
    assert "the exhaustive search tries all" in result.nearest


def test_a_time_limit_cuts_between_batches() -> None:
    ticks = iter(range(10**6))
    asked = request(JOB, SPACE, CONSTANTS, sampler="random", clock=lambda: next(ticks), max_trials=10_000)
    result = sample(asked, time_limit_s=10.0)
    assert result.proof.stopped_by == "time_limit"
    assert 0 < (result.counts.sampled or 0) < 10_000


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sampler": "annealing"}, "sampler: 'annealing' is not one of tpe, nsga2, random"),
        ({"max_trials": 0}, "max_trials: 0 is below 1"),
        ({"objective": "energy"}, "objective: 'energy'"),
    ],
)
def test_a_search_that_cannot_run_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SearchError) as refused:
        run(**settings)
    assert sentence in str(refused.value)


def test_trials_of_another_search_are_refused() -> None:
    stored = [trial.to_mapping() for trial in run(max_trials=4).trials]
    stored[2]["sampler_state"]["parameters"]["recompute"] = "always"
    with pytest.raises(SearchError, match="not those that a search of this version wrote"):
        trials_from_mappings(JOB, SPACE, stored)


def test_time_spent_before_the_save_counts_on() -> None:
    settings: dict[str, Any] = {"sampler": "random", "max_trials": 2 * BATCH_TRIALS}
    first = SamplerSearch(request(JOB, SPACE, CONSTANTS, clock=iter(range(10_000)).__next__, **settings))
    first.advance()
    second = SamplerSearch(
        request(JOB, SPACE, CONSTANTS, clock=iter(range(500, 10_000)).__next__, **settings),
        trials=first.trials,
        checkpoint=json.loads(json.dumps(first.checkpoint())),
    )
    second.advance()
    assert first.progress.elapsed_s < second.progress.elapsed_s < first.progress.elapsed_s + 20
    with pytest.raises(SearchError, match="not one that a sampler of this version wrote"):
        SamplerSearch(request(JOB, SPACE, CONSTANTS, **settings), checkpoint={"format": 1})
