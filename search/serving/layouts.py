"""Layouts of an inference instance on a number of devices."""

from __future__ import annotations

from collections.abc import Iterator

from cost_models.serving.engine import ServingLayout
from cost_models.shapes.workload import ModelShape

STAGES = (1, 2, 4, 8)
SIZES = (1, 3, 5, 9)  # times powers of two: devices of an instance, 144 and 320 among them


def instance_sizes(num_devices: int) -> list[int]:
    """Devices that an instance may have, at most all of them, which are among the sizes.

    Parameters
    ----------
    num_devices : int
        Of the cluster.

    Returns
    -------
    list of int
        Increasing.
    """
    sizes = {factor * 2**power for factor in SIZES for power in range(num_devices.bit_length())}
    return sorted(size for size in sizes | {num_devices} if size <= num_devices)


def layouts(model: ModelShape, size: int) -> Iterator[ServingLayout]:
    """Layouts of an instance of ``size`` devices.

    Parameters
    ----------
    model : ModelShape
        Its heads bound ``tp``, its layers ``pp``; experts are sliced, or spread over all devices of a stage.
    size : int
        Devices.

    Yields
    ------
    ServingLayout
        Replicas of attention only around spread experts: others are instances of their own. Copies of experts fill the last
        slots where devices do not divide them.
    """
    for pp in (stages for stages in STAGES if size % stages == 0 and stages <= model.num_layers):
        ranks = size // pp
        if model.num_attention_heads % ranks == 0:
            yield ServingLayout(tp=ranks, pp=pp)
        if model.moe is None or ranks == 1:
            continue
        for tp in range(1, ranks + 1):
            if ranks % tp == 0 and model.num_attention_heads % tp == 0:
                copies = -model.moe.num_experts % ranks
                yield ServingLayout(tp=tp, pp=pp, dp=ranks // tp, ep=ranks, redundant_experts=copies)
