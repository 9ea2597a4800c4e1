"""The layer layout of a run record, in the notations that frameworks have for it."""

from __future__ import annotations

import json
import re

from calibration.records.sections import Degrees, Notes, StrategySection
from cost_models.shapes.layout import lean_tail_layout
from cost_models.shapes.strategy import LayerLayout
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence

_MAX_STAGES = 100_000
_REPEATED = re.compile(r"\(([^()]{1,200})\)\*(\d{1,4})")


def record_layout(
    section: StrategySection, notes: Notes, degrees: Degrees, model: ModelShape, *, pipeline_layout: str | None
) -> LayerLayout | None:
    """Layers of each ``[chunk][stage]`` where the record states them, else ``None``: the default layout.

    Read in this order: ``pipeline_layout``, Megatron's text such as ``Et*4|(t*4|)*14tmL``
    [megatron-main, pipeline_parallel_layer_layout.py]; ``layer_layout``, layers of each virtual stage in the order of the
    model, flat or one row a chunk [mindspeed-llm, num-layer-list]; ``layer_offset``, added to num_layers // (pp vpp)
    [mindformers-1.8, offset]; ``noop_layers``, indices of idle slots [mindspeed, noop-layers].
    A text that does not place the model's layers on the stages is noted and left out. Layers that fill the stages only together
    with embedding and loss were split with them [megatron-main, account-for-embedding-in-pipeline-split]. Recipes of models with
    multi-token prediction give fewer layers to the stage that runs it and the loss [megatron-moe-modelzoo, MR2795].
    """
    num_layers, pp, vpp = model.num_layers, degrees.pp, degrees.vpp
    offsets, noop = _integers(section.layer_offset), _integers(section.noop_layers)
    if pipeline_layout is not None:
        field, value, counts = "pipeline_layout", pipeline_layout, _counts_of_pipeline_layout(pipeline_layout)
    elif section.layer_layout is not None:
        field, value, counts = "layer_layout", section.layer_layout, _integers(section.layer_layout)
    elif offsets and any(offsets):
        each = num_layers // (pp * vpp)
        field, value, counts = "layer_offset", section.layer_offset, [each + offset for offset in offsets]
    elif noop:
        counts = _counts_without(noop, num_layers + len(noop), pp * vpp)
        field, value = "noop_layers", section.noop_layers
    elif model.mtp_num_layers:
        return lean_tail_layout(num_layers, pp, vpp)
    else:
        return _counting_ends(num_layers, pp, vpp)
    if counts is None or len(counts) != pp * vpp or sum(counts) != num_layers or min(counts) < 0:
        notes.add(field, value, Sentence("does not place {} layers on {} stages of {} chunks, left out", num_layers, pp, vpp))
        return None
    return _in_chunks(counts, pp)


def _in_chunks(counts: list[int], pp: int) -> LayerLayout:
    return tuple(tuple(counts[first : first + pp]) for first in range(0, len(counts), pp))


def _counting_ends(num_layers: int, pp: int, vpp: int) -> LayerLayout | None:
    """One layer less on the first and the last virtual stage, if that makes all others even."""
    stages = pp * vpp
    if stages == 1 or num_layers % stages == 0 or (num_layers + 2) % stages:
        return None
    each = (num_layers + 2) // stages
    return _in_chunks([each - 1, *[each] * (stages - 2), each - 1], pp)


def num_noop_layers(section: StrategySection) -> int:
    """Number of idle slots that ``strategy.noop_layers`` lists."""
    return len(set(_integers(section.noop_layers) or ()))


def _integers(value: object) -> list[int] | None:
    """Whole numbers of a list, a nested list, or its text with or without brackets; ``None`` if it is neither."""
    if isinstance(value, str):
        try:
            value = json.loads(f"[{value[:1000]}]")
        except ValueError:
            return None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return [value]
    if not isinstance(value, list):
        return None
    flat: list[int] = []
    for item in value[:_MAX_STAGES]:
        inner = _integers(item)
        if inner is None:
            return None
        flat += inner
    return flat


def _counts_of_pipeline_layout(value: object) -> list[int] | None:
    """Transformer layers of each virtual stage: ``t`` is one, ``x*n`` and ``(...)*n`` repeat, ``|`` ends a stage."""
    text = str(value)[:1000].replace(" ", "").replace(",", "")
    for _ in range(8):
        text, replaced = _REPEATED.subn(lambda found: found[1] * min(int(found[2]), 1000), text, count=1)
        if not replaced or len(text) > _MAX_STAGES:
            break
    text = re.sub(r"(\w)\*(\d{1,4})", lambda found: found[1] * int(found[2]), text)
    if not re.fullmatch(r"[EtmL|]+", text):
        return None
    return [stage.count("t") for stage in text.strip("|").split("|")]


def _counts_without(noop: list[int], num_slots: int, num_virtual_stages: int) -> list[int] | None:
    if num_slots % num_virtual_stages or not set(noop) <= set(range(num_slots)):
        return None
    each = num_slots // num_virtual_stages
    counts = [each] * num_virtual_stages
    for slot in set(noop):
        counts[slot // each] -= 1
    return counts
