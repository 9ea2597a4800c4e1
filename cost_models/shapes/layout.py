"""Which layers sit on which virtual stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import LayerLayout, Schedule
from cost_models.shapes.workload import LayerKind, ModelShape


def layer_layout(num_layers: int, pp: int, vpp: int, *, keep_first: bool = True) -> LayerLayout:
    """Layers of each virtual stage, ``[chunk][stage]``, as even as they can be.

    Every virtual stage has ceil(L / (pp vpp)) slots. Where that leaves slots over, they hold no-op layers, at
    most one a virtual stage, from the last pipeline rank on (head, loss and MTP run there). Slots for exactly two ranks go
    to the last and the first (embedding, most micro batches in flight) unless ``keep_first``.
    Source of no-op layers: [mindspeed, noop_layers]; [pangu-pro-moe, section 4.1] uses two of them.

    Parameters
    ----------
    num_layers : int
        Of the model, MTP modules not counted.
    pp : int
        Pipeline ranks.
    vpp : int
        Chunks of layers on a rank, virtual stages.
    keep_first : bool
        Whether the first rank keeps all of its slots.

    Returns
    -------
    LayerLayout, ``[chunk][stage]``
        Layers, at least 0.
    """
    slots = -(-num_layers // (pp * vpp))
    counts = [[slots] * pp for _ in range(vpp)]
    free = slots * pp * vpp - num_layers
    ranks = [pp - 1, 0] if free == 2 * vpp and not keep_first else list(reversed(range(pp)))
    for chunk, stage in [(chunk, stage) for stage in ranks for chunk in reversed(range(vpp))][:free]:
        counts[chunk][stage] -= 1
    return tuple(tuple(row) for row in counts)


def lean_tail_layout(num_layers: int, pp: int, vpp: int) -> LayerLayout:
    """As many layers on every virtual stage, the rest missing from the end of the model, where one is left if it can be.

    Parameters
    ----------
    num_layers : int
        Of the model, MTP modules not counted.
    pp : int
        Pipeline ranks.
    vpp : int
        Chunks of layers on a rank, virtual stages.

    Returns
    -------
    LayerLayout, ``[chunk][stage]``
        Layers of each virtual stage in the order of the model.
    """
    slots = -(-num_layers // (pp * vpp))
    free = slots * pp * vpp - num_layers
    counts = [slots] * (pp * vpp)
    for stage in reversed(range(pp * vpp)):
        taken = min(free, slots - 1)
        counts[stage] -= taken
        free -= taken
    return tuple(tuple(counts[chunk * pp : (chunk + 1) * pp]) for chunk in range(vpp))


def default_layout(model: ModelShape, pp: int, vpp: int, schedule: Schedule = Schedule.NONE) -> LayerLayout:
    """The layout of a strategy that gives none: ``layer_layout`` with a full first rank if dense layers lead the model.

    In a V the first rank runs both ends of the model, so that the layers that are missing are its last
    [mindspeed-llm, deepseek3 with DualPipeV].

    MindSpeed-LLM wants more layers on the first rank than lead [mindspeed-llm, first_k_dense_replace]; otherwise one fewer
    on the first and the last rank is what Megatron can express [megatron-0.12, arguments.py].

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    pp : int
        Pipeline ranks.
    vpp : int
        Chunks of layers on a rank, virtual stages.
    schedule : Schedule
        Whose path through the ranks decides where layers are missing.

    Returns
    -------
    LayerLayout, ``[chunk][stage]``
    """
    if schedule.is_vee:
        return lean_tail_layout(model.num_layers, pp, vpp)
    leading = model.moe is not None and model.moe.num_leading_dense_layers > 0
    return layer_layout(model.num_layers, pp, vpp, keep_first=leading)


@dataclass(frozen=True)
class StageTable:
    """Layers of every (stage, chunk) of one layout.

    ``layers``: ``[layer kind, stage, chunk]``, in the order of ``ModelShape.layer_kinds``. ``prefix[kind, stage, chunk, j]``:
    those among the first ``j`` layers of a chunk, which is what a block recompute of ``j`` layers covers.
    """

    layers: NDArray[np.int64]
    prefix: NDArray[np.int64]


@lru_cache(maxsize=4096)
def _stage_table(layers: tuple[LayerKind, ...], pp: int, vpp: int, layout: LayerLayout) -> StageTable:
    """``stage_table`` of a layout that holds the model.

    Parameters
    ----------
    layers : tuple of LayerKind
        The kind of each layer of the model.
    layout : LayerLayout, ``[chunk][stage]``
        Layers of each virtual stage.

    Returns
    -------
    StageTable
    """
    # Of each kind among the first j layers; the chunk's own layers begin at 1.
    kinds = sorted(set(layers))
    of_layers = np.array([kinds.index(kind) for kind in layers])
    held = np.zeros((len(kinds), pp, vpp, max(map(max, layout)) + 1), dtype=np.int64)
    first = 0
    for chunk in range(vpp):
        for stage, count in enumerate(layout[chunk]):
            held[of_layers[first : first + count], stage, chunk, np.arange(1, count + 1)] = 1
            first += count
    return StageTable(held.sum(axis=3), held.cumsum(axis=3))


def stage_table(
    model: ModelShape, pp: int, vpp: int, layout: LayerLayout | None = None, schedule: Schedule = Schedule.NONE
) -> StageTable:
    """Layers of each stage and chunk by kind, under the given or the default layout.

    Raises ``ValueError`` if the layout does not hold the model's layers.

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    pp : int
        Pipeline ranks.
    vpp : int
        Chunks of layers on a rank, virtual stages.
    layout : LayerLayout or None
        Layers of each virtual stage; ``None`` takes ``default_layout``.
    schedule : Schedule
        Of the pipeline, where the layout is not given.

    Returns
    -------
    StageTable
        Stages and chunks in the order of the model, whatever path the schedule takes.
    """
    layout = layout or default_layout(model, pp, vpp, schedule)
    if len(layout) != vpp or any(len(row) != pp for row in layout) or sum(map(sum, layout)) != model.num_layers:
        raise ValueError(f"layer_layout {layout} does not place {model.num_layers} layers on {pp} stages of {vpp} chunks")
    return _stage_table(model.kinds_of_layers(), pp, vpp, layout)


@dataclass(frozen=True)
class DistinctStages:
    """Pipeline ranks that differ in what they hold, so that equal ones are priced once.

    ``first`` is the first rank of each kind, ``count`` how many there are, ``[kind]``, and ``ranks`` which;
    ``before_first[i, j]`` is how many ranks of kind ``j`` come before the first rank of kind ``i`` (``before_last``: before
    its last), ``[kind, kind]``.
    """

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    before_first: NDArray[np.int64]
    before_last: NDArray[np.int64]
    ranks: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=4096)
def distinct_stages(pp: int, kinds: tuple[object, ...]) -> DistinctStages:
    """Group ``pp`` ranks by ``kinds`` (one hashable a rank), in order of first occurrence.

    Parameters
    ----------
    pp : int
        Pipeline ranks.
    kinds : tuple, ``[rank]``
        What makes a rank what it is.

    Returns
    -------
    DistinctStages
        Kinds in the order in which their first rank comes.
    """
    index = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
    of_rank = np.array([index[kind] for kind in kinds])
    ranks = [np.flatnonzero(of_rank == kind) for kind in range(len(index))]

    def before(end: int) -> NDArray[np.int64]:
        return np.array([np.bincount(of_rank[: of_kind[end]], minlength=len(index)) for of_kind in ranks])

    first = np.array([of_kind[0] for of_kind in ranks])
    return DistinctStages(first, np.bincount(of_rank), before(0), before(-1), tuple(tuple(map(int, each)) for each in ranks))
