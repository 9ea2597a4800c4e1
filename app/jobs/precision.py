"""Precision of a job's linear layers, and how operands in 8 bits are scaled, checked against the devices."""

from __future__ import annotations

from dataclasses import replace

from app.catalogue.models.presets import DefaultTraining
from app.jobs.fields import PRECISIONS, TrainingSection
from cost_models.shapes.precision import EIGHT_BITS, HIF8_RECIPE
from cost_models.shapes.traits import device_traits
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from documents.sentences import Sentence, joined
from frameworks.registry import parse_target
from hardware_profiles.schema import HardwareProfile

RECIPE = "training.fp8_recipe"
WITH_RECIPE = {"mxfp8": ("fp8", "mxfp8"), "hif8": ("hif8", HIF8_RECIPE)}  # names that say precision and recipe at once


def resolved_precision(
    section: TrainingSection, default: DefaultTraining | None, profile: HardwareProfile, assumed: dict[str, str]
) -> tuple[str, str | None]:
    """Precision and recipe; ``None`` where no recipe is stated. Raises ``InputError`` for what the devices do not run."""
    if section.precision is None or section.precision not in WITH_RECIPE:
        precision, recipe = _precision(section.precision, default, profile, assumed), section.fp8_recipe
    else:
        precision, recipe = WITH_RECIPE[section.precision]
        _check_rate(section.precision, precision, profile)
        if section.fp8_recipe not in (None, recipe):
            raise InputError(
                Sentence(
                    "training.fp8_recipe: {!r} does not go with training.precision {}, which is {}; leave it out.",
                    section.fp8_recipe,
                    section.precision,
                    recipe,
                )
            )
    if recipe is not None:
        _check_recipe(recipe, precision, profile)
    if section.fp8_param_gather is not None and precision != "fp8":
        raise InputError(
            Sentence("training.fp8_param_gather: it is of fp8, and training.precision is {}; leave it out.", precision)
        )
    return precision, recipe


def with_usual_recipe(workload: Workload, assumed: dict[str, str]) -> Workload:
    """The workload with the recipe that its stack's or target's launch files have, if the job states none.

    Its origin is added to ``assumed``.
    """
    if not leaves_recipe_open(workload):
        return workload
    software, target = workload.software, parse_target(workload.software.target)
    known = ((workload.software_traits.usual_fp8_recipe, software.stack), (target.fp8_recipe, target.label))
    for recipe, whose in known:
        if recipe in workload.device_traits.fp8_recipes:
            assumed[RECIPE] = Sentence("(default of {} launch files)", whose)
            return replace(workload, training=replace(workload.training, fp8_recipe=recipe))
    return workload


def leaves_recipe_open(workload: Workload) -> bool:
    """Whether operands are in 8 bits and nothing says how they are scaled."""
    return workload.training.precision in EIGHT_BITS and workload.training.fp8_recipe is None


def check_gather(section: TrainingSection, workload: Workload) -> None:
    """Raises ``InputError`` for ``fp8_param_gather`` on a stack that keeps no weights in 8 bits."""
    if section.fp8_param_gather is not None and not _keeps_eight_bits(workload):
        raise InputError(
            Sentence(
                "training.fp8_param_gather: stack {} keeps no weights in {}; leave it out.",
                workload.software.stack,
                workload.training.precision,
            )
        )


def without_effect(section: TrainingSection, workload: Workload) -> tuple[str, ...]:
    """Fields that the job leaves out, and that its precision or stack gives no effect."""
    precision = workload.training.precision
    stated = section.fp8_recipe is not None or section.precision in WITH_RECIPE
    keeps = _keeps_eight_bits(workload)
    missing = {RECIPE: precision not in EIGHT_BITS or stated, "training.fp8_param_gather": not keeps}
    return tuple(name for name, is_idle in missing.items() if is_idle)


def _keeps_eight_bits(workload: Workload) -> bool:
    """Whether the software may keep weights of linear layers in 8 bits alone."""
    software = workload.software_traits
    return workload.training.precision == "fp8" and software.uses_transformer_engine and not software.own_eight_bit_layers


def _precision(given: str | None, default: DefaultTraining | None, profile: HardwareProfile, assumed: dict[str, str]) -> str:
    supported = _supported(profile)
    if not supported:
        raise InputError(Sentence("cluster.hardware: {} has no matmul rate in {}.", profile.name, joined(", ", PRECISIONS)))
    if given is not None:
        _check_rate(given, given, profile)
        return given
    if default is not None and default.precision in supported:
        assumed["training.precision"] = default.why("precision")
        return default.precision
    precision = "bf16" if "bf16" in supported else "fp16" if "fp16" in supported else next(iter(supported))
    assumed["training.precision"] = Sentence("(default on {})", profile.name)
    return precision


def _supported(profile: HardwareProfile) -> list[str]:
    """Precisions of training with a matmul rate."""
    return [name for name in profile.matmul_flops_per_s if name in PRECISIONS]


def _named(profile: HardwareProfile) -> list[str]:
    """Names of precision that a job may give, also those that say a recipe."""
    traits, found = device_traits(profile), _supported(profile)
    with_recipe = ["hif8"] if "fp8" in found and traits.has_hif8 else []
    return sorted([*found, *with_recipe, *(["mxfp8"] if "mxfp8" in traits.fp8_recipes else [])])


def _check_rate(given: str, precision: str, profile: HardwareProfile) -> None:
    """Refuses a precision without a matmul rate, by the name that the job gives it."""
    named = _named(profile)
    if precision not in named:
        raise InputError(
            Sentence(
                "training.precision: {!r} has no matmul rate on {}; give one of {}.",
                given,
                profile.name,
                joined(", ", named),
            )
        )


def _check_recipe(recipe: str, precision: str, profile: HardwareProfile) -> None:
    if precision not in EIGHT_BITS:
        raise InputError(
            Sentence("training.fp8_recipe: {!r} is of 8 bits, and training.precision is {}; leave it out.", recipe, precision)
        )
    traits = device_traits(profile)
    if recipe not in traits.fp8_recipes:
        raise InputError(
            Sentence(
                "training.fp8_recipe: {!r} does not run on {} {}; give one of {}.",
                recipe,
                profile.name,
                traits.recipes_source,
                joined(", ", traits.fp8_recipes),
            )
        )
