"""The optimizer's step on the host: gradients go there, Adam runs in host memory, and weights come back.

``host_bytes_of_node`` is the memory that optimizer states take there, updated or only kept.
"""

from __future__ import annotations

import numpy as np

from cost_models.layer.compute import FP32_BYTES
from cost_models.memory.model_states import GRADIENT_BYTES, MASTER_BYTES, moment_bytes
from cost_models.shapes.layer_keys import Floats, data_parallel_sizes, shard_sizes
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload

# Bytes of host memory that Adam reads and writes for a parameter, all in FP32: weight, gradient and two moments read, weight and
# moments written [pytorch, FusedAdamKernel.cpp].
ADAM_BYTES = 7 * FP32_BYTES
# The gradient is written when it arrives. The weights that Adam updates are not pinned, so that they are copied to a pinned
# buffer before they leave [megatron-0.19, hybrid_optimizer.py].
COPY_BYTES = 4 * FP32_BYTES
LINK_BYTES = FP32_BYTES  # a parameter in each direction: the device casts gradients before, and weights after [pytorch, Copy.cu]
ATTAINED_FRACTION = 0.6  # of the nominal rate of host memory; no measured run has it
DEVICE_SHARE_BYTES_PER_S = 51.2e9  # of host memory, where a profile has no rate: 2 x 8 channels of DDR4-3200 for 8 devices
# What a measured step may be of the predicted one. Shorter: host memory at 85 %, and copies behind Adam. Longer: one thread for
# each rank, as torchrun starts them unless OMP_NUM_THREADS says otherwise; one moved 26 GB/s where it was timed.
LEAST_FRACTION, MOST_FRACTION = 0.6, 2.0


def host_rate_bytes_per_s(workload: Workload) -> float:
    """Rate of host memory for one rank, all ranks of a node at work. [bytes/s]"""
    profile = workload.cluster.profile
    ranks = min(profile.devices_per_node, workload.cluster.num_devices)
    nominal = profile.host_memory_bytes_per_s
    return ATTAINED_FRACTION * (DEVICE_SHARE_BYTES_PER_S if nominal is None else nominal / ranks)


def host_update_s(workload: Workload, shard: Floats) -> Floats:
    """Seconds of a step in which a rank's shard of parameters is updated on the host.

    Nothing runs beside it but copies in the other direction of the link and Adam on tensors whose gradients have arrived; neither
    is counted [megatron-0.19, hybrid_optimizer.py]: ``LEAST_FRACTION`` has them.

    Parameters
    ----------
    shard : ``[stage, n]``
        Parameters of the rank's optimizer.

    Notes
    -----
    P ((28 + 16) / B + 8 / L) seconds for P parameters, host memory of B and a host link of L bytes/s.
    """
    moved = (ADAM_BYTES + COPY_BYTES) / host_rate_bytes_per_s(workload)
    linked = 2 * LINK_BYTES / workload.cluster.profile.host_link_bytes_per_s
    result: Floats = np.asarray(shard) * (moved + linked)
    return result


def host_bytes_of_node(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes of host memory that optimizer states take on a node, on average over the nodes. ``[n]``

    States that visit the device are 12 bytes a parameter, those that are updated on the host 16 with their gradients. Copies of a
    state count as those of the parameters that have fewest, dense or of experts; adapters count as none.
    """
    training, cluster = workload.training, workload.cluster
    if training.task.is_frozen:
        return np.zeros(len(batch))
    held, shards = data_parallel_sizes(batch), shard_sizes(batch)
    copies = held[0] / shards[0]
    if workload.model.moe is not None:
        copies = np.minimum(copies, held[1] / shards[1])
    states = (0.0 if workload.keeps_fp32_weights else MASTER_BYTES) + moment_bytes(workload, batch)
    each = np.where(batch.has(Feature.SWAP_OPTIMIZER), states, 0.0)
    each = np.where(batch.has(Feature.OPTIMIZER_CPU_OFFLOAD), states + GRADIENT_BYTES, each)
    nodes = -(-cluster.num_devices // cluster.profile.devices_per_node)
    result: Floats = each * copies * num_parameters(workload.model).total / nodes
    return result
