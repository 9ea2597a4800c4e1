"""Rows of the embedding where a script leaves them to its tokenizer: those of a preset, of the padding, or a question."""

from __future__ import annotations

import re
from dataclasses import replace

from app.catalogue.models.presets import model_preset, names
from cost_models.shapes.workload import ModelShape
from documents.bounds import MAX_VOCAB
from documents.errors import InputError
from documents.sentences import Sentence, joined
from frameworks.framework import ReadJob

MOST_PADDING = 1024  # rows that padding adds; a larger multiple is made for the vocabulary
_LAYERS = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "gated_linear_unit")
_CONSTANTS = ("qk_layernorm", "tied_embeddings", "attention_bias")


def with_vocabulary(read: ReadJob, script: str, stated: int | None) -> tuple[ModelShape, tuple[str, ...]]:
    """The model with the rows of its embedding, and a sentence if the script does not state them. Raises ``InputError``.

    ``stated``: the rows, from beside the script.
    """
    model = read.model
    if stated is not None:
        if not 1 <= stated <= MAX_VOCAB:
            raise InputError(Sentence("vocab_size: {} is not allowed; give 1 to {:,}.", stated, MAX_VOCAB))
        return replace(model, vocab_size=stated), (Sentence("model.vocab_size = {} (given beside the script)", stated),)
    if model.vocab_size and not read.vocab_multiple:
        return model, ()
    if model.vocab_size:
        return _of_multiple(read, script)
    like = _presets_like(read)
    sizes = sorted({model_preset(name).model.vocab_size for name in like})
    if len(sizes) == 1:
        return _as_preset(read, like[0])
    if sizes:
        others = joined(" or ", (Sentence("{} ({})", model_preset(name).model.vocab_size, name) for name in like))
        raise InputError(
            Sentence("vocab_size: {} leaves it to the tokenizer, which may have {}; give --vocab-size.", script, others)
        )
    raise InputError(
        Sentence(
            "vocab_size: {} leaves it to the tokenizer, and no preset has the same layers; give --vocab-size, "
            "the rows of the embedding.",
            script,
        )
    )


def _of_multiple(read: ReadJob, script: str) -> tuple[ModelShape, tuple[str, ...]]:
    """The rows if padding adds thousands: a multiple that was made for a vocabulary and a number of tensor-parallel ranks."""
    rows, each = read.model.vocab_size, read.vocab_multiple // read.strategy.tp
    like = _presets_like(read)
    known = {model_preset(name).model.vocab_size for name in like or names()}
    if rows not in known and (whole := [size for size in sorted(known) if size % each == 0]):
        if like and len(whole) == 1:
            return _as_preset(read, next(name for name in like if model_preset(name).model.vocab_size == whole[0]))
        raise InputError(
            Sentence(
                "vocab_size: {} pads the vocabulary to a multiple of {} x tp {} = {} rows, but {} x {} = {} is a known "
                "vocabulary; give --vocab-size, the rows of the embedding.",
                script,
                each,
                read.strategy.tp,
                rows,
                each,
                whole[0] // each,
                whole[0],
            )
        )
    if rows in known:
        return read.model, ()
    return read.model, (Sentence("model.vocab_size = {} (the script pads the vocabulary to a multiple of it)", rows),)


def _as_preset(read: ReadJob, name: str) -> tuple[ModelShape, tuple[str, ...]]:
    size = model_preset(name).model.vocab_size
    padded = -(-size // read.vocab_multiple) * read.vocab_multiple if read.vocab_multiple else size
    rows = size if padded - size < MOST_PADDING else padded
    why = Sentence("model.vocab_size = {} (as {}, which has the same layers; the script does not say it)", rows, name)
    return replace(read.model, vocab_size=rows), (why,)


def _presets_like(read: ReadJob) -> list[str]:
    """The presets with the same layers and constants; of these those that the tokenizer names, if it names any."""
    like = [name for name in names() if _is_like(model_preset(name).model, read.model)]
    tokenizer = _plain(read.tokenizer)
    return [name for name in like if _plain(name) in tokenizer] or like


def _is_like(known: ModelShape, model: ModelShape) -> bool:
    """Whether a preset has the same layers, and no constant that the script contradicts."""
    if any(getattr(known, field) != getattr(model, field) for field in (*_LAYERS, *_CONSTANTS)):
        return False
    if (known.moe and known.moe.num_experts) != (model.moe and model.moe.num_experts):
        return False
    one, other = known.constants, model.constants
    bases = {base for base in (one.rotary_base, other.rotary_base) if base is not None}
    scaled = other.rope_scaling is None or (one.rope_scaling is not None and one.rope_scaling.kind == other.rope_scaling.kind)
    return len(bases) < 2 and scaled


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
