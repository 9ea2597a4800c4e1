"""Tokens per expert from a training log: lists in a job, or a JSON file that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.jobs.fields import ExpertCountsFile
from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.workload import ModelShape
from documents.bounds import COUNTS_BYTES
from documents.checking import check
from documents.errors import InputError, show
from documents.reading import Limits, parse_document, read_text
from documents.sentences import Sentence

FIELD = "training.expert_counts"


def counts_reference(given: Any, folder: Path | None) -> Any:
    """An absolute path for a path; any other value unchanged."""
    if isinstance(given, str) and folder is not None:
        return os.path.abspath(folder / given)  # noqa: PTH100 - Path's keeps "..".
    return given


def expert_counts(given: Any, model: ModelShape, folder: Path | None, labels: Mapping[str, str]) -> ExpertCounts:
    """The counts of a job; ``InputError`` if they do not fit its model."""
    field = labels.get(FIELD, FIELD)
    if isinstance(given, str):
        if folder is None:
            raise InputError(
                Sentence("{}: {} is a file, which a server does not read; give the lists of counts in it.", field, show(given))
            )
        given, field = _read(folder / given, field)
    rows: Sequence[Sequence[int]] = [given] if given and isinstance(given[0], int) else given
    if model.moe is None:
        raise InputError(Sentence("{}: {} has no experts; leave it out.", field, model.name))
    num_layers, num_experts = sum(model.moe_layers()), model.moe.num_experts
    if len(rows) not in (1, num_layers):
        raise InputError(
            Sentence(
                "{}: {:,} layers, but {} has {:,} MoE layers; give a list for each of them, in order, or one list for all.",
                field,
                len(rows),
                model.name,
                num_layers,
            )
        )
    for index, row in enumerate(rows):
        where = field if rows is not given else f"{field}[{index}]"
        if len(row) != num_experts:
            raise InputError(
                Sentence(
                    "{}: {:,} counts, but {} has {:,} routed experts; give one for each.",
                    where,
                    len(row),
                    model.name,
                    num_experts,
                )
            )
        if not any(row):
            raise InputError(
                Sentence("{}: all counts are 0; give tokens per expert of a step in which the layer was routed.", where)
            )
    return ExpertCounts(tuple(tuple(map(float, row)) for row in rows))


def counts_to_lists(counts: ExpertCounts | None) -> list[Any] | None:
    """The counts in the form of a job; the inverse of reading."""
    if counts is None:
        return None
    rows = [[int(count) for count in row] for row in counts.layers]
    return rows[0] if len(rows) == 1 else rows


def _read(path: Path, field: str) -> tuple[Any, str]:
    try:
        text = read_text(path, COUNTS_BYTES)
        # A log gives a bare list; a mapping may also name the source of the counts.
        whole = text if text.lstrip().startswith("{") else f'{{"expert_counts": {text}}}'
        document = parse_document(whole, str(path), is_json=True, limits=Limits(len(whole)))
    except InputError as error:
        raise InputError(Sentence("{}: {}", field, error)) from None
    inside = Sentence("{}: {}", field, path)
    try:
        counts = check(ExpertCountsFile, document).expert_counts
        if isinstance(counts, str):
            raise InputError(Sentence("expert_counts: {} is not allowed; give lists of integers.", show(counts)))
        return counts, Sentence("{}: expert_counts", inside)
    except InputError as error:
        raise InputError(Sentence("{}: {}", inside, error)) from None
