"""The model beside a measurement, by hand: an A100 of 312 TFLOPS, 2.039 TB/s, with constants that are easy to reckon with."""

from dataclasses import replace

import pytest

from calibration.measurements.cases import Case, Kind, default_cases
from calibration.measurements.modelled import modelled_s
from calibration.measurements.timing import Measured, Timing
from cost_models.constants import prior_constants
from cost_models.layer.compute import achievable_flops_per_s
from hardware_profiles import catalogue

PROFILE = catalogue.named("a100-sxm-80gb")
CONSTANTS = prior_constants("nvidia").with_values(
    {"matmul_fraction": 1.0, "wave_loss": 0.0, "depth_half": 0.0, "kernel_s": 1e-6, "vector_fraction": 1.0}
)


def modelled(case: Case, *, is_fused: bool = True) -> float | None:
    return modelled_s(Measured(case, "fake", is_fused, Timing(1, 1.0, 1.0, 1.0, 0.0)), PROFILE, CONSTANTS)


def test_a_large_matmul_runs_at_the_best_measured_rate() -> None:
    rate = achievable_flops_per_s(PROFILE, "bf16")
    case = Case(Kind.MATMUL, "matmul", "bf16", (8192, 8192, 8192))
    assert modelled(case) == pytest.approx(2 * 8192**3 / rate + 1e-6)


def test_experts_pad_half_a_tile_each_and_a_loop_launches_each() -> None:
    rate = achievable_flops_per_s(PROFILE, "bf16")
    case = Case(Kind.GROUPED_MATMUL, "grouped_matmul", "bf16", (8, 16384, 4096, 4096))
    one_kernel = 2 * (16384 + 8 * 64) * 4096 * 4096 / rate + 1e-6  # half of 128 rows an expert
    assert modelled(case) == pytest.approx(one_kernel)
    assert modelled(case, is_fused=False) == pytest.approx(one_kernel + 7e-6)


def test_attention_backward_takes_two_and_a_half_times_the_work_at_its_own_rate() -> None:
    sizes = (1, 8192, 32, 32, 128)
    forward = modelled(Case(Kind.ATTENTION, "causal_forward", "bf16", sizes))
    backward = modelled(Case(Kind.ATTENTION, "causal_backward", "bf16", sizes))
    full = modelled(Case(Kind.ATTENTION, "full_forward", "bf16", sizes))
    assert forward is not None
    assert full == pytest.approx(2.0 * forward)
    assert backward == pytest.approx(forward * 2.5 / CONSTANTS.attention_backward_fraction)


@pytest.mark.parametrize(("operation", "bytes_an_element"), [("norm", 4), ("add", 6), ("swiglu", 6), ("cast", 6)])
def test_vector_operators_move_what_they_read_and_write(operation: str, bytes_an_element: float) -> None:
    case = Case(Kind.VECTOR, operation, "bf16", (8192, 4096))
    fused_s = bytes_an_element * 8192 * 4096 / PROFILE.hbm_bytes_per_s
    assert modelled(case) == pytest.approx(fused_s)
    assert modelled(case, is_fused=False) == pytest.approx(2.5 * fused_s)


def test_a_gather_counts_the_shard() -> None:
    gathered = modelled(Case(Kind.COLLECTIVE, "all_gather", "bf16", (8, 2**24)))
    reduced = modelled(Case(Kind.COLLECTIVE, "all_reduce", "bf16", (8, 2**27)))
    assert gathered is not None
    assert reduced is not None
    transfer = 7 / 8 * 2**27 / (PROFILE.tiers[0].bandwidth_bytes_per_s * CONSTANTS.intra_fraction)
    assert gathered == pytest.approx(transfer + 3 * PROFILE.tiers[0].latency_s + CONSTANTS.collective_latency_s)
    assert reduced == pytest.approx(2.0 * (transfer + 3 * PROFILE.tiers[0].latency_s) + CONSTANTS.collective_latency_s)


def test_dispatch_is_what_the_host_takes_for_a_kernel() -> None:
    assert modelled(Case(Kind.DISPATCH, "add", "fp32", (1,))) == CONSTANTS.host_kernel_s


def test_a_precision_that_the_device_lacks_has_no_model() -> None:
    assert modelled(Case(Kind.MATMUL, "matmul", "fp8", (8, 8, 8))) is None


def test_a_layer_is_compared_by_its_pool_alone() -> None:
    assert modelled(Case(Kind.LAYER, "forward_backward", "bf16", (8192, 4096, 14336, 32, 8))) is None


@pytest.mark.parametrize("hardware", catalogue.names())
def test_every_profile_prices_every_default_case_it_can_run(hardware: str) -> None:
    profile = catalogue.named(hardware)
    constants = replace(prior_constants(profile.family))
    for case in default_cases(2):
        found = modelled_s(Measured(case, "fake", True, Timing(1, 1.0, 1.0, 1.0, 0.0)), profile, constants)
        assert (found is None) == (
            case.kind is Kind.LAYER
            or (case.kind in (Kind.MATMUL, Kind.GROUPED_MATMUL) and case.precision not in profile.matmul_flops_per_s)
        )
        assert found is None or 0.0 < found < 10.0
