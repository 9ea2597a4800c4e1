"""Placement maps: the file of MindSpeed-RL and vLLM-Ascend, and the result of EPLB's ``rebalance_experts``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.experts.counts import model_experts
from app.text.files import check_new_file, refuse_idle_overwrite, save_text
from app.text.json_documents import json_text
from cost_models.shapes.workload import ModelShape
from documents.bounds import TRACE_BYTES
from documents.errors import InputError, cause_of, show
from documents.reading import Limits, parse_document, read_text
from documents.sentences import Sentence
from search.experts.placement import Placement

MINDSPEED_FILE, EPLB_FILE = "expert_map.json", "eplb.json"
MAX_SLOTS = 4096  # most slots of a rank


def mindspeed_map(placement: Placement) -> dict[str, Any]:
    """Experts of each device of each MoE layer [mindspeed-rl, eplb_generate_map_ds.py]."""
    layers = [
        {
            "layer_id": layer,
            "device_count": placement.num_ranks,
            "device_list": [{"device_id": device, "device_expert": experts} for device, experts in enumerate(ranks)],
        }
        for layer, ranks in enumerate(placement.experts.tolist())
    ]
    return {"moe_layer_count": len(layers), "layer_list": layers}


def eplb_map(placement: Placement, num_experts: int) -> dict[str, Any]:
    """The three tensors of ``rebalance_experts``; -1 pads experts with fewer copies [eplb, eplb.py]."""
    counts = placement.copies(num_experts)
    flat = placement.experts.reshape(len(placement.experts), -1)
    slots = np.full((*counts.shape, int(counts.max())), -1, dtype=np.int64)
    for layer, experts in enumerate(flat.tolist()):
        taken = [0] * num_experts
        for slot, expert in enumerate(experts):
            slots[layer, expert, taken[expert]] = slot
            taken[expert] += 1
    return {
        "physical_to_logical_map": flat.tolist(),
        "logical_to_physical_map": slots.tolist(),
        "expert_count": counts.tolist(),
    }


def check_maps(folder: Path | None, *, overwrite: bool) -> None:
    """``InputError`` where the folder has such maps already, unless ``--overwrite`` is given."""
    if folder is None:
        refuse_idle_overwrite("--write-maps", overwrite=overwrite)
    elif folder.is_dir():
        for name in (MINDSPEED_FILE, EPLB_FILE):
            check_new_file(folder / name, "--write-maps", overwrite=overwrite)


def write_maps(folder: Path, placement: Placement, num_experts: int) -> list[Path]:
    """Write both maps into a folder, which is created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(Sentence("--write-maps: {} cannot be made ({}).", folder, cause_of(error))) from None
    documents = {MINDSPEED_FILE: mindspeed_map(placement), EPLB_FILE: eplb_map(placement, num_experts)}
    for name, document in documents.items():
        save_text(folder / name, json_text(document), "--write-maps")
    return [folder / name for name in documents]


def read_map(path: Path, model: ModelShape, num_ranks: int) -> Placement:
    """The placement in a file of either kind."""
    try:
        text = read_text(path, TRACE_BYTES)
        document = parse_document(text, str(path), is_json=True, limits=Limits(TRACE_BYTES))
    except InputError as error:
        raise InputError(Sentence("--placement: {}", error)) from None
    return placement_of(document, model, num_ranks, Sentence("--placement: {}", path))


def placement_of(document: Mapping[str, Any], model: ModelShape, num_ranks: int, field: str) -> Placement:
    """The placement in a map of either kind; ``InputError`` if it does not fit the model and group."""
    num_layers, num_experts = model_experts(model, field)
    if "layer_list" in document:
        rows = [
            _devices(layer, index, field)
            for index, layer in enumerate(_list(document["layer_list"], Sentence("{}: layer_list", field)))
        ]
    elif "physical_to_logical_map" in document:
        rows = [
            _ranks(row, num_ranks, Sentence("{}: physical_to_logical_map[{}]", field, index))
            for index, row in enumerate(
                _list(document["physical_to_logical_map"], Sentence("{}: physical_to_logical_map", field))
            )
        ]
    else:
        raise InputError(Sentence("{}: has neither layer_list (MindSpeed) nor physical_to_logical_map (EPLB).", field))
    if len(rows) != num_layers:
        raise InputError(Sentence("{}: {:,} MoE layers, but {} has {:,}.", field, len(rows), model.name, num_layers))
    slots = len(rows[0][0]) if rows[0] else 0
    for layer, ranks in enumerate(rows):
        if len(ranks) != num_ranks or any(len(rank) != slots for rank in ranks) or not 1 <= slots <= MAX_SLOTS:
            raise InputError(
                Sentence("{}: layer {}: give {:,} devices with as many experts each as in layer 0.", field, layer, num_ranks)
            )
        for device, rank in enumerate(ranks):
            for expert in rank:
                if isinstance(expert, bool) or not isinstance(expert, int) or not 0 <= expert < num_experts:
                    raise InputError(
                        Sentence(
                            "{}: layer {}, device {}: {} is not allowed; give experts from 0 to {:,}.",
                            field,
                            layer,
                            device,
                            show(expert),
                            num_experts - 1,
                        )
                    )
            if len(set(rank)) < len(rank):
                raise InputError(Sentence("{}: layer {}, device {}: an expert occurs twice.", field, layer, device))
    placement = Placement(np.array(rows, dtype=np.int64))
    missing: NDArray[np.int64] = np.argwhere(placement.copies(num_experts) == 0)
    if len(missing):
        layer, expert = missing[0].tolist()
        raise InputError(Sentence("{}: layer {}: expert {} is on no device.", field, layer, expert))
    return placement


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(Sentence("{}: {} is not allowed; give a list.", field, show(value)))
    return value


def _devices(layer: Any, index: int, field: str) -> list[list[Any]]:
    at = Sentence("{}: layer_list[{}].device_list", field, index)
    devices = _list(layer.get("device_list") if isinstance(layer, Mapping) else layer, at)
    return [_list(one.get("device_expert") if isinstance(one, Mapping) else one, at) for one in devices]


def _ranks(row: Any, num_ranks: int, field: str) -> list[list[Any]]:
    flat = _list(row, field)
    if len(flat) % num_ranks:
        raise InputError(Sentence("{}: {:,} slots do not divide among {:,} ranks.", field, len(flat), num_ranks))
    size = len(flat) // num_ranks
    return [flat[start : start + size] for start in range(0, len(flat), size)]
