"""Which parallelism a collective serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calibration.traces.groups import Group, Layout, hccl_group, nccl_group, operation_of, parts_of
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy
from cost_models.shapes.workload import Software
from tests.workloads import DENSE as BASE
from tests.workloads import workload

DENSE = ParallelStrategy(tp=2, pp=2, dp=4)
MIXTURE = ParallelStrategy(tp=2, dp=8, ep=8, dispatcher=Dispatcher.ALLTOALL)


def told(operation: str, group: Group, strategy: ParallelStrategy = DENSE) -> str:
    return parts_of([(operation, group)], Layout(strategy))[operation, group]


@pytest.mark.parametrize(
    ("description", "part"),
    [
        ("TENSOR_MODEL_PARALLEL_GROUP", "tp_comm"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"),
        ("DATA_PARALLEL_GROUP_WITH_CP", "dp_comm"),
        ("CONTEXT_PARALLEL_GROUP", "cp_comm"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "ep_comm"),
        ("EXPERT_DATA_PARALLEL_GROUP", "dp_comm"),
        ("mesh_fsdp", "dp_comm"),
    ],
)
def test_a_group_says_what_it_is_for(description: str, part: str) -> None:
    assert told("allreduce", Group("7", description)) == part


def test_ranks_tell_groups_apart_where_names_do_not() -> None:
    """tp 2 x dp 4 x pp 2: neighbours share tensors, every second rank of a stage gradients, ranks 8 apart a pipeline."""
    assert told("allgather", Group("1", ranks=(2, 3))) == "tp_comm"
    assert told("allgather", Group("2", ranks=(0, 2, 4, 6))) == "dp_comm"
    assert told("allreduce", Group("3", ranks=(1, 9))) == "pipeline"
    assert told("reducescatter", Group("4", size=4)) == "dp_comm"
    assert told("reducescatter", Group("5", size=2)) == "tp_comm"


def test_an_operation_tells_where_groups_do_not() -> None:
    assert told("sendreceive", Group()) == "pipeline"
    assert told("alltoall", Group(), MIXTURE) == "ep_comm"
    ring = ParallelStrategy(tp=2, cp=2, dp=2, pp=2, cp_algo=CpAlgo.RING)
    assert told("sendreceive", Group(), ring) == "cp_comm+pipeline"
    assert told("allgather", Group()) == "tp_comm+dp_comm"
    assert told("", Group()) == "tp_comm+dp_comm+pipeline"


def test_gradients_of_gathered_keys_are_exchanged_under_pytorch() -> None:
    gathered = ParallelStrategy(cp=2, dp=4, ep=4, dispatcher=Dispatcher.ALLTOALL, cp_algo=CpAlgo.KV_ALLGATHER)
    key = ("alltoall", Group())
    assert parts_of([key], Layout(gathered, attends_by_blocks=True))[key] == "cp_comm+ep_comm"
    assert told("alltoall", Group(), gathered) == "ep_comm"
    for stack, part in (("fsdp", "cp_comm"), ("megatron-lm", "tp_comm+cp_comm+dp_comm")):
        job = replace(workload(BASE), software=Software(stack))
        plan = ParallelStrategy(tp=2, cp=2, dp=2, cp_algo=CpAlgo.KV_ALLGATHER)
        assert parts_of([key], Layout.of(job, plan))[key] == part


def test_operations_of_one_group_serve_one_part() -> None:
    """A group that gathers could be tp's or dp's of size 4; it also exchanges tokens, so it is that of the experts."""
    strategy = ParallelStrategy(tp=1, dp=4, ep=4, dispatcher=Dispatcher.ALLGATHER)
    group = Group("91", size=4)
    keys = parts_of([("allgather", group), ("alltoall", group)], Layout(strategy))
    assert keys["allgather", group] == keys["alltoall", group] == "ep_comm"


def test_the_group_that_every_layer_calls_is_that_of_tensor_parallelism() -> None:
    """10 layers x micro batches: 40 calls or more in a step are tensor parallelism's, fewer are for gradients."""
    layout = Layout(DENSE, layer_passes=10)
    often, seldom = ("allgather", Group("628")), ("allgather", Group("91"))
    keys = parts_of([often] * 40 + [seldom] * 39, layout)
    assert (keys[often], keys[seldom]) == ("tp_comm", "dp_comm")


def test_groups_as_profilers_write_them() -> None:
    found = nccl_group({"Group size": 4, "Process Group Name": "7", "Process Group Ranks": "[0, 2, 4, 6]"})
    assert found == Group("7", "", 4, (0, 2, 4, 6))
    assert nccl_group({"Process Group Ranks": "[0, 1, 2, ...]", "Group size": "4"}) == Group()
    assert hccl_group("hcom_allReduce__628_0_1", {"rank_size": "8"}) == Group("628", size=8)
    assert hccl_group("hcom_allReduce__844_2_1@13681369207305868844", {}) == Group("844")
    assert hccl_group("hcom_broadcast", {"rank_size": "9" * 30}) == Group()


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("hcom_alltoallv__628_0_1", "alltoall"),
        ("hcom_reduceScatter__91_0_1", "reducescatter"),
        ("hcom_batchSendRecv__1_0_1", "sendreceive"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "allreduce"),
        ("_allgather_base", "allgather"),
        ("hcom_broadcast__1_0_1", ""),
    ],
)
def test_operations_by_name(name: str, operation: str) -> None:
    assert operation_of(name) == operation
