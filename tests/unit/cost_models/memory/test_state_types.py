"""Adam whose states have types of their own: bytes of states, copies while it runs, time of an update, bytes that are saved."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.delivery.state import saved_state
from cost_models.memory.model_states import ModelStates, StageParameters, model_states
from cost_models.memory.peak import optimizer_transient_bytes
from cost_models.shapes.optimizers import Optimizer, StateTypes
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import optimizer_s
from tests.networks import gpu
from tests.workloads import batch, constants, device, workload

P, D = 1e9, 16
IN_BF16 = DEFAULT_FEATURES | Feature.GRAD_REDUCE_IN_BF16


def typed(*types: str, **values: Any) -> Workload:
    return workload(cluster=gpu(), optimizer=Optimizer(state_types=StateTypes(*types)), **values)


def held(dense: float = P, experts: float = 0.0) -> StageParameters:
    return StageParameters(*(np.array([[value]]) for value in (dense, experts, *[0.0] * 6)))


def states(job: Workload, parameters: StageParameters | None = None, **columns: Any) -> ModelStates:
    return model_states(job, batch(dp=D, **columns), parameters or held())


@pytest.mark.parametrize(
    ("types", "values", "master", "moments"),
    [
        (("fp32", "fp32", "fp32"), {}, 2, 8),  # of BF16 weights' master the last 16 bits
        (("fp32", "fp32", "fp32"), {"precision": "fp16"}, 4, 8),  # FP16 weights have no part of it
        (("fp16", "fp8", "fp8"), {}, 2, 2),
        (("fp32", "fp16", "fp8"), {}, 2, 3),
        (("fp32", "bf16", "fp32"), {}, 2, 6),
        (("fp16", "bf16", "bf16"), {}, 2, 4),
        (("fp32", "fp8", "fp8"), {"precision": "fp8"}, 2, 2),
        (("fp32", "fp8", "fp8"), {"precision": "fp8", "fp8_recipe": "delayed"}, 2, 2),
        (("fp32", "fp8", "fp8"), {"precision": "fp8", "fp8_recipe": "tensorwise"}, 4, 2),  # Megatron keeps the master there
        (("fp16", "fp8", "fp8"), {"precision": "fp8", "fp8_recipe": "tensorwise"}, 2, 2),
    ],
)
def test_bytes_of_master_weights_and_moments(types: tuple[str, ...], values: dict[str, Any], master: int, moments: int) -> None:
    found = states(typed(*types, **values))
    assert (found.master[0, 0], found.moments[0, 0]) == (P / D * master, P / D * moments)


@pytest.mark.parametrize(
    ("types", "copied"),
    [
        (("fp32", "fp32", "fp32"), 0),
        (("fp32", "fp8", "fp8"), 8),
        (("fp16", "fp16", "fp8"), 12),
        (("fp32", "bf16", "fp32"), 4),
        (("fp16", "bf16", "bf16"), 4),  # the kernel takes both moments in BF16 as they are
    ],
)
def test_states_in_fewer_bits_are_copied_to_fp32_while_the_optimizer_runs(types: tuple[str, ...], copied: int) -> None:
    job, parameters = typed(*types), held(P, 0.25 * P)
    found = states(job, parameters, ep=1)
    assert found.working[0, 0] == P / D * copied  # experts have an optimizer of their own, whose copies are fewer
    transient = optimizer_transient_bytes(job, batch(dp=D), parameters, found)
    assert transient[0, 0] == P / D * copied


def test_gradients_in_16_bits_are_read_as_they_are() -> None:
    plain = states(workload(cluster=gpu()), features=IN_BF16)
    found = states(typed("fp32", "fp8", "fp8"), features=IN_BF16)
    assert (plain.gradient_copies[0, 0], found.gradient_copies[0, 0]) == (4 * P / D, 0.0)
    assert found.gradients[0, 0] == 2 * P
    blockwise = typed("fp32", "fp8", "fp8", precision="fp8", fp8_recipe="blockwise")
    assert states(blockwise, features=IN_BF16).gradient_copies[0, 0] == 4 * P / D  # there Megatron's master takes FP32 gradients


@pytest.mark.parametrize(
    ("types", "bytes_each"),
    [
        # Gradient 4, weight 2 read and 2 written, remainder 2 and 2, moments 2 x 8.
        (("fp32", "fp32", "fp32"), 4 + 4 + 4 + 16),
        # Gradient 4, weight 2 written, master 2 and 2, moments 2 x 2; FP32 copies: 9 passes of the master, 5 of each moment.
        (("fp16", "fp8", "fp8"), 4 + 2 + 4 + 4 + 4 * (9 + 5 + 5)),
        # Gradient 4, weight 4, remainder 4, moments 2 x 6; 4 passes of the first.
        (("fp32", "bf16", "fp32"), 4 + 4 + 4 + 12 + 4 * 4),
        (("fp16", "bf16", "bf16"), 4 + 2 + 4 + 8 + 4 * 9),
    ],
)
def test_an_update_moves_states_and_their_copies(types: tuple[str, ...], bytes_each: int) -> None:
    job = typed(*types)
    found = float(optimizer_s(job, batch(dp=D), held(), device(job)).max())
    plain = workload(cluster=gpu())
    usual = float(optimizer_s(plain, batch(dp=D), held(), device(plain)).max())
    assert found / usual == pytest.approx((bytes_each / D + 8) / (30 / D + 8))


def optimizer_time_s(job: Workload, **columns: Any) -> float:
    rates = device(workload(cluster=gpu()))  # which has no peak in 8 bits
    return float(optimizer_s(job, batch(dp=D, **columns), held(), rates).max())


def test_an_update_reads_gradients_in_16_bits_unless_megatron_holds_the_master_weights() -> None:
    job = typed("fp32", "fp8", "fp8", precision="fp8", fp8_recipe="delayed")
    # Gradient 4, weight 4, remainder 4, moments 2 x 2; FP32 copies: 5 passes of each.
    each = 4 + 4 + 4 + 4 + 4 * 10
    ratio = optimizer_time_s(job, features=IN_BF16) / optimizer_time_s(job)
    assert ratio == pytest.approx(((each - 2) / D + 8) / (each / D + 8))
    by_blocks = typed("fp32", "fp8", "fp8", precision="fp8", fp8_recipe="blockwise")
    assert optimizer_time_s(by_blocks, features=IN_BF16) == optimizer_time_s(by_blocks)
    # Gradient 4, master 4 and 4, weight 2 written.
    master = (4 + 8 + 2 + 4 + 4 * 10) / D + 8
    assert optimizer_time_s(by_blocks) / optimizer_time_s(job) == pytest.approx(master / (each / D + 8))


def test_moments_are_saved_in_fp32() -> None:
    job = typed("fp16", "fp8", "fp8")
    plan = ParallelStrategy(dp=8)
    usual = replace(job, training=replace(job.training, optimizer=Optimizer()))
    saved = saved_state(job, plan, constants()).total_bytes
    assert saved == saved_state(usual, plan, constants()).total_bytes
    assert saved == 14 * num_parameters(job.model).total
    in_bf16 = replace(plan, features=plan.features | Feature.BF16_MOMENTS)
    assert saved_state(usual, in_bf16, constants()).total_bytes == saved
