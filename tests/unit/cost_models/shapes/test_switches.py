"""Each switch is one entry: what it acts on, and where it is priced, hold for the formulas as they are."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cost_models
from cost_models.constants import prior_constants
from cost_models.shapes import effective_switches, switches
from cost_models.shapes.effective_switches import acting, scope_of
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
    InSearch,
    Place,
    PlaceError,
    Scope,
    acting_in,
    acting_on,
    treated,
)
from cost_models.shapes.workload import Cluster, ModelShape, SparseAttention, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step import priced_groups
from cost_models.step.composition import estimate
from tests.choices import any_features
from tests.networks import ascend_a2, gpu
from tests.workloads import DENSE, LATENT, SPARSE, workload

assert SPARSE.moe is not None
CAPPED = replace(SPARSE, moe=replace(SPARSE.moe, capacity_factor=1.5))
PLAIN = replace(DENSE, gated_linear_unit=False, learned_positions=True)
LEARNED = replace(DENSE, learned_positions=True)
INDEXER = SparseAttention(num_index_heads=4, index_head_dim=32, top_k=512)
INDEXED = replace(LATENT, sparse_attention=INDEXER)
INDEXED_PLAIN = replace(PLAIN, mla=LATENT.mla, sparse_attention=INDEXER)
BARE = {"num_shared_experts": 0, "shared_expert_ffn_hidden_size": 0}
UNSHARED, UNSHARED_CAPPED = (replace(model, moe=replace(model.moe, **BARE)) for model in (SPARSE, CAPPED))
PLAIN_EXPERTS = replace(CAPPED, gated_linear_unit=False, learned_positions=True)
ALONE = {"tp": 4, "pp": 4, "dp": 1, "sequence_parallel": True}  # no parameters on several ranks
# Together they lack each part of Scope while they have any other, as far as that can be.
STRATEGIES = (
    ParallelStrategy(dp=16, zero_stage=0),
    ParallelStrategy(tp=2, dp=8, sequence_parallel=True),
    ParallelStrategy(tp=2, dp=8, zero_stage=0),
    ParallelStrategy(tp=2, dp=4, cp=2, cp_algo=CpAlgo.RING, zero_stage=3),
    ParallelStrategy(cp=16, cp_algo=CpAlgo.RING, zero_stage=0),
    ParallelStrategy(tp=2, pp=2, dp=4, vpp=2, schedule=Schedule.INTERLEAVED, micro_batch_size=2),
    ParallelStrategy(pp=2, dp=8, vpp=2, schedule=Schedule.INTERLEAVED, zero_stage=0),
    ParallelStrategy(pp=2, dp=8, vpp=2, schedule=Schedule.DUALPIPE_V, zero_stage=0),
    ParallelStrategy(pp=2, dp=8, recompute=Recompute.FULL, schedule=Schedule.GPIPE, zero_stage=2),
    ParallelStrategy(**ALONE, schedule=Schedule.ONE_F_ONE_B),
    *(ParallelStrategy(**ALONE, schedule=schedule, vpp=2) for schedule in (Schedule.INTERLEAVED, Schedule.DUALPIPE_V)),
)
EXCHANGES = (Dispatcher.ALLTOALL, Dispatcher.ALLGATHER)
STAGED = (Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL)
ROUTED = (
    *(
        replace(
            ParallelStrategy(tp=2, pp=2, dp=4, ep=4, sequence_parallel=True, dispatcher=dispatcher), schedule=schedule, vpp=vpp
        )
        for dispatcher in Dispatcher
        if dispatcher
        for schedule, vpp in ((Schedule.ONE_F_ONE_B, 1), (Schedule.INTERLEAVED, 2), (Schedule.DUALPIPE_V, 2))
    ),
    *(ParallelStrategy(dp=16, ep=8, zero_stage=0, dispatcher=dispatcher) for dispatcher in EXCHANGES),
    *(ParallelStrategy(**ALONE, ep=4, micro_batch_size=4, dispatcher=dispatcher) for dispatcher in EXCHANGES),
    # Experts over two nodes, with and without parameters on several ranks.
    *(ParallelStrategy(dp=16, ep=16, zero_stage=0, dispatcher=dispatcher) for dispatcher in STAGED),
    *(ParallelStrategy(tp=16, dp=1, ep=16, sequence_parallel=True, dispatcher=dispatcher) for dispatcher in STAGED),
    ParallelStrategy(cp=16, ep=4, cp_algo=CpAlgo.RING, zero_stage=0, dispatcher=Dispatcher.ALLGATHER),
)


def on(model: ModelShape, cluster: Cluster, **values: Any) -> Workload:
    return workload(model, cluster=replace(cluster, num_devices=16), global_batch_size=128, **values)


def jobs() -> Iterator[tuple[Workload, tuple[ParallelStrategy, ...]]]:
    for cluster in (ascend_a2(latency_s=1e-6), gpu(latency_s=1e-6)):
        for model in (DENSE, PLAIN, replace(PLAIN, learned_positions=False), LEARNED, INDEXED_PLAIN):
            yield on(model, cluster), STRATEGIES
        for model in (SPARSE, CAPPED, LATENT, INDEXED, PLAIN_EXPERTS, UNSHARED, UNSHARED_CAPPED):
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
        simulate(job, StrategyBatch.of(rows), prior_constants(job.cluster.profile.family))
    assert {place: Feature(PRICED[place]) for place in Place} == asked


@pytest.mark.parametrize(("model", "cluster"), [(CAPPED, ascend_a2()), (DENSE, gpu())], ids=["experts", "dense"])
def test_neighbours_in_a_batch_that_differ_in_one_switch_keep_their_prices(model: ModelShape, cluster: Cluster) -> None:
    job = on(model, cluster)
    for row in STRATEGIES[1::3] + (ROUTED[1::3] if model.moe else ()):
        turned = [row, *(replace(row, features=row.features ^ feature) for feature in Feature)]
        # Rows that wrongly share a price have that of the first of them: another one where they stand the other way round.
        wrong = (price(job, turned) != price(job, turned[::-1])[:, ::-1]).any(axis=0)
        assert [other.features ^ row.features for other, differs in zip(turned, wrong, strict=True) if differs] == [], row


def test_formulas_read_switches_by_the_functions_that_know_where_they_are_priced() -> None:
    root = Path(cost_models.__file__).parent
    rooms = [path for path in root.rglob("*.py") if path.parent.name != "shapes"]
    assert len(rooms) > 30
    masked = {path.name: re.findall(r"\.features\b.*", path.read_text(encoding="utf-8")) for path in rooms}
    group = ("priced_groups.py", "sharded_model.py")  # what they mask says which strategies share a price
    assert {name: lines for name, lines in masked.items() if lines and name not in group} == {}


def moving() -> Iterator[tuple[Scope, Feature]]:
    """For each job and strategy, what there is to act on, and the switches whose turn moves time or memory."""
    for job, rows in jobs():
        turned = [replace(row, features=row.features ^ feature) for row in rows for feature in (Feature(0), *Feature)]
        prices = price(job, turned).reshape(4, len(rows), 1 + len(Feature))
        differ = (prices[:, :, 1:] != prices[:, :, :1]).any(axis=0)
        for row, moved in zip(rows, differ, strict=True):
            moves = Feature(sum(feature for feature, moves in zip(Feature, moved, strict=True) if moves))
            yield scope_of(job.model, row), moves


def test_a_switch_moves_prices_exactly_where_its_entry_says_that_it_acts() -> None:
    needed = {feature: ~Scope(0) for feature in Feature}  # what was there whenever the switch moved a price
    for scope, moves in moving():
        for feature in moves:
            needed[feature] &= scope
    assert {feature for feature, scope in needed.items() if scope == ~Scope(0)} == set(UNPRICED_FEATURES)
    acts_on = {feature: switch.acts_on for feature, switch in SWITCHES.items() if switch.priced}
    acts_on |= {Feature.FUSED_SWIGLU: Scope(0)}  # formulas take any activation function for one that could be fused
    assert {feature: implied(needed[feature]) for feature in acts_on} == {f: implied(scope) for f, scope in acts_on.items()}


def implied(scope: Scope) -> Scope:
    """With what is there wherever the scope is: ranks of context parallelism hold the same parameters; no stage is a gather."""
    follows = {Scope.CONTEXT_PARALLEL: Scope.REPLICAS, Scope.STAGED: Scope.EXCHANGED}
    return scope | Scope(sum(more for part, more in follows.items() if part & scope))


@pytest.mark.parametrize("feature", [f for f in Feature if not f & PRICED[Place.SHARDING]], ids=lambda f: f.name)
def test_a_switch_that_shardings_do_not_price_cannot_be_asked_of_one(feature: Feature) -> None:
    rows = StrategyBatch.of([ParallelStrategy(features=~Feature(0))])
    sharding = rows.standing_for(np.array([0]), Place.SHARDING, ("tp",))
    assert rows.has(feature)[0]
    with pytest.raises(PlaceError, match=f"{feature.name} is asked for in SHARDING"):
        sharding.has(feature)


def test_rows_that_stand_for_others_hold_what_they_share_alone() -> None:
    rows = StrategyBatch.of([ParallelStrategy(tp=2, micro_batch_size=4, features=Feature.SWAP_OPTIMIZER | Feature.MC2)] * 2)
    sharding = rows.standing_for(np.array([1]), Place.SHARDING, ("tp",))
    assert (sharding.tp.tolist(), sharding.micro_batch_size.tolist()) == ([2], [])
    assert sharding.features.tolist() == [int(Feature.SWAP_OPTIMIZER)]


MODELS = (DENSE, PLAIN, SPARSE, CAPPED)
rows_of_any_kind = st.builds(
    ParallelStrategy,
    tp=st.sampled_from((1, 2)),
    cp=st.sampled_from((1, 2)),
    dp=st.sampled_from((1, 4)),
    ep=st.sampled_from((1, 4)),
    etp=st.sampled_from((1, 2)),
    pp=st.sampled_from((1, 2)),
    vpp=st.sampled_from((1, 2)),
    zero_stage=st.sampled_from((0, 1)),
    schedule=st.sampled_from(Schedule),
    dispatcher=st.sampled_from(Dispatcher),
    features=any_features,
)


@given(st.sampled_from(MODELS), st.lists(rows_of_any_kind, min_size=1, max_size=4), st.sampled_from((Scope(0), ANY_DISPATCHER)))
def test_columns_and_scopes_agree_on_what_acts(model: ModelShape, rows: list[ParallelStrategy], given: Scope) -> None:
    bits = acting(model, StrategyBatch.of(rows), ~Feature(0), given=given)
    assert bits.tolist() == [row.features & acting_in(scope_of(model, row) | given) for row in rows]
    one = acting(model, StrategyBatch.of(rows), Feature.MC2 | Feature.MOE_COMM_OVERLAP) != 0
    assert one.tolist() == [bool(b & (Feature.MC2 | Feature.MOE_COMM_OVERLAP)) for b in bits.tolist()]


@pytest.mark.parametrize(
    ("feature", "model", "there", "missing"),
    [
        (Feature.MC2, DENSE, {"tp": 2}, {"tp": 1}),
        (Feature.CP_SEND_RECV_OVERLAP, DENSE, {"cp": 2}, {"cp": 1}),
        (Feature.OVERLAP_GRAD_REDUCE, DENSE, {"dp": 2}, {"dp": 1}),
        (Feature.OVERLAP_GRAD_REDUCE, DENSE, {"cp": 2}, {"tp": 2}),
        (Feature.OVERLAP_GRAD_REDUCE, SPARSE, {"tp": 2}, {"tp": 2, "ep": 2}),  # experts on two ranks alike, or on one each
        (Feature.OVERLAP_PARAM_GATHER, DENSE, {"dp": 2}, {"dp": 2, "zero_stage": 0}),
        (Feature.OVERLAP_P2P, DENSE, {"pp": 2, "vpp": 2}, {"pp": 2}),
        (
            Feature.OVERLAP_P2P,
            DENSE,
            {"pp": 2, "vpp": 2, "schedule": Schedule.INTERLEAVED},
            {"pp": 2, "vpp": 2, "schedule": Schedule.ZBV},
        ),
        (
            Feature.DUALPIPEV_DW_DETACH,
            DENSE,
            {"pp": 2, "vpp": 2, "schedule": Schedule.DUALPIPE_V},
            {"schedule": Schedule.DUALPIPE_V},
        ),
        (Feature.MOE_COMM_OVERLAP, SPARSE, {"etp": 2}, {}),
        (
            Feature.MOE_ALLGATHER_OVERLAP_COMM,
            SPARSE,
            {"ep": 2, "dispatcher": Dispatcher.ALLGATHER},
            {"ep": 2, "dispatcher": Dispatcher.TWO_LEVEL},
        ),
        (
            Feature.MOE_ALLTOALL_OVERLAP_COMM,
            SPARSE,
            {"ep": 2, "dispatcher": Dispatcher.TWO_LEVEL},
            {"ep": 2, "dispatcher": Dispatcher.ALLGATHER},
        ),
    ],
)  # fmt: skip
def test_what_a_switch_acts_on(feature: Feature, model: ModelShape, there: dict[str, Any], missing: dict[str, Any]) -> None:
    assert feature & acting_in(scope_of(model, ParallelStrategy(**there)))
    assert not feature & acting_in(scope_of(model, ParallelStrategy(**missing)))


def test_what_a_switch_needs_of_the_model() -> None:
    layout = ParallelStrategy(ep=2, dispatcher=Dispatcher.ALLTOALL)
    on_dense, on_sparse = (acting_in(scope_of(model, layout)) for model in (DENSE, SPARSE))
    assert (~on_dense & on_sparse) == acting_on(Scope.EXPERTS) & ~acting_on(Scope.CAPACITY | Scope.GATHERED | Scope.STAGED)
    assert acting_in(scope_of(CAPPED, layout)) & ~on_sparse == Feature.MOE_PAD_TO_CAPACITY
    assert (
        on_dense & ~acting_in(scope_of(PLAIN, layout)) == Feature.FUSED_SWIGLU | Feature.FUSED_ROPE | Feature.FP8_ACTIVATION_INPUT
    )


def test_what_the_entries_say_as_a_whole() -> None:
    assert len(SWITCHES) == len(Feature) == int(~Feature(0)).bit_count()
    assert FUSIONS == (Feature.MC2, Feature.COC, Feature.TP_COMM_OVERLAP, Feature.TP_2D)
    assert treated(InSearch.ON) & DEFAULT_FEATURES == DEFAULT_FEATURES
    assert treated(InSearch.LEFT_OUT) & UNPRICED_FEATURES == UNPRICED_FEATURES
    assert Feature.GRAD_REDUCE_IN_BF16 in treated(InSearch.LEFT_OUT)
    assert not DEFAULT_FEATURES & UNPRICED_FEATURES
    for feature, switch in SWITCHES.items():
        assert re.fullmatch(r"[A-Z][^.]+\.", switch.meaning), feature.name  # one sentence
        assert re.fullmatch(r"\[[^\]]+\]", switch.source), feature.name


def broken(source: str, find: str, put: str) -> str:
    text = Path(source).read_text(encoding="utf-8")
    assert text.count(find) == 1, f"{Path(source).name} has changed: bring this test up to date"
    return text.replace(find, put)


def imported(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"half_done_{name}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, name, "exec"), module.__dict__)


LAST = "    DUALPIPEV_DW_DETACH = _switch(29, Scope.DUALPIPEV, _PIPELINE,\n"


@pytest.mark.parametrize(
    ("find", "put", "complaint"),
    [
        (LAST, "    NEW = 1 << 60\n" + LAST, "every member of Feature is one entry"),
        (LAST, LAST.replace("29", "28"), "duplicate values found"),
        (LAST, LAST.replace("Scope.DUALPIPEV, ", ""), "'priced'"),
        (LAST, LAST.replace(" _PIPELINE,", ""), "'priced'"),
        ('        source="[mindspeed-dualpipev]",\n', "", "'source'"),
    ],
)
def test_half_a_switch_cannot_be_imported(find: str, put: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = broken(switches.__file__, find, put)
    with pytest.raises((TypeError, ValueError), match=complaint):
        imported("switches", text, monkeypatch)


def test_a_scope_without_a_condition_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    text = broken(effective_switches.__file__, "    Scope.GATED_MLP: lambda model: model.gated_linear_unit,\n", "")
    with pytest.raises(TypeError, match="every scope"):
        imported("effective_switches", text, monkeypatch)
