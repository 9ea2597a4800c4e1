"""Tensor plans of whole strategies: they fit by the one memory function, at the least time that brute force finds."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from cost_models.constants import Constants
from cost_models.layer.tensors import tensor_costs
from cost_models.memory.fit import fit_rule
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import KEEP_ALL, LayerChoices, Tensor, TensorChoice, TensorShare
from cost_models.shapes.workload import Workload
from cost_models.simulation.replay import replay
from cost_models.simulation.step_times import simulate
from cost_models.simulation.task_bars import Kind
from cost_models.simulation.timeline import timeline
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from frameworks.legality import violations
from frameworks.target import ANY
from search.tensor_choice.frontier import layer_options
from search.tensor_choice.tensor_plan import with_tensors
from tests.networks import ascend_a2
from tests.workloads import DENSE, LATENT, constants, device, network, workload

LONG = replace(LATENT, num_layers=8, vocab_size=1024)
NODES = replace(ascend_a2(), num_devices=16)
PIPELINES = (
    ParallelStrategy(pp=4, dp=4, schedule=Schedule.ONE_F_ONE_B),
    ParallelStrategy(pp=4, vpp=2, dp=4, schedule=Schedule.INTERLEAVED),
    ParallelStrategy(pp=4, vpp=2, dp=4, schedule=Schedule.DUALPIPE_V),
    ParallelStrategy(pp=4, dp=4, schedule=Schedule.DUALPIPE),
    ParallelStrategy(pp=4, dp=4, schedule=Schedule.GPIPE),
)


def tight(job: Workload, strategy: ParallelStrategy, fraction: float) -> Workload:
    """The job on devices whose memory ends where activations are at so much of what they are."""
    whole = estimate(job, StrategyBatch.of([strategy]), constants(), breakdown=True)
    assert whole.breakdown is not None
    held = sum(part[0] for name, part in whole.breakdown.memory_bytes.items() if name.startswith("activations_"))
    rule = fit_rule(job, constants())
    limit = (whole.peak_memory_bytes[0] - (1.0 - fraction) * held) * rule.room_bytes / rule.fit_limit_bytes
    profile = replace(job.cluster.profile, usable_hbm_bytes=limit)
    return replace(job, cluster=replace(job.cluster, profile=profile))


@pytest.mark.parametrize("strategy", PIPELINES, ids=lambda s: s.schedule.label)
def test_the_plan_fits_by_the_memory_function_and_costs_what_it_says(strategy: ParallelStrategy) -> None:
    # Weight gradients that run apart wait with what no choice spares.
    job = tight(workload(LONG, cluster=NODES), strategy, 0.99 if strategy.schedule.rules.splits_backward else 0.6)
    whole, found = StrategyBatch.of([strategy]), with_tensors(job, strategy, constants())
    assert not estimate(job, whole, constants()).fits[0]
    assert found is not None
    assert not violations(job, found.strategy, ANY)
    chosen = StrategyBatch.of([found.strategy])
    for price in (estimate, simulate):
        before, after = price(job, whole, constants(), breakdown=True), price(job, chosen, constants(), breakdown=True)
        assert after.fits[0]
        assert after.step_time_s[0] >= 0.999 * before.step_time_s[0]  # a longer task may let others fall into place
        assert (after.stage_time_s - before.stage_time_s)[:, 0] == pytest.approx(found.added_s, abs=1e-9)


def test_full_ranks_are_filled_to_the_limit_and_those_with_room_keep_everything() -> None:
    strategy = ParallelStrategy(pp=4, dp=4)
    job = tight(workload(LONG, cluster=NODES), strategy, 0.7)
    found = with_tensors(job, strategy, constants())
    assert found is not None
    assert found.strategy.tensor_plan is not None
    rule = fit_rule(job, constants())
    whole, chosen = (estimate(job, StrategyBatch.of([s]), constants(), breakdown=True) for s in (strategy, found.strategy))
    fitted = whole.stage_peak_memory_bytes[:, 0] <= rule.fit_limit_bytes
    assert fitted.any()
    assert not fitted.all()
    for rank, choices in enumerate(found.strategy.tensor_plan[0]):
        assert (choices == (KEEP_ALL,) * 2) == bool(fitted[rank])
        assert (found.added_s[rank] == 0.0) == bool(fitted[rank])
    assert (chosen.stage_peak_memory_bytes[~fitted, 0] > 0.97 * rule.fit_limit_bytes).all()


def test_a_strategy_that_fits_as_it_is_has_no_plan_and_drops_its_own_recompute() -> None:
    strategy = ParallelStrategy(pp=4, dp=4, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM)
    found = with_tensors(workload(LONG, cluster=NODES), strategy, constants())
    assert found is not None
    assert found.strategy == replace(strategy, recompute=Recompute.NONE, recompute_modules=RecomputeModule(0))
    assert found.host_bytes == 0.0


def test_nothing_helps_where_weights_alone_are_too_large() -> None:
    strategy = ParallelStrategy(pp=4, dp=4)
    job = tight(workload(LONG, cluster=NODES), strategy, 1.0)
    profile = replace(job.cluster.profile, usable_hbm_bytes=0.05 * job.cluster.profile.usable_hbm_bytes)
    assert with_tensors(replace(job, cluster=replace(job.cluster, profile=profile)), strategy, constants()) is None


# At 5 us a kernel the host stays ahead of the device under any choice; at 60 us each repeated kernel makes it wait.
@pytest.mark.parametrize("host_kernel_s", [5e-6, 60e-6])
def test_one_stage_equals_brute_force_over_every_set_of_tensors(host_kernel_s: float) -> None:
    of_host = constants(host_kernel_s=host_kernel_s)
    strategy = ParallelStrategy(features=ParallelStrategy().features & ~Feature.FUSED_ROPE)
    model = replace(DENSE, num_layers=2)
    job = tight(workload(model, cluster=NODES), replace(strategy, dp=16), 0.4)
    found = with_tensors(job, replace(strategy, dp=16), of_host)
    keys, _ = layer_keys(job, StrategyBatch.of([strategy]))
    costs = tensor_costs(job, keys, device(job, host_kernel_s=host_kernel_s), network(job), moe=False)
    choices = []
    for ways in product("krs", repeat=len(costs.bytes)):
        sets = {way: Tensor(sum(t for t, w in zip(costs.bytes, ways, strict=True) if w == way)) for way in "rs"}
        if all(tensor in costs.again_s for tensor in sets["r"]):
            choices.append(TensorChoice(sets["r"], sets["s"]))
    assert (costs.dispatched_s(~Tensor(0)) > costs.spare_s)[0] == (host_kernel_s > 1e-5)
    one = priced(job, strategy, [(TensorShare(choice),) for choice in choices], of_host)
    order = np.lexsort((one.peak_memory_bytes, one.step_time_s)).tolist()
    lowest = np.minimum.accumulate(one.peak_memory_bytes[order])
    unbeaten = [
        choices[order[0]],
        *(choices[row] for row, peak, before in zip(order[1:], lowest[1:], lowest, strict=False) if peak < before),
    ]
    pairs = [(TensorShare(first, 1), TensorShare(rest)) for first, rest in combinations(unbeaten, 2)]
    two = priced(job, strategy, pairs, of_host)
    alike_s, apart_s = one.step_time_s[one.fits].min(), two.step_time_s[two.fits].min()
    assert (apart_s < alike_s) == (host_kernel_s < 1e-5)
    best_s = min(alike_s, apart_s)
    assert found is not None
    own = estimate(job, StrategyBatch.of([found.strategy]), of_host)
    assert own.fits[0]
    assert own.step_time_s[0] <= best_s + 1e-4 * own.step_time_s[0]


def priced(job: Workload, strategy: ParallelStrategy, cells: list[LayerChoices], of_host: Constants) -> Estimate:
    plans = [replace(strategy, dp=16, tensor_plan=(((cell,),),)) for cell in cells]
    return estimate(job, StrategyBatch.of(plans), of_host)


def test_options_of_a_layer_are_those_that_no_set_of_tensors_beats() -> None:
    job = workload(DENSE)
    keys, _ = layer_keys(job, StrategyBatch.of([ParallelStrategy()]))
    costs = tensor_costs(job, keys, device(job), network(job), moe=False)
    found = layer_options(costs, 0.0)
    for again in (sets for size in (1, 2, 3) for sets in combinations(costs.again_s, size)):
        which = Tensor(sum(again))
        kept = float((costs.bytes_of(~Tensor(0)) - costs.bytes_of(which))[0])
        seconds = float(costs.recomputed_s(which)[0])
        assert ((found.kept_bytes <= kept + 1.0) & (found.seconds <= seconds + 1e-12)).any()


def test_the_timeline_shows_copies_and_ends_with_the_step() -> None:
    strategy = PIPELINES[1]
    job = tight(workload(LONG, cluster=NODES), strategy, 0.4)
    found = with_tensors(job, strategy, constants())
    assert found is not None
    played = replay(job, found.strategy, constants())
    shown = timeline(job, played, constants())
    step_s = float(simulate(job, StrategyBatch.of([found.strategy]), constants()).step_time_s[0])
    assert shown.step_time_s == pytest.approx(step_s, rel=1e-9)
    assert shown.bars.end_s.max() == pytest.approx(step_s, rel=1e-9)
    assert (shown.bars.kind == Kind.SWAP).any() == (found.host_bytes > 0.0)
    assert (shown.bars.kind == Kind.RECOMPUTE).any()


def test_a_batch_of_plans_is_priced_as_one_by_one() -> None:
    strategy = PIPELINES[1]
    found = [with_tensors(tight(workload(LONG, cluster=NODES), strategy, part), strategy, constants()) for part in (0.6, 0.4)]
    rows = [strategy, *(each.strategy for each in found if each is not None), replace(strategy, micro_batch_size=2)]
    assert len(rows) == 4
    job = workload(LONG, cluster=NODES)
    together = estimate(job, StrategyBatch.of(rows), constants())
    apart = [estimate(job, StrategyBatch.of([row]), constants()) for row in rows]
    assert together.step_time_s.tolist() == [float(each.step_time_s[0]) for each in apart]
    assert together.peak_memory_bytes.tolist() == [float(each.peak_memory_bytes[0]) for each in apart]
