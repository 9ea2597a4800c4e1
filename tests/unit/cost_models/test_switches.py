"""Each switch is one entry: what it acts on, and where it is priced, hold for the formulas as they are."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models import priced_groups
from cost_models.constants import prior_constants
from cost_models.shapes import acting
from cost_models.shapes.layer_keys import LayerKeys
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, Schedule, StrategyBatch
from cost_models.shapes.switches import (
    ANY_DISPATCHER,
    DEFAULT_FEATURES,
    FUSIONS,
    PRICED,
    SWITCHES,
    UNPRICED_FEATURES,
    Feature,
    Place,
    PlaceError,
    Scope,
    acting_in,
    acting_on,
)
from cost_models.shapes.workload import Cluster, ModelShape, Workload
from cost_models.step import estimate
from tests.networks import ascend_a2, gpu
from tests.workloads import DENSE, LATENT, SPARSE, workload

assert SPARSE.moe is not None
CAPPED = replace(SPARSE, moe=replace(SPARSE.moe, capacity_factor=1.5))
PLAIN = replace(DENSE, gated_linear_unit=False, learned_positions=True)
STRATEGIES = (
    ParallelStrategy(dp=16, zero_stage=0),
    ParallelStrategy(tp=2, dp=8, sequence_parallel=True),
    ParallelStrategy(tp=2, dp=4, cp=2, cp_algo=CpAlgo.RING, zero_stage=3),
    ParallelStrategy(tp=2, pp=2, dp=4, vpp=2, schedule=Schedule.INTERLEAVED, micro_batch_size=2),
    ParallelStrategy(pp=2, dp=8, recompute=Recompute.FULL, schedule=Schedule.GPIPE, zero_stage=2),
)
ROUTED = tuple(
    replace(ParallelStrategy(tp=2, pp=2, dp=4, ep=4, sequence_parallel=True, dispatcher=dispatcher), schedule=schedule, vpp=vpp)
    for dispatcher in Dispatcher
    if dispatcher
    for schedule, vpp in ((Schedule.ONE_F_ONE_B, 1), (Schedule.INTERLEAVED, 2), (Schedule.DUALPIPE_V, 2))
)


def on(model: ModelShape, cluster: Cluster, **values: Any) -> Workload:
    return workload(model, cluster=replace(cluster, num_devices=16), global_batch_size=128, **values)


def jobs() -> Iterator[tuple[Workload, tuple[ParallelStrategy, ...]]]:
    for cluster in (ascend_a2(latency_s=1e-6), gpu(latency_s=1e-6)):
        for model in (DENSE, PLAIN):
            yield on(model, cluster), STRATEGIES
        for model in (SPARSE, CAPPED, LATENT):
            yield on(model, cluster), STRATEGIES + ROUTED
    yield on(SPARSE, ascend_a2(), execution="graph"), STRATEGIES + ROUTED


def price(job: Workload, rows: list[ParallelStrategy]) -> np.ndarray:
    priced = estimate(job, StrategyBatch.of(rows), prior_constants(job.cluster.profile.family))
    return np.stack([priced.step_time_s, priced.step_time_lower_bound_s, priced.peak_memory_bytes, priced.allocated_peak_bytes])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[Place, Feature]:
    """What formulas ask for from now on, by place."""
    seen: dict[Place, Feature] = defaultdict(lambda: Feature(0))
    of_keys, of_rows, of_groups = LayerKeys.has, StrategyBatch.has, priced_groups.priced_bits

    def key_has(self: LayerKeys, feature: Feature) -> Any:
        seen[Place.LAYER] |= feature
        return of_keys(self, feature)

    def row_has(self: StrategyBatch, feature: Feature) -> Any:
        seen[self.place] |= feature
        return of_rows(self, feature)

    def group_has(feature: Feature, place: Place) -> int:
        seen[place] |= feature
        return of_groups(feature, place)

    monkeypatch.setattr(LayerKeys, "has", key_has)
    monkeypatch.setattr(StrategyBatch, "has", row_has)
    monkeypatch.setattr(priced_groups, "priced_bits", group_has)
    return seen


def test_formulas_ask_for_a_switch_where_its_entry_prices_it_and_nowhere_else(asked: dict[Place, Feature]) -> None:
    for job, rows in jobs():
        price(job, list(rows))
    assert {place: Feature(PRICED[place]) for place in Place} == asked


def test_a_switch_moves_a_price_if_its_entry_prices_it() -> None:
    moved = Feature(0)
    for job, rows in jobs():
        for row in rows:
            flipped = [replace(row, features=row.features ^ feature) for feature in Feature]
            prices = price(job, [row, *flipped])
            differ = (prices[:, 1:] != prices[:, :1]).any(axis=0)
            for feature in np.array(list(Feature))[differ]:
                moved |= Feature(int(feature))
    assert moved == ~UNPRICED_FEATURES
