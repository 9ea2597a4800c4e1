"""The model presets: dimensions, published sizes and a default training job, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from app.catalogue.models.fields import Fields, ModelError, shown, similar_name
from app.catalogue.models.huggingface import model_from_config_file
from app.catalogue.models.shape import model_from_mapping, model_to_mapping
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.workload import ModelShape

_BASES = ("vendor", "measured", "inferred", "assumed")
_PRECISIONS = ("bf16", "fp16", "fp8", "fp32")
_MAX_SEQ_LENGTH = 100_000_000
_MAX_BATCH = 10_000_000
_MAX_TEXT = 600


@dataclass(frozen=True)
class Source:
    """Where a value comes from; ``basis`` is vendor, measured, inferred or assumed."""

    text: str
    basis: str


@dataclass(frozen=True)
class DefaultTraining:
    """The training job used where a job names none; ``sources`` has one entry a field."""

    seq_length: int
    global_batch_size: int
    precision: str
    train_tokens: float | None
    sources: Mapping[str, Source]

    def assumptions(self) -> list[str]:
        """One sentence a field, for the list that an answer prints."""
        values = {name: getattr(self, name) for name in self.sources}
        return [
            f"training.{name} = {value:g} from the preset ({source.basis}: {source.text})"
            if isinstance(value, float)
            else f"training.{name} = {value} from the preset ({source.basis}: {source.text})"
            for (name, value), source in zip(values.items(), self.sources.values(), strict=True)
        ]


@dataclass(frozen=True)
class Published:
    """The publisher's own sizes, None where it names none."""

    parameters: float | None
    active_parameters: float | None
    active_includes_embedding: bool
    source: str


@dataclass(frozen=True)
class Preset:
    """One entry of the catalogue. ``unconfirmed`` names dimensions not found in the publisher's own files."""

    model: ModelShape
    title: str
    source: Source
    unconfirmed: tuple[str, ...]
    published: Published
    default_training: DefaultTraining


@cache
def names() -> tuple[str, ...]:
    """The presets' names, in alphabetical order."""
    folder = resources.files("app.catalogue.models").joinpath("presets")
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


@cache
def model_preset(name: str) -> Preset:
    """The preset of that exact name; ``ModelError`` with the nearest one otherwise."""
    if name not in names():
        similar = similar_name(name, names())
        hint = f"the nearest is {similar}" if similar else f"there are {', '.join(names())}"
        raise ModelError(f"model: {shown(name)} is not a preset; {hint}")
    text = resources.files("app.catalogue.models").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")
    return _preset(Fields(yaml.safe_load(text), f"presets/{name}.yaml"), name)


def resolve_model(value: object, *, where: str = "model", folder: Path | None = None) -> tuple[ModelShape, Preset | None]:
    """What a job's ``model`` stands for, with its preset where it is one; raises ``ModelError``.

    ``value`` is a preset's name, a mapping, or, only where ``folder`` is given, the path of a ``config.json`` (relative
    ones from there): a server must not read files that a request names.
    """
    if not isinstance(value, str):
        return model_from_mapping(value, where), None
    if value not in names() and folder is not None and (value.endswith(".json") or "/" in value):
        return model_from_config_file(folder / value), None
    preset = model_preset(value)
    return preset.model, preset


def rows() -> list[dict[str, object]]:
    """One row a preset, for ``models list``: name, size, shape and default training."""
    return [_row(name) for name in names()]


def preset_details(name: str) -> dict[str, object]:
    """Everything about one preset, JSON-ready, for ``models show``."""
    preset = model_preset(name)
    training = preset.default_training
    return {
        "title": preset.title,
        "source": {"text": preset.source.text, "basis": preset.source.basis, "unconfirmed": list(preset.unconfirmed)},
        "published": {
            "parameters": preset.published.parameters,
            "active_parameters": preset.published.active_parameters,
            "active_includes_embedding": preset.published.active_includes_embedding,
            "source": preset.published.source,
        },
        "default_training": {
            field: {"value": getattr(training, field), "basis": source.basis, "source": source.text}
            for field, source in training.sources.items()
        },
        **model_details(preset.model),
    }


def model_details(model: ModelShape) -> dict[str, object]:
    """A shape as a job's ``model`` mapping, and its parameter counts, for ``models import``."""
    counts = num_parameters(model)
    return {
        "model": model_to_mapping(model),
        "num_parameters": {
            "total": counts.total,
            "active": counts.active,
            "embedding": counts.embedding,
            "head": counts.head,
            "mtp": counts.mtp,
        },
    }


def _row(name: str) -> dict[str, object]:
    preset = model_preset(name)
    model, training, counts = preset.model, preset.default_training, num_parameters(preset.model)
    return {
        "name": name,
        "title": preset.title,
        "num_parameters": counts.total,
        "num_active_parameters": counts.active,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_query_groups": model.num_query_groups,
        "num_experts": model.moe.num_experts if model.moe else None,
        "top_k": model.moe.top_k if model.moe else None,
        "vocab_size": model.vocab_size,
        "seq_length": training.seq_length,
        "global_batch_size": training.global_batch_size,
        "train_tokens": training.train_tokens,
        "precision": training.precision,
        "basis": preset.source.basis,
    }


def _preset(fields: Fields, name: str) -> Preset:
    fields.refuse_unknown(("title", "model_source", "model", "published", "default_training"))
    mapping = fields.raw("model")
    model = model_from_mapping({**mapping, "name": name} if isinstance(mapping, dict) else mapping, f"{fields.where}.model")
    model_source = fields.child("model_source")
    unconfirmed = model_source.raw("unconfirmed") or []
    if not isinstance(unconfirmed, list) or not all(isinstance(field, str) for field in unconfirmed):
        raise model_source.error("unconfirmed", "a list of field names is needed")
    published = fields.child("published")
    published.refuse_unknown(("parameters", "active_parameters", "active_includes_embedding", "source"))
    return Preset(
        model=model,
        title=fields.text("title"),
        source=_source(model_source, ("unconfirmed",)),
        unconfirmed=tuple(unconfirmed),
        published=Published(
            published.number_or_none("parameters", 1e6, 1e16),
            published.number_or_none("active_parameters", 1e6, 1e16),
            published.boolean_or("active_includes_embedding", False),
            published.text("source", _MAX_TEXT),
        ),
        default_training=_default_training(fields.child("default_training")),
    )


def _default_training(fields: Fields) -> DefaultTraining:
    fields.refuse_unknown(("seq_length", "global_batch_size", "precision", "train_tokens"))
    seq_length, batch, precision = (fields.child(name) for name in ("seq_length", "global_batch_size", "precision"))
    parts = {"seq_length": seq_length, "global_batch_size": batch, "precision": precision}
    train_tokens = None
    if "train_tokens" in fields:
        parts["train_tokens"] = fields.child("train_tokens")
        train_tokens = parts["train_tokens"].number("value", 1.0, 1e18)
    if precision.text("value") not in _PRECISIONS:
        raise precision.error("value", f"one of {', '.join(_PRECISIONS)} is needed")
    return DefaultTraining(
        seq_length=seq_length.integer("value", 1, _MAX_SEQ_LENGTH),
        global_batch_size=batch.integer("value", 1, _MAX_BATCH),
        precision=precision.text("value"),
        train_tokens=train_tokens,
        sources={name: _source(part, ("value",)) for name, part in parts.items()},
    )


def _source(fields: Fields, others: tuple[str, ...]) -> Source:
    fields.refuse_unknown(("source", "basis", *others))
    if fields.text("basis") not in _BASES:
        raise fields.error("basis", f"one of {', '.join(_BASES)} is needed")
    return Source(fields.text("source", _MAX_TEXT), fields.text("basis"))
