"""Kernel times by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.layer.compute import (
    Device,
    achievable_flops_per_s,
    fused_attention_s,
    matmul_peak_flops_per_s,
    matmul_s,
    unfused_attention_s,
    vector_s,
)
from tests.networks import ascend_a2, gpu
from tests.worked_examples import worked
from tests.workloads import device, workload

JOB = workload()
PLAIN = device(JOB)  # 250 TFLOPS reached of 300, 1.6 TB/s, 24 cores, no losses


def test_a_large_matmul_runs_at_its_best_rate() -> None:
    assert float(matmul_s(8192, 8192, 8192, PLAIN)) == pytest.approx(2 * 8192**3 / 2.5e14)


def test_a_thin_matmul_waits_for_its_weights() -> None:
    # 2 B x (1 x 8192 + 8192 x 8192 + 1 x 8192), one row: 0.13 GFLOP against 134 MB
    assert float(matmul_s(1, 8192, 8192, PLAIN)) == pytest.approx(2 * (8192**2 + 2 * 8192) / 1.6e12)


def test_the_last_wave_a_shallow_depth_and_the_launch_cost_time() -> None:
    real = device(JOB, wave_loss=0.5, depth_half=64.0, kernel_s=1e-5)
    assert float(matmul_s(4096, 4096, 4096, real)) == worked("matmul-time")


def test_expert_matmuls_pad_half_a_tile_each() -> None:
    # 8 experts share 4096 rows: 4096 + 8 x 64 rows of work
    assert float(matmul_s(4096, 4096, 4096, PLAIN, groups=8)) == pytest.approx(2 * 4608 * 4096**2 / 2.5e14)


def test_experts_share_waves_with_those_that_run_beside_them() -> None:
    real = device(JOB, wave_loss=0.5)
    # 16 experts of 256 rows padded by 64: 2.5 x 16 tiles each, 24 cores; four at a time, not all sixteen, fill the waves
    alone, four, all_of_them = (float(matmul_s(4096, 4096, 4096, real, groups=16, at_once=n)) for n in (1, 4, 16))
    busy = 2 * 5120 * 4096**2 / 2.5e14
    assert alone == pytest.approx(busy * (1 + 0.5 / (40 / 24)))
    assert four == pytest.approx(busy * (1 + 0.5 / (160 / 24)))
    assert all_of_them == float(matmul_s(4096, 4096, 4096, real, groups=16)) == pytest.approx(busy * (1 + 0.5 / (640 / 24)))
    assert float(matmul_s(4096, 4096, 4096, real, groups=2, at_once=4)) == float(matmul_s(4096, 4096, 4096, real, groups=2))


def test_no_rows_no_kernel() -> None:
    assert float(matmul_s(0, 4096, 4096, device(JOB, kernel_s=1e-5, wave_loss=0.5))) == 0.0


def test_a_shape_changed_by_one_never_makes_the_time_jump() -> None:
    real = device(JOB, wave_loss=0.5, depth_half=64.0, kernel_s=1e-5)
    sizes = np.arange(256, 4096)
    for times in (matmul_s(sizes, 4096, 4096, real), matmul_s(4096, sizes, 4096, real), matmul_s(4096, 4096, sizes, real)):
        assert (np.diff(times) > 0).all()
        assert (np.diff(times) / times[:-1]).max() < 1.01 / 256


def test_fused_attention() -> None:
    real = device(JOB, attention_forward_fraction=0.455, attention_half_length=1440.0, attention_backward_fraction=0.75)
    flops = 2 * 8192.0**2 * 32 * 128
    forward, backward = fused_attention_s(flops, 8192, 128, real)
    assert float(forward) == worked("attention-time")
    assert float(backward) == worked("attention-backward-time")


def that_has(peaks: tuple[str, ...]) -> float:
    """Compute capability of the data-centre GPU that brought the last of the precisions."""
    return {"fp8": 9.0, "nvfp4": 10.0}[peaks[-1]] if peaks else 8.0


def test_attention_kernels_by_generation() -> None:
    def rate(*peaks: str, year: float | None = None, portable: bool = False) -> tuple[float, float]:
        """Long-sequence share of the peak, and the half length."""
        site = gpu()
        profile = replace(
            site.profile, matmul_flops_per_s=dict.fromkeys(("bf16", *peaks), 3e14), compute_capability=that_has(peaks)
        )
        job = workload(cluster=replace(site, profile=profile), year=year, portable_attention=portable)
        values = {"attention_half_length": 350.0, "portable_attention_half_length": 400.0, "triton_attention_half_length": 1300.0}
        priced = device(job, attention_forward_fraction=0.5, portable_attention_fraction=0.6, **values)
        return priced.attention_flops_per_s / 3e14, priced.attention_half_length

    assert rate("fp8") == (0.5, 350.0)  # Hopper's own kernels
    assert rate() == rate(portable=True) == (0.6, 400.0)  # FlashAttention-2 on Ampere
    assert rate("fp8", portable=True) == (0.3, 400.0)  # Hopper runs Ampere's instruction at half its peak
    assert rate("fp8", "nvfp4", portable=True) == (0.15, 400.0)
    assert rate(portable=True, year=2023) == (0.25, 1300.0)  # Triton's
    assert rate("fp8", year=2023) == (0.5, 350.0)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize(
    ("precisions", "capabilities"),
    [
        (("bf16",), (8.0, 8.9, 9.0, 10.0, 12.0)),
        (("bf16", "fp8"), (8.9, 9.0, 10.0, 12.0)),
        (("bf16", "fp8", "nvfp4"), (10.0, 12.0)),
    ],
)
def test_attention_of_a_gpu_of_unstated_capability_is_no_faster_than_that_of_any_it_may_be(
    portable: bool, precisions: tuple[str, ...], capabilities: tuple[float, ...]
) -> None:
    def seconds(capability: float | None, length: int, head_dim: int) -> float:
        site, rates = gpu(), dict.fromkeys(precisions, 3e14)
        profile = replace(site.profile, family="nvidia", matmul_flops_per_s=rates, compute_capability=capability)
        job = workload(cluster=replace(site, profile=profile), portable_attention=portable)
        priced = Device.of(job, prior_constants("nvidia"))
        return float(fused_attention_s(1e12, length, head_dim, priced)[0])

    for length in (512, 4096, 131_072):
        for head_dim in (64, 128):
            slowest = max(seconds(capability, length, head_dim) for capability in capabilities)
            assert slowest <= seconds(None, length, head_dim) < 1.3 * slowest


def test_only_published_runs_of_plain_megatron_are_slow_on_blackwell() -> None:
    def rate(*peaks: str, **software: object) -> float:
        site = gpu()
        profile = replace(
            site.profile,
            matmul_flops_per_s=dict.fromkeys(("bf16", *peaks), 3e14),
            achievable_matmul_flops_per_s={},
            compute_capability=that_has(peaks),
        )
        job = workload(cluster=replace(site, profile=profile), **software)
        return device(job, stock_blackwell_factor=1.25).linear_flops_per_s / 3e14

    assert rate("fp8", "nvfp4", stack="megatron-lm") == rate("fp8", stock_matmuls=True) == pytest.approx(0.86)
    assert rate("fp8", "nvfp4", stock_matmuls=True) == pytest.approx(0.86 / 1.25)


def test_narrow_heads_run_a_tenth_slower() -> None:
    wide, narrow = fused_attention_s(1e12, 4096, 128, PLAIN)[0], fused_attention_s(1e12, 4096, 64, PLAIN)[0]
    assert float(narrow / wide) == pytest.approx(1.1096, rel=1e-4)  # 2^0.15
    assert float(fused_attention_s(1e12, 4096, 192, PLAIN)[0]) == float(wide)


@pytest.mark.parametrize(
    ("peaks", "portable", "share"),
    [((), False, 0.901), (("fp8",), False, 0.812), (("fp8", "nvfp4"), False, 0.651), (("fp8",), True, 0.901)],
)
def test_narrow_heads_by_generation(peaks: tuple[str, ...], portable: bool, share: float) -> None:
    """H100 347 of 433, B200 526 of 818 TFLOPS at 4,096 tokens, 0.83 and 0.66 at 16,384 [aiconfigurator]."""
    site = gpu()
    profile = replace(site.profile, matmul_flops_per_s=dict.fromkeys(("bf16", *peaks), 3e14), compute_capability=that_has(peaks))
    priced = device(workload(cluster=replace(site, profile=profile), portable_attention=portable))
    wide, narrow = (fused_attention_s(1e12, 4096, head_dim, priced)[0] for head_dim in (128, 64))
    assert float(wide / narrow) == pytest.approx(share, abs=1e-3)


def test_a_step_waits_for_the_slowest_device_of_its_nodes() -> None:
    def of(num_devices: int) -> float:
        return device(
            replace(JOB, cluster=replace(JOB.cluster, num_devices=num_devices)), node_doubling_fraction=0.005
        ).time_factor

    assert of(1) == of(JOB.cluster.profile.devices_per_node) == 1.0
    assert of(16 * JOB.cluster.profile.devices_per_node) == worked("slowest-device")


def test_attention_that_writes_its_scores() -> None:
    # 4 d FLOPs and 10 B a score, no causal skipping; backward twice the FLOPs and 1.6 times the traffic
    forward, backward = unfused_attention_s(1e9, 128, PLAIN)
    matmul, traffic = 4 * 128 * 1e9 / 2.5e14, 10 * 1e9 / 1.6e12
    assert float(forward) == pytest.approx(matmul + traffic)
    assert float(backward) == pytest.approx(2 * matmul + 1.6 * traffic)


def test_scores_of_odd_heads_leave_the_tensor_cores() -> None:
    forward, _ = unfused_attention_s(1e9, 100, PLAIN)
    assert float(forward) == pytest.approx(4 * 100 * 1e9 / 1e13 + 10 * 1e9 / 1.6e12)


def test_vector_work_is_bound_by_memory() -> None:
    assert float(vector_s(1.6e9, PLAIN)) == pytest.approx(1e-3)
    assert float(vector_s(1.6e9, device(JOB, vector_fraction=0.8))) == pytest.approx(1.25e-3)


def test_peaks_stand_in_for_each_other_but_are_never_made_up() -> None:
    profile = ascend_a2().profile
    assert matmul_peak_flops_per_s(profile, "fp16") == 3e14  # only BF16 is known
    with pytest.raises(ValueError, match="test has no fp8 matmul peak; it has bf16"):
        matmul_peak_flops_per_s(profile, "fp8")


def test_an_unmeasured_rate_is_a_share_of_the_peak() -> None:
    assert achievable_flops_per_s(ascend_a2().profile, "fp16") == 2.5e14
    unmeasured = replace(ascend_a2().profile, achievable_matmul_flops_per_s={})
    assert achievable_flops_per_s(unmeasured, "bf16") == pytest.approx(0.86 * 3e14)
