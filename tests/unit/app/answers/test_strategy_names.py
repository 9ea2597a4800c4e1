"""The names of strategies: documents carry what commands and reports print."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.answers.strategies import StrategyDocument
from app.jobs.job import parse_job
from app.text.json_documents import json_bytes, plain
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import SWITCHES, Feature
from search.plans.plan import strategy_to_mapping
from tests.workloads import workload

JOB = {
    "model": "llama-3.1-8b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64},
}


def named(strategy: ParallelStrategy) -> StrategyDocument:
    return StrategyDocument.model_validate(strategy_to_mapping(workload(), strategy))


@pytest.mark.parametrize("feature", [each for each, switch in SWITCHES.items() if switch.priced and not switch.by_default])
def test_a_switch_that_is_priced_and_not_the_default_is_in_the_name_alone(feature: Feature) -> None:
    plain_one = ParallelStrategy(tp=2, dp=8, sequence_parallel=True)
    switched = replace(plain_one, features=plain_one.features | feature)
    assert named(switched).name == f"{named(plain_one).name} {str(feature.name).lower()}"


def test_json_carries_the_name() -> None:
    strategy = ParallelStrategy(tp=2, pp=4, dp=2, sequence_parallel=False, micro_batch_size=2)
    assert json.loads(json_bytes(named(strategy)))["name"] == "TP2 PP4 DP2 MBS2 no SP"


def test_a_saved_strategy_is_named_anew() -> None:
    saved = plain(named(ParallelStrategy(tp=2, dp=8, sequence_parallel=True)))
    assert StrategyDocument.model_validate(saved | {"name": "of an earlier version"}).name == "TP2 DP8 MBS1"
    del saved["name"]
    assert StrategyDocument.model_validate_json(json.dumps(saved)).name == "TP2 DP8 MBS1"


def test_the_strategy_of_an_answer_is_one_of_a_job() -> None:
    answered = plain(named(ParallelStrategy(tp=2, dp=8, sequence_parallel=True)))
    del answered["layer_layout"], answered["noop_layers"]  # of another model
    job = parse_job({**JOB, "strategy": {name: value for name, value in answered.items() if name != "num_microbatches"}})
    assert job.strategy is not None
    assert job.strategy.tp == 2
