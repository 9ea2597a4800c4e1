"""The model presets: dimensions, published sizes and a default training job, each with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from app.catalogue.models.shape import model_from_mapping, model_to_mapping
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.workload import ModelShape
from documents.bounds import MAX_PARAMETERS, MAX_TOKENS, GlobalBatch, Line, SeqLength
from documents.checking import Section, check
from documents.errors import InputError, holding, nearest, show, spelled_like
from documents.late_methods import dataclass
from documents.reading import parse_document
from documents.sentences import Sentence, joined, word

_REPOSITORY = re.compile(r"huggingface\.co/(?P<repository>[\w.-]+/[\w.-]+)")


class _Stated(Section):
    source: Line
    basis: Literal["vendor", "measured", "inferred", "assumed"]


class _ModelSource(_Stated):
    unconfirmed: list[str] = Field(default=[])


class _StatedLength(_Stated):
    value: SeqLength


class _StatedBatch(_Stated):
    value: GlobalBatch


class _StatedPrecision(_Stated):
    value: Literal["bf16", "fp16", "fp8", "fp32"]


class _StatedTokens(_Stated):
    value: Annotated[float, Field(ge=1, le=MAX_TOKENS)]


_Size = Annotated[float, Field(ge=1e6, le=MAX_PARAMETERS)]


class Published(Section):
    """The publisher's own sizes, None if not given."""

    parameters: _Size | None = None
    active_parameters: _Size | None = None
    active_includes_embedding: bool = False
    source: Line


class _TrainingSection(Section):
    seq_length: _StatedLength
    global_batch_size: _StatedBatch
    precision: _StatedPrecision
    train_tokens: _StatedTokens | None = None


class _PresetSection(Section):
    title: Line
    model_source: _ModelSource
    model: dict[str, Any]
    published: Published
    default_training: _TrainingSection


@dataclass(frozen=True)
class Source:
    """The source of a value; ``basis`` is vendor, measured, inferred or assumed."""

    text: str
    basis: str


@dataclass(frozen=True)
class DefaultTraining:
    """The training job used if a job gives none; ``sources`` has an entry for each field."""

    seq_length: int
    global_batch_size: int
    precision: str
    train_tokens: float | None
    sources: Mapping[str, Source]

    def why(self, name: str) -> str:
        """The source of a field's value, for the list of an answer."""
        source = self.sources[name]
        return Sentence("from the preset ({}: {})", word(source.basis), Sentence.whole(source.text))


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


def known_name(text: str) -> str | None:
    """The name of the preset that is meant: in any case, with any marks, also behind an organisation (``Qwen/Qwen3-8B``).

    The repository of a preset's own source means it too (``moonshotai/Kimi-K2-Base``).
    """
    return spelled_like(text.rpartition("/")[2], names()) or _by_repository().get(text.casefold())


@cache
def _by_repository() -> Mapping[str, str]:
    """Presets by the repository that their source names."""
    presets = {name: _REPOSITORY.search(_text_of(name)) for name in names()}
    return {found["repository"].casefold(): name for name, found in presets.items() if found}


@cache
def model_preset(name: str) -> Preset:
    """The preset of that name (``known_name``); ``InputError`` with the nearest one otherwise."""
    known = known_name(name)
    if known is None:
        several = holding(name, names())
        similar = several[0] if len(several) == 1 else nearest(name, names())
        hint = Sentence("the nearest is {}", similar) if similar else Sentence("there are {}", joined(", ", names()))
        if len(several) > 1:
            hint = Sentence("the nearest are {}", joined(", ", several))
        raise InputError(Sentence("model: {} is not a preset; {}.", show(name), hint))
    return _preset(known, _text_of(known))


def _text_of(name: str) -> str:
    return resources.files("app.catalogue.models").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")


def resolve_model(
    value: object, *, where: str = "model", folder: Path | None = None, warnings: list[str] | None = None
) -> tuple[ModelShape, Preset | None]:
    """The shape of a job's ``model``, with its preset if it is one; raises ``InputError``.

    Notes on a file that was read are added to ``warnings``.

    ``value`` is a preset's name, a mapping, or, only where ``folder`` is given, the path of a ``config.json`` (relative
    ones from there): a server must not read files that a request names.
    """
    if not isinstance(value, str):
        return model_from_mapping(value, where), None
    if folder is not None and _is_file_name(value, folder):
        # The readers of all families are loaded only when a config.json is read.
        from app.catalogue.models.huggingface.reading import model_from_config_file

        imported = model_from_config_file(folder / value)
        if warnings is not None:
            warnings.extend(Sentence("{}: {}", where, note) for note in imported.notes)
        return imported.model, None
    preset = model_preset(value)
    return preset.model, preset


def _is_file_name(value: str, folder: Path) -> bool:
    """Whether a model is a file: a path of one that exists, or that no preset can be meant by."""
    return value not in names() and (
        value.endswith(".json") or ("/" in value and (known_name(value) is None or (folder / value).is_file()))
    )


def rows() -> list[dict[str, object]]:
    """A row for each preset, for ``models list``: name, size, shape and default training."""
    return [_row(name) for name in names()]


def preset_details(name: str) -> dict[str, object]:
    """Everything about one preset, JSON-ready, for ``models show``."""
    preset = model_preset(name)
    training = preset.default_training
    return {
        "title": preset.title,
        "source": {"text": preset.source.text, "basis": preset.source.basis, "unconfirmed": list(preset.unconfirmed)},
        "published": dict(preset.published),
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
        "num_parameters": {name: getattr(counts, name) for name in ("total", "active", "embedding", "head", "mtp")},
    }


def _row(name: str) -> dict[str, object]:
    preset = model_preset(name)
    model, training, counts = preset.model, preset.default_training, num_parameters(preset.model)
    return {
        "name": name,
        "title": preset.title,
        "num_parameters": counts.total,
        "num_active_parameters": counts.active,
        **{name: getattr(model, name) for name in ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups")},
        "num_experts": model.moe.num_experts if model.moe else None,
        "top_k": model.moe.top_k if model.moe else None,
        "vocab_size": model.vocab_size,
        **{name: getattr(training, name) for name in ("seq_length", "global_batch_size", "train_tokens", "precision")},
        "basis": preset.source.basis,
    }


def _preset(name: str, text: str) -> Preset:
    origin = f"presets/{name}.yaml"
    section = check(_PresetSection, parse_document(text, origin), origin)
    training = section.default_training
    values: dict[str, Any] = {field: part.value for field, part in training if part is not None}
    return Preset(
        model=model_from_mapping({**section.model, "name": name}, f"{origin}.model"),
        title=section.title,
        source=_source(section.model_source),
        unconfirmed=tuple(section.model_source.unconfirmed),
        published=section.published,
        default_training=DefaultTraining(
            **{"train_tokens": None, **values}, sources={field: _source(part) for field, part in training if part is not None}
        ),
    )


def _source(section: _Stated) -> Source:
    return Source(section.source, section.basis)
