"""Models that a script names by a folder: its ``config.json``, beside the script or in the folder, or a preset of that name."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath

from app.catalogue.models.huggingface.reading import model_from_config, model_from_config_file
from app.catalogue.models.presets import model_preset, names
from app.launch_scripts.launch import Given
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError, show
from documents.sentences import Sentence
from frameworks.framework import NamedModel
from frameworks.rule import either

CONFIG = "config.json"


def named_shape(named: NamedModel, given: Given, folder: Path | None) -> ModelShape:
    """The shape of a named model. Raises ``InputError``.

    ``given``: files beside the script. ``folder``: where relative paths begin, if files of this machine may be read.
    """
    shape = _shape(named, given, folder)
    kind = shape.constants.model_type
    if kind not in named.types:
        what = Sentence("{} {}", named.kind_argument, named.kind) if named.kind else Sentence("no {}", named.kind_argument)
        raise InputError(
            Sentence(
                "{}: {} {} is of type {}; with {} models of {} are priced.",
                given.name,
                named.argument,
                show(named.path),
                kind or Sentence("unknown"),
                what,
                either(named.types),
            )
        )
    return shape


def configured_shape(path: str, given: Given, folder: Path | None) -> ModelShape | None:
    """The shape by the ``config.json`` that is given, or in the folder ``path``; ``None`` without one. Raises ``InputError``."""
    if CONFIG in given.files:
        try:
            config = json.loads(given.files[CONFIG])
        except (ValueError, RecursionError):
            raise InputError(Sentence("{}: not valid JSON.", CONFIG)) from None
        return model_from_config(config, CONFIG, PurePath(path).name).model
    if folder is not None and (folder / path / CONFIG).is_file():
        return model_from_config_file(folder / path / CONFIG).model
    return None


def _shape(named: NamedModel, given: Given, folder: Path | None) -> ModelShape:
    configured = configured_shape(named.path, given, folder)
    if configured is not None:
        return configured
    folder_name = PurePath(named.path).name
    preset = next((name for name in names() if _plain(name) == _plain(folder_name)), None)
    if preset is None:
        raise InputError(
            Sentence(
                "{}: {} {} is no folder with a {} here, and no preset has its name; give --with {}, the model's.",
                given.name,
                named.argument,
                show(named.path),
                CONFIG,
                CONFIG,
            )
        )
    return model_preset(preset).model


def _plain(text: str) -> str:
    """A name without marks, and without the ending of folders of Hugging Face's weights."""
    return re.sub(r"[^a-z0-9]", "", text.lower()).removesuffix("hf")
