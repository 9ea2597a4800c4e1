"""``ModelShape`` from a Hugging Face ``config.json`` [transformers-main, models/*/configuration_*.py]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.catalogue.models.huggingface.config import Source, TypedConfig
from app.catalogue.models.huggingface.families import BY_ARCHITECTURE, FAMILIES, SUPPORTED_MODEL_TYPES
from app.catalogue.models.huggingface.keys import weigh
from app.catalogue.models.shape import check_shape
from cost_models.shapes.workload import ModelShape
from documents.bounds import CONFIG_BYTES
from documents.checking import check
from documents.errors import InputError, nearest, show
from documents.late_methods import dataclass
from documents.reading import Limits, read_document
from documents.sentences import Sentence, joined

LIMITS = Limits(CONFIG_BYTES)
SHOWN_ARCHITECTURES = 8


@dataclass(frozen=True)
class ImportedModel:
    """A shape, with notes on its file: how it was read, and facts that no launch file has."""

    model: ModelShape
    notes: tuple[str, ...]


def model_from_config_file(path: Path) -> ImportedModel:
    """The model in a ``config.json``, named after its folder, or after the file if called otherwise; raises ``InputError``."""
    where = str(path) if str(path).isprintable() else repr(str(path))
    config = read_document(path, LIMITS, is_json=True)
    return model_from_config(config, where, path.absolute().parent.name if path.stem == "config" else path.stem)


def model_from_config(config: object, where: str = "config.json", name: str = "") -> ImportedModel:
    """The model that a parsed ``config.json`` describes; raises ``InputError``."""
    try:
        return _read(config, name)
    except InputError as error:
        raise InputError(Sentence("{}: {}", where, error)) from None


def _read(config: object, name: str) -> ImportedModel:
    notes: list[str] = []
    whole_type = check(TypedConfig, config).model_type
    assert isinstance(config, Mapping)  # a file with a model_type is a mapping
    text = config.get("text_config")
    if isinstance(text, Mapping) and "hidden_size" not in config:
        notes.append(Sentence("only the text model of {} is read; its other parts are not priced.", show(whole_type)))
        shared = {key: config[key] for key in ("model_type", "architectures", "tie_word_embeddings") if key in config}
        config = {**shared, **text}
    model_type = _model_type(check(TypedConfig, config, "text_config").model_type, config.get("architectures"), notes)
    family = FAMILIES[model_type]
    section = check(family.section, {**config, "model_type": model_type})
    unread = weigh(config, family.keys, model_type)
    nulls = frozenset(str(key) for key, value in config.items() if value is None)
    source = Source(name if name and name.isprintable() else model_type, nulls, notes)
    model = family.read(section, source)
    check_shape(model, "")
    if unread is not None:
        notes.append(unread)
    return ImportedModel(model, tuple(notes))


def _model_type(given: str, architectures: object, notes: list[str]) -> str:
    """The model type: the file's own, otherwise that of the first known class in ``architectures``."""
    if given in FAMILIES:
        return given
    named = architectures if isinstance(architectures, list) else []
    for architecture in named[:SHOWN_ARCHITECTURES]:
        if isinstance(architecture, str) and architecture in BY_ARCHITECTURE:
            known = BY_ARCHITECTURE[architecture]
            notes.append(
                Sentence(
                    "model_type {} is not known; the file is read as {}, by its architecture {}.",
                    show(given),
                    known,
                    architecture,
                )
            )
            return known
    similar = nearest(given, FAMILIES)
    hint = Sentence(" (nearest: {})", similar) if similar else ""
    raise InputError(
        Sentence("model_type: {} is not supported{}; supported: {}.", show(given), hint, joined(", ", SUPPORTED_MODEL_TYPES))
    )
