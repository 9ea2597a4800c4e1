"""Bytes that layers keep in 8 bits, and what casts move, by the way that operands are scaled. Worked by hand."""

from dataclasses import replace

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.quantisation import quantise_s
from cost_models.layer.tensors import tensor_costs
from cost_models.shapes.layer_keys import LayerKeys
from cost_models.shapes.tensors import Tensor
from cost_models.shapes.workload import Cluster, Workload
from tests.networks import ascend_a2, gpu
from tests.worked_examples import worked
from tests.workloads import GROUPED, SPARSE, device, keys, network, workload

N = 2048.0  # tokens of a micro batch of one sequence
SCALED = 33 / 32  # a byte, and a scale: of 8 bits for 32 elements, or of 32 bits for 128


def parts(job: Workload, key: LayerKeys, *, moe: bool = False) -> dict[str, float]:
    return {name: float(value[0]) for name, value in layer_activations(job, key, moe=moe).saved.items() if value[0]}


def with_rates(made: Cluster, capability: float | None = None, **rates: float) -> Cluster:
    profile = replace(made.profile, matmul_flops_per_s={"bf16": 3e14, **rates}, compute_capability=capability)
    return replace(made, profile=profile)


CHIPS = {"hopper": with_rates(gpu(), 9.0, fp8=6e14), "blackwell": with_rates(gpu(), 10.0, fp8=6e14, nvfp4=1.2e15)}


def on_gpus(recipe: str | None, **values: object) -> Workload:
    return workload(cluster=gpu(), precision="fp8", fp8_recipe=recipe, **values)


def on_npus(recipe: str, *, precision: str = "fp8", **values: object) -> Workload:
    return workload(stack="mindspeed-llm", precision=precision, fp8_recipe=recipe, **values)


@pytest.mark.parametrize(
    ("recipe", "each"), [(None, 1.0), ("delayed", 1.0), ("tensorwise", 1.0), ("blockwise", SCALED), ("mxfp8", SCALED)]
)
def test_transformer_engine_keeps_one_copy_of_an_input_and_its_scales(recipe: str | None, each: float) -> None:
    found = parts(on_gpus(recipe), keys())
    assert found["norm_output"] == 2 * each * 1024 * N  # before q, k and v, and before gate and up
    assert found["mlp"] == (2 * 2 + each) * 4096 * N  # gate and up in 16 bits, what enters the second matmul in 8


def test_4_bits_keep_half_a_byte_and_a_scale_for_16_elements() -> None:
    found = parts(workload(cluster=gpu(), precision="nvfp4"), keys())
    each = 0.5 + 1 / 16
    assert found["norm_output"] == 2 * each * 1024 * N
    assert found["mlp"] == (2 * 2 + each) * 4096 * N


@pytest.mark.parametrize(
    ("recipe", "values", "each"),
    [
        (None, {}, 0.0),
        ("delayed", {}, 1.0),
        ("tensorwise", {}, 0.0),  # the output of fused attention, which is there anyway, serves the projection too
        ("mxfp8", {}, 0.0),
        ("mxfp8", {"year": 2025.5}, SCALED),  # core 0.13 kept both
    ],
)
def test_the_projection_behind_attention_keeps_a_copy(recipe: str | None, values: dict[str, object], each: float) -> None:
    wide = parts(workload(cluster=gpu(), **values), keys())["attention"]
    assert parts(on_gpus(recipe, **values), keys())["attention"] == wide + each * 1024 * N


def test_mindspeed_keeps_a_cast_copy_of_the_weights_for_every_micro_batch() -> None:
    weights = 1024 * 128 * (2 * 8 + 2 * 8) + 3 * 1024 * 4096  # 16,777,216
    assert parts(on_npus("mxfp8"), keys())["cast_weights"] == weights * SCALED
    assert parts(on_npus("mxfp8"), keys(tp=4))["cast_weights"] == weights * SCALED / 4
    assert parts(on_npus("blockwise"), keys())["cast_weights"] == weights + weights / 16384 * 4
    assert parts(on_npus("tensorwise", precision="hif8"), keys())["cast_weights"] == weights
    qwen = replace(GROUPED, hidden_size=4096, num_attention_heads=32, num_query_groups=8, ffn_hidden_size=12288)
    assert parts(on_npus("mxfp8", model=qwen), keys())["cast_weights"] == worked("cast-weights")
    assert "cast_weights" not in parts(workload(stack="mindspeed-llm"), keys())
    assert "cast_weights" not in parts(on_gpus("mxfp8"), keys())
    experts = parts(on_npus("mxfp8", model=SPARSE), keys(ep=4), moe=True)["cast_weights"]
    assert experts == (1024 * 128 * 32 + 3 * 1024 * 512 + 4 * 3 * 1024 * 512) * SCALED  # attention, the shared one, 4 of 16


def test_mindspeed_keeps_dense_inputs_in_8_bits_and_those_of_experts_in_16() -> None:
    wide = parts(workload(stack="mindspeed-llm"), keys())
    found = parts(on_npus("mxfp8"), keys())
    assert found["norm_output"] == 2 * SCALED * 1024 * N
    assert found["mlp"] == (4 + SCALED) * 4096 * N
    assert found["attention"] == wide["attention"] + SCALED * 1024 * N
    in_sixteen = parts(workload(SPARSE, stack="mindspeed-llm"), keys(ep=4), moe=True)["routed_experts"]
    in_groups = parts(on_npus("mxfp8", model=SPARSE), keys(ep=4), moe=True)["routed_experts"]
    as_wholes = parts(on_npus("tensorwise", model=SPARSE), keys(ep=4), moe=True)["routed_experts"]
    assert in_groups == in_sixteen
    rows = 2 * N  # two experts a token
    assert as_wholes == in_sixteen + rows * (1024 + 512)  # the cast copies wait beside the 16 bits


def test_mindspeed_keeps_what_sequence_parallelism_gathered() -> None:
    key = keys(tp=4, sequence_parallel=True)
    assert parts(on_npus("mxfp8"), key)["norm_output"] == 2 * SCALED * 1024 * N
    assert parts(on_gpus("mxfp8"), key)["norm_output"] == 2 * SCALED * 1024 * N / 4


@pytest.mark.parametrize(
    ("recipe", "chip", "each"),
    [
        (None, "hopper", 6.0),
        ("tensorwise", "hopper", 2 + 2 + 2.0),  # for the largest value, for the cast, two copies
        ("delayed", "hopper", 2 + 2.0),  # the scale is known
        ("blockwise", "hopper", 2 + 2 * SCALED),
        ("delayed", "blackwell", 2 + 1.0),  # its matmuls take the copy by rows and by columns
        ("tensorwise", "blackwell", 2 + 2 + 1.0),
        ("mxfp8", "blackwell", 2 + 2 * SCALED),
        (None, "blackwell", 6.0),
    ],
)
def test_what_a_cast_moves(recipe: str | None, chip: str, each: float) -> None:
    job = workload(cluster=CHIPS[chip], precision="fp8", fp8_recipe=recipe)
    forward, backward = quantise_s(job, keys(), device(job), moe=False)
    entering, leaving = N * (3 * 1024 + 4096), N * (3 * 1024 + 1024 + 2 * 4096 + 1024)
    assert float(forward[0]) == pytest.approx(each * entering / 1.6e12)
    assert float(backward[0]) == pytest.approx(each * leaving / 1.6e12)


def test_mindspeed_casts_the_weights_in_every_forward() -> None:
    job = on_npus("mxfp8", cluster=with_rates(ascend_a2(), fp8=6e14))
    forward, _ = quantise_s(job, keys(), device(job), moe=False)
    assert float(forward[0]) == pytest.approx((2 + 2 * SCALED) * (N * (3 * 1024 + 4096) + 16_777_216) / 1.6e12)


def test_the_copy_for_the_projection_is_no_tensor_that_is_cheap_to_compute_again() -> None:
    job = on_gpus("delayed", year=2026.0)
    job = replace(job, cluster=CHIPS["hopper"])
    plain = workload(cluster=CHIPS["hopper"], year=2026.0)
    found, wide = (tensor_costs(each, keys(), device(each), network(each), moe=False).bytes for each in (job, plain))
    assert float(found[Tensor.ATTENTION_REST][0]) == 1024 * N
    assert Tensor.ATTENTION_REST not in wide
    same = (Tensor.ROTARY_INPUTS, Tensor.QUERY_KEY_VALUE, Tensor.ATTENTION_OUTPUT)
    assert [float(found[each][0]) for each in same if each in found] == [float(wide[each][0]) for each in same if each in wide]
