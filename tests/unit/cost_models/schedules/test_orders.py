"""Task orders against those that an independent reading of the released code gives."""

import pytest
from hypothesis import given

from cost_models.schedules.orders import next_places, previous_place, rank_orders
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass
from cost_models.shapes.strategy import Schedule
from cost_models.simulation.program import compiled
from cost_models.simulation.step_times import GroupTasks
from tests.oracle.event_loop import makes, receiver_of
from tests.pipelines import oracle_rule, oracle_step, shape, shapes


@given(shapes(largest=8))
def test_every_rank_runs_what_the_released_code_runs(of: PipelineShape) -> None:
    rule = oracle_rule(of)
    for rank, order in enumerate(rank_orders(of)):
        assert [oracle_step(of, task) for task in order] == list(rule.program(rank))


@given(shapes(largest=8))
def test_chunks_feed_each_other_along_the_same_path(of: PipelineShape) -> None:
    for micro_batch in range(of.num_microbatches):
        path = oracle_rule(of).path(micro_batch)
        for before, place in zip([None, *path], path, strict=False):
            assert previous_place(of, *place) == before


@given(shapes())
def test_tasks_end_with_as_many_messages_to_other_ranks(of: PipelineShape) -> None:
    rule, following = oracle_rule(of), next_places(of)
    for step in compiled(of).steps:
        task_class = compiled(of).classes[step.task_class]
        sent = [receiver_of(rule, key) for key in makes(step.rank, oracle_step(of, step.task))]
        assert GroupTasks.num_sends(of, following, task_class) == sum(rank not in (None, step.rank) for rank in sent)


@given(shapes())
def test_every_chunk_passes_every_micro_batch_once_each_way(of: PipelineShape) -> None:
    each = {(chunk, k) for chunk in range(of.num_chunks) for k in range(of.num_passes)}
    for order in rank_orders(of):
        forwards = [(t.chunk, t.micro_batch) for t in order if t.kind in (Pass.FORWARD, Pass.PAIR)]
        whole = [(t.chunk, t.micro_batch) for t in order if t.kind is Pass.BACKWARD]
        whole += [(t.backward_chunk, t.backward_micro_batch) for t in order if t.kind is Pass.PAIR]
        split = [[(t.chunk, t.micro_batch) for t in order if t.kind is k] for k in (Pass.INPUT_GRADIENT, Pass.WEIGHT_GRADIENT)]
        assert sorted(forwards) == sorted(whole + split[0]) == sorted(whole + split[1]) == sorted(each)


@pytest.mark.parametrize(
    "of",
    [
        shape(Schedule.ZBV, 4, 6),
        shape(Schedule.DUALPIPE_V, 4, 6),
        shape(Schedule.DUALPIPE, 4, 6),
        shape(Schedule.DUALPIPE, 4, 9),
        shape(Schedule.DUALPIPE, 3, 8),
        shape(Schedule.INTERLEAVED, 4, 6, vpp=2, merge_pairs=True),
    ],
)
def test_a_schedule_that_its_micro_batches_do_not_fill_is_refused(of: PipelineShape) -> None:
    with pytest.raises(ValueError, match=of.schedule.label):
        compiled(of)
