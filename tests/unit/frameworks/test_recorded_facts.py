"""Of every preset, whatever legal plan is written: arguments that the release knows, once each, and no recorded fact broken."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from app.catalogue.models.presets import model_preset, names
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.workload import Software, Workload
from frameworks.framework import Framework
from frameworks.legality import legal_mask, violations
from frameworks.options import as_given, options_of
from frameworks.registry import FRAMEWORKS
from frameworks.release import problems, read_tokens
from search.space.enumeration import Rejections, chunks
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace
from tests.unit.frameworks.legality_workloads import job
from tests.unit.frameworks.plans import BARE, MERGED, MODES, SWITCHES

DEVICES = 64
ROWS_A_PIPELINE, PLANS_A_PIPELINE = 4096, 4


def space(framework: Framework) -> SearchSpace:
    """Every schedule, dispatcher, module and combination of switches, on few degrees."""
    offered = framework.table.offered
    switches = SWITCHES.get(framework.name) or tuple(dict.fromkeys((offered, BARE & offered)))
    return SearchSpace(
        tp=(1, 2, 4),
        pp=(1, 4),
        vpp=(1, 2),
        cp=(1, 2),
        ep=(1, 8),
        etp=(1, 2),
        micro_batch_size=(1,),
        sequence_parallel=(False, True),
        cp_algo=(CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID),
        schedule=tuple(Schedule),
        microbatch_group_size_per_vp_stage=(0, 8),
        dispatcher=(Dispatcher.ALLGATHER, Dispatcher.ALLTOALL),
        recompute=tuple(recompute_mode(name) for name in MODES[::2]),
        zero_stage=(0, 1, 3),
        features=switches,
        dualpipev_features=tuple(features & offered for features in MERGED),
        interleaved_features=switches,
    )


def workload(framework: Framework, model: str) -> Workload:
    made = job(model_preset(model).model, DEVICES, family=framework.target.families[0])
    return replace(made, software=Software(framework.name, target=framework.target.label))


def plans(framework: Framework, model: str) -> list[ParallelStrategy]:
    """Legal ones, a few of each pipeline."""
    made, found = workload(framework, model), []
    draws = np.random.default_rng(0)
    for chunk in chunks(made, space(framework), Rejections()):
        rows = draws.permutation(len(chunk.batch))[:ROWS_A_PIPELINE]
        drawn = chunk.batch.take(np.sort(rows))
        legal = drawn.take(legal_mask(made, drawn))
        found += [legal.row(int(row)) for row in islice(draws.permutation(len(legal)), PLANS_A_PIPELINE)]
    return found


def given_by(framework: Framework, arguments: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Values by name, of which none may come twice."""
    if framework.suffix == "yaml":
        paths = [argument.partition("=")[0] for argument in arguments]
        assert len(set(paths)) == len(paths), "a path is given twice"
        return {path: as_given(value) for path, value in options_of(arguments).items()}
    given, stray = read_tokens(framework.release, list(arguments))
    assert stray == []
    return given


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.target.label)
@pytest.mark.parametrize("model", names())
def test_what_is_written_of_a_preset_keeps_every_recorded_fact(framework: Framework, model: str) -> None:
    made = workload(framework, model)
    drawn = plans(framework, model)
    if not drawn:  # it trains no such model, which its rules say of the plainest plan too
        assert violations(made, ParallelStrategy(dp=DEVICES))
    for plan in drawn:
        written = framework.write(made, plan).arguments
        assert problems(framework.release, given_by(framework, written)) == [], plan
