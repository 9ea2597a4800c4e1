"""Every module of recompute on every framework: told to it by an argument, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.recompute_modules import RecomputeModule, present_modules
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES
from frameworks.framework import Framework
from frameworks.legality import violations
from frameworks.registry import FRAMEWORKS
from tests.unit.frameworks.legality_workloads import DENSE, MIXTURE, PANGU, job

MODELS = (DENSE, MIXTURE, PANGU)
NONE = ParallelStrategy(dp=64, zero_stage=1, features=DEFAULT_FEATURES)


@pytest.mark.parametrize("module", RecomputeModule, ids=lambda module: module.name.lower())
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_a_module_of_recompute_is_written_and_read_or_refused_and_left_out(framework: Framework, module: RecomputeModule) -> None:
    models = [model for model in MODELS if module in present_modules(model)]
    assert models, "no model of the tests has it"
    for model in models:
        made = job(model, family=framework.target.families[0])
        none = NONE if model.moe is None else replace(NONE, ep=8, dispatcher=Dispatcher.ALLTOALL)
        plan = replace(none, recompute=Recompute.SELECTIVE, recompute_modules=module)
        reasons = {v.rule for v in violations(made, plan, framework.name)} - {
            v.rule for v in violations(made, none, framework.name)
        }
        without, written = framework.write(made, none), framework.write(made, plan)
        if reasons:
            assert written.arguments == without.arguments
            (sentence,) = set(written.notes) - set(without.notes)
            assert sentence.startswith(f"Not as planned: recompute of {str(module.name).lower()} is left out")
        else:
            assert framework.read(written.arguments, made.cluster.num_devices).recompute_modules == module
            assert framework.read(without.arguments, made.cluster.num_devices).recompute_modules == 0
