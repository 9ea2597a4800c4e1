"""The entries of switches against the rules of legality, and their page."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from cost_models.shapes.strategy import Dispatcher, ParallelStrategy
from cost_models.shapes.switches import SWITCHES, Exclusive, Feature
from frameworks.legality import violations
from scripts.pages import write_switches
from tests.workloads import SPARSE, workload

ROOT = Path(__file__).resolve().parents[3]
PLAIN = ParallelStrategy(tp=2, dp=8, ep=2, sequence_parallel=True, dispatcher=Dispatcher.ALLTOALL, features=Feature(0))
PAIRS = [
    pair
    for kind in Exclusive
    for pair in combinations([feature for feature, switch in SWITCHES.items() if switch.one_of is kind], 2)
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(feature.name for feature in pair))
def test_physics_refuses_two_switches_that_replace_the_same_thing(pair: tuple[Feature, Feature]) -> None:
    job = workload(SPARSE)
    job = replace(job, cluster=replace(job.cluster, num_devices=16))
    alone = [violations(job, replace(PLAIN, features=feature), "any") for feature in pair]
    (both,) = violations(job, replace(PLAIN, features=pair[0] | pair[1]), "any")
    assert alone == [(), ()]
    assert "choose 1" in both.sentence


def test_the_page_of_switches_is_current() -> None:
    assert (ROOT / "docs" / "switches.md").read_text(encoding="utf-8") == write_switches.document()
