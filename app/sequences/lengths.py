"""Lengths of samples from a file: one per line, a histogram as CSV, or JSON; an error names its row."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from documents.bounds import MAX_SEQ_LENGTH, TRACE_BYTES
from documents.errors import InputError, show
from documents.reading import Limits, parse_document, read_text
from documents.sentences import Sentence
from search.sequences.order import MAX_SAMPLES

Ints = NDArray[np.int64]
Histogram = tuple[Ints, Ints]  # lengths, and the number of samples of each

MAX_COUNTED = 2**53
MAX_DRAWN = 2_000_000  # most samples; they take a second or two


def read_lengths(path: Path, field: str = "LENGTHS") -> Ints | Histogram:
    """Lengths in the order of their samples, or a histogram of them."""
    try:
        text = read_text(path, TRACE_BYTES)
    except InputError as error:
        raise InputError(Sentence("{}: {}", field, error)) from None
    return parse_lengths(text, Sentence("{}: {}", field, path))


def parse_lengths(text: str, field: str) -> Ints | Histogram:
    """Lengths in a text, or a histogram of them."""
    begin = text.lstrip()[:1]
    if begin in ("[", "{"):
        whole = text if begin == "{" else f'{{"lengths": {text}}}'
        try:
            document = parse_document(whole, field, is_json=True, limits=Limits(len(whole.encode())))
        except InputError as error:
            raise InputError(str(error) if str(error).startswith(field) else Sentence("{}: {}", field, error)) from None
        return lengths_of(document, field)
    return _of_csv(text, field)


def lengths_of(document: Mapping[str, Any], field: str) -> Ints | Histogram:
    """Lengths from a mapping with ``lengths``, a list, or ``histogram``, samples by length."""
    given = [name for name in ("lengths", "histogram") if document.get(name) is not None]
    if len(given) != 1:
        raise InputError(Sentence("{}: give lengths, a list, or histogram, a mapping of lengths to samples.", field))
    value, prefix = document[given[0]], "" if field == "body" else Sentence("{}: ", field)
    if given[0] == "lengths":
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_SAMPLES:
            raise InputError(
                Sentence("{}lengths: {} is not allowed; give a list of 1 to {:,} lengths.", prefix, show(value), MAX_SAMPLES)
            )
        return np.array([_whole(one, f"{prefix}lengths[{at}]", MAX_SEQ_LENGTH, 1) for at, one in enumerate(value)])
    if not isinstance(value, Mapping) or not value:
        raise InputError(Sentence("{}histogram: {} is not allowed; give a mapping of lengths to samples.", prefix, show(value)))
    lengths = [_text(one, Sentence("{}histogram: length", prefix), MAX_SEQ_LENGTH, 1) for one in value]
    counts = [_whole(one, f"{prefix}histogram.{length}", MAX_COUNTED, 0) for length, one in value.items()]
    return _histogram(lengths, counts, field)


def _of_csv(text: str, field: str) -> Ints | Histogram:
    rows = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), start=1) if any(map(str.strip, row))]
    if rows and not rows[0][1][0].strip().lstrip("-").replace(".", "").isdigit():
        header = [name.strip().lower() for name in rows[0][1]]
        if header not in (["length"], ["length", "count"]):
            raise InputError(
                Sentence("{}: row 1: {} is not allowed; name the columns length, or length,count.", field, show(",".join(header)))
            )
        rows = rows[1:]
    if not rows or len(rows) > MAX_SAMPLES:
        raise InputError(Sentence("{}: {:,} rows; give 1 to {:,} lengths.", field, len(rows), MAX_SAMPLES))
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width or width > 2:
            raise InputError(Sentence("{}: row {}: {} columns; give a length, or a length and a count.", field, number, len(row)))
    lengths = [_text(row[0], Sentence("{}: row {}, column length", field, number), MAX_SEQ_LENGTH, 1) for number, row in rows]
    if width == 1:
        return np.array(lengths)
    counts = [_text(row[1], Sentence("{}: row {}, column count", field, number), MAX_COUNTED, 0) for number, row in rows]
    return _histogram(lengths, counts, field)


def _histogram(lengths: list[int], counts: list[int], field: str) -> Histogram:
    if not any(counts):
        raise InputError(Sentence("{}: all counts are 0; give how many samples have each length.", field))
    return np.array(lengths), np.array(counts)


def _text(text: str, place: str, most: int, least: int) -> int:
    text = text.strip()
    return _whole(int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text, place, most, least)


def _whole(value: Any, place: str, most: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(Sentence("{}: {} is not allowed; give an integer from {} to {:,}.", place, show(value), least, most))
    return value


def samples(given: Ints | Histogram, num_tokens: int, seed: int) -> tuple[Ints, bool]:
    """Lengths with ``num_tokens`` in total, and whether they are the given ones in order.

    If the given ones are too few, lengths are drawn from them.
    """
    if not isinstance(given, tuple):
        if int(given.sum()) >= num_tokens:
            return given[: int(np.searchsorted(np.cumsum(given), num_tokens)) + 1], True
        lengths, weights = given, np.full(len(given), 1.0 / len(given))
    else:
        lengths, counts = given
        weights = counts / counts.sum()
    number = int(num_tokens / float((lengths * weights).sum()) * 1.2) + 1000
    if number > MAX_DRAWN:
        raise InputError(
            Sentence("lengths: {:,} samples fill these steps, more than {:,}; price fewer steps.", number, MAX_DRAWN)
        )
    random = np.random.default_rng(seed)
    drawn = random.choice(lengths, size=number, p=weights)
    while int(drawn.sum()) < num_tokens:
        drawn = np.concatenate([drawn, random.choice(lengths, size=number, p=weights)])
    return drawn, False
