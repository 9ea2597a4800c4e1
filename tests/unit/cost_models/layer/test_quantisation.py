"""What 8-bit matmuls cost beside themselves, by hand."""

from dataclasses import replace

import pytest

from cost_models.layer.costs import layer_costs
from cost_models.layer.modules import QUANTISED_EXPERT_LAUNCHES
from cost_models.layer.quantisation import quantise_s
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, SPARSE, device, keys, network, workload

LLAMA = replace(DENSE, hidden_size=4096, num_attention_heads=32, num_query_groups=8, kv_channels=128, ffn_hidden_size=14336)


def in_8_bits(model: ModelShape, **values: object) -> Workload:
    """On a GPU whose 8-bit matmuls run at twice the rate of its 16-bit ones."""
    cluster = gpu()
    peaks = {**cluster.profile.matmul_flops_per_s, "fp8": 6e14}
    profile = replace(cluster.profile, matmul_flops_per_s=peaks, achievable_matmul_flops_per_s={"bf16": 2.5e14, "fp8": 5e14})
    return workload(model, cluster=replace(cluster, profile=profile), precision="fp8", **values)


def seconds(job: Workload, *, moe: bool = False, **columns: object) -> tuple[float, float]:
    forward, backward = quantise_s(job, keys(**columns), device(job), moe=moe)
    return float(forward[0]), float(backward[0])


def test_the_operands_of_a_dense_layer() -> None:
    job = in_8_bits(LLAMA, seq_length=8192)
    forward, backward = seconds(job)
    assert forward == worked("quantise-forward")
    # gradients of q, k and v, of the projection, of gate and up, of down
    assert backward == pytest.approx(6 * 8192 * (48 * 128 + 4096 + 2 * 14336 + 4096) / 1.6e12)


def test_scales_along_an_axis_are_written_twice() -> None:
    assert seconds(in_8_bits(LLAMA, seq_length=8192, fp8_recipe="mxfp8"))[0] == worked("mxfp8-cast")


def test_tensor_parallel_ranks_cast_their_share() -> None:
    job = in_8_bits(LLAMA, seq_length=8192)
    assert seconds(job, tp=4, sequence_parallel=True) == pytest.approx([part / 4 for part in seconds(job)])
    assert seconds(job, tp=4)[0] > seconds(job)[0] / 4  # without sequence parallelism every rank casts the whole input


def test_latent_attention_casts_its_latents() -> None:
    mla = LATENT.mla
    assert mla is not None
    assert mla.q_lora_rank
    job = in_8_bits(replace(LATENT, moe=None))
    n, h, heads = 2048, LATENT.hidden_size, LATENT.num_attention_heads
    attention = 2 * h + mla.q_lora_rank + mla.kv_lora_rank + heads * mla.v_head_dim
    assert seconds(job)[0] == pytest.approx(6 * n * (attention + h + LATENT.ffn_hidden_size) / 1.6e12)


def test_16_bits_cast_nothing() -> None:
    assert seconds(workload(SPARSE), moe=True) == (0.0, 0.0)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_activation_inputs_are_shortened_and_lengthened_again(precision: str) -> None:
    job = in_8_bits(SPARSE) if precision == "fp8" else workload(SPARSE, cluster=gpu())
    plain, short = (
        seconds(job, moe=True, features=DEFAULT_FEATURES | more) for more in (Feature(0), Feature.FP8_ACTIVATION_INPUT)
    )
    # 3 B for gate and up of two chosen experts and the shared one, 512 wide
    added = 3 * 2 * 2048 * (2 * 512 + 512) / 1.6e12
    assert [after - before for before, after in zip(plain, short, strict=True)] == pytest.approx([added, added])
    ungated = replace(job, model=replace(SPARSE, gated_linear_unit=False))
    same = [seconds(ungated, moe=True, features=DEFAULT_FEATURES | more) for more in (Feature(0), Feature.FP8_ACTIVATION_INPUT)]
    assert same[0] == same[1]


def test_a_gpu_casts_for_each_expert_unless_a_graph_holds_the_layer() -> None:
    job = in_8_bits(SPARSE)
    assert SPARSE.moe is not None
    experts = SPARSE.moe.num_experts // 4

    def matmul_s(kernel_s: float, features: Feature) -> float:
        columns = keys(ep=4, features=features)
        return float(layer_costs(job, columns, device(job, kernel_s=kernel_s), network(job), moe=True).forward["matmul"][0])

    looped = matmul_s(1e-5, DEFAULT_FEATURES) - matmul_s(1e-5, DEFAULT_FEATURES | Feature.CUDA_GRAPH)
    assert looped == pytest.approx((experts - 1) * (2 + QUANTISED_EXPERT_LAUNCHES) * 1e-5)
    assert matmul_s(0.0, DEFAULT_FEATURES) == matmul_s(0.0, DEFAULT_FEATURES | Feature.CUDA_GRAPH)
