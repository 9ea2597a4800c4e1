"""The placements that are compared are real ones, few, and the best of all placements is among them."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy, Placement, Schedule, StrategyBatch
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.step.composition import estimate
from cost_models.step.placing import Alternatives, fitting, paces
from cost_models.step.priced_groups import priced_batch
from search.placement.placement_family import Contents, candidate_placements
from search.placement.placer import Placer, placements_text
from tests.oracle.placements import layouts
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")
LIGHT_START = replace(MOE, ffn_hidden_size=2048, moe=replace(MOE.moe, num_leading_dense_layers=2)) if MOE.moe else MOE
PREDICTING = replace(LIGHT_START, mtp_num_layers=1)
PLAIN = (Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZB1P, Schedule.ZB2P, Schedule.DUALPIPE)


def contents() -> st.SearchStrategy[Contents]:
    return st.builds(Contents, st.integers(2, 64), st.integers(0, 3), st.integers(0, 8), st.integers(0, 2))


@given(contents(), st.integers(1, 8), st.integers(2, 4), st.sampled_from(Schedule))
@settings(max_examples=300)
def test_every_placement_of_the_family_holds_the_model_once(what: Contents, half: int, chunks: int, schedule: Schedule) -> None:
    pp, vpp = 2 * half, chunks if schedule is Schedule.INTERLEAVED else 2 if schedule.rules.is_vee else 1
    what = what._replace(num_layers=max(what.num_layers, pp * vpp))
    found = candidate_placements(what, pp, vpp, schedule)
    assert found
    assert len(set(found)) == len(found)
    for placement in found:
        counts = [layers for row in placement.layer_layout for layers in row]
        assert [len(row) for row in placement.layer_layout] == [pp] * vpp
        assert sum(counts) == what.num_layers
        assert min(counts) >= 0
        assert placement.mtp_before_head in (0, 1)
        # Behind prediction layers lies no layer, and a model without them has none to move.
        assert not placement.mtp_before_head or (what.mtp_layers and counts[-1] == 0)


@pytest.mark.parametrize(
    ("what", "pp", "vpp", "schedule", "most"),
    [
        (Contents(126, 0, 2, 0), 16, 4, Schedule.INTERLEAVED, 8),  # Llama 3 405B
        (Contents(61, 3, 4, 1), 16, 2, Schedule.INTERLEAVED, 30),  # DeepSeek-V3, Pangu Ultra MoE
        (Contents(61, 3, 4, 1), 16, 1, Schedule.ONE_F_ONE_B, 40),
        (Contents(61, 3, 4, 1), 16, 2, Schedule.DUALPIPE_V, 48),
    ],
)
def test_the_family_stays_small(what: Contents, pp: int, vpp: int, schedule: Schedule, most: int) -> None:
    assert len(candidate_placements(what, pp, vpp, schedule)) <= most


def test_a_prediction_layer_may_take_as_long_as_two_others() -> None:
    """Pangu Ultra MoE at tp 8: with the collectives of its projection the module fills a virtual stage of two layers alone."""
    counts = (3, *(2,) * 29, 0, 0)
    found = candidate_placements(Contents(61, 3, 4, 1), 16, 2, Schedule.INTERLEAVED)
    assert Placement((counts[:16], counts[16:]), 1) in found


@st.composite
def jobs(draw: st.DrawFn, schedules: tuple[Schedule, ...], models: tuple[ModelShape, ...]) -> tuple[Workload, ParallelStrategy]:
    schedule = draw(st.sampled_from(schedules))
    pp = draw(st.sampled_from((2, 4) if schedule is Schedule.DUALPIPE else (2, 3, 4)))
    vpp = 2 if schedule.rules.is_vee or schedule is Schedule.INTERLEAVED else 1
    stages = pp * vpp
    num_layers = draw(st.integers(stages, 3 * stages))
    assume(comb(num_layers + stages - 1, stages - 1) <= 1500)
    model = replace(draw(st.sampled_from(models)), num_layers=num_layers, vocab_size=draw(st.sampled_from((128, 32000, 128000))))
    plan = ParallelStrategy(pp=pp, vpp=vpp, dp=8, ep=8 if model.moe else 1, micro_batch_size=1, schedule=schedule)
    return workload(model, num_devices=8 * pp), plan


def every(made: Workload, plan: ParallelStrategy) -> list[Placement]:
    """Those that keep the model's order, prediction layers anywhere."""
    modules = range(plan.pp * plan.vpp if made.model.mtp_num_layers else 1)
    tried = [Placement(layout, before) for layout in layouts(made.model.num_layers, plan.pp, plan.vpp) for before in modules]
    batch = StrategyBatch.of([replace(plan, **placement._asdict()) for placement in tried])
    broken = [rule for rule in Placer(made)._rules if rule.name in ("layer_layout", "mtp_stage")]
    refused = np.any([rule.violates(made, batch) for rule in broken], axis=0)
    return [placement for placement, no in zip(tried, refused, strict=True) if not no]


def behind_fraction(made: Workload, plan: ParallelStrategy) -> float:
    """How much slower than the best of all placements that fit the chosen one is, by pace; 0 where none fits."""
    priced = priced_batch(made, StrategyBatch.of([plan]), CONSTANTS)
    (chosen,) = Placer(made).best(CONSTANTS, [plan])
    layout = chosen.layer_layout or default_layout(made.model, chosen.pp, chosen.vpp, chosen.schedule)
    taken = Alternatives(priced.under([Placement(layout, chosen.mtp_before_head)]))
    others = Alternatives(priced.under(every(made, plan)))
    fits = fitting(priced, others)[:, 0]
    own = paces(priced, taken).steady_s[0, 0]
    least = np.where(fits, paces(priced, others).steady_s[:, 0], np.inf).min()
    if not np.isfinite(least):
        assert not fitting(priced, taken)[0, 0]
        return 0.0
    return float(own / least - 1.0) if fitting(priced, taken)[0, 0] else float("inf")


def with_memory_for(made: Workload, plan: ParallelStrategy, fraction: float) -> Workload:
    """The job on devices that hold that fraction of all placements."""
    batch = StrategyBatch.of([replace(plan, **placement._asdict()) for placement in every(made, plan)])
    found, profile = estimate(made, batch, CONSTANTS), made.cluster.profile
    limit_bytes = float(np.quantile(found.peak_memory_bytes, fraction)) * (1 + 1e-9)
    scale = limit_bytes / found.fit_rule.fit_limit_bytes
    profile = replace(profile, usable_hbm_bytes=profile.usable_hbm_bytes * scale)
    return replace(made, cluster=replace(made.cluster, profile=profile))


@given(jobs(PLAIN, (DENSE, MOE, LIGHT_START, PREDICTING)))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_of_all_placements_of_an_unchunked_pipeline_none_is_faster(case: tuple[Workload, ParallelStrategy]) -> None:
    assert behind_fraction(*case) <= 1e-6


@given(jobs((Schedule.ZBV, Schedule.DUALPIPE_V), (DENSE, MOE, LIGHT_START, PREDICTING)))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_in_a_v_none_is_faster_by_more_than_where_a_short_layer_lies(case: tuple[Workload, ParallelStrategy]) -> None:
    assert behind_fraction(*case) <= 0.01


@given(jobs((Schedule.ONE_F_ONE_B, Schedule.ZB1P, Schedule.ZBV, Schedule.DUALPIPE_V), (DENSE, LIGHT_START)), st.floats(0.1, 0.6))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_with_little_memory_none_that_fits_is_faster(case: tuple[Workload, ParallelStrategy], fraction: float) -> None:
    made, plan = case
    assert behind_fraction(with_memory_for(made, plan, fraction), plan) <= 0.01


@pytest.mark.parametrize(
    ("layers", "pp", "vpp", "complete"),
    [(5, (1, 4), (1,), True), (63, (2,), (1,), True), (64, (2,), (1,), False), (5, (2, 4), (1, 2), True), (6, (2,), (2,), False)],
)
def test_the_scope_names_pipelines_that_lack_placements(
    layers: int, pp: tuple[int, ...], vpp: tuple[int, ...], complete: bool
) -> None:
    """5 layers on 4 stages lie in C(8, 3) = 56 ways, 6 in C(9, 3) = 84; 63 on 2 stages in 64, 64 in 65."""
    text = placements_text(layers, pp, vpp)
    assert text.startswith("all that keep the order") == complete
