"""The optimizer's step on the host: gradients go there, Adam runs in host memory, and weights come back.

``host_bytes_of_node`` is the memory that optimizer states take there, updated or only kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.layer.compute import FP32_BYTES
from cost_models.memory.model_states import GRADIENT_BYTES, MASTER_BYTES, MOMENT_BYTES, moment_bytes
from cost_models.shapes.layer_keys import Floats, data_parallel_sizes, shard_sizes
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload

# Bytes of host memory that Adam reads and writes for a parameter beside its moments, which are read and written: the weight read
# and written, and the gradient read, in FP32 [pytorch, FusedAdamKernel.cpp].
ADAM_BYTES = 3 * FP32_BYTES
# The gradient is written when it arrives. The weights that Adam updates are not pinned, so that they are copied to a pinned
# buffer before they leave [megatron-0.19, hybrid_optimizer.py].
COPY_BYTES = 4 * FP32_BYTES
LINK_BYTES = FP32_BYTES  # a parameter in each direction: the device casts gradients before, and weights after [pytorch, Copy.cu]
ATTAINED_FRACTION = 0.6  # of the nominal rate of host memory; no measured run has it
DEVICE_SHARE_BYTES_PER_S = 51.2e9  # of host memory, where a profile has no rate: 2 x 8 channels of DDR4-3200 for 8 devices
THREAD_BYTES_PER_S = 26e9  # one thread of PyTorch's fused AdamW on an EPYC, timed
THREADS = 8  # of a rank, in files written here; nodes have more cores than 8 a device
# What a measured update may be of the predicted one. Shorter: host memory at 85 %, and copies behind Adam. Longer: other
# processors, or one thread for each rank, as torchrun starts them unless OMP_NUM_THREADS says otherwise.
LEAST_FRACTION, MOST_FRACTION = 0.6, 2.0


def share_bytes_per_s(workload: Workload) -> float:
    """Nominal rate of host memory for one rank, all ranks of a node at work. [bytes/s]"""
    nominal = workload.cluster.profile.host_memory_bytes_per_s
    return DEVICE_SHARE_BYTES_PER_S if nominal is None else nominal / _ranks_of_node(workload)


def host_rate_bytes_per_s(workload: Workload) -> float:
    """Rate at which a rank's threads move bytes of host memory, all ranks of a node at work. [bytes/s]"""
    return min(ATTAINED_FRACTION * share_bytes_per_s(workload), THREADS * THREAD_BYTES_PER_S)


def with_host_rate(workload: Workload, factor: float) -> Workload:
    """The workload on hosts whose memory has ``factor`` times the rate, stated or assumed."""
    cluster = workload.cluster
    rate = factor * share_bytes_per_s(workload) * _ranks_of_node(workload)
    return replace(workload, cluster=replace(cluster, profile=replace(cluster.profile, host_memory_bytes_per_s=rate)))


def _ranks_of_node(workload: Workload) -> int:
    return min(workload.cluster.profile.devices_per_node, workload.cluster.num_devices)


def host_update_fractions(workload: Workload) -> tuple[float, float]:
    """What a measured update on the host may be of the predicted one, at least and at most."""
    in_fp32 = np.array(float(MOMENT_BYTES))
    slow, usual = (_parameter_s(workload, in_fp32, rate) for rate in (THREAD_BYTES_PER_S, host_rate_bytes_per_s(workload)))
    return LEAST_FRACTION, max(MOST_FRACTION, float(slow / usual))


def _parameter_s(workload: Workload, moments: Floats, rate_bytes_per_s: float) -> Floats:
    """Seconds of one parameter with moments of so many bytes, in host memory of a rate and over the link. ``[n]``"""
    linked_s = 2 * LINK_BYTES / workload.cluster.profile.host_link_bytes_per_s
    seconds: Floats = (ADAM_BYTES + 2.0 * moments + COPY_BYTES) / rate_bytes_per_s + linked_s
    return seconds


def host_update_s(workload: Workload, batch: StrategyBatch, shard: Floats) -> Floats:
    """Seconds of a step in which a rank's shard of parameters is updated on the host.

    Nothing runs beside it but copies in the other direction of the link and Adam on tensors whose gradients have arrived; neither
    is counted [megatron-0.19, hybrid_optimizer.py]: ``LEAST_FRACTION`` has them.

    Parameters
    ----------
    shard : ``[stage, n]``
        Parameters of the rank's optimizer.

    Notes
    -----
    P ((28 + 16) / B + 8 / L) seconds for P parameters with moments in FP32, host memory of B and a host link of L bytes/s.
    """
    return np.asarray(shard) * _parameter_s(workload, moment_bytes(workload, batch), host_rate_bytes_per_s(workload))


def host_bytes_of_node(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes of host memory that optimizer states take on a node at their peak, on average over the nodes. ``[n]``

    States that visit the device are 12 bytes a parameter, those that are updated on the host 16 with weights and gradients. For
    the latter each rank first copies all parameters that it holds, 4 bytes each, and then keeps its shard of them
    [megatron-0.19, optimizer/__init__.py; distrib_optimizer.py]. Copies of a state count as those of the parameters that have
    fewest, dense or of experts; adapters count as none. Pinned tensors are not rounded up.
    """
    training, cluster = workload.training, workload.cluster
    if training.task.is_frozen:
        return np.zeros(len(batch))
    sizes = list(zip(data_parallel_sizes(batch), shard_sizes(batch), strict=True))[: 1 if workload.model.moe is None else 2]
    whole = np.min([held for held, _ in sizes], axis=0)
    copies = np.min([held / shards for held, shards in sizes], axis=0)
    moments = moment_bytes(workload, batch)
    visiting = (0.0 if workload.keeps_fp32_weights else MASTER_BYTES) + moments
    staying = np.maximum((MASTER_BYTES + moments + GRADIENT_BYTES) * copies, MASTER_BYTES * whole)
    held_bytes = np.where(batch.has(Feature.SWAP_OPTIMIZER), visiting * copies, 0.0)
    held_bytes = np.where(batch.has(Feature.OPTIMIZER_CPU_OFFLOAD), staying, held_bytes)
    nodes = -(-cluster.num_devices // cluster.profile.devices_per_node)
    result: Floats = held_bytes * num_parameters(workload.model).total / nodes
    return result
