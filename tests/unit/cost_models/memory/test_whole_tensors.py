"""Muon: what a rank holds of whole matrices, how ranks share them, and the work to orthogonalise them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.memory.whole_tensors import Matrix, Shares, Tensors, layer_tensors, matrix_fraction
from cost_models.shapes.optimizers import Optimizer, TpMode
from cost_models.shapes.parameters import layer_rank_parameters
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape
from cost_models.step.orthogonalising import newton_schulz_comm_s, newton_schulz_flops, newton_schulz_s
from tests.published_models import GEMMA_2_9B, GLM_5
from tests.worked_examples import worked
from tests.workloads import DENSE, GROUPED, LATENT, SPARSE, batch, device, network, priced, workload

MUON = Optimizer("muon")
PARTS = ("weights", "gradients", "optimizer_master_weights", "optimizer_moments")


def of_parts(optimizer: Optimizer, stack: str = "megatron-lm", **columns: int) -> list[float]:
    """Weights, gradients, master weights and moments of DENSE on the fullest rank."""
    found = priced(workload(optimizer=optimizer, stack=stack), ParallelStrategy(**columns)).breakdown
    assert found is not None
    return [float(found.memory_bytes[name][0]) for name in PARTS]


def matrix(rows: int, columns: int, ranks: int = 1, divided: int = 0) -> Matrix:
    return Matrix(np.array([float(rows)]), np.array([float(columns)]), np.array([ranks]), divided)


def in_turn(sizes: list[int], ranks: int) -> list[int]:
    """What each rank has if tensors, smallest first, are dealt to and fro."""
    to_and_fro = [*range(ranks), *reversed(range(ranks))]
    totals = [0] * ranks
    for index, size in enumerate(sorted(sizes)):
        totals[to_and_fro[index % len(to_and_fro)]] += size
    return totals


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=5), st.integers(1, 9))
def test_the_fullest_rank_is_that_of_dealing_tensor_by_tensor(kinds: list[tuple[int, int]], ranks: int) -> None:
    tensors = tuple(Tensors(np.array([float(size)]), np.array([[float(number)]])) for size, number in kinds)
    shares, values = Shares(tensors, np.array([ranks])), [each.elements for each in tensors]
    dealt = in_turn([size for size, number in kinds for _ in range(number)], ranks)
    assert (shares.fullest(values), shares.first(values)) == (max(dealt), dealt[0])
    assert shares.mean(values) == pytest.approx(sum(dealt) / ranks)


def test_one_momentum_of_matrices_and_two_moments_of_the_rest() -> None:
    # 8 layers with 1024 x (3 x 1024 + 1024 + 8192 + 4096) in matrices, two tables of 32000 x 1024, 17 norms
    matrices, others = 8 * 1024 * 16384, 2 * 32000 * 1024 + 17 * 1024
    total = matrices + others
    assert of_parts(MUON, zero_stage=0, dp=4) == [2 * total, 4 * total, 4 * total, 4 * matrices + 8 * others]
    assert of_parts(Optimizer("sgd"), zero_stage=0, dp=4)[2:] == [4 * total, 4 * total]
    assert of_parts(Optimizer(), zero_stage=0, dp=4)[2:] == [4 * total, 8 * total]


@pytest.mark.parametrize("stack", ["megatron-lm", "mindspeed-llm"])
def test_a_rank_has_whole_tensors(stack: str) -> None:
    # four ranks: each has two of the eight tensors of each kind in the layers; norm 0 to 16, then 32 matrices, so that the
    # tables, 49 and 50, go to ranks 1 and 2, which have four norms each
    matrices, table, norms = 2 * 1024 * 16384, 32000 * 1024, 4 * 1024
    assert of_parts(MUON, stack, dp=4)[2:] == [4 * (matrices + table + norms), 4 * matrices + 8 * (table + norms)]
    assert of_parts(MUON, stack, dp=4)[:2] == of_parts(Optimizer(), stack, dp=4)[:2]  # nothing is padded


@pytest.mark.parametrize("model", [DENSE, GROUPED, SPARSE, LATENT, GEMMA_2_9B, GLM_5], ids=lambda each: each.name)
@pytest.mark.parametrize("columns", [{}, {"tp": 2}, {"tp": 2, "ep": 4, "etp": 2}], ids=str)
def test_the_tensors_of_a_layer_are_its_parameters(model: ModelShape, columns: dict[str, int]) -> None:
    job, one = workload(model, optimizer=MUON), batch(**columns)
    for kind in model.layer_kinds():
        tensors = layer_tensors(job, one, moe=kind.moe)
        for of_experts, held in zip((False, True), layer_rank_parameters(model, one, moe=kind.moe), strict=True):
            found = sum(float((each.elements * each.number)[0]) for each in tensors if each.of_experts == of_experts)
            assert found == pytest.approx(float(held[0]) if kind.moe or not of_experts else 0.0, rel=1e-12)


def test_experts_are_matrices_of_their_own_or_one() -> None:
    # 16 experts over ep 4: four a rank, each 2 x 512 x 1024 and 1024 x 512; MindSpeed joins them with grouped matmuls
    def experts(stack: str, features: Feature) -> list[tuple[float, float]]:
        tensors = layer_tensors(workload(SPARSE, optimizer=MUON, stack=stack), batch(ep=4, features=features), moe=True)
        return [(float(each.elements[0]), float(each.number[0])) for each in tensors if each.of_experts]

    grouped, apart = DEFAULT_FEATURES | Feature.MOE_GROUPED_GEMM, DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM
    own = [(2.0 * 512 * 1024, 4.0), (512.0 * 1024, 4.0)]
    assert experts("megatron-lm", grouped) == experts("mindspeed-llm", apart) == own
    assert experts("mindspeed-llm", grouped) == [(4 * 2.0 * 512 * 1024, 1.0), (4 * 512.0 * 1024, 1.0)]


def test_flops_of_newton_schulz() -> None:
    assert newton_schulz_flops(matrix(4096, 14336), MUON)[0] == worked("newton-schulz")
    assert newton_schulz_flops(matrix(14336, 4096), Optimizer("muon", ns_steps=10))[0] / 2 == worked("newton-schulz")
    # half of the columns on each of two ranks: parts of 4096 x 7168, or all of it, or products of the side that is whole
    half = matrix(4096, 7168, ranks=2, divided=1)
    assert newton_schulz_flops(half, MUON)[0] == 5 * (4 * 4096**2 * 7168 + 2 * 4096**3)
    assert newton_schulz_flops(half, Optimizer("muon", TpMode.DUPLICATED))[0] == worked("newton-schulz")
    tall = matrix(2048, 8192, ranks=2, divided=0)
    assert newton_schulz_flops(tall, Optimizer("muon", TpMode.DISTRIBUTED))[0] == 5 * (4 * 8192**2 * 2048 + 2 * 8192**3)


def test_bytes_over_tensor_parallelism() -> None:
    # 4 bytes of the half that the other rank has; in each of 5 steps twice 2 bytes of half a product of 4096 x 4096
    job = workload()
    half, net = matrix(4096, 7168, ranks=2, divided=1), network(job)
    alone = newton_schulz_comm_s(half, Optimizer("muon", TpMode.DUPLICATED), net)[0]
    each = newton_schulz_comm_s(half, Optimizer("muon", TpMode.DISTRIBUTED), net)[0]
    assert newton_schulz_comm_s(half, MUON, net)[0] == 0.0
    assert each / alone == pytest.approx(5 * 2 * 2 * 4096 * 4096 / (4 * 4096 * 14336))


def test_seconds_are_those_of_matmuls_in_16_bits_and_of_memory_traffic() -> None:
    job = workload(optimizer=MUON)
    on, one = device(job), matrix(8192, 8192)
    busy = newton_schulz_flops(one, MUON)[0] / on.unquantised_flops_per_s
    moved = 24 * 8192 * 8192 / on.hbm_bytes_per_s
    assert newton_schulz_s(one, MUON, on, network(job))[0] == pytest.approx(busy + moved)


def test_a_checkpoint_has_one_momentum_of_matrices() -> None:
    matrices = 8 * 1024 * 16384
    assert matrix_fraction(workload(optimizer=MUON)) == pytest.approx(matrices / (matrices + 2 * 32000 * 1024 + 17 * 1024))
    assert matrix_fraction(workload()) == 0.0
