"""What padding the heads of latent attention costs, by hand."""

from dataclasses import replace

import pytest

from cost_models.layer.costs import layer_costs
from cost_models.shapes.workload import MlaShape, ModelShape
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, device, keys, network, workload

TOKENS = 4096
DEEPSEEK = replace(LATENT, num_attention_heads=128, num_query_groups=128, mla=MlaShape(1536, 512, 128, 64, 128))


def parts(padding: int, model: ModelShape = DEEPSEEK) -> tuple[float, float, float]:
    job = workload(model, seq_length=TOKENS)
    job = replace(job, software=replace(job.software, latent_padding=padding))
    costs = layer_costs(job, keys(), device(job), network(job), moe=False)
    return float(costs.forward["attention"][0]), float(costs.backward["attention"][0]), float(costs.forward["vector"][0])


def test_the_kernel_multiplies_the_zeros() -> None:
    plain = parts(0)
    for pass_ in (0, 1):
        assert parts(128)[pass_] / plain[pass_] == pytest.approx(worked("padded-latent-attention"))
        assert parts(1)[pass_] / plain[pass_] == pytest.approx((192 + 192) / (192 + 128))


@pytest.mark.parametrize(
    ("padding", "elements"),
    [
        (1, (128 + 192) + (128 + 128)),  # values read and written, their outputs sliced
        (128, 2 * (192 + 256) + (128 + 256) + (128 + 128)),  # queries and keys too
    ],
)
def test_padding_and_slicing_move_bytes(padding: int, elements: int) -> None:
    job = workload(DEEPSEEK, seq_length=TOKENS)
    expected = TOKENS * 128 * elements * 2 / device(job).hbm_bytes_per_s
    assert parts(padding)[2] - parts(0)[2] == pytest.approx(expected * device(job).time_factor)


def test_heads_of_one_width_are_never_padded() -> None:
    even = replace(DEEPSEEK, mla=MlaShape(1536, 512, 64, 64, 128))
    assert parts(1, even) == parts(0, even) == parts(128, even)
    assert parts(128, DENSE) == parts(0, DENSE)
