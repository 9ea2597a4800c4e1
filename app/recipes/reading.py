"""From a recipe and what it does not say to a job of post-training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from app.catalogue.models.shape import model_to_mapping
from app.launch_scripts.ignored import refuse_unless_ignored
from app.launch_scripts.launch import Given
from app.launch_scripts.named_models import CONFIG, configured_shape
from app.recipes.forms import is_mindspeed_rl, is_verl_configuration
from app.recipes.mindspeed_rl_files import read_mindspeed_rl_file
from app.recipes.verl_scripts import read_verl_configuration, read_verl_script
from app.rl.fields import MEAN_PROMPT
from app.rl.job import RlJob, resolved_rl_job
from app.rl.models import model_of
from cost_models.shapes.workload import ModelShape
from documents.bounds import DOCUMENT_BYTES
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.post_training.recipe import NamedModel, ReadRecipe
from hardware_profiles.schema import HardwareProfile

_KEPT = "--kept-fraction"
STACK_OF_FSDP = {"ascend": "mindspeed-llm-fsdp2"}  # elsewhere plain PyTorch
_PICTURES = ("vl", "vision", "omni", "4v", "4.1v", "o", "minicpmo")


class Stated(NamedTuple):
    """What a recipe does not say, from flags or a request. ``lengths``: fields of the job's section beside the recipe's."""

    hardware: str
    devices: int | None = None
    model: str | None = None
    mean_prompt: float | None = None
    kept_fraction: float | None = None
    lengths: Mapping[str, Any] = MappingProxyType({})
    assume: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class RecipeJob:
    """A recipe and its job. The price leaves out the ``ignored`` settings, each a sentence."""

    recipe: ReadRecipe
    job: RlJob
    ignored: tuple[str, ...]


def recipe_job(
    text: str, given: Given, stated: Stated, profile: HardwareProfile, folder: Path | None, *, keeps_layouts: bool = True
) -> RecipeJob:
    """The job of a recipe on the given hardware. Raises ``InputError``.

    ``folder``: where paths of models begin, if files of this machine may be read. Without ``keeps_layouts`` the job has no
    placement and no layouts, for a search that chooses them.
    """
    if len(text.encode()) > DOCUMENT_BYTES:
        raise InputError(Sentence("{}: larger than {} KiB; a recipe never is.", given.name, DOCUMENT_BYTES // 1024))
    try:
        recipe = _read(text, given, stated.model)
        ignored = _ignored(recipe, given, stated.assume)
        document = _document(recipe, given, stated, profile, folder)
    except ReadingError as error:
        raise InputError(Sentence("{}: {}.", given.name, str(error).rstrip("."))) from None
    if not keeps_layouts:
        document = _without_layouts(document)
    job = resolved_rl_job(document, folder)
    own = replace(job.job, assumptions=(*recipe.assumed, *job.job.assumptions))
    return RecipeJob(recipe, replace(job, job=own), tuple(ignored))


def _read(text: str, given: Given, model: str | None) -> ReadRecipe:
    if is_mindspeed_rl(text):
        return read_mindspeed_rl_file(text, given, model)
    return read_verl_configuration(text, given) if is_verl_configuration(text) else read_verl_script(text, given)


def _ignored(recipe: ReadRecipe, given: Given, assume: Mapping[str, str]) -> list[str]:
    """The settings that are not understood and that the user ignores. Raises ``InputError`` if there are others."""
    found = {entry.name: entry.where for entry in recipe.unread}
    refuse_unless_ignored(given.name, found, assume)
    return list(found.values())


def _document(recipe: ReadRecipe, given: Given, stated: Stated, profile: HardwareProfile, folder: Path | None) -> dict[str, Any]:
    if recipe.on_npus and profile.family != "ascend":
        raise ReadingError(Sentence("the recipe runs on Ascend's devices, and {} are none", profile.name))
    devices = recipe.num_devices or stated.devices
    if devices is None:
        raise ReadingError(Sentence("the recipe does not say how many devices it runs on; give --devices"))
    if stated.devices not in (None, devices):
        raise ReadingError(Sentence("the recipe runs on {} devices, and --devices asks for {}", devices, stated.devices))
    model = _model(recipe, given, stated, folder)
    lengths = {**recipe.post_training["lengths"], **stated.lengths}
    if not {"mean", "histogram"} & lengths.keys():
        raise ReadingError(
            Sentence("no recipe says how long answers are in the mean, and time and memory follow; give --mean-answer")
        )
    if recipe.filters and stated.kept_fraction is None:
        raise ReadingError(
            Sentence(
                "groups are filtered, and the recipe does not say which part passes, on which rollout depends; give {}", _KEPT
            )
        )
    if stated.kept_fraction is not None and not recipe.filters:
        raise ReadingError(Sentence("{}: given for a recipe that filters no groups; leave it out", _KEPT))
    post_training = {**recipe.post_training, "lengths": lengths}
    if stated.mean_prompt is not None:
        post_training["prompt_tokens"] = stated.mean_prompt
    if stated.kept_fraction is not None:
        post_training["kept_fraction"] = stated.kept_fraction
    mean_prompt = post_training.get("prompt_tokens", MEAN_PROMPT)
    if mean_prompt > post_training["max_prompt_tokens"]:
        raise ReadingError(
            Sentence(
                "{:g} tokens of a prompt in the mean are above the recipe's longest prompt of {}; give --mean-prompt",
                mean_prompt,
                post_training["max_prompt_tokens"],
            )
        )
    document = {
        "model": model_to_mapping(model),
        "cluster": {"hardware": stated.hardware, "num_devices": devices, **_nodes(recipe, devices, profile)},
        "post_training": post_training,
        "strategy": {**recipe.strategy, **_stages(recipe, model)},
        "rollout": dict(recipe.rollout),
    }
    if recipe.fully_sharded:
        document["software"] = {"stack": STACK_OF_FSDP.get(profile.family, "fsdp")}
    return document


def _without_layouts(document: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in document.items() if name != "strategy"}
    free = {"post_training": ("placement", "train_devices"), "rollout": ("tp", "pp", "ep")}
    return found | {
        section: {name: value for name, value in document[section].items() if name not in names}
        for section, names in free.items()
    }


def _nodes(recipe: ReadRecipe, devices: int, profile: HardwareProfile) -> dict[str, int]:
    """Devices of a node, where the recipe has fewer than the hardware."""
    each = recipe.devices_per_node
    if each is None or each == profile.devices_per_node or devices <= each < profile.devices_per_node:
        return {}
    if each > profile.devices_per_node:
        raise ReadingError(
            Sentence("the recipe's nodes have {} devices, and those of {} have {}", each, profile.name, profile.devices_per_node)
        )
    return {"devices_per_node": each}


def _stages(recipe: ReadRecipe, model: ModelShape) -> dict[str, Any]:
    """Layers of each pipeline stage, if the first or the last has its own number."""
    first, last = recipe.end_layers
    pp = int(recipe.strategy.get("pp", 1))
    middle = pp - (first is not None) - (last is not None)
    rest = model.num_layers - (first or 0) - (last or 0)
    if pp == 1 or (first is None and last is None):
        return {}
    inner = [rest // middle] * middle if middle else []
    if sum(inner) != rest or 0 in inner:
        raise ReadingError(
            Sentence("{} layers do not fill {} stages with {} and {} at the ends", model.num_layers, pp, first, last)
        )
    return {"stage_layers": [*([first] if first else []), *inner, *([last] if last else [])]}


def _model(recipe: ReadRecipe, given: Given, stated: Stated, folder: Path | None) -> ModelShape:
    """The policy's shape; other models of the recipe have to be of the same."""
    policy, *others = recipe.models
    found = recipe.shape or _shape(policy, given, stated.model, folder)
    for other in others:
        if _base(other.path) != _base(policy.path) and not _is_alike(other, found, folder):
            raise ReadingError(
                Sentence(
                    "{}: {} is not known to be of the policy's shape, by which it is priced", other.setting, show(other.path)
                )
            )
    return found


def _is_alike(other: NamedModel, policy: ModelShape, folder: Path | None) -> bool:
    try:
        shape = _shape(other, Given(""), None, folder)
    except (InputError, ReadingError):
        return False
    return replace(shape, name=policy.name, constants=policy.constants) == policy


def _shape(named: NamedModel, given: Given, stated: str | None, folder: Path | None) -> ModelShape:
    """The shape of a stated name, of the configuration that is given or in the folder, or of the path's last part."""
    base = _base(named.path)
    if stated is not None:
        return model_of(stated)
    if (configured := configured_shape(named.path, given, folder)) is not None:
        return configured
    if any(part in _PICTURES for part in base.lower().replace("_", "-").split("-")):
        raise ReadingError(Sentence("{}: {} reads pictures too, and its vision part is not priced", named.setting, show(base)))
    try:
        return model_of(base)
    except InputError:
        raise ReadingError(
            Sentence(
                "{}: {} is no folder with a {} here, and no known model has its name; give --model NAME or --with {}",
                named.setting,
                show(named.path),
                CONFIG,
                CONFIG,
            )
        ) from None


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
