"""The recompute of a run record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from calibration.records.known_flags import OFF
from calibration.records.sections import Degrees, Notes, RecomputeSection, quoted
from calibration.records.software import RecordSoftware
from cost_models.shapes.recompute_modules import MODULE_NAMES, RecomputeModule
from cost_models.shapes.strategy import Recompute, RecomputeMethod
from documents import bounds
from documents.late_methods import dataclass
from documents.sentences import Sentence

_MODULES = MODULE_NAMES | {"moe_act": RecomputeModule.MLP_ACT}  # Megatron's name for MLP_ACT
_CHEAP = RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT  # modules that operator-level policies drop first
_SWITCHES = {"recompute_activation_function": RecomputeModule.MLP_ACT, "recompute_norm": RecomputeModule.LAYERNORM}
_NO_MODULES = RecomputeModule(0)
_MAX_LISTS = 100  # maximum lists in a flag's value
_ASCENDSPEED_BLOCK_LAYERS = 25  # [ascendspeed, arguments.py, checkpoint_block_layer]: default of its policy "block"


@dataclass(frozen=True)
class RecordRecompute:
    """Recompute of a strategy; ``stated`` is false if the record does not say."""

    granularity: Recompute = Recompute.NONE
    method: RecomputeMethod = RecomputeMethod.NONE
    num_layers: int = 0
    modules: RecomputeModule = _NO_MODULES
    layers_per_stage: tuple[int, ...] | None = None
    stated: bool = True


def record_recompute(
    section: RecomputeSection,
    notes: Notes,
    software: RecordSoftware,
    features: frozenset[str],
    degrees: Degrees,
    num_layers: int,
) -> RecordRecompute:
    """Granularity, method and modules of a record's ``strategy.recompute`` section.

    Activation-function and norm recompute come from ``features``: MindSpeed's own switches, which combine with any
    granularity but a full recompute of all layers [mindspeed, activation-function-recompute.md]. They count when they
    cover at least half of a stage's layers, since a selective recompute covers all.
    """
    raw = section.raw if isinstance(section.raw, Mapping) else {}
    text = section.granularity
    modules = _NO_MODULES
    for feature, module in _SWITCHES.items():
        covered = raw.get(f"{feature.replace('_', '-')}-num-layers")
        if feature not in features:
            continue
        if (
            isinstance(covered, (int, str))
            and str(covered).isdecimal()
            and 2 * int(str(covered)[:6]) * degrees.virtual_stages < num_layers
        ):
            notes.add("raw", covered, Sentence("layers a stage with {} are less than half of them, left out", feature))
            continue
        modules |= module
    modules |= _selected(software, degrees, num_layers)

    name = (text or "unknown").lower()
    plan = _per_stage(section, software, degrees)
    if name == "per_stage" or plan is not None:
        return _by_stage(text, notes, modules, plan)
    if name in ("none", "null", "false", "no"):
        return RecordRecompute(Recompute.SELECTIVE if modules else Recompute.NONE, modules=modules)
    if name == "selective":
        return _selective(section, notes, modules, degrees.virtual_stages, num_layers)
    if name in ("full", "full_and_selective"):
        if name != "full":
            notes.add("granularity", text, Sentence("is read as full: the recomputed layers include the selected operators"))
        return _full(section, notes, raw, software, modules, degrees)
    if name == "other" and software.has("moe-zero-memory"):
        return RecordRecompute(Recompute.SELECTIVE if modules else Recompute.NONE, modules=modules)  # a switch of its own
    if name != "unknown":
        notes.add("granularity", text, Sentence("is not a known granularity, read as not stated"))
    return RecordRecompute(Recompute.SELECTIVE if modules else Recompute.NONE, modules=modules, stated=bool(modules))


def _selected(software: RecordSoftware, degrees: Degrees, num_layers: int) -> RecomputeModule:
    """Modules of MindFormers' ``select_recompute``: true or layers of each rank for its usual operators, or patterns of them.

    They count where they cover at least half of the layers, as activation functions and norms of MindSpeed do.
    """
    stated = software.flag_value("select-recompute")
    if stated is None or stated.lower() in OFF:
        return _NO_MODULES
    choice = _decoded(stated, otherwise=True)
    patterns = choice if isinstance(choice, dict) else {"feed_forward.mul": choice}
    modules = _NO_MODULES
    for pattern, covered in patterns.items():
        layers = _summed(covered)
        if layers is None or 2 * layers >= num_layers:
            modules |= RecomputeModule.LAYERNORM if "norm" in pattern else RecomputeModule.MLP_ACT
    return modules


def _decoded(text: str, *, otherwise: Any) -> Any:
    """The value of JSON text of a few levels; ``otherwise`` for anything else."""
    if text.count("[") + text.count("{") > _MAX_LISTS:
        return otherwise
    try:
        return json.loads(text)
    except ValueError:
        return otherwise


def _summed(covered: object) -> int | None:
    """Layers of nested lists together; None for all of them."""
    if isinstance(covered, list):
        return sum(_summed(each) or 0 for each in covered)
    return covered if type(covered) is int else 0 if covered is False else None


def _per_stage(section: RecomputeSection, software: RecordSoftware, degrees: Degrees) -> tuple[int, ...] | None:
    """Recomputed layers of each pipeline rank where a list gives them, by chunk where stages interleave.

    A list shorter than the pipeline leaves the later ranks without recompute [mindformers-1.5, models/utils.py].
    """
    stated = software.flag_value("recompute") if section.num_layers is None else None
    listed = _decoded(stated, otherwise=None) if stated is not None and stated.startswith("[") else section.num_layers
    if not isinstance(listed, list):
        return None
    rows: list[list[Any]] = listed if all(isinstance(row, list) for row in listed) else [listed]
    if any(len(row) > degrees.pp for row in rows):
        return None
    if not all(type(layers) is int and 0 <= layers <= bounds.MAX_LAYERS for row in rows for layers in row):
        return None
    return tuple(sum(row[rank] for row in rows if rank < len(row)) for rank in range(degrees.pp))


def _by_stage(text: str | None, notes: Notes, modules: RecomputeModule, plan: tuple[int, ...] | None) -> RecordRecompute:
    """A full recompute of that many layers of each rank; without the list, the record leaves it open."""
    if plan is None:
        notes.add("granularity", text, Sentence("comes without a list of layers, read as not stated"))
        return RecordRecompute(Recompute.SELECTIVE if modules else Recompute.NONE, modules=modules, stated=False)
    if not any(plan):
        return RecordRecompute(Recompute.SELECTIVE if modules else Recompute.NONE, modules=modules)
    return RecordRecompute(Recompute.FULL, RecomputeMethod.BLOCK, max(plan), modules, layers_per_stage=plan)


def _selective(
    section: RecomputeSection, notes: Notes, modules: RecomputeModule, virtual_stages: int, num_layers: int
) -> RecordRecompute:
    names = section.modules
    if any("every second layer" in name.lower() for name in names):
        notes.add("modules", names, Sentence("is read as a full recompute of half of the layers"))
        half = max(num_layers // (2 * virtual_stages), 1)
        return RecordRecompute(Recompute.FULL, RecomputeMethod.BLOCK, half, modules)
    if any(name.lower().startswith("op-level") for name in names):  # [torchtitan, distributed/activation_checkpoint.py]
        return RecordRecompute(Recompute.SELECTIVE, modules=RecomputeModule.EVERY_OTHER_MATMUL)
    for name in names:
        if name.lower() in _MODULES:
            modules |= _MODULES[name.lower()]
        else:
            notes.add("modules", name, Sentence("is read as recompute of norms and activation functions"))
            modules |= _CHEAP
    return RecordRecompute(Recompute.SELECTIVE, modules=modules or RecomputeModule.CORE_ATTN)


def _full(
    section: RecomputeSection,
    notes: Notes,
    raw: Mapping[str, object],
    software: RecordSoftware,
    modules: RecomputeModule,
    degrees: Degrees,
) -> RecordRecompute:
    method, layers = section.method, None if isinstance(section.num_layers, list) else section.num_layers
    if method is None and raw.get("checkpoint-policy") == "block":
        method, layers = "block", layers or _ASCENDSPEED_BLOCK_LAYERS
    if method not in (None, "block", "uniform"):
        notes.add("method", quoted(method), Sentence("is not a known method, read as uniform"))
        method = "uniform"
    if method != "block":
        return RecordRecompute(Recompute.FULL, RecomputeMethod.UNIFORM, max(layers or 1, 1))
    layers = 1 if layers is None else layers
    if layers == 0:
        return RecordRecompute(Recompute.SELECTIVE if modules else Recompute.NONE, modules=modules)
    per_stage = degrees.vpp > 1 and (
        "enable-recompute-layers-per-pp-rank" in raw or software.flag_value("enable-recompute-layers-per-pp-rank") is not None
    )
    return RecordRecompute(
        Recompute.FULL,
        RecomputeMethod.BLOCK,
        layers,
        modules,
        layers_per_stage=(layers,) * degrees.pp if per_stage else None,
    )
