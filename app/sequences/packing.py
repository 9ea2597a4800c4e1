"""Cost of attention over packed samples, from their lengths as a user states them on one line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from app.sequences.lengths import parse_lengths, read_lengths
from documents.bounds import MAX_SEQ_LENGTH
from documents.errors import InputError, show
from documents.sentences import Sentence

_PAIR = re.compile(r"\s*(\d{1,12})\s*:\s*(\d{1,15})\s*")


def packed_fraction(given: str, seq_length: int) -> float:
    """Mean of the sum of L^2 over the samples of a full sequence, over seq_length^2. Raises ``InputError``.

    ``given``: a file as `sequences plan` takes it, LENGTH:COUNT pairs with commas, or one pair MEAN:MAX, for which lengths are
    taken as exponentially distributed up to the longest.
    """
    first, second = _moments(given)
    return float(min(second / first / seq_length, 1.0))


def _moments(given: str) -> tuple[float, float]:
    """Mean length and mean squared length."""
    pairs = [_PAIR.fullmatch(part) for part in given.split(",")]
    if any(pair is None for pair in pairs):
        if "," in given or not Path(given).is_file():
            raise InputError(
                Sentence("--lengths: {} is neither a file nor LENGTH:COUNT pairs with commas, nor MEAN:MAX.", show(given))
            )
        read = read_lengths(Path(given), "--lengths")
    elif len(pairs) == 1:
        mean, most = (float(part) for part in pairs[0].groups())  # type: ignore[union-attr]
        if not 1 <= mean <= most <= MAX_SEQ_LENGTH:
            raise InputError(Sentence("--lengths: {} is no mean of 1 at least and a maximum that is no less.", show(given)))
        return mean, mean * min(2.0 * mean, most)
    else:
        rows = "\n".join(",".join(pair.groups()) for pair in pairs if pair is not None)
        read = parse_lengths(f"length,count\n{rows}", "--lengths")
    lengths, weights = read if isinstance(read, tuple) else (read, np.ones(len(read)))
    shares = weights / weights.sum()
    exact = lengths.astype(np.float64)
    return float((exact * shares).sum()), float((exact**2 * shares).sum())
