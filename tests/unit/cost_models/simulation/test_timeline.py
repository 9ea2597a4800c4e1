"""Where bars are placed: layers, sends and exchanges of small pipelines, worked out by hand."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cost_models.layer.activations import activation_swap_s
from cost_models.layer.communication import expert_comm
from cost_models.schedules.tasks import Pass
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape
from cost_models.simulation import timeline as module
from cost_models.simulation.replay import Replay, replay
from cost_models.simulation.task_bars import Kind, Stream, TaskBar, TaskBars, Transfer
from cost_models.simulation.timeline import Timeline, num_tasks, timeline
from tests.workloads import DENSE, SPARSE, constants, keys, network, workload

PLAIN = Feature.FLASH_ATTENTION | Feature.MOE_GROUPED_GEMM
# The first rank holds 2 dense layers and 2 with experts, the second 4 with experts; 64 sequences over dp 8 are 8 micro batches.
EXPERTS: dict[str, Any] = {
    "pp": 2,
    "dp": 8,
    "ep": 8,
    "dispatcher": Dispatcher.ALLTOALL,
    "schedule": Schedule.ONE_F_ONE_B,
    "features": PLAIN,
}


def played(model: ModelShape = SPARSE, *, stack: str = "megatron-lm", **strategy: Any) -> tuple[Replay, Timeline]:
    job, of = workload(model, stack=stack), ParallelStrategy(**{**EXPERTS, **strategy})
    step = replay(job, of, constants())
    return step, timeline(job, step, constants())


def pattern(kind: Pass, rank: int = 1, **strategy: Any) -> tuple[list[TaskBar], float]:
    """Bars of the first class of such tasks, and how long they take."""
    job, of = workload(SPARSE), ParallelStrategy(**{**EXPERTS, **strategy})
    step = replay(job, of, constants())
    durations, sends = step.tasks.of(step.program)
    index = next(i for i, each in enumerate(step.program.classes) if (each.kind, each.rank) == (kind, rank))
    duration = float(durations[index, 0])
    bars = TaskBars(job, step.group, step.tasks, constants())
    return bars.of(step.program.classes[index], duration, int(sends[index])), duration


def exchange_s() -> tuple[float, float]:
    job = workload(SPARSE)
    columns = {name: EXPERTS[name] for name in ("dp", "ep", "dispatcher", "features")}
    found = expert_comm(job, keys(**columns), network(job), constants())
    return float(found.dispatch_s[0]), float(found.combine_s[0])


def lengths(bars: list[TaskBar], kind: Kind) -> list[float]:
    return [bar.end_s - bar.start_s for bar in bars if bar.kind is kind]


def of_kind(shown: Timeline, kind: Kind, rank: int) -> np.ndarray[Any, Any]:
    """Start and end of a rank's bars, ``[bar, 2]``."""
    bars = shown.bars
    chosen = (bars.kind == kind) & (bars.rank == rank)
    return np.stack([bars.start_s[chosen], bars.end_s[chosen]], axis=1)


def test_compute_stands_still_while_experts_exchange_and_nothing_hides_it() -> None:
    bars, duration = pattern(Pass.FORWARD)
    dispatch, combine = exchange_s()
    assert lengths(bars, Kind.DISPATCH) == pytest.approx([dispatch] * 4)
    assert lengths(bars, Kind.COMBINE) == pytest.approx([combine] * 4)
    in_time = sorted(bars, key=lambda bar: bar.start_s)
    layer = [Kind.FORWARD, Kind.DISPATCH, Kind.FORWARD, Kind.COMBINE]
    assert [bar.kind for bar in in_time] == [*layer * 4, Kind.FORWARD]  # the head comes last
    for before, after in pairwise(in_time):
        assert before.end_s == pytest.approx(after.start_s)
    assert in_time[-1].end_s == pytest.approx(duration)


def test_a_backward_recomputes_first_and_sends_the_gradient_of_a_combine_before_that_of_a_dispatch() -> None:
    full = {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.BLOCK, "recompute_num_layers": 1}
    bars, _ = pattern(Pass.BACKWARD, **full)
    in_time = [bar.kind for bar in sorted(bars, key=lambda bar: bar.start_s)]
    layer = [Kind.COMBINE, Kind.BACKWARD, Kind.DISPATCH, Kind.BACKWARD]
    # Backward of the head, then of layers 4 to 2; layer 1, the first of the chunk, is computed again before.
    again = [Kind.RECOMPUTE, Kind.DISPATCH, Kind.RECOMPUTE, Kind.COMBINE]
    assert in_time == [Kind.BACKWARD, *layer * 3, *again, *layer, Kind.P2P]


def test_a_recomputed_moe_module_exchanges_again_in_every_layer() -> None:
    bars, duration = pattern(Pass.BACKWARD, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MOE)
    dispatch, combine = exchange_s()
    assert lengths(bars, Kind.DISPATCH) == pytest.approx([dispatch] * 8)
    assert lengths(bars, Kind.COMBINE) == pytest.approx([combine] * 8)
    working = sum(bar.end_s - bar.start_s for bar in bars if bar.stream is Stream.COMPUTE)
    assert working + 8 * (dispatch + combine) + sum(lengths(bars, Kind.P2P)) == pytest.approx(duration)


def test_what_experts_hide_runs_beside_them() -> None:
    shared = PLAIN | Feature.MOE_ALLTOALL_OVERLAP_COMM
    bars, duration = pattern(Pass.FORWARD, features=shared)
    dispatch, combine = exchange_s()
    compute = [bar for bar in bars if bar.stream is Stream.COMPUTE]
    exchanged = [bar for bar in bars if bar.stream is Stream.EXPERT_COMMUNICATION]
    assert sum(bar.end_s - bar.start_s for bar in exchanged) == pytest.approx(4 * (dispatch + combine))
    busy = sum(bar.end_s - bar.start_s for bar in compute)
    beside = sum(
        max(min(one.end_s, other.end_s) - max(one.start_s, other.start_s), 0.0) for one in compute for other in exchanged
    )
    # Nothing stretches here: what is beside compute is what the layer costs call masked.
    step = replay(workload(SPARSE), ParallelStrategy(**{**EXPERTS, "features": shared}), constants())
    moe = step.group.priced.layers[-1]
    hidden = dispatch + combine - float(moe.forward["ep_comm"][0])
    assert hidden > 0
    assert beside == pytest.approx(4 * hidden)
    assert duration - busy == pytest.approx(4 * float(moe.forward["ep_comm"][0]))


def test_swapped_activations_leave_in_the_forward_and_come_back_in_the_backward() -> None:
    step, shown = played(DENSE, ep=1, dispatcher=Dispatcher.NONE, features=PLAIN | Feature.SWAP_ATTENTION)
    each = float(activation_swap_s(workload(DENSE), keys(dp=8, features=PLAIN | Feature.SWAP_ATTENTION))[0])
    assert each > 0
    for rank in range(2):  # 4 layers x 8 micro batches, out and in
        times = of_kind(shown, Kind.SWAP, rank)
        assert (times[:, 1] - times[:, 0]).sum() == pytest.approx(4 * 8 * 2 * each)
    assert step.group.priced.layers[0].masked["activation_swap"][0] > 0


def test_a_merged_pair_swaps_both_ways() -> None:
    features = PLAIN | Feature.SWAP_ATTENTION | Feature.MOE_COMM_OVERLAP
    step, shown = played(features=features)
    assert any(each.kind is Pass.PAIR for each in step.program.classes)
    columns = {name: EXPERTS[name] for name in ("dp", "ep", "dispatcher")}
    each = float(activation_swap_s(workload(SPARSE), keys(**columns, features=features))[0])
    for rank in range(2):
        times = of_kind(shown, Kind.SWAP, rank)
        assert (times[:, 1] - times[:, 0]).sum() == pytest.approx(4 * 8 * 2 * each)


def test_a_send_ends_its_task_and_what_overlap_hides_of_it_follows() -> None:
    features = PLAIN | Feature.OVERLAP_P2P
    job = workload(DENSE)
    of = ParallelStrategy(pp=2, dp=8, vpp=2, schedule=Schedule.INTERLEAVED, features=features)
    half = constants(p2p_exposed_fraction=0.25)
    step = replay(job, of, half)
    shown = timeline(job, step, half)
    send, hop = float(step.tasks.send_s[0]), float(step.tasks.hop_s[0])
    assert hop == pytest.approx(3 * send)
    first = of_kind(shown, Kind.P2P, 0)[0]
    forward = of_kind(shown, Kind.FORWARD, 0)[0]
    assert first == pytest.approx([forward[1], forward[1] + send + hop])
    assert of_kind(shown, Kind.FORWARD, 1)[0][0] == pytest.approx(first[1])


@pytest.mark.parametrize("overlap", [False, True])
def test_weights_come_before_the_first_pass_and_gradients_go_after_the_last(overlap: bool) -> None:
    switches = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER if overlap else Feature(0)
    step, shown = played(features=PLAIN | switches)
    exchange = step.group.sharded.exchange
    for rank in range(2):
        (gather,), (reduce,) = of_kind(shown, Kind.GATHER, rank), of_kind(shown, Kind.REDUCE, rank)
        gathers = 1 if overlap else 2  # one for the experts' optimizer, one for the other
        assert gather == pytest.approx([0.0, gathers * float(exchange.gather_s[rank, 0])])
        last = step.ends_s[step.program.last_positions[rank]]
        hidden = float(exchange.reduce_s[rank, 0] - step.reduce_s[rank])
        assert (hidden > 0) == overlap
        assert reduce == pytest.approx([last - hidden, last + step.reduce_s[rank]])


def test_mindspore_scatters_gradients_along_every_backward() -> None:
    step, shown = played(stack="mindformers", zero_stage=2, features=PLAIN | Feature.OVERLAP_GRAD_REDUCE)
    times, backwards = of_kind(shown, Kind.REDUCE, 0), [step.task.kind for step in step.program.steps if step.rank == 0]
    assert len(times) in (backwards.count(Pass.BACKWARD), backwards.count(Pass.BACKWARD) + 1)
    whole = float(step.group.sharded.exchange.reduce_s[0, 0])
    assert (times[:, 1] - times[:, 0]).sum() == pytest.approx(whole, rel=1e-6)


def test_where_steps_overlap_each_rank_begins_with_its_own() -> None:
    step, shown = played(DENSE, ep=1, dispatcher=Dispatcher.NONE, schedule=Schedule.ZB2P)
    for rank in range(2):
        own = shown.bars.rank == rank
        gather = step.gather_s[rank]
        assert of_kind(shown, Kind.FORWARD, rank)[0][0] == pytest.approx(gather)
        assert shown.bars.end_s[own].max() <= shown.step_time_s
    assert shown.bars.end_s.max() == shown.step_time_s


def test_too_many_bars_are_refused_with_what_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BARS", 100)
    with pytest.raises(ValueError, match=r"pp 2 x vpp 1 x 8 micro batches are \d+ bars, more than the 100 of a timeline"):
        played()


@pytest.mark.parametrize("schedule", [s for s in Schedule if s is not Schedule.NONE])
def test_tasks_are_counted_before_they_are_compiled(schedule: Schedule) -> None:
    vpp = 2 if schedule.rules.is_vee or schedule is Schedule.INTERLEAVED else 1
    step, _ = played(DENSE, ep=1, dispatcher=Dispatcher.NONE, schedule=schedule, vpp=vpp)
    of = ParallelStrategy(pp=2, dp=8, vpp=vpp, schedule=schedule)
    assert len(step.program.steps) <= num_tasks(workload(DENSE), of) <= 1.5 * len(step.program.steps)


def test_a_share_of_a_transfer_keeps_its_length() -> None:
    assert Transfer(2.0, 1.0).exposing(0.25) == Transfer(0.5, 2.5)
    assert Transfer(2.0, 1.0).scaled(0.5) == Transfer(1.0, 0.5)
