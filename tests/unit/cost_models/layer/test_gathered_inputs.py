"""Inputs that a compiled graph keeps as tensor parallelism gathered them, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.communication import tensor_parallel_comm
from cost_models.layer.costs import layer_costs
from cost_models.layer.tensors import tensor_costs
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, Schedule
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorShare
from cost_models.shapes.workload import ModelShape, Workload
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, SPARSE, device, keys, network, priced, workload

H, N = 1024, 2048
LINK = 18.3e9  # of the mesh of eight
FLOPS_PER_S = 250e12


def job(stack: str = "mindformers", model: ModelShape = DENSE) -> Workload:
    return workload(model, stack=stack, execution="graph")


def norm_output(made: Workload, *, moe: bool = False, **columns: object) -> float:
    return float(layer_activations(made, keys(sequence_parallel=True, **columns), moe=moe).saved["norm_output"][0])


def test_both_inputs_of_a_dense_layer_are_kept_whole() -> None:
    wide = replace(DENSE, hidden_size=8192)
    more = [
        norm_output(workload(wide, stack=stack, execution="graph", seq_length=8192), tp=8) for stack in ("mindformers", "maxtext")
    ]
    assert more[0] - more[1] == worked("kept-gathers")
    assert norm_output(job(), tp=4) == 2 * 2 * H * N
    assert norm_output(job("maxtext"), tp=4) == 2 * 2 * H * N / 4
    assert norm_output(job(), tp=1) == 2 * 2 * H * N


def test_a_recomputed_mlp_gathers_its_input_again_and_recomputed_norms_free_nothing_of_it() -> None:
    quarter = H * N / 4
    assert norm_output(job(), tp=4, recompute_modules=RecomputeModule.LAYERNORM) == 2 * 2 * H * N
    # the input of attention whole; of the MLP nothing, since its module contains its norm's output
    assert (
        norm_output(job(), tp=4, recompute_modules=RecomputeModule.MLP)
        == 2 * 4 * quarter + norm_output(job("maxtext"), tp=4, recompute_modules=RecomputeModule.MLP) - 2 * quarter
    )


def test_experts_and_latents_are_as_in_other_stacks() -> None:
    # of a MoE layer the input of attention alone, of a latent one in dense layers that of the MLP
    assert norm_output(job(model=SPARSE), moe=True, tp=4) == 2 * H * N + 2 * H * N / 4
    assert norm_output(job(model=LATENT), tp=4) == 2 * H * N + 2 * H * N / 4
    assert norm_output(job(model=LATENT), moe=True, tp=4) == 2 * 2 * H * N / 4


def test_to_gather_them_again_takes_what_no_matmul_hides() -> None:
    made, other = job(), job("maxtext")
    key = keys(tp=8, sequence_parallel=True)
    comm = tensor_parallel_comm(made, key, network(made), moe=False)
    assert float(comm.kept_s[0]) == pytest.approx(2 * 2 * H * N / 8 / LINK)
    assert float(tensor_parallel_comm(other, key, network(other), moe=False).kept_s[0]) == 0.0
    # behind the matmuls to queries, keys and values (3 h wide) and to gate and value (2 x 4 h)
    shown_s = float(comm.kept_s[0]) - 2 * (3 + 8) * H * H * N / 8 / FLOPS_PER_S
    apart = tensor_costs(made, key, device(made), network(made), moe=False)
    assert float(apart.bytes[Tensor.GATHERED_INPUT][0]) == 2 * 2 * H * N * 7 / 8
    assert float(apart.again_s[Tensor.GATHERED_INPUT][0]) == pytest.approx(shown_s)
    assert Tensor.GATHERED_INPUT not in tensor_costs(other, key, device(other), network(other), moe=False).bytes


def test_no_time_of_a_layer_changes_unless_it_gathers_again() -> None:
    """The constants were fitted with a gather in every backward."""
    made, other, key = job(), job("maxtext"), keys(tp=8, sequence_parallel=True)
    costs, others = (layer_costs(each, key, device(each), network(each), moe=False) for each in (made, other))
    assert float(costs.backward["tp_comm"][0]) == float(others.backward["tp_comm"][0])
    masks = float((costs.forward["attention"] - others.forward["attention"])[0])
    assert float((costs.full_recompute_s - others.full_recompute_s)[0]) == pytest.approx(masks)


def test_some_layers_of_a_stage_gather_again() -> None:
    """2 of 4 layers of each of two stages, 8 micro batches: the first stage holds 2, the second 1."""
    strategy = ParallelStrategy(tp=8, pp=2, dp=1, sequence_parallel=True, schedule=Schedule.ONE_F_ONE_B)
    again = TensorShare(TensorChoice(Tensor.GATHERED_INPUT), 2), TensorShare()
    plan = (((again,), (again,)),)
    made = replace(job(), cluster=replace(job().cluster, num_devices=16))
    kept, chosen = (priced(made, each) for each in (strategy, replace(strategy, tensor_plan=plan)))
    parts = [each.breakdown.memory_bytes["activations_norm_output"] for each in (kept, chosen) if each.breakdown]
    assert float(np.max(parts[0] - parts[1])) == 2 * 2 * (2 * 2 * H * N * 7 / 8)
    assert float(chosen.step_time_s[0]) > float(kept.step_time_s[0])
    assert strategy.recompute is Recompute.NONE
