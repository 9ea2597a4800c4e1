"""A request is checked once, and an option that a search does not read is refused with its name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from cost_models.constants import prior_constants
from search.errors import SearchError
from search.objectives.table import OBJECTIVES
from search.session.request import _REFUSALS, MAX_SIMULATIONS, SAMPLERS, Mode, SearchOptions, SearchRequest, on_physics
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace, search_space
from tests.search_workloads import DENSE, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 2), pp=(1,), cp=(1,))
FREE, BOUND = (workload(DENSE, num_devices=8, target=target) for target in ("any", "mindspeed-llm"))
GIVEN: dict[str, Any] = {
    "max_trials": 5,
    "seed": 3,
    "refine": 8,
    "refine_front": True,
    "by_tensor": True,
    "max_simulations": 10,
}
READ: dict[str, set[str]] = {
    "exhaustive": {"refine", "by_tensor", "max_simulations"},
    "target": {"refine", "max_simulations"},
    "sampled": {"max_trials", "seed"},
    "memory": {"max_simulations"},
}


def asked(mode: str, **options: Any) -> SearchRequest:
    job = BOUND if mode == "target" else FREE
    physics: SearchSpace | None = search_space(on_physics(job), LIMITS) if mode == "target" else None
    objective = OBJECTIVES["memory_headroom" if mode == "memory" else "step_time"]
    if mode == "sampled":
        options = {"sampler": "tpe", "max_trials": 4, **options}
    return SearchRequest(
        job,
        search_space(job, LIMITS),
        CONSTANTS,
        objective=objective,
        physics=physics,
        options=SearchOptions(**options),
    )


@pytest.mark.parametrize("mode", READ)
@pytest.mark.parametrize("name", GIVEN)
def test_a_mode_takes_the_options_that_it_reads_and_refuses_the_others(mode: str, name: str) -> None:
    if name in READ[mode]:
        assert getattr(asked(mode, **{name: GIVEN[name]}).options, name) == GIVEN[name]
        return
    with pytest.raises(SearchError, match=rf"^search\.{name}: .*leave it"):
        asked(mode, **{name: GIVEN[name]})


@pytest.mark.parametrize("mode", ["exhaustive", "target"])
def test_a_refinement_reads_a_seed_and_whether_memory_counts(mode: str) -> None:
    assert asked(mode, refine=8, seed=3, refine_front=True).options.seed == 3


def test_a_search_on_a_target_alone_does_not_choose_tensors() -> None:
    with pytest.raises(SearchError, match=r"search\.by_tensor: .*software\.target any"):
        SearchRequest(BOUND, search_space(BOUND, LIMITS), CONSTANTS, options=SearchOptions(by_tensor=True))


@pytest.mark.parametrize("mode", READ)
def test_a_stored_job_is_read_without_what_an_earlier_version_let_pass(mode: str) -> None:
    plain = asked(mode)
    stored = plain.with_stored(SearchOptions(sampler=plain.options.sampler, **GIVEN))
    for name, value in GIVEN.items():
        read = name in READ[mode] or (name in ("seed", "refine_front") and "refine" in READ[mode])
        assert getattr(stored.options, name) == (value if read else getattr(SearchOptions(), name)), name


def test_defaults_are_options_of_every_mode() -> None:
    for mode in ("exhaustive", "target", "memory"):
        assert asked(mode, max_simulations=MAX_SIMULATIONS, seed=0, refine=0).options == SearchOptions()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampler": "annealing", "max_trials": 3}, f"sampler: 'annealing' is not one of {', '.join(SAMPLERS)}."),
        ({"sampler": "tpe", "max_trials": 0}, "max_trials: 0 is below 1."),
    ],
)
def test_a_bad_value_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SearchError) as refused:
        asked("exhaustive", **changes)
    assert str(refused.value) == sentence


def test_the_request_of_physics_is_for_one_plan_without_a_target() -> None:
    first = asked("target", max_simulations=7)
    beyond = first.of_physics()
    assert beyond.workload.software.target == "any"
    assert beyond.space == first.physics
    assert (beyond.top, beyond.physics, beyond.options.max_simulations) == (1, None, 7)


def test_every_option_has_a_sentence_that_refuses_it() -> None:
    assert set(_REFUSALS) == {option.name for option in fields(SearchOptions)}
    assert {name for mode in Mode for name in mode.value} <= set(_REFUSALS)
    for name, sentence in _REFUSALS.items():
        assert sentence.startswith(f"search.{name}: ")
