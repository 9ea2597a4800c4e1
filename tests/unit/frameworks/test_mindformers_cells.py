"""Patterns of recompute and swap, matched against the tree of a layer as the framework matches them."""

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.mindformers import writer as mindformers
from frameworks.mindformers.cells import block_size, counts_of, modules_of, numbers_of_layers, spread
from frameworks.mindformers.nearest import nearest
from frameworks.registry import BY_NAME
from tests.oracle.launch_files.parsing import parse_arguments, parse_launch
from tests.unit.frameworks.plans import shape, workload

SWAP = DEFAULT_FEATURES | Feature.SWAP_ATTENTION
LINEAR = {"cast": None, "matmul": None, "add": None, "reshape": None}
NORMS = {
    ("RMSNorm", True): ("norm", "cast"),
    ("RMSNorm", False): ("square", "mean", "add", "rsqrt", "mul", "mul2", "cast"),
    ("LayerNorm", True): ("layer_norm", "cast"),
    ("LayerNorm", False): ("mean", "mean2", "square", "sqrt", "sub", "add", "add2", "mul", "real_div", "cast"),
}
ACTIVATIONS = {"swiglu": ("swiglu",), "silu": ("silu",), "gelu": ("gelu",)}


def layer(model: ModelShape, options: dict[str, Any]) -> dict[str, Any]:
    """Cells and operators (None) of a dense layer, for the kernels that the options choose."""
    config = {name.removeprefix("model.model_config."): value for name, value in options.items()}
    norm = dict.fromkeys(NORMS[config["normalization"], config["fused_norm"]])
    act, fused = config["hidden_act"], config.get("bias_swiglu_fusion", False)
    assert act in (("swiglu",) if fused else ("silu", "gelu"))  # the fused kernel listens to this name alone
    product = {"mul": None} if model.gated_linear_unit else {}
    mlp = {"linear_fc1": LINEAR, "linear_fc2": LINEAR, "activation_func": dict.fromkeys(ACTIVATIONS[act]), "split": None}
    attention = {"linear_qkv": LINEAR, "linear_proj": LINEAR, "core_attention": {"flash_attention": None, "reshape": None}}
    return {
        "input_layernorm": norm,
        "self_attention": attention,
        "pre_mlp_layernorm": norm,
        "mlp": {**mlp, **product},
        "add": None,
    }


def matched(tree: dict[str, Any], pattern: str) -> set[str]:
    """Paths that a pattern chooses: one regular expression a step, each for a whole name."""
    step, *rest = pattern.split(r"\.")
    found = set()
    for name, below in tree.items():
        if re.fullmatch(step, name):
            if not rest:
                found.add(name)
            elif below is not None:
                found |= {f"{name}.{path}" for path in matched(below, r"\.".join(rest))}
    return found


def options_of(plan: ParallelStrategy, model: str = "dense") -> dict[str, Any]:
    launch = mindformers.arguments(workload("mindformers", model), plan)
    return {name: yaml.safe_load(value) for name, _, value in (argument.partition("=") for argument in launch.arguments)}


FLAT = ParallelStrategy(tp=2, pp=2, dp=8, sequence_parallel=True, schedule=canonical_schedule(2, 1))


@pytest.mark.parametrize("model", ["dense"])
@pytest.mark.parametrize("features", [DEFAULT_FEATURES, DEFAULT_FEATURES & ~Feature.FUSED_NORM & ~Feature.FUSED_SWIGLU])
@pytest.mark.parametrize(
    ("module", "parts"),
    [
        (RecomputeModule.LAYERNORM, {"input_layernorm", "pre_mlp_layernorm"}),
        (RecomputeModule.MLP_ACT, {"mlp.activation_func"}),
        (RecomputeModule.MLP, {"mlp"}),
    ],
)
def test_every_pattern_finds_what_it_is_for(model: str, features: Feature, module: RecomputeModule, parts: set[str]) -> None:
    plan = replace(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=module, features=features)
    options = options_of(plan, model)
    tree = layer(shape("mindformers", model), options)
    chosen = options["recompute_config.select_recompute"]
    found = [matched(tree, pattern) for pattern in chosen]
    assert chosen
    assert all(found)  # no pattern is idle
    everything = set.union(*found)
    for part in parts:
        assert any(path == part or path.startswith(f"{part}.") for path in everything)
    if module is RecomputeModule.LAYERNORM:  # to its last operator, else its result stays
        assert everything == {f"{part}.{name}" for part in parts for name in tree[part]}
    if (
        module is RecomputeModule.MLP_ACT
        and shape("mindformers", model).gated_linear_unit
        and Feature.FUSED_SWIGLU not in features
    ):
        assert "mlp.mul" in everything
    assert modules_of(chosen) == module


def test_swap_finds_the_attention_kernel_and_the_framework_s_default_would_not() -> None:
    options = options_of(replace(FLAT, features=SWAP))
    tree = layer(shape("mindformers", "dense"), options)
    (swapped,) = options["model.model_config.op_swap"]  # the layers read this place
    assert options["model.model_config.swap"] is True
    assert options["swap_config.swap"] is True  # and the check of recompute that
    assert matched(tree, swapped["op_name"]) == {"self_attention.core_attention.flash_attention"}
    assert matched(tree, r".*\.flash_attention") == set()
    assert options["context.memory_optimize_level"] == "O0"


@pytest.mark.parametrize(("pp", "inlined"), [(1, True), (2, False)])
def test_swap_without_a_pipeline_needs_the_layers_inlined(pp: int, inlined: bool) -> None:
    plan = ParallelStrategy(tp=2, pp=pp, dp=16 // pp, sequence_parallel=True, schedule=canonical_schedule(pp, 1), features=SWAP)
    launch = mindformers.arguments(workload("mindformers", "dense"), plan)
    assert ("ENABLE_LAZY_INLINE_NO_PIPELINE" in launch.environment) is inlined


def test_what_true_stands_for_is_the_activation_function() -> None:
    assert modules_of(True) == RecomputeModule.MLP_ACT
    assert modules_of([r".*\.norm", r"feed_forward\.mul"]) == RecomputeModule.LAYERNORM  # half of a pair is not the module


def test_layers_of_a_stage_go_round_its_chunks() -> None:
    # Stage 0 holds 2 + 3 layers, stage 1 3 + 2: four of stage 0 are 2 and 2, five of stage 1 are 3 and 2.
    layout = ((2, 3), (3, 2))
    counts = spread((4, 5), layout)
    assert counts == [[2, 3], [2, 2]]
    # Layers 0 1 | 2 3 4 | 5 6 7 | 8 9: of the third virtual stage the first two.
    assert numbers_of_layers(counts, layout) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert counts_of([0, 1, 2, 3, 4, 5, 6, 8, 9, 77], layout) == counts
    assert block_size(counts, layout) is None
    assert block_size([[1, 1], [1, 1]], layout) == 1
    assert block_size([[2, 3], [3, 2]], layout) == 3


@pytest.mark.parametrize("vpp", [1, 2])
@pytest.mark.parametrize(
    "recompute",
    [
        {"recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1},
        {"recompute_method": RecomputeMethod.BLOCK, "recompute_num_layers": 3},
        {"recompute_method": RecomputeMethod.BLOCK, "recompute_num_layers": 3, "recompute_layers_per_stage": (5, 2)},
        {"recompute_method": RecomputeMethod.BLOCK, "recompute_num_layers": 4, "recompute_layers_per_stage": (4, 4)},
    ],
)
def test_beside_swap_layers_are_numbered_and_come_back(vpp: int, recompute: dict[str, Any]) -> None:
    made = workload("mindformers", "dense")
    plan = replace(FLAT, vpp=vpp, schedule=canonical_schedule(2, vpp), features=SWAP, recompute=Recompute.FULL, **recompute)
    launch = mindformers.arguments(made, plan)
    written = options_of(plan)["recompute_config.recompute"]
    if recompute["recompute_method"] is RecomputeMethod.BLOCK:
        given = recompute.get("recompute_layers_per_stage")
        assert len(written) == (sum(given) if given else 3 * 2 * vpp)
        half = made.model.num_layers // (2 * vpp)
        assert {0, half} <= set(written)  # the first layers of virtual stages 0 and 1
    else:
        assert written is True
    read = parse_arguments(list(launch.arguments), framework="mindformers")
    assert read.problems == ()
    assert read.strategy == nearest(made, plan)[0]
    start = Start("Plan 1", 32, 8)
    assert parse_launch(launch_file("mindformers", launch_block(made, plan)["mindformers"], start)[1]).strategy == read.strategy


def test_lists_of_the_second_chunk_of_a_v_are_by_rank() -> None:
    # The framework turns the second row round, and sends its layers down the ranks (LayerSetting of its utils.py).
    layout = ((3, 2, 2, 2), (2, 2, 2, 1))  # in the order of the model, whose last layers rank 0 runs
    plan = ParallelStrategy(
        pp=4, vpp=2, dp=1, micro_batch_size=1, schedule=Schedule.ZBV, layer_layout=layout,
        recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=2,
    )  # fmt: skip
    job = workload("mindformers", "dense")
    job = replace(job, model=replace(job.model, num_layers=16))
    launch = mindformers.arguments(job, plan)
    assert "model.model_config.offset=[[1, 0, 0, 0], [-1, 0, 0, 0]]" in launch.arguments
    assert "recompute_config.recompute=[[2, 2, 2, 2], [1, 2, 2, 2]]" in launch.arguments
    assert BY_NAME["mindformers"].read(launch.arguments, None).layer_layout == layout
