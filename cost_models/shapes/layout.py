"""Placement of layers on virtual stages."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import LayerLayout, Schedule
from cost_models.shapes.workload import LayerKind, ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence

EMPTY_STAGES = 2  # virtual stages that may hold no layer: those of the embedding and the loss [megatron-0.12, arguments.py]


def layer_layout(num_layers: int, pp: int, vpp: int, *, keep_first: bool = True) -> LayerLayout:
    """Layers of each virtual stage, ``[chunk][stage]``, as even as possible.

    Every virtual stage has ceil(L / (pp vpp)) slots. Surplus slots hold no-op layers, at most one in a virtual stage, from the
    last pipeline rank on (head, loss and MTP run there). If there is a surplus slot for exactly two ranks, they are the last and
    the first (embedding, most micro batches in flight) unless ``keep_first``. With one or two virtual stages more than layers,
    the last (head and loss) holds none, then the first (embedding). ``num_layers`` excludes MTP modules.
    Source of no-op layers: [mindspeed, noop_layers]; [pangu-pro-moe, section 4.1] uses two of them.
    """
    slots = -(-num_layers // (pp * vpp))
    counts = [[slots] * pp for _ in range(vpp)]
    free = slots * pp * vpp - num_layers
    if slots == 1 and 0 < free <= EMPTY_STAGES:
        counts[-1][-1] = 0
        counts[0][0] = 2 - free
        return tuple(tuple(row) for row in counts)
    ranks = [pp - 1, 0] if free == 2 * vpp and not keep_first else list(reversed(range(pp)))
    for chunk, stage in [(chunk, stage) for stage in ranks for chunk in reversed(range(vpp))][:free]:
        counts[chunk][stage] -= 1
    return tuple(tuple(row) for row in counts)


def lean_tail_layout(num_layers: int, pp: int, vpp: int) -> LayerLayout:
    """Layers of each virtual stage, ``[chunk][stage]``: equal numbers, with the missing layers at the end of the model.

    Each virtual stage keeps at least one layer if there are enough; else the last ones hold none. ``num_layers`` excludes MTP
    modules.
    """
    slots = -(-num_layers // (pp * vpp))
    free = slots * pp * vpp - num_layers
    counts = [slots] * (pp * vpp)
    for stage in reversed(range(pp * vpp)):
        taken = min(free, slots - 1)
        counts[stage] -= taken
        free -= taken
    counts[len(counts) - free :] = [0] * free
    return tuple(tuple(counts[chunk * pp : (chunk + 1) * pp]) for chunk in range(vpp))


def has_default_layout(model: ModelShape, pp: int, vpp: int, schedule: Schedule) -> bool:
    """Whether so many virtual stages have a default layout. In a V every one of them holds a layer."""
    return pp * vpp <= model.num_layers + (0 if schedule.rules.is_vee else EMPTY_STAGES)


def default_layout(model: ModelShape, pp: int, vpp: int, schedule: Schedule = Schedule.NONE) -> LayerLayout:
    """Layout ``[chunk][stage]`` of a strategy that gives none.

    It is ``layer_layout``, with a full first rank if dense layers lead the model. In a V the first rank runs both ends of the
    model, so the missing layers are the model's last ones [mindspeed-llm, deepseek3 with DualPipeV]. MindSpeed-LLM requires more
    layers on the first rank than lead the model [mindspeed-llm, first_k_dense_replace]. Otherwise Megatron can express one layer
    fewer on the first and the last rank [megatron-0.12, arguments.py].
    """
    if schedule.rules.is_vee:
        return lean_tail_layout(model.num_layers, pp, vpp)
    leading = model.moe is not None and model.moe.num_leading_dense_layers > 0
    return layer_layout(model.num_layers, pp, vpp, keep_first=leading)


@dataclass(frozen=True)
class StageTable:
    """Layers of every stage and chunk of one layout.

    ``layers``: ``[layer kind, stage, chunk]``, in the order of ``ModelShape.layer_kinds``. ``prefix[kind, stage, chunk, j]``:
    those among the first ``j`` layers of a chunk, which a block recompute of ``j`` layers covers.
    """

    layers: NDArray[np.int64]
    prefix: NDArray[np.int64]


@lru_cache(maxsize=4096)
def _stage_table(layers: tuple[LayerKind, ...], pp: int, vpp: int, layout: LayerLayout) -> StageTable:
    """``stage_table`` of a layout that holds the model.

    Parameters
    ----------
    layers
        The kind of each layer of the model.
    layout : ``[chunk][stage]``
    """
    # Layers of each kind among the first j layers; a chunk's own layers begin at j = 1.
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

    Stages and chunks are in the order of the model under every schedule. Raises ``ValueError`` if the layout does not hold the
    model's layers.
    """
    layout = layout or default_layout(model, pp, vpp, schedule)
    if len(layout) != vpp or any(len(row) != pp for row in layout) or sum(map(sum, layout)) != model.num_layers:
        raise ValueError(
            Sentence("layer_layout {} does not place {} layers on {} stages of {} chunks", layout, model.num_layers, pp, vpp)
        )
    return _stage_table(model.kinds_of_layers(), pp, vpp, layout)


@dataclass(frozen=True)
class DistinctStages:
    """Kinds of pipeline ranks that hold the same layers, so that equal ranks are priced once.

    ``first`` is the first rank of each kind and ``count`` the number of its ranks, ``[kind]``; ``ranks`` lists them.
    ``before_first[i, j]`` is the number of ranks of kind ``j`` before the first rank of kind ``i`` (``before_last``: before
    its last), ``[kind, kind]``.
    """

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    before_first: NDArray[np.int64]
    before_last: NDArray[np.int64]
    ranks: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=4096)
def distinct_stages(pp: int, kinds: tuple[object, ...]) -> DistinctStages:
    """Group ``pp`` ranks by ``kinds`` (one hashable a rank), in order of first occurrence."""
    index = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
    of_rank = np.array([index[kind] for kind in kinds])
    ranks = [np.flatnonzero(of_rank == kind) for kind in range(len(index))]

    def before(end: int) -> NDArray[np.int64]:
        return np.array([np.bincount(of_rank[: of_kind[end]], minlength=len(index)) for of_kind in ranks])

    first = np.array([of_kind[0] for of_kind in ranks])
    return DistinctStages(first, np.bincount(of_rank), before(0), before(-1), tuple(tuple(map(int, each)) for each in ranks))
