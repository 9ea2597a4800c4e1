"""Environment variables and processes that several frameworks share at launch."""

from __future__ import annotations

from cost_models.shapes.workload import Workload
from documents.sentences import Sentence

MIB = 2**20
HARDWARE_QUEUE = {
    "CUDA_DEVICE_MAX_CONNECTIONS": Sentence(
        "hardware queues: one, so that communication starts in the order of the program; 32, so that an exchange of tokens "
        "runs beside the compute of another micro batch"
    ),
}
OFFLOAD = {
    "NVTE_CPU_OFFLOAD_V1": Sentence("Transformer Engine leaves the weights on the device while activations go to the host"),
}
HYBRID_EP = {
    "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": Sentence("expert-parallel ranks that HybridEP finds in one NVLink domain"),
    "USE_MNNVL": Sentence("NVLink between the nodes of a domain"),
}
HCCL = {
    "HCCL_BUFFSIZE": Sentence("MB of each of the two buffers that every communicator owns; the plan's memory counts them"),
    "HCCL_CONNECT_TIMEOUT": Sentence("seconds to wait for all ranks to connect"),
}


def start_note(workload: Workload, launcher: str) -> str:
    """A sentence on the processes that the launcher starts, and on the settings that the user must add."""
    per_node, devices = workload.cluster.profile.devices_per_node, workload.cluster.num_devices
    return Sentence(
        "Start {} processes on each of {} nodes ({}); "
        "data, tokenizer, learning rate, checkpoints and the router's loss are left to you.",
        min(per_node, devices),
        -(-devices // per_node),
        launcher,
    )


def hccl(workload: Workload) -> dict[str, str]:
    """HCCL variables: buffers as priced in the plan, and a long timeout for large clusters [cann, HCCL_BUFFSIZE]."""
    megabytes = max(round(workload.cluster.profile.communicator_bytes / (2 * MIB)), 1)
    return {"HCCL_BUFFSIZE": str(megabytes), "HCCL_CONNECT_TIMEOUT": "3600"}
