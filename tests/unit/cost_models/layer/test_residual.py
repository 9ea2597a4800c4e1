"""What an FP32 residual moves, keeps and sends, by hand."""

from __future__ import annotations

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.costs import layer_costs
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.step.priced_groups import pipeline_sends_s
from tests.worked_examples import worked
from tests.workloads import device, hop_s, keys, network, workload

H, N = 1024, 4096  # channels and tokens


def layer(form: str, **columns: object) -> tuple[float, float, float, float]:
    """Vector seconds of a forward and of a backward, kept bytes of the residual, and bytes of a checkpoint."""
    job = workload(stack="mindformers", execution="graph", seq_length=N, fp32_residual=form)
    costs = layer_costs(job, keys(**columns), device(job), network(job), moe=False)
    kept = layer_activations(job, keys(**columns), moe=False)
    parts = costs.forward["vector"], costs.backward["vector"], kept.saved["residual"], kept.input_bytes
    forward_s, backward_s, saved, checkpoint = (float(part[0]) for part in parts)
    return forward_s, backward_s, saved, checkpoint


def test_sums_alone_are_cast_and_keep_nothing() -> None:
    forward_s, backward_s, saved, checkpoint = (wide - plain for wide, plain in zip(layer("sums"), layer("none"), strict=True))
    # each of two sums: casts of both inputs 6 + 6, the sum 12, the cast back 6, in place of 6
    assert forward_s == pytest.approx(worked("fp32-sums"))
    assert backward_s == pytest.approx(2 * forward_s)
    assert (saved, checkpoint) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("form", "moved", "wide_inputs", "checkpoint"),
    [
        ("layer", 24 + 10 + 24 - 12, 1, 2),  # 6 + 6 + 12, the norm 4 + 6, then 6 + 12 and the cast back 6
        ("stream", 18 + 10 + 18 + 10 - 12, 2, 4),
    ],
)
def test_a_wide_residual_is_kept_by_the_norms(form: str, moved: int, wide_inputs: int, checkpoint: int) -> None:
    for tp in (1, 4):
        found = layer(form, tp=tp, sequence_parallel=tp > 1)
        plain = layer("none", tp=tp, sequence_parallel=tp > 1)
        assert found[0] - plain[0] == pytest.approx(moved * H * N / tp / 1.6e12)
        assert found[2] == (4 + 2 * wide_inputs) * H * N / tp
        assert found[3] == checkpoint * H * N / tp


def test_a_stream_is_sent_in_fp32_and_a_wide_layer_is_not() -> None:
    strategy = ParallelStrategy(pp=4, schedule=Schedule.ONE_F_ONE_B)
    for form, each in (("none", 2), ("sums", 2), ("layer", 2), ("stream", 4)):
        job = workload(stack="mindformers", execution="graph", seq_length=N, fp32_residual=form)
        (found,) = pipeline_sends_s(job, StrategyBatch.of([strategy]), network(job))
        assert found == pytest.approx(2 * hop_s(job, strategy, each * H * N))
