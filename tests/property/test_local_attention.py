"""What holds for every window: it only saves, and as long as the sequence it is none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.flops import model_flops_per_step
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import LocalAttention, Workload
from cost_models.simulation.step_times import simulate
from tests.property.test_estimates import any_strategies, columns, crowded_batches, price, strategies, workloads
from tests.published_models import GEMMA_2_9B, KIMI_K2, QWEN3_NEXT_80B

few = settings(max_examples=30)
assert KIMI_K2.moe is not None
FOUR_KINDS = replace(
    KIMI_K2,
    name="four-kinds",
    num_layers=24,
    moe=replace(KIMI_K2.moe, num_leading_dense_layers=6),
    local_attention=QWEN3_NEXT_80B.local_attention,
)
local_workloads = st.builds(
    lambda job, model: replace(job, model=model), workloads(), st.sampled_from((GEMMA_2_9B, QWEN3_NEXT_80B, FOUR_KINDS))
)


def with_window(job: Workload, window: int, every: int = 0) -> Workload:
    local = LocalAttention("window", full_attention_every=every, window=window)
    return replace(job, model=replace(job.model, local_attention=local))


def without(job: Workload) -> Workload:
    return replace(job, model=replace(job.model, local_attention=None))


@few
@given(workloads(), strategies(), st.integers(0, 4096), st.sampled_from((0, 2, 5)))
def test_a_window_as_long_as_the_sequence_prices_as_full_attention(
    job: Workload, row: ParallelStrategy, more: int, every: int
) -> None:
    wide = with_window(job, job.training.seq_length + more, every)
    full = columns(price(without(job), row))
    for name, values in columns(price(wide, row)).items():
        np.testing.assert_allclose(values, full[name], rtol=1e-12, err_msg=name)
    assert model_flops_per_step(wide) == model_flops_per_step(without(job))


@few
@given(workloads(), strategies(), st.lists(st.integers(1, 1 << 16), min_size=2, max_size=4), st.sampled_from((0, 2, 5)))
def test_a_longer_window_is_never_cheaper(job: Workload, row: ParallelStrategy, windows: list[int], every: int) -> None:
    steps = [float(price(with_window(job, window, every), row).step_time_s[0]) for window in sorted(windows)]
    assert np.all(np.diff(steps) >= -1e-9 * steps[0])
    flops = [model_flops_per_step(with_window(job, window, every)) for window in sorted(windows)]
    assert np.all(np.diff(flops) >= -1e-9 * flops[0])


@few
@given(workloads(), strategies(), st.integers(1, 1 << 16))
def test_full_layers_between_local_ones_lie_between(job: Workload, row: ParallelStrategy, window: int) -> None:
    local, mixed, full = (
        float(price(each, row).step_time_s[0]) for each in (with_window(job, window), with_window(job, window, 3), without(job))
    )
    assert local <= mixed * (1 + 1e-9)
    assert mixed <= full * (1 + 1e-9)


@few
@given(local_workloads, any_strategies())
def test_parts_of_kinds_of_layers_sum_to_the_whole(job: Workload, row: ParallelStrategy) -> None:
    priced = price(job, row, breakdown=True)
    assert priced.breakdown is not None
    assert sum(float(part[0]) for part in priced.breakdown.time_s.values()) == pytest.approx(float(priced.step_time_s[0]))
    assert sum(float(part[0]) for part in priced.breakdown.memory_bytes.values()) == pytest.approx(
        float(priced.peak_memory_bytes[0])
    )


@settings(max_examples=15)
@given(local_workloads, crowded_batches())
def test_kinds_of_layers_price_alike_alone_and_in_a_batch(job: Workload, rows: list[ParallelStrategy]) -> None:
    together = columns(price(job, *rows))
    for number, row in enumerate(rows):
        for name, values in columns(price(job, row)).items():
            assert values[0] == pytest.approx(together[name][number]), name


@few
@given(local_workloads, strategies())
def test_the_simulation_plays_all_kinds_of_layers(job: Workload, row: ParallelStrategy) -> None:
    found = simulate(job, StrategyBatch.of([row]), prior_constants(job.cluster.profile.family))
    assert found.peak_memory_bytes == price(job, row).peak_memory_bytes
    assert found.step_time_s >= found.step_time_lower_bound_s * (1 - 1e-9)
