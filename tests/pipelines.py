"""Pipelines of every schedule, and the names that the event loop of ``tests.oracle`` has for them."""

from typing import Any

from hypothesis import strategies as st

from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass, Task
from cost_models.shapes.strategy import Schedule
from tests.oracle.schedules import Rule, Step, dualpipev, interleaved, looped, rule_of, v_shaped

KINDS = {Pass.FORWARD: "F", Pass.BACKWARD: "BW", Pass.INPUT_GRADIENT: "B", Pass.WEIGHT_GRADIENT: "W", Pass.PAIR: "FB"}


def shape(schedule: Schedule, pp: int, m: int, **options: Any) -> PipelineShape:
    """A pipeline with the virtual stages that its schedule has."""
    vpp = options.pop("vpp", 2 if schedule.rules.is_vee else 1)
    return PipelineShape(schedule, pp, vpp, m, **options)


@st.composite
def shapes(draw: st.DrawFn, largest: int = 5) -> PipelineShape:
    """Any schedule with as many micro batches as it takes."""
    pp = draw(st.integers(1, largest))
    schedule = draw(st.sampled_from([s for s in Schedule if s is not Schedule.NONE]))
    merge = draw(st.booleans())
    match schedule:
        case Schedule.INTERLEAVED:
            pp = max(pp, 2)
            group_size = draw(st.integers(pp, 2 * pp))
            rest = draw(st.sampled_from([0, *range(pp, group_size)]))
            m = group_size * draw(st.integers(0 if rest else 1, 3)) + rest
            group_size = 0 if group_size == pp and draw(st.booleans()) else group_size  # 0: pp
            return shape(schedule, pp, m, vpp=draw(st.integers(2, 3)), group_size=group_size, merge_pairs=merge)
        case Schedule.ONE_F_ONE_B:
            return shape(schedule, pp, draw(st.integers(1, 3 * pp)), merge_pairs=merge)
        case Schedule.ZBV | Schedule.ZB2P:
            return shape(schedule, pp, 2 * pp - 1 + draw(st.integers(0, pp)))
        case Schedule.ZB1P:
            return shape(schedule, pp, pp + draw(st.integers(0, 2 * pp)))
        case Schedule.DUALPIPE_V:
            more, detach = draw(st.integers(0, pp)), draw(st.booleans())
            return shape(schedule, pp, 2 * pp - 1 + more, merge_pairs=merge, detach_weight_gradients=detach)
        case Schedule.DUALPIPE:
            pp = 2 * ((pp + 1) // 2)
            return shape(schedule, pp, 2 * (pp + draw(st.integers(0, pp))), merge_pairs=merge)
    return shape(schedule, pp, draw(st.integers(1, 3 * pp)))


def oracle_rule(of: PipelineShape) -> Rule:
    """The oracle's programs, also of pipelines that are possible and that no framework runs."""
    pp, vpp, m, merge = of.pp, of.vpp, of.num_microbatches, of.merge_pairs
    match of.schedule:
        case Schedule.INTERLEAVED | Schedule.ONE_F_ONE_B:
            group_size = of.group_size or pp
            return Rule(vpp, lambda rank: interleaved(rank, pp, vpp, m, group_size, merge), lambda _: looped(pp, vpp))
        case Schedule.DUALPIPE_V:
            detach = of.detach_weight_gradients
            return Rule(2, lambda rank: dualpipev(rank, pp, m, merge, detach), lambda _: v_shaped(pp))
        case Schedule.DUALPIPE:
            return rule_of(of.schedule.label, pp, 1, m, moe_fb_overlap=merge)
    return rule_of(of.schedule.label, pp, vpp, m)


def oracle_step(of: PipelineShape, task: Task) -> Step:
    """The oracle numbers the micro batches of DualPipe's second direction after those of the first."""

    def number(chunk: int, micro_batch: int) -> int:
        return micro_batch + of.num_passes * chunk if of.schedule is Schedule.DUALPIPE else micro_batch

    step = Step(KINDS[task.kind], task.chunk, number(task.chunk, task.micro_batch))
    if task.kind is not Pass.PAIR:
        return step
    backward = task.backward_chunk, number(task.backward_chunk, task.backward_micro_batch)
    return step._replace(backward_chunk=backward[0], backward_micro_batch=backward[1])
