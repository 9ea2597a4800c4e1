"""Environment variables of a launch, and what each is for."""

from __future__ import annotations

from cost_models.shapes.strategy import Feature, ParallelStrategy
from cost_models.shapes.workload import Workload

MIB = 2**20
PURPOSES = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "one hardware queue, so that communication starts in the order of the program",
    "HCCL_BUFFSIZE": "MB of each of the two buffers that every communicator owns; the plan's memory counts them",
    "HCCL_CONNECT_TIMEOUT": "seconds to wait for all ranks to connect",
    "TASK_QUEUE_ENABLE": "operators are prepared and dispatched on two threads; the plan's host time counts on it",
    "CPU_AFFINITY_CONF": "every process stays on the cores next to its NPU; the plan's host time counts on it",
    "PYTORCH_NPU_ALLOC_CONF": "segments that grow, against fragmentation",
    "ENABLE_LAZY_INLINE_NO_PIPELINE": "one graph for all layers, which swap needs where no pipeline makes one",
}


def megatron(s: ParallelStrategy) -> dict[str, str]:
    """Variables of Megatron-LM on GPUs [megatron-0.12, arguments.py]."""
    if s.zero_stage >= 2:
        return {}  # fully sharded data parallelism refuses a single connection
    return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if s.tp * s.cp > 1 else {}


def torch_npu(workload: Workload) -> dict[str, str]:
    """Variables of MindSpeed-LLM [mindspeed-llm, examples; cann, HCCL_BUFFSIZE]."""
    return {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        **hccl(workload),
        "TASK_QUEUE_ENABLE": "2",
        "CPU_AFFINITY_CONF": "1",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
    }


def mindspore(workload: Workload, s: ParallelStrategy) -> dict[str, str]:
    """Variables of MindFormers on MindSpore [cann, HCCL_BUFFSIZE; mindformers-1.5, fine_grained_activations_swap.md]."""
    inlined = {"ENABLE_LAZY_INLINE_NO_PIPELINE": "1"} if Feature.SWAP_ATTENTION in s.features and s.pp == 1 else {}
    return {**hccl(workload), **inlined}


def hccl(workload: Workload) -> dict[str, str]:
    """Buffers as the plan is priced, and patience for large clusters."""
    megabytes = max(round(workload.cluster.profile.communicator_bytes / (2 * MIB)), 1)
    return {"HCCL_BUFFSIZE": str(megabytes), "HCCL_CONNECT_TIMEOUT": "3600"}
