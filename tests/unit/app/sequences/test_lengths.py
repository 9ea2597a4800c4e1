"""Lengths of samples in every form; what is wrong is named by its row."""

from __future__ import annotations

import numpy as np
import pytest

from app.sequences.lengths import parse_lengths, samples
from documents.errors import InputError


@pytest.mark.parametrize("text", ["5\n7\n\n9\n", "length\n5\n7\n9\n", "[5, 7, 9]", '{"lengths": [5, 7, 9]}'])
def test_lists_are_read(text: str) -> None:
    found = parse_lengths(text, "LENGTHS")
    assert not isinstance(found, tuple)
    assert found.tolist() == [5, 7, 9]


@pytest.mark.parametrize("text", ["length,count\n5,2\n7,0\n", "5,2\n7,0\n", '{"histogram": {"5": 2, "7": 0}}'])
def test_histograms_are_read(text: str) -> None:
    found = parse_lengths(text, "LENGTHS")
    assert isinstance(found, tuple)
    assert [part.tolist() for part in found] == [[5, 7], [2, 0]]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("5\n-7\n", "row 2, column length: '-7'"),
        ("5\n0\n", "row 2, column length: 0"),
        ("5\n7.5\n", "row 2, column length: '7.5'"),
        ("5\nnan\n", "row 2, column length: 'nan'"),
        ("5\n999999999999\n", "row 2, column length: 999999999999"),
        ("5,1\n7\n", "row 2: 1 columns"),
        ("5,1\n7,-1\n", "row 2, column count: '-1'"),
        ("5,1,1\n", "row 1: 3 columns"),
        ("tokens\n5\n", "row 1: 'tokens'"),
        ("length,count\n5,0\n", "all counts are 0"),
        ("", "0 rows"),
        ("[5, true]", "lengths[1]: true"),
        ("[5, 7.0]", "lengths[1]: 7.0"),
        ("[]", "lengths: []"),
        ("{}", "give lengths, a list, or histogram"),
        ('{"histogram": {"a": 1}}', "histogram: length: 'a'"),
        ('{"histogram": {"5": 1.5}}', "histogram.5: 1.5"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(text: str, place: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_lengths(text, "LENGTHS")
    assert str(refused.value).startswith("LENGTHS")
    assert place in str(refused.value)


def test_samples_keep_their_order_or_are_drawn() -> None:
    found, is_whole = samples(np.array([3, 4, 5]), 6, 0)
    assert (found.tolist(), is_whole) == ([3, 4], True)
    for given in (np.array([3, 4, 5]), (np.array([3, 5]), np.array([1, 0]))):
        found, is_whole = samples(given, 5000, 0)
        assert not is_whole
        assert found.sum() >= 5000
        assert set(found.tolist()) == ({3} if isinstance(given, tuple) else {3, 4, 5})
    with pytest.raises(InputError, match="price fewer steps"):
        samples(np.array([1]), 10**9, 0)
