"""What holds for every estimate."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalogue.models.presets import model_preset
from cost_models.constants import prior_constants
from cost_models.layer.overlap import host_copy_stretch
from cost_models.shapes.canonical import schedules_of
from cost_models.shapes.flops import model_flops_per_step
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Software, TrainingJob, Workload
from cost_models.step.composition import estimate, estimate_priced
from cost_models.step.priced_groups import KnownPipelines, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from hardware_profiles.schema import HardwareProfile
from tests.choices import any_features
from tests.networks import ascend_a2, gpu

MODELS = ("llama-2-7b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v2", "pangu-ultra-moe-718b", "qwen3-30b-a3b")
DEVICES, BATCH = 512, 1024
TOLERANCE = 1e-9

powers = {name: st.sampled_from(values) for name, values in {"tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8), "cp": (1, 2, 4)}.items()}
few = settings(max_examples=40)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    model = model_preset(draw(st.sampled_from(MODELS))).model
    cluster = replace(draw(st.sampled_from((ascend_a2(latency_s=2e-6), gpu(latency_s=2e-6)))), num_devices=DEVICES)
    training = TrainingJob(
        seq_length=draw(st.sampled_from((2048, 4096, 32768))),
        global_batch_size=BATCH,
        expert_load_factor=draw(st.sampled_from((1.0, 1.3))),
        expert_spread=draw(st.sampled_from((None, model.expert_spread()))),
    )
    execution = draw(st.sampled_from(("eager", "graph")))
    return Workload(model, training, cluster, Software("megatron-lm", execution=execution))


@st.composite
def strategies(draw: st.DrawFn) -> ParallelStrategy:
    tp, pp, cp = draw(powers["tp"]), draw(powers["pp"]), draw(powers["cp"])
    dp = DEVICES // (tp * pp * cp)
    vpp = draw(st.sampled_from((1, 2, 4))) if pp > 1 else 1
    ep = draw(st.sampled_from([e for e in (1, 2, 4, 8) if e <= tp * dp * cp]))
    etp = draw(st.sampled_from([e for e in (1, 2, 4) if ep * e <= tp * dp * cp]))
    ulysses = draw(st.sampled_from([u for u in (1, 2, 4) if u <= cp]))
    recompute = draw(st.sampled_from(Recompute))
    modules = draw(
        st.sampled_from([RecomputeModule.CORE_ATTN, RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT, RecomputeModule.MOE])
    )
    features = DEFAULT_FEATURES
    for feature in (Feature.MC2, Feature.MOE_ALLTOALL_OVERLAP_COMM, Feature.REUSE_FP32_PARAM, Feature.SWAP_OPTIMIZER):
        features |= feature if draw(st.booleans()) else Feature(0)
    if draw(st.booleans()):
        features &= ~(Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_P2P)
    return ParallelStrategy(
        tp=tp,
        pp=pp,
        dp=dp,
        cp=cp,
        ep=ep,
        etp=etp,
        vpp=vpp,
        micro_batch_size=draw(st.sampled_from((1, 2))),
        sequence_parallel=draw(st.booleans()),
        cp_algo=CpAlgo.NONE if cp == 1 else CpAlgo.ULYSSES if ulysses == cp else CpAlgo.RING if ulysses == 1 else CpAlgo.HYBRID,
        ulysses_degree=ulysses,
        schedule=Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B if pp > 1 else Schedule.NONE,
        zero_stage=draw(st.sampled_from((0, 1, 2, 3))) if pp == 1 else draw(st.sampled_from((0, 1))),
        dispatcher=draw(st.sampled_from([d for d in Dispatcher if d])) if ep > 1 else Dispatcher.NONE,
        recompute=recompute,
        recompute_method=draw(st.sampled_from((RecomputeMethod.BLOCK, RecomputeMethod.UNIFORM)))
        if recompute is Recompute.FULL
        else RecomputeMethod.NONE,
        recompute_num_layers=draw(st.integers(1, 4)) if recompute is Recompute.FULL else 0,
        recompute_modules=modules if recompute is Recompute.SELECTIVE else RecomputeModule(0),
        features=features,
    )


@st.composite
def any_strategies(draw: st.DrawFn) -> ParallelStrategy:
    """Every switch, recompute module, schedule and dispatcher, in any combination, also those that no framework runs."""
    row = draw(strategies())
    schedule = draw(st.sampled_from(schedules_of(row.pp, row.vpp)))
    modules = draw(st.integers(1, int(~RecomputeModule(0))))
    return replace(
        row,
        schedule=schedule,
        microbatch_group_size_per_vp_stage=draw(st.sampled_from((0, row.pp + 2))) if schedule is Schedule.INTERLEAVED else 0,
        optimizer_shard_size=draw(st.sampled_from((0, 1, 2))),
        dispatcher=draw(st.sampled_from([d for d in Dispatcher if d])),
        recompute_modules=RecomputeModule(modules) if row.recompute is Recompute.SELECTIVE else RecomputeModule(0),
        features=draw(any_features),
    )


@st.composite
def crowded_batches(draw: st.DrawFn) -> list[ParallelStrategy]:
    """Batches of any strategies in which several share a pipeline, a layer key or a sharding but for one change."""
    rows = draw(st.lists(any_strategies(), min_size=1, max_size=3))
    for row in tuple(rows):
        other = draw(any_strategies())
        rows += [
            replace(row, features=row.features ^ Feature(1 << draw(st.integers(0, len(Feature) - 1)))),
            replace(row, micro_batch_size=3 - row.micro_batch_size),
            replace(row, dispatcher=other.dispatcher, features=other.features),
        ]
    return rows


batches = st.lists(strategies(), min_size=1, max_size=6)


def price(job: Workload, *rows: ParallelStrategy, breakdown: bool = False) -> Estimate:
    return estimate(job, StrategyBatch.of(rows), prior_constants(job.cluster.profile.family), breakdown=breakdown)


def columns(result: Estimate) -> dict[str, np.ndarray]:
    return {
        name: getattr(result, name)
        for name in Estimate.__dataclass_fields__
        if isinstance(getattr(result, name), np.ndarray) and not name.startswith("stage_")
    }


def on(job: Workload, **changes: object) -> Workload:
    """The same job on a changed device."""
    profile: HardwareProfile = replace(job.cluster.profile, **changes)  # type: ignore[arg-type]
    return replace(job, cluster=replace(job.cluster, profile=profile))


def with_links(job: Workload, factor: float, tier: int) -> Workload:
    tiers = list(job.cluster.profile.tiers)
    old = tiers[tier]
    link = old.link_bytes_per_s * factor if old.link_bytes_per_s else None
    tiers[tier] = replace(old, bandwidth_bytes_per_s=old.bandwidth_bytes_per_s * factor, link_bytes_per_s=link)
    return on(job, tiers=tuple(tiers))


@given(workloads(), crowded_batches())
@settings(max_examples=60)
def test_a_batch_is_its_rows(job: Workload, rows: list[ParallelStrategy]) -> None:
    """To the last bit: a server prices requests together that came together, and its answers must not depend on it."""
    for breakdown in (False, True):
        whole = columns(price(job, *rows, breakdown=breakdown))
        for index, row in enumerate(rows):
            for name, value in columns(price(job, row, breakdown=breakdown)).items():
                assert value[0] == whole[name][index], name


@given(workloads(), crowded_batches(), st.integers(0, 12), st.sampled_from((0, 1, 1 << 12)))
@few
def test_what_earlier_batches_had_is_not_seen(job: Workload, rows: list[ParallelStrategy], first: int, most: int) -> None:
    """To the last bit: a server keeps the costs of a job's layers, pipelines and shardings from request to request."""
    prices, known = LayerPrices(job, prior_constants(job.cluster.profile.family)), KnownPipelines(most)
    for batch in filter(None, (rows[:first], rows, rows[first:])):
        found = columns(estimate_priced(priced_by(prices, StrategyBatch.of(batch), known)))
        for name, value in columns(price(job, *batch)).items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@given(workloads(), crowded_batches(), st.integers(1, 11))
@few
def test_the_order_of_rows_does_not_matter(job: Workload, rows: list[ParallelStrategy], first: int) -> None:
    # Rows go round: one that lands where another was keeps its own price. Turned back to front, two rows that share a
    # pipeline could change places twice and look right.
    order = np.roll(np.arange(len(rows)), first)
    straight, turned = columns(price(job, *rows)), columns(price(job, *(rows[i] for i in order)))
    for name, value in straight.items():
        np.testing.assert_allclose(turned[name], value[order], rtol=1e-12, err_msg=name)


@given(workloads(), crowded_batches())
@few
def test_asking_for_detail_changes_nothing(job: Workload, rows: list[ParallelStrategy]) -> None:
    """The hot path merges equal pipeline ranks, the detailed one keeps each."""
    lean, detailed = columns(price(job, *rows)), columns(price(job, *rows, breakdown=True))
    for name, value in lean.items():
        np.testing.assert_allclose(detailed[name], value, rtol=1e-12, err_msg=name)


@given(workloads(), crowded_batches())
@few
def test_parts_sum_to_the_total(job: Workload, rows: list[ParallelStrategy]) -> None:
    result = price(job, *rows, breakdown=True)
    assert result.breakdown is not None
    np.testing.assert_allclose(sum(result.breakdown.time_s.values()), result.step_time_s, rtol=TOLERANCE)
    np.testing.assert_allclose(sum(result.breakdown.memory_bytes.values()), result.peak_memory_bytes, rtol=TOLERANCE)
    for table in (result.breakdown.time_s, result.breakdown.masked_s, result.breakdown.memory_bytes):
        for name, value in table.items():
            assert np.isfinite(value).all(), name
            assert (value >= 0.0).all(), name


@given(workloads(), batches)
@few
def test_bounds_and_totals_are_ordered(job: Workload, rows: list[ParallelStrategy]) -> None:
    result = price(job, *rows)
    assert (result.step_time_lower_bound_s > 0.0).all()
    assert (result.step_time_lower_bound_s <= result.step_time_s * (1 + TOLERANCE)).all()
    assert (result.allocated_after_step_bytes <= result.allocated_first_iteration_bytes * (1 + TOLERANCE)).all()
    assert (result.allocated_first_iteration_bytes <= result.allocated_peak_bytes * (1 + TOLERANCE)).all()
    assert (result.allocated_peak_bytes <= result.reserved_peak_bytes).all()
    assert (result.reserved_peak_bytes <= result.pooled_peak_bytes).all()
    # What decides what fits counts the least pool, which the pool that grows while memory is free is at least.
    assert (result.allocated_peak_bytes <= result.peak_memory_bytes).all()
    assert (result.peak_memory_bytes <= result.pooled_peak_bytes).all()


@given(workloads(), batches)
@few
def test_nobody_beats_the_peak(job: Workload, rows: list[ParallelStrategy]) -> None:
    result = price(job, *rows)
    needed = model_flops_per_step(job) / DEVICES / job.cluster.profile.matmul_flops_per_s["bf16"]
    assert (result.step_time_s > needed).all()


@given(workloads(), batches, st.floats(1.05, 4.0))
@few
def test_more_memory_bandwidth_is_never_slower(job: Workload, rows: list[ParallelStrategy], factor: float) -> None:
    faster = on(job, hbm_bytes_per_s=job.cluster.profile.hbm_bytes_per_s * factor)
    slow, fast = price(job, *rows), price(faster, *rows)
    assert (fast.step_time_s < slow.step_time_s).all()
    assert (fast.step_time_lower_bound_s <= slow.step_time_lower_bound_s).all()


@given(workloads(), batches, st.floats(1.05, 4.0), st.sampled_from((0, 1)))
@few
def test_faster_links_are_never_slower(job: Workload, rows: list[ParallelStrategy], factor: float, tier: int) -> None:
    assert (price(with_links(job, factor, tier), *rows).step_time_s <= price(job, *rows).step_time_s * (1 + TOLERANCE)).all()


@given(workloads(), batches, st.floats(1.05, 4.0))
@few
def test_faster_matmuls_are_never_slower(job: Workload, rows: list[ParallelStrategy], factor: float) -> None:
    profile = job.cluster.profile
    faster = on(
        job,
        matmul_flops_per_s={k: v * factor for k, v in profile.matmul_flops_per_s.items()},
        achievable_matmul_flops_per_s={k: v * factor for k, v in profile.achievable_matmul_flops_per_s.items()},
    )
    # A host-bound layer lasts as long as its dispatch, but its communication hides behind device time alone: up to 0.1 %.
    assert (price(faster, *rows).step_time_s <= price(job, *rows).step_time_s * (1 + 1e-3)).all()


def larger(model: ModelShape, field: str) -> ModelShape:
    """One step more: two layers a pipeline rank, or hidden and MLP sizes a 32nd larger."""
    if field == "num_layers":
        return replace(model, num_layers=model.num_layers + 8)
    return replace(model, hidden_size=model.hidden_size + model.hidden_size // 32)


@given(workloads(), batches, st.sampled_from(("num_layers", "hidden_size")))
@few
def test_a_larger_model_takes_longer_and_more_memory(job: Workload, rows: list[ParallelStrategy], field: str) -> None:
    small, large = price(job, *rows), price(replace(job, model=larger(job.model, field)), *rows)
    assert (large.step_time_s > small.step_time_s).all()
    assert (large.allocated_after_step_bytes >= small.allocated_after_step_bytes).all()


@given(workloads(), batches)
@few
def test_a_shape_changed_by_one_step_changes_the_result_a_little(job: Workload, rows: list[ParallelStrategy]) -> None:
    grown = replace(job, model=replace(job.model, hidden_size=job.model.hidden_size + 64))
    before, after = price(job, *rows), price(grown, *rows)
    growth = (job.model.hidden_size + 64) / job.model.hidden_size
    assert (after.step_time_s / before.step_time_s < growth**2 * 1.01).all()
    assert (after.peak_memory_bytes / before.peak_memory_bytes < growth**2 * 1.01).all()


@given(workloads(), batches)
@few
def test_more_tokens_take_longer(job: Workload, rows: list[ParallelStrategy]) -> None:
    longer = replace(job, training=replace(job.training, seq_length=2 * job.training.seq_length))
    more = replace(job, training=replace(job.training, global_batch_size=2 * BATCH))
    base = price(job, *rows)
    for other in (longer, more):
        assert (price(other, *rows).step_time_s > base.step_time_s).all()
    assert (price(longer, *rows).peak_memory_bytes >= base.peak_memory_bytes * (1 - TOLERANCE)).all()


@given(workloads(), strategies())
@few
def test_a_larger_micro_batch_holds_more(job: Workload, row: ParallelStrategy) -> None:
    # Many micro batches: with few, a larger one leaves fewer in flight.
    job = replace(job, training=replace(job.training, global_batch_size=64 * BATCH))
    one, two = price(job, replace(row, micro_batch_size=1), replace(row, micro_batch_size=2)).peak_memory_bytes
    assert two >= one * (1 - TOLERANCE)


@given(workloads(), strategies())
@few
def test_sharding_more_states_never_needs_more(job: Workload, row: ParallelStrategy) -> None:
    result = price(job, *(replace(row, zero_stage=stage) for stage in (0, 1, 2, 3)))
    assert (np.diff(result.allocated_after_step_bytes) <= TOLERANCE * result.allocated_after_step_bytes[0]).all()
    peaks = result.peak_memory_bytes[:3]  # ZeRO-3 gathers layers, which can outweigh the weights of a small shard
    assert (np.diff(peaks) <= TOLERANCE * peaks[0]).all()


@given(workloads(), strategies())
@few
def test_swapping_the_optimizer_never_needs_more(job: Workload, row: ParallelStrategy) -> None:
    kept = replace(row, features=row.features & ~Feature.SWAP_OPTIMIZER)
    swapped = replace(row, features=row.features | Feature.SWAP_OPTIMIZER)
    result = price(job, kept, swapped)
    assert result.peak_memory_bytes[1] <= result.peak_memory_bytes[0] * (1 + TOLERANCE)
    assert result.step_time_s[1] >= result.step_time_s[0] * (1 - TOLERANCE)


@given(workloads(), strategies(), st.sampled_from(RecomputeModule))
@few
def test_recompute_trades_time_for_memory(job: Workload, row: ParallelStrategy, module: RecomputeModule) -> None:
    plain = replace(
        row,
        recompute=Recompute.NONE,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        recompute_modules=RecomputeModule(0),
    )
    selective = replace(plain, recompute=Recompute.SELECTIVE, recompute_modules=module)
    full = replace(plain, recompute=Recompute.FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
    result = price(job, plain, selective, full, breakdown=True)
    assert result.breakdown is not None
    assert (result.step_time_s[1:] >= result.step_time_s[0] * (1 - TOLERANCE)).all()
    # Fused attention keeps its output; recompute of the core keeps its inputs beside it, and saves nothing.
    costs = RecomputeModule.CORE_ATTN in module and Feature.FLASH_ATTENTION in row.features
    kept = sum(v for n, v in result.breakdown.memory_bytes.items() if n.startswith("activations_"))
    assert costs or kept[1] <= kept[0] * (1 + TOLERANCE) or kept[0] == 0.0
    # What is computed again needs room once; only where little is in flight does that outweigh what is saved.
    room, saving = result.breakdown.memory_bytes["working_set"], slice(2 if costs else 1, None)
    assert (result.peak_memory_bytes[saving] <= result.peak_memory_bytes[0] + 1.1 * np.maximum(room[saving] - room[0], 0.0)).all()


@given(workloads(), st.sampled_from((1, 2)))
@few
def test_one_device_communicates_with_nobody(job: Workload, micro_batch_size: int) -> None:
    alone = replace(job, cluster=replace(job.cluster, num_devices=1))
    result = price(alone, ParallelStrategy(micro_batch_size=micro_batch_size), breakdown=True)
    assert result.breakdown is not None
    for name in ("tp_comm", "cp_comm", "ep_comm", "dp_comm", "pipeline_p2p", "pipeline_bubble", "weight_gather"):
        assert result.breakdown.time_s[name][0] == 0.0, name
        assert result.breakdown.masked_s.get(name, np.zeros(1))[0] == 0.0, name
    assert result.breakdown.memory_bytes["communicators"][0] == 0.0


@given(workloads(), crowded_batches())
@few
def test_what_is_hidden_costs_contention(job: Workload, rows: list[ParallelStrategy]) -> None:
    found = price(job, *rows, breakdown=True).breakdown
    assert found is not None
    beside = sum(found.masked_s[name] for name in ("cp_comm", "ep_comm", "weight_gather"))
    stretch = prior_constants(job.cluster.profile.family).hidden_stretch_fraction
    expected = stretch * beside + host_copy_stretch(job) * found.masked_s["activation_swap"]
    np.testing.assert_allclose(found.time_s["contention"], expected, rtol=1e-9, atol=1e-12)
    assert (found.time_s["ep_comm"] >= -1e-9 * found.masked_s["ep_comm"]).all()
