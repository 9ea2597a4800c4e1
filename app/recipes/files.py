"""Recipes on this machine, and the files that they name. They are read, and never run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.launch_scripts.files import assumed_arguments, file_texts, script_values
from app.launch_scripts.launch import Given
from app.recipes.forms import is_mindspeed_rl
from app.recipes.reading import RecipeJob, Stated, recipe_job
from documents.reading import read_text
from hardware_profiles import catalogue

MAX_COMPANIONS = 4
_MODEL = re.compile(r"^[ \t]+model:[ \t]*([\w.\-]+)", re.M)


def load_recipe(
    path: Path,
    stated: Stated,
    *,
    values: Sequence[str] = (),
    files: Sequence[Path] = (),
    assume: Sequence[str] = (),
    keeps_layouts: bool = True,
) -> RecipeJob:
    """The job of a recipe's file; ``values`` are ``NAME=VALUE``, ``assume`` are ``NAME=ignored``.

    ``files`` are those that it sources or includes. Without ``keeps_layouts`` a search is free to choose placement and layouts.
    """
    text = read_text(path)
    given = Given(str(path), script_values(values), {**_companions(path, text), **file_texts(files)})
    stated = stated._replace(assume=assumed_arguments(assume))
    return recipe_job(text, given, stated, catalogue.profile(stated.hardware), Path(), keeps_layouts=keeps_layouts)


def _companions(path: Path, text: str) -> Mapping[str, str]:
    """The files of models that a file of MindSpeed-RL includes: in the folder model beside it."""
    if not is_mindspeed_rl(text):
        return {}
    named = list(dict.fromkeys(f"{name}.yaml" for name in _MODEL.findall(text)))[:MAX_COMPANIONS]
    places = {name: path.parent / "model" / name for name in named}
    return {name: read_text(place) for name, place in places.items() if place.is_file()}
