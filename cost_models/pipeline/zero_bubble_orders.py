"""Zero-bubble schedules: weight gradients wait, and fill what would be bubbles [zero-bubble]."""

from __future__ import annotations

from cost_models.pipeline.tasks import Orders, Pass, PipelineShape, Task


def _delayed(rank_warmup: int, delay: int, m: int) -> tuple[Task, ...]:
    """1F1B with ``rank_warmup`` forwards ahead; the weight gradient of a micro batch follows ``delay`` backwards later."""
    order = [Task(Pass.FORWARD, 0, k) for k in range(min(rank_warmup, m))]
    for k in range(m):
        if rank_warmup + k < m:
            order.append(Task(Pass.FORWARD, 0, rank_warmup + k))
        order.append(Task(Pass.INPUT_GRADIENT, 0, k))
        if k >= delay:
            order.append(Task(Pass.WEIGHT_GRADIENT, 0, k - delay))
    order += [Task(Pass.WEIGHT_GRADIENT, 0, k) for k in range(max(m - delay, 0), m)]
    return tuple(order)


def zb1p_orders(shape: PipelineShape) -> Orders:
    """ZB-H1: what 1F1B frees early on later ranks holds weight gradients back, up to the memory of its first rank.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Orders, ``[rank][position]``
    """
    return tuple(_delayed(shape.pp - 1 - rank, rank, shape.num_microbatches) for rank in range(shape.pp))


def zb2p_orders(shape: PipelineShape) -> Orders:
    """ZB-H2: twice the forwards ahead, so that equal tasks leave no bubble; ranks end as late as they began.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Orders, ``[rank][position]``
    """
    return tuple(_delayed(2 * (shape.pp - 1 - rank), 2 * rank, shape.num_microbatches) for rank in range(shape.pp))


def zbv_orders(shape: PipelineShape) -> Orders:
    """ZB-V: the memory of 1F1B, no idle between equal tasks; ``num_microbatches`` at least 2 p - 1 [pytorch, schedules.py].

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Orders, ``[rank][position]``
    """
    return tuple(_vee_order(rank, shape.pp, shape.num_microbatches) for rank in range(shape.pp))


def _vee_order(rank: int, pp: int, m: int) -> tuple[Task, ...]:
    order: list[Task] = []
    passed = {(kind, chunk): 0 for kind in (Pass.FORWARD, Pass.INPUT_GRADIENT, Pass.WEIGHT_GRADIENT) for chunk in (0, 1)}

    def run(kind: Pass, chunk: int) -> None:
        order.append(Task(kind, chunk, passed[kind, chunk]))
        passed[kind, chunk] += 1

    def run_backward(chunk: int) -> None:
        run(Pass.INPUT_GRADIENT, chunk)
        run(Pass.WEIGHT_GRADIENT, chunk)

    for _ in range(2 * (pp - rank) - 1):
        run(Pass.FORWARD, 0)
    for _ in range(rank):
        run(Pass.FORWARD, 1)
        run(Pass.FORWARD, 0)
    for _ in range(pp - rank):
        run(Pass.FORWARD, 1)
        run_backward(1)
    while passed[Pass.FORWARD, 1] < m:
        if passed[Pass.FORWARD, 0] < m:
            run(Pass.FORWARD, 0)
        run_backward(0)
        run(Pass.FORWARD, 1)
        run_backward(1)
    for _ in range(rank):
        run(Pass.INPUT_GRADIENT, 0)
        run(Pass.INPUT_GRADIENT, 1)
    for _ in range(pp - rank):
        run(Pass.INPUT_GRADIENT, 0)
        run(Pass.WEIGHT_GRADIENT, 0)
    for chunk in (1, 0):
        while passed[Pass.WEIGHT_GRADIENT, chunk] < passed[Pass.INPUT_GRADIENT, chunk]:
            run(Pass.WEIGHT_GRADIENT, chunk)
    return tuple(order)
