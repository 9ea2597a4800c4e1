"""Norms and activation functions of some layers in MindSpeed-LLM: read as a plan by tensor, written from one."""

from __future__ import annotations

from typing import Any

import pytest

from app.jobs.job import Job, parse_job
from cost_models.shapes.layout import default_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Recompute
from cost_models.shapes.tensors import Tensor, share_ends
from frameworks.framework import ReadJob
from frameworks.legality import violations
from frameworks.registry import BY_LABEL

MINDSPEED = BY_LABEL["mindspeed-llm@master"]
NORM, ACTIVATION = "--recompute-norm", "--recompute-activation-function"
NUMBER_OF = {NORM: "--recompute-norm-num-layers", ACTIVATION: "--recompute-activation-function-num-layers"}
# Layers of a virtual stage: 9; 5 with no-op layers at the end of each; 7, of which the first of the model is dense.
LAYOUTS: list[tuple[str, int, dict[str, Any]]] = [
    ("qwen3-8b", 16, {"tp": 2, "pp": 4}),
    ("qwen3-8b", 16, {"tp": 2, "pp": 4, "vpp": 2}),
    ("deepseek-v2-lite", 16, {"tp": 1, "pp": 4, "ep": 4}),
]


def job(model: str, devices: int, strategy: dict[str, Any]) -> Job:
    return parse_job(
        {
            "model": model,
            "cluster": {"hardware": "atlas-800t-a2", "num_devices": devices},
            "training": {"seq_length": 4096, "global_batch_size": 64},
            "software": {"target": "mindspeed-llm"},
            "strategy": strategy,
        }
    )


def read(made: Job, *more: str) -> ReadJob:
    assert made.strategy is not None
    return MINDSPEED.read_job([*MINDSPEED.write(made.workload, made.strategy).arguments, *more], 16)


def taken(found: ReadJob, tensors: Tensor) -> list[list[bool]]:
    """Of each layer of each virtual stage, in the order of the model, whether it recomputes some of the tensors."""
    plan, model, s = found.strategy.tensor_plan, found.model, found.strategy
    assert plan is not None
    layout = s.layer_layout or default_layout(model, s.pp, s.vpp, s.schedule)
    kinds, first, stages = model.kinds_of_layers(), 0, []
    for row, of_row in zip(layout, plan, strict=True):
        for layers, choices in zip(row, of_row, strict=True):
            held = kinds[first : first + layers]
            first += layers
            of_layer = {}
            for kind, shares in zip(model.layer_kinds(), choices, strict=True):
                ends = share_ends(shares, held.count(kind))
                of_layer[kind] = iter([choice for choice, start, end in ends for _ in range(start, end)])
            stages.append([bool(next(of_layer[kind]).recompute & tensors) for kind in held])
    return stages


def by_source(written: list[str], counts: list[list[bool]], number: int) -> list[list[bool]]:
    """As should_recompute of mindspeed/model/transformer.py counts, over layers with no-op layers at the end of a stage."""
    at = "--num-layers-per-virtual-pipeline-stage"
    total, pp = (int(written[written.index(name) + 1]) for name in ("--num-layers", "--pipeline-model-parallel-size"))
    per_chunk = int(written[written.index(at) + 1]) if at in written else total // pp
    return [
        [((stage * per_chunk + layer + 1) - 1) % per_chunk < number for layer in range(len(layers))]
        for stage, layers in enumerate(counts)
    ]


@pytest.mark.parametrize(("model", "devices", "strategy"), LAYOUTS)
@pytest.mark.parametrize(("norms", "activations"), [(1, None), (2, 3), (None, 2), (0, 1)])
def test_the_first_layers_of_every_virtual_stage_recompute(
    model: str, devices: int, strategy: dict[str, Any], norms: int | None, activations: int | None
) -> None:
    made = job(model, devices, strategy)
    more = [NORM, ACTIVATION]
    for name, number in ((NORM, norms), (ACTIVATION, activations)):
        more += [] if number is None else [NUMBER_OF[name], str(number)]
    found = read(made, *more)
    assert found.unread == ()
    assert (found.strategy.recompute, found.strategy.recompute_modules) == (Recompute.NONE, RecomputeModule(0))
    assert made.strategy is not None
    written = list(MINDSPEED.write(made.workload, made.strategy).arguments)
    act = Tensor.MLP_ACTIVATION | Tensor.EXPERT_ACTIVATION
    for number, tensors in ((norms, Tensor.NORM_OUTPUT), (activations, act)):
        assert taken(found, tensors) == by_source(written, taken(found, tensors), 1000 if number is None else number)
    assert not violations(made.workload, found.strategy)


@pytest.mark.parametrize(("model", "devices", "strategy"), LAYOUTS)
def test_a_read_plan_is_written_with_its_numbers(model: str, devices: int, strategy: dict[str, Any]) -> None:
    made = job(model, devices, strategy)
    found = read(made, NORM, ACTIVATION, NUMBER_OF[NORM], "3", NUMBER_OF[ACTIVATION], "1")
    launch = list(MINDSPEED.write(made.workload, found.strategy).arguments)
    assert {name: launch[launch.index(number) + 1] for name, number in NUMBER_OF.items()} == {NORM: "3", ACTIVATION: "1"}
    again = MINDSPEED.read_job(launch, 16)
    assert again.unread == ()
    assert again.strategy.tensor_plan == found.strategy.tensor_plan


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ({"tp": 2, "pp": 4, "switches": {"swap_attention": True}}, ()),
        ({"tp": 2, "pp": 4}, ("--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "2")),
    ],
)
def test_numbers_beside_other_savings_are_not_understood(strategy: dict[str, Any], more: tuple[str, ...]) -> None:
    found = read(job("qwen3-8b", 16, strategy), *more, NORM, NUMBER_OF[NORM], "2")
    assert NUMBER_OF[NORM].removeprefix("--") in {entry.name for entry in found.unread}
    assert found.strategy.tensor_plan is None


def test_a_plan_that_differs_by_stage_is_refused() -> None:
    made = job("qwen3-8b", 16, {"tp": 2, "pp": 2})
    norms = {"dense": {"recompute": ["norm_output"], "swap": []}}
    unlike = parse_job({**made.document, "strategy": {"tp": 2, "pp": 2, "tensor_plan": [[norms, {}]]}})
    assert unlike.strategy is not None
    assert "mindspeed_tensor_plan" in {each.rule for each in violations(unlike.workload, unlike.strategy)}
    assert MINDSPEED.nearest(unlike.workload, unlike.strategy)[0].tensor_plan is None
