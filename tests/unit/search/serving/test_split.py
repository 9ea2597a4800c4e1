"""Layouts of a service, and the split of its devices."""

import math

import numpy as np
import pytest

from cost_models.serving.engine import ServingLayout
from cost_models.serving.service import RequestShape, mean_requests_held, prefill_rate, service, time_per_token_s
from cost_models.serving.steps import decode_step_s, prefill_s
from search.serving.layouts import instance_sizes, layouts
from search.serving.split import Limits, most_in_flight, search_serving
from tests.networks import ascend_a2
from tests.serving import served
from tests.travelling_calls import Travelling
from tests.workloads import DENSE, SPARSE

SHAPE = RequestShape(1000, 200)


def on(num_devices: int, model=DENSE):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return served(model, cluster=replace(ascend_a2(), num_devices=num_devices))


def test_sizes_are_small_factors_and_the_whole_cluster() -> None:
    assert instance_sizes(8) == [1, 2, 3, 4, 5, 6, 8]
    assert {144, 320, 384}.issubset(instance_sizes(384))
    assert 7 in instance_sizes(7)


def test_layouts_keep_heads_whole_and_experts_spread_or_sliced() -> None:
    assert list(layouts(DENSE, 2)) == [ServingLayout(tp=2), ServingLayout(pp=2)]
    found = list(layouts(SPARSE, 4))
    assert ServingLayout(tp=2, dp=2, ep=4) in found
    assert ServingLayout(tp=4) in found
    assert all(layout.num_devices == 4 and SPARSE.num_attention_heads % layout.tp == 0 for layout in found)
    # Six devices and sixteen experts: two copies fill the last slots.
    assert {layout.redundant_experts for layout in layouts(SPARSE, 6) if layout.ep == 6} == {2}


def test_a_service_lets_through_what_its_slower_pool_does() -> None:
    workload = on(64)
    decode, prefill = ServingLayout(tp=2), ServingLayout(tp=2)
    rate = prefill_rate(workload, prefill, SHAPE)
    assert rate.prompts_per_pass == 8
    assert rate.pass_s == pytest.approx(float(prefill_s(workload, prefill, 8, 1000)))
    many = service(workload, SHAPE, decode, 16, 500, (prefill, 1))
    assert many.requests_per_s == pytest.approx(rate.prompts_per_s)
    assert many.bound_by == "prefill"
    assert many.in_flight < 500
    few = service(workload, SHAPE, decode, 1, 8, (prefill, 4))
    step_s = float(decode_step_s(workload, decode, 8, 1100.5))
    assert few.tpot_s == pytest.approx(step_s)
    assert few.requests_per_s == pytest.approx(8 / (200 * step_s))
    assert few.bound_by == "decode"
    assert few.ttft_s < many.ttft_s


def test_instances_that_do_both_pause_for_prefill() -> None:
    workload, layout = on(8), ServingLayout(tp=2)
    both = service(workload, SHAPE, layout, 4, 32)
    alone = float(time_per_token_s(workload, layout, SHAPE, 32))
    each_s = 1.0 / prefill_rate(workload, layout, SHAPE).prompts_per_s
    assert both.tpot_s == pytest.approx(alone + 32 * each_s / 200)
    assert both.prefill_use + both.decode_use == pytest.approx(1.0)


def test_the_most_in_flight_keep_the_limit_and_few_more_do() -> None:
    workload, layout = on(8), ServingLayout(tp=2)
    held = mean_requests_held(workload, layout, SHAPE)
    limit = float(time_per_token_s(workload, layout, SHAPE, held // 3))
    most = most_in_flight(workload, SHAPE, layout, Limits(tpot_s=limit), 0.0, held)
    assert 0.97 * (held // 3) <= most <= held // 3
    assert most_in_flight(workload, SHAPE, layout, Limits(tpot_s=1e-9), 0.0, held) == 0
    assert most_in_flight(workload, SHAPE, layout, Limits(), 0.0, held) == held


def test_a_search_finds_the_same_whoever_prices_its_sizes() -> None:
    limits = Limits(ttft_s=1.0, tpot_s=0.02)
    alone = search_serving(on(12, SPARSE), SHAPE, limits, 5)
    for others in (Travelling(1), Travelling(5)):
        assert search_serving(on(12, SPARSE), SHAPE, limits, 5, others) == alone
        assert others.num_taken > 1


@pytest.mark.parametrize("model", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_the_best_plan_beats_every_split_that_is_tried_by_hand(model) -> None:  # type: ignore[no-untyped-def]
    workload = on(8, model)
    limits = Limits(ttft_s=1.0, tpot_s=0.02)
    found = search_serving(workload, SHAPE, limits, 5)
    best = found.plans[0].result.requests_per_s
    assert [plan.result.requests_per_s for plan in found.plans] == sorted(
        (plan.result.requests_per_s for plan in found.plans), reverse=True
    )
    for plan in found.plans:
        assert plan.num_devices <= 8
        assert plan.result.tpot_s <= 0.02 * (1 + 1e-9)
        assert plan.result.ttft_s <= 1.0 + 1e-9
    for size in (1, 2, 4):
        for layout in layouts(model, size):
            held = mean_requests_held(workload, layout, SHAPE)
            flying = most_in_flight(workload, SHAPE, layout, limits, 0.0, held)
            for num_prefill in range(1, 8 // size):
                result = service(workload, SHAPE, layout, 8 // size - num_prefill, flying, (layout, num_prefill))
                if flying and limits.kept_by(result):
                    assert result.requests_per_s <= best * 1.03


def test_more_devices_never_serve_less() -> None:
    rates = [search_serving(on(devices), SHAPE, Limits(tpot_s=0.02), 1).plans[0].result.requests_per_s for devices in (4, 8, 16)]
    assert (np.diff(rates) >= 0.0).all()


def test_limits_that_nothing_keeps_leave_no_plan() -> None:
    found = search_serving(on(4), SHAPE, Limits(tpot_s=1e-9), 3)
    assert found.plans == []
    assert found.num_layouts > found.num_too_large == 0
    assert math.isinf(Limits().ttft_s)
