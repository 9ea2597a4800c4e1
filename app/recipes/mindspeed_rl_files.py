"""YAML files of MindSpeed-RL, with the model's file that they include."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.launch_scripts.launch import Given
from app.recipes.yaml_settings import LIMITS, yaml_settings
from app.rl.models import model_of
from cost_models.shapes.workload import ModelShape
from documents.errors import show
from documents.reading import parse_document
from documents.sentences import Sentence, joined
from frameworks.framework import ReadingError
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from frameworks.post_training.mindspeed_rl import RELEASE
from frameworks.post_training.mindspeed_rl_reader import ACTOR, ALL, APART, CRITIC, read
from frameworks.post_training.recipe import ReadRecipe, Written

_SIZES = ("num_layers", "noop_layers")  # of the model, which an engine may have others of: with empty layers
# What the reader of models needs beside a model, and does not depend on.
_AROUND = ("--micro-batch-size", "1", "--global-batch-size", "1", "--seq-length", "4096", "--bf16")
_DROPOUT = ("--attention-dropout", "0", "--hidden-dropout", "0")


def read_mindspeed_rl_file(text: str, given: Given, model: str | None) -> ReadRecipe:
    """The recipe of a file. Raises ``InputError``, and ``ReadingError`` for what the settings do not decide.

    ``model``: a known model, if the file that the recipe includes is not given.
    """
    document = parse_document(text, given.name, limits=LIMITS)
    settings = yaml_settings({name: inside for name, inside in document.items() if name != "model"}, text)
    name = _setting(settings, "model")
    if name is None:
        raise ReadingError(Sentence("{}.model: missing", ACTOR))
    shape, slots = _shape(name, settings, given, model)
    layers = _setting(settings, "num_layers")
    sizes = {f"{section}.num_layers" for section in (ACTOR, ALL, CRITIC, *APART)}
    engines = {key: one for key, one in settings.items() if key not in sizes or one.text != layers}
    return read(engines, shape, slots)


def _setting(settings: Mapping[str, Written], name: str) -> str | None:
    return next((settings[key].text for key in (f"{ACTOR}.{name}", f"{ALL}.{name}") if key in settings), None)


def _shape(name: str, settings: Mapping[str, Written], given: Given, model: str | None) -> tuple[ModelShape, int]:
    """The shape of the included model's section, and the layers that it has with the empty ones of the engine.

    Without the section it is that of the release's file of the name.
    """
    included = f"{name}.yaml"
    own = {size: text for size in _SIZES if (text := _setting(settings, size)) is not None}
    known = next((preset for preset, entry in RELEASE.models.items() if entry["file"] == name), None)
    if included not in given.files:
        known = model or known
        if known is not None:
            shape = model_of(known)
            return shape, int(own["num_layers"]) if own.get("num_layers", "").isdecimal() else shape.num_layers
        raise ReadingError(
            Sentence(
                "the model is in {}, which is neither in a folder model beside the file nor given; give --with {}",
                included,
                included,
            )
        )
    section = parse_document(given.files[included], included, limits=LIMITS).get(name)
    if not isinstance(section, dict):
        raise ReadingError(Sentence("{}: there is no section {}", included, show(name)))
    arguments = [*_AROUND, *_arguments({**section, **own})]
    arguments += [] if {"attention_dropout", "hidden_dropout"} & section.keys() else _DROPOUT
    found = MINDSPEED_LLM.read_job(arguments, 1)
    if found.unread:
        parts = joined("; ", (Sentence("{}: {}", entry.name, entry.change) for entry in found.unread))
        raise ReadingError(Sentence("{}: {}", included, parts))
    slots = str(own.get("num_layers", section.get("num_layers")))
    shape = replace(found.model, name=known or name)
    return shape, int(slots) if slots.isdecimal() else shape.num_layers


def _arguments(section: Mapping[str, Any]) -> Iterator[str]:
    """Arguments of MindSpeed-LLM for settings of a model, which have the same names."""
    for key, value in section.items():
        if value is False or value is None:
            continue
        yield f"--{str(key).replace('_', '-')}"
        if value is not True:
            yield from map(str, value if isinstance(value, list) else [value])
