"""The streamed lattice against the plain product of its dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.canonical import canonical, layers_per_chunk, schedules_of
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from frameworks.legality import RULES, first_violation, legal_mask
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.recompute_modes import recompute_mode
from search.space.search_space import Pipeline, SearchSpace
from search.trials.named_choices import Choose, StrategyChoices, Value
from tests.search_workloads import DENSE, MOE, workload

MODES = [
    recompute_mode(name)
    for name in ("none", "full", "full:2", "block:1", "block:50%", "block:100%", "layernorm", "mlp_act+mlp+moe", "mla_up_proj")
]
SWITCHED = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER | Feature.OVERLAP_P2P
FEATURES = [
    Feature(0),
    SWITCHED,
    SWITCHED | Feature.SWAP_OPTIMIZER,
    Feature.MC2 | Feature.CP_SEND_RECV_OVERLAP,
    Feature.MOE_ALLTOALL_OVERLAP_COMM | Feature.MOE_ALLGATHER_OVERLAP_COMM,
    Feature.REUSE_FP32_PARAM | Feature.MOE_SHARED_EXPERT_OVERLAP,
]


def some(values: list, most: int) -> st.SearchStrategy[tuple]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True).map(tuple)


def degrees(others: list[int], most: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Sorted values that mostly include 1, so that some strategies are legal."""
    chosen = st.lists(st.sampled_from(others), max_size=most, unique=True)
    return st.tuples(chosen, st.sampled_from([1, 1, 1, 2])).map(lambda drawn: tuple(sorted({*drawn[0], drawn[1]})))


SPACES = st.builds(
    SearchSpace,
    tp=degrees([2, 8, 3, 32], 2),
    pp=degrees([2, 4, 3, 16], 2),
    vpp=degrees([2, 3, 5, 40], 1),
    cp=degrees([2, 4, 5], 1),
    ep=degrees([8, 16, 32, 3], 2),
    etp=degrees([2], 1),
    micro_batch_size=degrees([2, 3], 1),
    sequence_parallel=some([True, False], 2),
    cp_algo=some([CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID], 3),
    schedule=some(list(Schedule), 4),
    microbatch_group_size_per_vp_stage=some([0, 2, 4, 6, 100], 2),
    dispatcher=some([Dispatcher.ALLTOALL, Dispatcher.ALLGATHER, Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL], 2),
    recompute=some(MODES, 3),
    zero_stage=some([0, 1, 3], 2),
    features=some(FEATURES, 3),
    dualpipev_features=some([*FEATURES, Feature.MOE_COMM_OVERLAP, Feature.DUALPIPEV_DW_DETACH], 2),
    interleaved_features=some([*FEATURES, Feature.MOE_COMM_OVERLAP], 2),
)
WORKLOADS = st.builds(
    workload,
    st.sampled_from([DENSE, MOE]),
    hardware=st.sampled_from(["atlas-800t-a2", "atlas-900-a3-superpod"]),
    num_devices=st.sampled_from([1, 16, 32, 24]),
    global_batch_size=st.sampled_from([48, 64]),
    target=st.sampled_from(["any", "megatron-lm", "mindspeed-llm"]),
)


def product_of(job: Workload, space: SearchSpace) -> list[ParallelStrategy]:
    """Every combination of the space in canonical form, each once: the plain way to say what the lattice is."""
    found: dict[ParallelStrategy, None] = {}
    degree_values = (space.pp, space.vpp, space.tp, space.cp, space.ep, space.etp, space.micro_batch_size)
    for pp, vpp, tp, cp, ep, etp, micro_batch_size in product(*degree_values):
        longest = layers_per_chunk(job.model, pp, vpp)
        attention = [
            (algo, degree)
            for algo in space.cp_algo
            for degree in (range(2, cp) if algo is CpAlgo.HYBRID and cp > 1 else [1])
            if cp % degree == 0
        ]
        pipelines = [
            (schedule, group_size, features)
            for schedule in schedules_of(pp, vpp)
            if schedule in space.schedule
            for group_size in space.microbatch_group_size_per_vp_stage
            for features in space.features_with(schedule)
        ]
        options = product(space.sequence_parallel, attention, space.recompute, space.dispatcher, space.zero_stage, pipelines)
        for sequence_parallel, (cp_algo, ulysses_degree), mode, dispatcher, zero_stage, pipeline in options:
            schedule, group_size, features = pipeline
            strategy = ParallelStrategy(
                tp=tp,
                pp=pp,
                cp=cp,
                ep=ep,
                etp=etp,
                vpp=vpp,
                micro_batch_size=micro_batch_size,
                sequence_parallel=sequence_parallel,
                cp_algo=cp_algo,
                ulysses_degree=ulysses_degree,
                schedule=schedule,
                microbatch_group_size_per_vp_stage=group_size,
                zero_stage=zero_stage,
                dispatcher=dispatcher,
                recompute=mode.granularity,
                recompute_method=mode.method,
                recompute_num_layers=mode.layers(longest),
                recompute_modules=mode.modules,
                features=features,
            )
            found[canonical(job, strategy)] = None
    return list(found)


def streamed(job: Workload, space: SearchSpace, chunk_rows: int) -> tuple[list[ParallelStrategy], Rejections, int]:
    rejections, legal, enumerated = Rejections(), [], 0
    for chunk in chunks(job, space, rejections, chunk_rows):
        assert len(chunk.batch) <= chunk_rows
        rows = charge_illegal(job, chunk.batch, option_rules(job), rejections)
        legal += [rows.row(index) for index in range(len(rows))]
        enumerated += chunk.num_enumerated
    return legal, rejections, enumerated


@settings(max_examples=120)
@given(WORKLOADS, SPACES, st.sampled_from([7, 64, 65536]))
def test_the_stream_is_the_canonical_product_and_every_strategy_is_charged_or_legal(
    job: Workload, space: SearchSpace, chunk_rows: int
) -> None:
    everything = product_of(job, space)
    legal, rejections, enumerated = streamed(job, space, chunk_rows)
    assert enumerated == len(everything) == len(legal) + rejections.total
    assert len(set(legal)) == len(legal)
    if not everything:
        return
    charged = first_violation(job, StrategyBatch.of(everything))
    assert set(legal) == {strategy for strategy, rule in zip(everything, charged, strict=True) if rule < 0}
    assert rejections.counts == Counter(RULES[rule].name for rule in charged if rule >= 0)


@settings(max_examples=30)
@given(WORKLOADS, SPACES)
def test_what_is_emitted_is_its_own_canonical_form(job: Workload, space: SearchSpace) -> None:
    for strategy in streamed(job, space, 65536)[0]:
        assert canonical(job, strategy) == strategy


@settings(max_examples=30)
@given(WORKLOADS, SPACES)
def test_a_sampler_can_propose_every_strategy_of_the_lattice(job: Workload, space: SearchSpace) -> None:
    legal = streamed(job, space, 65536)[0]
    if not legal:
        return
    proposals = StrategyChoices(job, space)
    for strategy in legal[:: max(len(legal) // 50, 1)]:
        # Combinations of switches are listed whole in a space; a sampler chooses each on its own.
        parameters = proposals.parameters(strategy)
        assert parameters is not None
        assert proposals.strategy(_answering(parameters)) == strategy


def _answering(parameters: Mapping[str, Value]) -> Choose:
    return lambda name, _: parameters[name]


@settings(max_examples=20)
@given(WORKLOADS, SPACES)
def test_an_example_breaks_the_rule_that_it_stands_for(job: Workload, space: SearchSpace) -> None:
    _, rejections, _ = streamed(job, space, 65536)
    for name, (rule, example) in rejections.examples.items():
        assert rule.name == name
        assert rule.violates(job, StrategyBatch.of([example]))[0]
        assert rule.sentence(job, example)


@settings(max_examples=10)
@given(WORKLOADS, SPACES)
def test_order_does_not_depend_on_the_size_of_chunks(job: Workload, space: SearchSpace) -> None:
    small, large = streamed(job, space, 11), streamed(job, space, 65536)
    assert small[0] == large[0]
    assert small[1].counts == large[1].counts
    place = {pipeline: index for index, pipeline in enumerate(space.pipelines())}
    keys = [
        (
            place[Pipeline(s.pp, s.vpp, s.schedule, s.microbatch_group_size_per_vp_stage)],
            *(s.tp, s.cp, s.ep, s.etp, s.micro_batch_size),
        )
        for s in large[0]
    ]
    assert np.all(keys == sorted(keys))


# Left out: what canonical forms drop although a careless price would reward it (padding without a capacity, the overlap
# of another dispatcher), and fusions of which one excludes the other.
PLAIN_FEATURES = (
    Feature.FLASH_ATTENTION | Feature.FUSED_SWIGLU | Feature.FUSED_ROPE | Feature.REPLICATED_EMBEDDING | Feature.MC2
    | Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER | Feature.OVERLAP_P2P | Feature.SWAP_OPTIMIZER
    | Feature.MOE_GROUPED_GEMM | Feature.MOE_PERMUTE_FUSION | Feature.MOE_SHARED_EXPERT_OVERLAP | Feature.MOE_TP_EXTEND_EP
    | Feature.MOE_COMM_OVERLAP | Feature.MOE_ZERO_MEMORY | Feature.CP_SEND_RECV_OVERLAP | Feature.FINE_GRAIN_INTERLEAVE
)  # fmt: skip


@st.composite
def strategies(draw: st.DrawFn, job: Workload) -> ParallelStrategy:
    """A strategy that is mostly legal, with options that often have no effect."""
    pp = draw(st.sampled_from([1, 2, 4]))
    vpp = draw(st.sampled_from([1, 2, 3])) if pp > 1 else 1
    cp = draw(st.sampled_from([1, 2]))
    mode = draw(st.sampled_from(MODES))
    moe = job.model.moe is not None
    return ParallelStrategy(
        tp=draw(st.sampled_from([1, 2, 8])),
        pp=pp,
        vpp=vpp,
        cp=cp,
        ep=draw(st.sampled_from([1, 8, 16])) if moe else 1,
        etp=draw(st.sampled_from([1, 2])) if moe else 1,
        sequence_parallel=draw(st.booleans()),
        cp_algo=draw(st.sampled_from([CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID])),
        ulysses_degree=draw(st.sampled_from([1, cp])),
        zero_stage=draw(st.sampled_from([0, 1])),
        dispatcher=draw(st.sampled_from(list(Dispatcher))),
        recompute=mode.granularity,
        recompute_method=mode.method,
        recompute_num_layers=mode.layers(layers_per_chunk(job.model, pp, vpp)),
        recompute_modules=mode.modules,
        features=PLAIN_FEATURES & Feature(draw(st.integers(0, int(PLAIN_FEATURES)))),
    )


@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_the_canonical_form_runs_like_the_strategy(data: st.DataObject) -> None:
    model, hardware = (
        data.draw(st.sampled_from([DENSE, MOE])),
        data.draw(st.sampled_from(["atlas-800t-a2", "atlas-900-a3-superpod"])),
    )
    job = workload(model, hardware=hardware, num_devices=data.draw(st.sampled_from([16, 32])))
    strategy = data.draw(strategies(job))
    chosen = canonical(job, strategy)
    both = StrategyBatch.of([replace(strategy, dp=chosen.dp, schedule=chosen.schedule), chosen])
    assume(legal_mask(job, both, "any").all())
    priced = estimate(job, both, prior_constants("ascend"))
    assert priced.step_time_s[0] == priced.step_time_s[1]
    assert priced.peak_memory_bytes[0] == priced.peak_memory_bytes[1]
