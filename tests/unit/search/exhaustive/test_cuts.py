"""What a chunk leaves out, where the numbers decide narrowly: a plan just below the time to beat, or just within the memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from app.catalogue.models.presets import model_preset
from cost_models.constants import prior_constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import IntColumn, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Cluster, MemoryRoom, Software, TrainingJob, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate, estimate_priced
from cost_models.step.priced_groups import PricedBatch, priced_batch
from cost_models.step.priced_keys import LayerPrices
from hardware_profiles.catalogue import profile
from search.exhaustive import chunk_pipeline
from search.exhaustive.chunk_pipeline import ChunkPricing, ChunkRecipe
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import Incumbents
from search.exhaustive.layer_climb import LEAST_GAIN, climbed
from search.placement import placer
from search.placement.placed_pricing import PricedRows
from search.placement.placer import Placer
from search.ranking.leaderboard import RankedStrategy
from search.session.request import SearchRequest
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space
from tests.oracle.placements import layouts
from tests.search_workloads import DENSE, workload

# A step is the work of its layers but for a thousandth: no fixed cost, few words, and so many and long micro batches that
# optimizer, accumulation, sends, fill and drain are little beside them.
CONSTANTS = replace(prior_constants("ascend"), step_overhead_s=0.0)
MANY, LONG = 65_536, 1 << 23
SMALL = replace(DENSE, name="few-layers", num_layers=4, vocab_size=128)
ALONE = ParallelStrategy(dp=1, sequence_parallel=False, features=DEFAULT_FEATURES)
PIPELINE = replace(ALONE, pp=2, schedule=Schedule.ONE_F_ONE_B)
NEAR = 5e-4


def priced(job: Workload, strategy: ParallelStrategy, to_beat_s: float = float("inf")) -> PricedRows | None:
    """The rows of a chunk of one strategy."""
    recipe = ChunkRecipe(job, search_space(job), CONSTANTS, True, estimate_priced, None)
    return ChunkPricing(recipe).found_in(StrategyBatch.of([strategy]), Incumbents(to_beat_s)).rows


def placed(strategy: ParallelStrategy, num_layers: int = SMALL.num_layers) -> list[ParallelStrategy]:
    return [replace(strategy, layer_layout=layout) for layout in layouts(num_layers, strategy.pp, strategy.vpp)]


def with_limit(job: Workload, bytes_that_fit: float) -> Workload:
    """The job with a device on which a predicted peak of so many bytes fits, and no larger one."""
    rule = fit_rule(job, CONSTANTS)
    return replace(job, room=MemoryRoom(rule.memory_limit_bytes - bytes_that_fit * rule.room_bytes / rule.fit_limit_bytes))


@pytest.mark.parametrize("rows", [0, 2], ids=["with the exchange", "without"])
@pytest.mark.parametrize("strategy", [ALONE, PIPELINE], ids=["alone", "pipeline"])
def test_a_strategy_that_is_hardly_faster_than_the_time_to_beat_is_kept(
    strategy: ParallelStrategy, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_pipeline, "MANY", rows)
    job = workload(SMALL, num_devices=strategy.pp, global_batch_size=MANY, seq_length=LONG)
    job = with_limit(job, 1e18)
    best_s = simulate(job, StrategyBatch.of(placed(strategy)), CONSTANTS).step_time_s.min()
    found = priced(job, strategy, best_s * (1.0 + 1e-9))
    assert found is not None
    assert simulate(job, found.batch, CONSTANTS).step_time_s.min() == pytest.approx(best_s, rel=1e-9)
    assert priced(job, strategy, best_s * (1.0 - NEAR)) is None  # the bounds are tight here


def test_a_form_that_may_lie_elsewhere_is_kept_however_close_the_time_to_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_do(
        placer: Placer, forms: PricedBatch, strategies: PricedBatch, of_row: IntColumn, to_beat_s: float
    ) -> NDArray[np.bool_]:
        return np.ones(len(of_row), dtype=np.bool_)

    monkeypatch.setattr(Placer, "lies_elsewhere", all_do)
    job = with_limit(workload(SMALL, num_devices=2, global_batch_size=MANY, seq_length=LONG), 1e18)
    swapped = [replace(each, features=each.features | Feature.SWAP_ATTENTION) for each in placed(PIPELINE)]
    best_s = simulate(job, StrategyBatch.of(swapped), CONSTANTS).step_time_s.min()
    found = priced(job, PIPELINE, best_s * (1.0 + 1e-9))
    assert found is not None
    assert (found.batch.features & int(Feature.SWAP_ATTENTION)).any()


@pytest.mark.parametrize("layers", [1, 2])  # one layer holds less than what comes back to it from the host
@pytest.mark.parametrize("strategy", [ALONE, PIPELINE], ids=["alone", "pipeline"])
def test_a_form_that_hardly_fits_is_kept(strategy: ParallelStrategy, layers: int) -> None:
    """The leanest plan of all fits, to the byte; with a little less there is none."""
    model = replace(SMALL, num_layers=layers * strategy.pp)
    job = workload(model, num_devices=strategy.pp)
    forms = [
        replace(each, features=each.features | attention | others)
        for each in placed(strategy, model.num_layers)
        for attention in (Feature(0), Feature.SWAP_ATTENTION)
        for others in (Feature(0), Feature.SWAP_OPTIMIZER, Feature.REUSE_FP32_PARAM)
    ]
    least = float(estimate(job, StrategyBatch.of(forms), CONSTANTS).peak_memory_bytes.min())
    found = priced(with_limit(job, least * (1.0 + 1e-9)), strategy)
    assert found is not None
    assert found.peak_memory_bytes.min() == pytest.approx(least, rel=1e-9)
    assert priced(with_limit(job, least * (1.0 - 1e-9)), strategy) is None


@pytest.mark.parametrize("strategy", [ALONE, PIPELINE], ids=["alone", "pipeline"])
def test_a_strategy_that_hardly_fits_is_kept(strategy: ParallelStrategy) -> None:
    job = workload(SMALL, num_devices=strategy.pp)
    peaks = estimate(job, StrategyBatch.of(placed(strategy)), CONSTANTS).peak_memory_bytes
    for peak in peaks.tolist():
        found = priced(with_limit(job, peak * (1.0 + 1e-9)), strategy)
        assert found is not None
        assert (found.batch.features == int(strategy.features)).any()


def test_no_byte_that_a_rank_does_not_keep_rules_out_a_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else a rank holds, rows are asked for room up to what they keep: 18 bytes for each parameter of one replica."""
    job = workload(SMALL, num_devices=1)
    layer = 2048 * (2 * 2048 + 2 * 1024) + 3 * 2048 * 6144 + 2 * 2048
    parameters = SMALL.num_layers * layer + 2 * SMALL.vocab_size * SMALL.hidden_size + SMALL.hidden_size
    monkeypatch.setattr(placer, "fullest_bytes", lambda priced, *_: np.zeros((1, len(priced.batch))))
    rows = priced_batch(job, StrategyBatch.of([ALONE]), CONSTANTS)
    for factor, fits in ((1.0 + 1e-9, True), (1.0 - 1e-9, False)):
        assert Placer(job).has_room(rows, rows, factor * 18.0 * parameters).tolist() == [fits]


@pytest.mark.parametrize(("pp", "vpp", "vocab_size"), [(4, 1, 128), (2, 2, 128), (2, 2, 128_000)])
def test_of_few_layers_the_simulation_takes_the_fastest_of_all_placements(pp: int, vpp: int, vocab_size: int) -> None:
    """With a heavy head, the fastest is 7 % ahead of all whose pace is near the best."""
    job = workload(replace(SMALL, num_layers=5, vocab_size=vocab_size), num_devices=pp, global_batch_size=16)
    schedule = Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B
    strategy = replace(PIPELINE, pp=pp, vpp=vpp, schedule=schedule)
    every = placed(strategy, 5)
    assert len(every) == 56
    found = priced(job, strategy)
    assert found is not None
    least_s = simulate(job, StrategyBatch.of(every), CONSTANTS).step_time_s.min()
    assert simulate(job, found.batch, CONSTANTS).step_time_s.min() == pytest.approx(least_s, rel=1e-12)


def test_the_one_placement_that_has_room_is_a_candidate_though_most_are_faster() -> None:
    """Of 455 placements only the leanest fits; its step is 6 % behind the fastest."""
    job = workload(replace(SMALL, num_layers=12, vocab_size=32_000), num_devices=4, global_batch_size=16)
    strategy = replace(PIPELINE, pp=4)
    every = placed(strategy, 12)
    found = estimate(job, StrategyBatch.of(every), CONSTANTS)
    leanest = int(found.peak_memory_bytes.argmin())
    assert len(every) == 455
    assert found.step_time_s[leanest] > 1.06 * found.step_time_s.min()
    tight = with_limit(job, float(found.peak_memory_bytes[leanest]) * (1.0 + 1e-9))
    candidates = Placer(tight).fastest_that_fit(priced_batch(tight, StrategyBatch.of([strategy]), CONSTANTS))
    assert [candidates.priced.batch.row(place).layer_layout for place in range(len(candidates.origin))] == [
        every[leanest].layer_layout
    ]


def test_a_placement_that_waits_less_than_its_pace_says_is_a_candidate() -> None:
    """Llama 2 70B on two ranks of two chunks: its pace is 2.4 % behind, its simulated step 0.07 % ahead."""
    model, cluster = model_preset("llama-2-70b").model, Cluster(profile("atlas-800t-a2"), 64)
    job = Workload(model, TrainingJob(4096, 256), cluster, Software("mindspeed-llm"))
    limits = SearchLimits(tp=(8,), pp=(2,), vpp=(2,), micro_batch_size=(2,), recompute=(recompute_mode("none"),))
    lattice = LatticeSearch(SearchRequest(job, search_space(job, limits), CONSTANTS, top=1))
    while lattice.advance():
        pass
    assert lattice.state.candidates.simulated is not None
    form = lattice.state.candidates.simulated.batch.row(int(lattice.state.candidates.simulated.step_time_s.argmin()))
    plans = [replace(form, layer_layout=layout) for layout in (((19, 20), (21, 20)), ((20, 20), (20, 20)), ((19, 21), (21, 19)))]
    *even_s, waiting_s = simulate(job, StrategyBatch.of(plans), CONSTANTS).step_time_s.tolist()
    assert waiting_s < 0.9995 * min(even_s)
    assert lattice.state.candidates.best_s <= waiting_s * (1.0 + 1e-9)


def test_a_move_of_a_layer_that_hardly_gains_enough_is_made() -> None:
    job = with_limit(workload(SMALL, num_devices=2, global_batch_size=MANY, seq_length=LONG), 1e18)
    even, uneven = (replace(PIPELINE, layer_layout=(counts,)) for counts in ((2, 2), (3, 1)))
    even_s = float(simulate(job, StrategyBatch.of([even]), CONSTANTS).step_time_s[0])
    plan = RankedStrategy(uneven, even_s / (1.0 - LEAST_GAIN) * (1.0 + 1e-6), 0.0)
    moved = climbed(LayerPrices(job, CONSTANTS), Placer(job), simulate, plan)
    assert moved.strategy.layer_layout == ((2, 2),)
    assert moved.step_time_s == pytest.approx(even_s, rel=1e-12)
