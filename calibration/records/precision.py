"""The precision of a run record, and how its 8-bit matmuls scale their operands."""

from __future__ import annotations

import re

from calibration.records.known_flags import Flag
from calibration.records.sections import Notes, TrainingSection
from calibration.records.software import flag_value
from cost_models.shapes.precision import RECIPES
from cost_models.shapes.traits import SoftwareTraits
from documents.sentences import Sentence

# The first of these in a precision's text counts: recipes add their own words, such as amp_fp8, MXFP8 or bf16_mixed.
_PRECISIONS = {
    "fp4": "nvfp4",
    "fp8": "fp8",
    "float8": "fp8",
    "hif8": "fp8",
    "e4m3": "fp8",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "float16": "fp16",
    "fp32": "fp32",
    "float32": "fp32",
    "tf32": "fp32",
}
# Words of publishers for a recipe. MXFP8 is FP8-MX, current scaling, FP8-CS, is tensorwise, and subchannel scaling, FP8-SC, is
# blockwise [megatron-bridge].
_RECIPE_WORDS = (
    (re.compile(r"\bmxfp8\b|\bfp8[-_]mx\b"), "mxfp8"),
    (re.compile(r"\bfp8[-_]cs\b|\btensor-?wise\b|current[-_ ]scaling"), "tensorwise"),
    (re.compile(r"\bfp8[-_]sc\b|block-?wise|sub-?channel"), "blockwise"),
)
# Words beside which no recipe is stated, or the default one. Any other word may name a recipe that is unknown here.
_WORDS_WITHOUT_RECIPE = {*"amp default delayed hybrid mixed params per precision scaling tensor".split(), "e4m3", "e5m2"}
_DEFAULT_RECIPE = "delayed"  # of Transformer Engine, and of Megatron-LM's --fp8-recipe [transformer-engine; megatron-main]
_LEAVES_OPEN = re.compile(r"fp8|float8")  # a precision in 8 bits with no word for its recipe, in tables that name some


def record_precision(section: TrainingSection, notes: Notes) -> str:
    """The precision of linear layers; bf16 where its text has no known one."""
    text = section.precision.lower()
    precision = next((known for held, known in _PRECISIONS.items() if held in text), "bf16")
    if text != precision:
        notes.add("precision", section.precision or None, Sentence("is read as {}", precision))
    return precision


def record_recipe(section: TrainingSection, notes: Notes, flags: tuple[Flag, ...], stack: SoftwareTraits) -> str | None:
    """One of ``RECIPES``: from a flag or the source's words, else Transformer Engine's default; ``None`` if that is open."""
    stated = flag_value(flags, "fp8-recipe")
    if stated is not None:
        return stated if stated in RECIPES else None
    detail = (section.precision_detail or "").lower()
    text = f"{section.precision.lower()} {detail}"
    for words, recipe in _RECIPE_WORDS:
        if words.search(text):
            return recipe
    if set(re.findall(r"[a-z0-9]+", text)) - _WORDS_WITHOUT_RECIPE - _PRECISIONS.keys():
        field, stated = ("precision_detail", section.precision_detail) if detail else ("precision", section.precision)
        notes.add(field, stated, Sentence("names no known recipe of 8 bits; none is assumed"))
        return None
    is_default = stack.uses_transformer_engine and not stack.own_eight_bit_layers and not _LEAVES_OPEN.fullmatch(detail)
    return _DEFAULT_RECIPE if is_default else None
