"""What holds for every timeline: it is the simulated step, bar by bar."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import Constants, prior_constants
from cost_models.layer.overlap import host_copy_stretch
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.program import TaskClass
from cost_models.simulation.replay import Replay, replay
from cost_models.simulation.step_times import simulate
from cost_models.simulation.task_bars import Kind, TaskBars
from cost_models.simulation.timeline import Timeline, timeline
from cost_models.step.result import Estimate
from tests.property.test_simulation import jobs

COMPUTE = (Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT, Kind.PAIR, Kind.RECOMPUTE, Kind.CONTENTION)


@dataclass(frozen=True)
class Shown:
    """A simulated step and its bars."""

    workload: Workload
    strategy: ParallelStrategy
    found: Estimate
    played: Replay
    timeline: Timeline
    patterns: TaskBars
    constants: Constants

    def seconds(self, *kinds: Kind) -> Floats:
        """Seconds of all bars of these kinds, ``[rank]``."""
        bars = self.timeline.bars
        chosen = np.isin(bars.kind, kinds)
        return np.bincount(bars.rank[chosen], (bars.end_s - bars.start_s)[chosen], self.strategy.pp).astype(np.float64)

    @property
    def task_s(self) -> Floats:
        """Seconds of all tasks, ``[rank]``."""
        ranks = [step.rank for step in self.played.program.steps]
        return np.bincount(ranks, np.subtract(self.played.ends_s, self.played.starts_s), self.strategy.pp).astype(np.float64)

    def per_class(self, value: Callable[[TaskClass, float, int], float]) -> Floats:
        """Sums over all tasks of what each class has one of, ``[rank]``."""
        durations, sends = self.played.tasks.of(self.played.program)
        total = np.zeros(self.strategy.pp)
        columns = (self.played.program.classes, self.played.program.class_counts, durations[:, 0], sends)
        for task_class, count, duration, sent in zip(*columns, strict=True):
            total[task_class.rank] += count * value(task_class, float(duration), int(sent))
        return total


@st.composite
def shown(draw: st.DrawFn) -> Shown:
    workload, strategies = draw(jobs())
    strategy = draw(st.sampled_from(strategies))
    constants = prior_constants(workload.cluster.profile.family)
    found = simulate(workload, StrategyBatch.of([strategy]), constants, breakdown=True)
    played = replay(workload, strategy, constants)
    patterns = TaskBars(workload, played.group, played.tasks, constants)
    return Shown(workload, strategy, found, played, timeline(workload, played, constants), patterns, constants)


@settings(max_examples=40)
@given(shown())
def test_bars_do_not_overlap_and_end_with_the_simulated_step(shown: Shown) -> None:
    step_time_s, bars = shown.found.step_time_s[0], shown.timeline.bars
    assert shown.timeline.step_time_s == pytest.approx(step_time_s, rel=1e-9)
    assert bars.end_s.max() == pytest.approx(step_time_s, rel=1e-9)
    assert (bars.start_s >= 0).all()
    assert (bars.end_s > bars.start_s).all()
    same = (bars.rank[1:] == bars.rank[:-1]) & (bars.stream[1:] == bars.stream[:-1])
    assert (bars.end_s[:-1] <= bars.start_s[1:])[same].all()
    assert shown.found.stage_bubble_s is not None
    assert shown.timeline.bubble_s == pytest.approx(shown.found.stage_bubble_s[:, 0], abs=1e-9 * step_time_s)


@settings(max_examples=40)
@given(shown())
def test_compute_stands_still_for_what_its_passes_leave_exposed(shown: Shown) -> None:
    group, tasks = shown.played.group, shown.played.tasks
    passes = float(group.num_microbatches[0]) * group.stages.passes_fraction
    stretch = shown.constants.hidden_stretch_fraction  # of what pairs hide, what contention then takes
    expected = shown.per_class(
        lambda each, _, sent: (
            sent * float(tasks.send_s[0]) + float(tasks.relays_s(each)[0]) - float(tasks.saving_s(each)[0]) / (1.0 - stretch)
        )
    )
    exchanged = np.zeros(shown.strategy.pp)
    mtp = group.stages.mtp_layers * group.layers.mtps[:, 0]
    tables = zip(group.priced.layers, group.layers.layers, group.layers.again, strict=True)
    for kind, (costs, layers, again) in enumerate(tables):
        count = layers[:, 0] + (kind == group.stages.last_layer) * mtp
        experts_again = bool(shown.strategy.recompute_modules & RecomputeModule.MOE)
        repeated = (count if experts_again else again[:, 0]) * costs.forward["ep_comm"][0]
        exposed = [float(part[name][0]) for part in (costs.forward, costs.backward) for name in ("ep_comm", "activation_swap")]
        expected += passes * (count * sum(exposed) + repeated)
        whole = costs.forward["ep_comm"][0] + costs.backward["ep_comm"][0] + costs.masked["ep_comm"][0]
        exchanged += passes * (count * whole + repeated)
    stands_still = shown.task_s - shown.seconds(*COMPUTE)
    assert stands_still == pytest.approx(expected, abs=1e-9 * shown.timeline.step_time_s)
    if not shown.strategy.schedule.rules.splits_backward:
        assert shown.seconds(Kind.DISPATCH, Kind.COMBINE) == pytest.approx(exchanged, rel=1e-9)


@settings(max_examples=40)
@given(shown())
def test_a_simulated_step_pays_for_what_it_hides(shown: Shown) -> None:
    found = shown.found.breakdown
    assert found is not None
    beside = sum(float(found.masked_s[name][0]) for name in ("cp_comm", "ep_comm", "weight_gather"))
    copied = host_copy_stretch(shown.workload) * float(found.masked_s["activation_swap"][0])
    assert found.time_s["contention"][0] == pytest.approx(shown.constants.hidden_stretch_fraction * beside + copied)


@settings(max_examples=20)
@given(shown())
def test_no_bar_of_a_task_is_lost(shown: Shown) -> None:
    """Only sends may be cut short, where the next one begins."""
    for kind in {*COMPUTE, Kind.DISPATCH, Kind.COMBINE, Kind.SWAP}:
        expected = shown.per_class(
            lambda *task: sum(bar.end_s - bar.start_s for bar in shown.patterns.of(*task) if bar.kind is kind)  # noqa: B023
        )
        assert shown.seconds(kind) == pytest.approx(expected, rel=1e-9, abs=1e-9 * shown.timeline.step_time_s), kind
