"""What a mask of all scores costs the fused attention that reads it, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.layer.costs import layer_costs
from cost_models.shapes.strategy import CpAlgo
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, device, keys, network, workload

HEADS_32 = replace(DENSE, num_attention_heads=32, num_query_groups=32)


def attention_s(stack: str, model=HEADS_32, **columns: object) -> np.ndarray:
    job = workload(model, stack=stack, execution="graph", seq_length=32768)
    costs = layer_costs(job, keys(**columns), device(job), network(job), moe=False)
    return np.array([costs.forward["attention"][0], costs.backward["attention"][0]])


def mask_s(**values: object) -> np.ndarray:
    return attention_s("mindformers", **values) - attention_s("mindspeed-llm", **values)


def test_either_pass_reads_a_byte_for_each_score_that_a_head_computes() -> None:
    assert mask_s() == pytest.approx(worked("whole-mask"))


def test_ranks_of_a_tensor_parallel_group_read_it_for_their_heads() -> None:
    assert mask_s(tp=8, sequence_parallel=True) == pytest.approx(mask_s() / 8)


def test_a_latent_head_has_as_many_scores_as_any_other() -> None:
    # 8 heads; queries and keys of 96 channels and values of 64 are 160 of the 192 that a score is counted by
    assert mask_s(model=LATENT) == pytest.approx(mask_s() / 4 * 160 / 192)


@pytest.mark.parametrize(
    "columns", [{"cp": 2, "cp_algo": CpAlgo.RING}, {"features": DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION}]
)
def test_no_mask_is_read_where_it_is_compressed_or_scores_are_written_out(columns: dict[str, object]) -> None:
    assert mask_s(**columns) == pytest.approx(0.0)


def test_a_compressed_mask_is_not_read() -> None:
    job = workload(HEADS_32, stack="mindformers", execution="graph", seq_length=32768, compressed_mask=True)
    costs = layer_costs(job, keys(), device(job), network(job), moe=False)
    assert float(costs.forward["attention"][0]) == pytest.approx(attention_s("mindspeed-llm")[0])
