from collections.abc import Callable
from typing import Any

import pytest

from calibration.records.training import RunRecord
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Recompute, RecomputeMethod

Read = Callable[..., RunRecord]
NONE, SELECTIVE, FULL = Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL
BLOCK, UNIFORM = RecomputeMethod.BLOCK, RecomputeMethod.UNIFORM


@pytest.mark.parametrize(
    ("recompute", "granularity", "method", "num_layers"),
    [
        ({"granularity": "none"}, NONE, RecomputeMethod.NONE, 0),
        ({"granularity": "null"}, NONE, RecomputeMethod.NONE, 0),
        ({"granularity": "full"}, FULL, UNIFORM, 1),
        ({"granularity": "full", "method": "uniform", "num_layers": 4}, FULL, UNIFORM, 4),
        ({"granularity": "full", "method": "block", "num_layers": 3}, FULL, BLOCK, 3),
        ({"granularity": "full", "method": "block", "num_layers": 0}, NONE, RecomputeMethod.NONE, 0),
        ({"granularity": "full", "raw": {"checkpoint-policy": "block"}}, FULL, BLOCK, 25),
        ({"granularity": "full", "raw": "--checkpoint-activations"}, FULL, UNIFORM, 1),
        ({"granularity": "full_and_selective"}, FULL, UNIFORM, 1),
        ({"granularity": "selective", "modules": ["every second layer checkpointed"]}, FULL, BLOCK, 4),  # of 8 a stage
    ],
)
def test_granularity_and_method(
    read: Read, recompute: dict[str, Any], granularity: Recompute, method: RecomputeMethod, num_layers: int
) -> None:
    record = read({"strategy.recompute": recompute})
    strategy = record.strategy
    assert (strategy.recompute, strategy.recompute_method, strategy.recompute_num_layers) == (granularity, method, num_layers)
    assert strategy.recompute_modules == 0
    assert record.recompute_stated


@pytest.mark.parametrize(
    ("modules", "expected", "warns"),
    [
        (None, RecomputeModule.CORE_ATTN, False),
        (["mla_up_proj", "moe_act"], RecomputeModule.MLA_UP_PROJ | RecomputeModule.MLP_ACT, False),
        (["op-level SAC"], RecomputeModule.EVERY_OTHER_MATMUL, False),
        (["op-level SAC (every second matmul saved)"], RecomputeModule.EVERY_OTHER_MATMUL, False),
        (["activations of some operators"], RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT, True),
    ],
)
def test_selective_modules(read: Read, modules: list[str] | None, expected: RecomputeModule, warns: bool) -> None:
    record = read({"strategy.recompute": {"granularity": "selective", "modules": modules}})
    assert (record.strategy.recompute, record.strategy.recompute_modules) == (SELECTIVE, expected)
    assert bool(record.warnings) == warns


@pytest.mark.parametrize(
    ("raw", "granularity", "modules"),
    [
        ({}, SELECTIVE, RecomputeModule.MLP_ACT),
        ({"recompute-activation-function-num-layers": "8"}, SELECTIVE, RecomputeModule.MLP_ACT),
        ({"recompute-activation-function-num-layers": "4"}, SELECTIVE, RecomputeModule.MLP_ACT),
        ({"recompute-activation-function-num-layers": "1"}, NONE, RecomputeModule(0)),  # one of the 8 layers of a stage
    ],
)
def test_activation_function_recompute_counts_when_it_covers_half_of_a_stage(
    read: Read, raw: dict[str, Any], granularity: Recompute, modules: RecomputeModule
) -> None:
    record = read(
        {"strategy.features": ["recompute_activation_function"], "strategy.recompute": {"granularity": "none", "raw": raw}}
    )
    assert (record.strategy.recompute, record.strategy.recompute_modules) == (granularity, modules)


def test_block_recompute_leaves_the_switches_to_the_other_layers(read: Read) -> None:
    features = ["recompute_activation_function", "recompute_norm"]
    block = read(
        {"strategy.features": features, "strategy.recompute": {"granularity": "full", "method": "block", "num_layers": 1}}
    )
    assert block.strategy.recompute_modules == RecomputeModule.MLP_ACT | RecomputeModule.LAYERNORM
    uniform = read({"strategy.features": features, "strategy.recompute": {"granularity": "full"}})
    assert uniform.strategy.recompute_modules == 0


def test_layers_a_pipeline_rank_differ_from_layers_a_virtual_stage(read: Read) -> None:
    recompute = {
        "granularity": "full",
        "method": "block",
        "num_layers": 1,
        "raw": {"enable-recompute-layers-per-pp-rank": True},
    }
    assert read({"strategy.recompute": recompute}).strategy.recompute_layers_per_stage is None
    assert read({"strategy.recompute": recompute, "strategy.vpp": 2}).strategy.recompute_layers_per_stage == (1, 1, 1, 1)


@pytest.mark.parametrize("recompute", [None, {}, {"granularity": "unknown"}, {"granularity": "sometimes"}])
def test_what_is_not_stated_is_marked(read: Read, recompute: dict[str, Any] | None) -> None:
    record = read({"strategy.recompute": recompute})
    assert record.strategy.recompute is NONE
    assert not record.recompute_stated


def test_offload_settles_recompute(read: Read) -> None:
    record = read({"strategy.recompute": None, "strategy.offload": "cpu_offloading_num_layers=20"})
    assert record.recompute_stated
    assert record.warnings == ("strategy.offload: 'cpu_offloading_num_layers=20' is not modelled.",)


@pytest.mark.parametrize(
    ("changes", "plan", "stated"),
    [
        ({"granularity": "per_stage", "raw": {"recompute": [3, 0]}}, (3, 0, 0, 0), True),  # of four ranks
        ({"granularity": "per_stage", "raw": {"recompute": [8, 6, 4, 2]}}, (8, 6, 4, 2), True),
        ({"granularity": "per_stage", "raw": {"recompute": [[4, 3, 2, 1], [4, 3, 2, 1]]}}, (8, 6, 4, 2), True),  # by chunk
        ({"granularity": "full", "num_layers": [2, 1, 1, 0]}, (2, 1, 1, 0), True),
        ({"granularity": "per_stage", "raw": {"recompute": [0, 0, 0, 0]}}, None, True),
        ({"granularity": "per_stage", "raw": {"recompute": [1, 1, 1, 1, 1]}}, None, False),  # more than ranks
        ({"granularity": "per_stage"}, None, False),
    ],
)
def test_layers_of_each_stage_are_read(read: Read, changes: dict[str, Any], plan: tuple[int, ...] | None, stated: bool) -> None:
    record = read({"software.framework": "MindFormers", "strategy.recompute": changes})
    assert record.strategy.recompute_layers_per_stage == plan
    assert record.recompute_stated is stated
    assert (record.strategy.recompute is Recompute.FULL) == (plan is not None)
