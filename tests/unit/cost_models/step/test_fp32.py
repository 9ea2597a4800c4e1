"""Training in FP32: what travels and moves in 4 bytes, and which matmuls round to TF32. Worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.delivery.state import saved_state
from cost_models.layer.communication import context_parallel_comm, expert_comm, tensor_parallel_comm, weight_comm
from cost_models.layer.compute import UNMEASURED_ACHIEVABLE_FRACTION, vector_s
from cost_models.memory.whole_tensors import Matrix
from cost_models.shapes.optimizers import Optimizer
from cost_models.shapes.parameters import layer_rank_parameters
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy
from cost_models.shapes.workload import Cluster, Workload
from cost_models.step.orthogonalising import newton_schulz_s
from cost_models.step.priced_groups import pipeline_sends_s
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, batch, constants, device, keys, network, workload

EXPERTS = {"model": SPARSE}
MUON = Optimizer("muon")
N, H = 2048, 1024  # tokens of a micro batch, channels


def with_rates(**rates: float) -> Cluster:
    made = gpu()
    peaks = {"bf16": 3e14, "fp32": 2e13, **rates}
    return replace(made, profile=replace(made.profile, matmul_flops_per_s=peaks, achievable_matmul_flops_per_s={}))


def on_gpus(precision: str, **values: object) -> Workload:
    return workload(cluster=with_rates(tf32=1.5e14), precision=precision, **values)


def test_tensor_parallel_collectives() -> None:
    key = keys(tp=8, sequence_parallel=True)
    wide, narrow = (tensor_parallel_comm(job, key, network(job), moe=False) for job in (on_gpus("fp32"), on_gpus("bf16")))
    # two gathers and two scatters, 7 / 8 of 4 bytes a channel, at 300 GB/s
    assert float(wide.forward_s[0]) == pytest.approx(4 * 7 / 8 * 4 * N * H / 300e9)
    assert float(wide.backward_s[0]) == pytest.approx(2 * float(narrow.backward_s[0]))
    assert float(wide.regather_s[0]) == pytest.approx(2 * float(narrow.regather_s[0]))


def test_pipeline_sends() -> None:
    sends = pipeline_sends_s(on_gpus("fp32"), batch(pp=2, dp=8), network(on_gpus("fp32")))
    assert float(sends[0]) == worked("fp32-send")


@pytest.mark.parametrize("algorithm", [CpAlgo.RING, CpAlgo.ULYSSES])
def test_context_parallel_exchanges(algorithm: CpAlgo) -> None:
    key = keys(cp=4, cp_algo=algorithm)
    wide, narrow = (context_parallel_comm(job, key, network(job)) for job in (on_gpus("fp32"), on_gpus("bf16")))
    assert float(wide.hop_s[0]) == pytest.approx(2 * float(narrow.hop_s[0]))
    assert float(wide.all_to_all_s[0]) == pytest.approx(2 * float(narrow.all_to_all_s[0]))
    assert float(wide.hop_s[0] + wide.all_to_all_s[0]) > 0


def test_tokens_of_experts() -> None:
    key = keys(ep=4, dispatcher=Dispatcher.ALLTOALL)
    wide, narrow = (
        expert_comm(job, key, network(job), constants()) for job in (on_gpus("fp32", **EXPERTS), on_gpus("bf16", **EXPERTS))
    )
    assert float(wide.combine_s[0]) == pytest.approx(2 * float(narrow.combine_s[0]))


def test_weights_that_layers_gather_and_gradients_that_they_scatter() -> None:
    key = keys(dp=8, zero_stage=3)
    (wide, scattered), (narrow, same) = (
        weight_comm(job, key, network(job), moe=False) for job in (on_gpus("fp32"), on_gpus("bf16"))
    )
    held = float(layer_rank_parameters(DENSE, key, moe=False)[0][0])
    assert float(wide[0]) == pytest.approx(7 / 8 * 4 * held / 300e9)
    assert float(wide[0]) == 2 * float(narrow[0])
    assert float(scattered[0]) == float(same[0])  # gradients are in FP32 anyway


def test_vector_work_moves_twice_as_much() -> None:
    wide, narrow = (float(vector_s(1e9, device(job))) for job in (on_gpus("fp32"), on_gpus("bf16")))
    assert wide == 2 * narrow


@pytest.mark.parametrize(
    ("cluster", "stack", "linear"),
    [
        (with_rates(tf32=1.5e14), "megatron-lm", 1.5e14),  # Transformer Engine's
        (with_rates(), "megatron-lm", 2e13),  # the profile has no such rate
        (with_rates(tf32=1.5e14), "fsdp", 2e13),  # PyTorch's, which leave TF32 off
    ],
)
def test_linear_layers_of_transformer_engine_round_to_tf32(cluster: Cluster, stack: str, linear: float) -> None:
    found = device(workload(cluster=cluster, precision="fp32", stack=stack))
    fraction = constants().matmul_fraction
    assert found.linear_flops_per_s == pytest.approx(linear * UNMEASURED_ACHIEVABLE_FRACTION * fraction)
    reached = UNMEASURED_ACHIEVABLE_FRACTION * fraction
    assert found.unquantised_flops_per_s == pytest.approx(2e13 * reached)  # head, router, scores


def test_what_stays_in_16_bits_or_is_in_fp32_anyway_takes_as_long() -> None:
    wide, narrow = on_gpus("fp32", optimizer=MUON), on_gpus("bf16", optimizer=MUON)
    matrix = Matrix(np.array([8192.0]), np.array([8192.0]), np.array([1]), 0)
    times = [newton_schulz_s(matrix, MUON, device(job), network(job))[0] for job in (wide, narrow)]
    assert times[0] == times[1] > 0
    assert {job.keeps_fp32_weights for job in (wide, narrow)} == {True, False}
    streams = [on_gpus(precision, fp32_residual="stream").residual.is_stream for precision in ("fp32", "bf16")]
    assert streams == [False, True]  # sums of FP32 activations are in FP32 whether they are asked for or not


def test_a_checkpoint_has_no_weights_beside_its_master() -> None:
    one = ParallelStrategy(tp=1, pp=1, dp=8)
    saved = {name: saved_state(on_gpus(name), one, constants()).total_bytes for name in ("fp32", "bf16")}
    assert saved["fp32"] * 14 == pytest.approx(saved["bf16"] * 12)  # 4 + 8, and 2 of the weights in BF16
