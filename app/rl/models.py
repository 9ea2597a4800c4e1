"""Models of post-training jobs and records: presets, and others that are often post-trained."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from app.catalogue.models.presets import model_preset, resolve_model
from app.catalogue.models.presets import names as preset_names
from app.catalogue.models.shape import model_from_mapping
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError, nearest, show
from documents.reading import parse_document
from documents.sentences import Sentence, joined

_SUFFIX = re.compile(r"[-_](instruct|base|chat|thinking|it|hf|zero|2507|bf16|fp16|fp8|int8|w8a8|sft|rl|grpo|distill)$")
DEFAULT_WINDOW = 32_768  # tokens, if a config does not say


def model_of(value: object) -> ModelShape:
    """The shape of a name or a mapping; ``InputError`` with the nearest name."""
    if not isinstance(value, str):
        return resolve_model(value)[0]
    name = _plain(value)
    shapes, same = _shapes(), _same_shape()
    name = same.get(name, name)
    if name in preset_names():
        return model_preset(name).model
    if name in shapes:
        return model_from_mapping({**shapes[name], "name": name})
    known = (*preset_names(), *shapes, *same)
    similar = nearest(name, known)
    hint = Sentence("the nearest is {}", similar) if similar else Sentence("there are {}", joined(", ", sorted(known)))
    raise InputError(Sentence("model: {} is not known; {}.", show(value), hint))


def trained_window(model: ModelShape) -> int:
    """Sequence length that a model was trained with, from its config. [tokens]"""
    return model.constants.max_position_embeddings or DEFAULT_WINDOW


def _plain(name: str) -> str:
    plain = name.rsplit("/", 1)[-1].strip().lower().replace("_", "-").replace(" ", "-")
    known = {*preset_names(), *_shapes(), *_same_shape()}
    while plain not in known and _SUFFIX.search(plain):
        plain = _SUFFIX.sub("", plain)
    return plain


@cache
def _document() -> Mapping[str, Any]:
    text = resources.files("app.rl").joinpath("model_shapes.yaml").read_text(encoding="utf-8")
    return parse_document(text, "model_shapes.yaml")


@cache
def _shapes() -> Mapping[str, Mapping[str, Any]]:
    return {name: entry["model"] for name, entry in _document()["models"].items()}


@cache
def _same_shape() -> Mapping[str, str]:
    found: Mapping[str, str] = _document()["same_shape"]
    return found
