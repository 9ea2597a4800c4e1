"""Clamps and biases of experts: passes over routed rows, by hand."""

from dataclasses import replace

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.expert_passes import expert_passes
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.workload import ModelShape
from tests.worked_examples import worked
from tests.workloads import SPARSE, device, keys, network, workload

HBM = 1.6e12
ROWS = 2 * 2048.0  # two experts a token
assert SPARSE.moe is not None
CLAMPED = replace(SPARSE, constants=ModelConstants(activation_clamp=7.0))
BIASED = replace(SPARSE, moe=replace(SPARSE.moe, expert_biases=True))


def priced(model: ModelShape, *, moe: bool = True, values: dict[str, float] | None = None, **columns: object) -> LayerCosts:
    job = workload(model)
    return layer_costs(job, keys(**columns), device(job, **(values or {})), network(job), moe=moe)


def beyond_s(model: ModelShape, one_pass: str, **columns: object) -> float:
    """Vector time of one pass beyond that of plain experts."""
    return sum(sign * float(getattr(priced(m, **columns), one_pass)["vector"][0]) for sign, m in ((1, model), (-1, SPARSE)))


def test_clamps_read_and_write_both_halves_and_join_them() -> None:
    assert beyond_s(CLAMPED, "forward") == pytest.approx(16 * 512 * ROWS / HBM)
    assert beyond_s(CLAMPED, "backward") == pytest.approx(20 * 512 * ROWS / HBM)


def test_a_bias_behind_the_second_matmul_is_added_in_fp32() -> None:
    assert beyond_s(BIASED, "forward") == pytest.approx(28 * 1024 * ROWS / HBM)
    # 40 h for the second bias, 4 f for the sum that is the first one's gradient
    assert beyond_s(BIASED, "backward") == pytest.approx((40 * 1024 + 4 * 512) * ROWS / HBM)


def test_what_four_sequences_of_a_published_mixture_pay() -> None:
    shape = replace(SPARSE.moe, top_k=4, expert_ffn_hidden_size=2880, expert_biases=True)
    model = replace(CLAMPED, hidden_size=2880, moe=shape)
    job = workload(model)
    job = replace(job, training=replace(job.training, seq_length=4096))
    found = expert_passes(job, keys(micro_batch_size=4), device(job), moe=True)
    assert float(found.clamps_forward[0] + found.biases_forward[0]) == worked("clamped-experts")


def test_recomputing_the_activation_clamps_again() -> None:
    again = {"recompute_modules": RecomputeModule.MLP_ACT}
    clamped, plain = (float(priced(m, **again).backward["recompute"][0]) for m in (CLAMPED, SPARSE))
    assert clamped - plain == pytest.approx(16 * 512 * ROWS / HBM)
    block = {"recompute_modules": RecomputeModule.MOE}
    biased, plain = (float(priced(m, **block).backward["recompute"][0]) for m in (BIASED, SPARSE))
    assert biased - plain == pytest.approx(28 * 1024 * ROWS / HBM)


def test_neither_costs_a_dense_layer_or_a_compiled_graph_anything() -> None:
    both = replace(BIASED, constants=CLAMPED.constants)
    assert float(priced(both, moe=False).forward_s[0]) == float(priced(SPARSE, moe=False).forward_s[0])
    job = workload(both, execution="graph")
    assert not any(float(seconds[0]) for seconds in expert_passes(job, keys(), device(job), moe=True))


def test_biases_are_kernels_of_every_expert() -> None:
    values = {"host_kernel_s": 1e-3}
    biased, plain = (priced(m, values=values, ep=8) for m in (BIASED, SPARSE))
    assert float(biased.host["forward"][0] - plain.host["forward"][0]) == pytest.approx(3 * 16 / 8 * 1e-3)


def test_what_is_clamped_is_kept_unless_the_activation_is_computed_again() -> None:
    def kept(model: ModelShape, modules: RecomputeModule = RecomputeModule(0)) -> float:
        return float(layer_activations(workload(model), keys(recompute_modules=modules), moe=True).saved["routed_experts"][0])

    assert kept(CLAMPED) - kept(SPARSE) == pytest.approx(4 * 512 * ROWS)
    assert kept(CLAMPED, RecomputeModule.MLP_ACT) == pytest.approx(kept(SPARSE, RecomputeModule.MLP_ACT))
