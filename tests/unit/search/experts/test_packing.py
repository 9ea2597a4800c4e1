"""Balanced packing against every packing there is, written apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from search.experts.packing import EXACT_ITEMS, exchange, pack

CLOSE = 1.02  # of the best packing


def lightest_fullest_bin(weights: list[float], num_bins: int) -> float:
    """By trying all: the first item that is left chooses its companions."""
    size = len(weights) // num_bins
    best = float("inf")

    def place(left: list[int], fullest: float) -> None:
        nonlocal best
        if fullest >= best:
            return
        if not left:
            best = fullest
            return
        first, *others = left
        for companions in combinations(others, size - 1):
            load = weights[first] + sum(weights[item] for item in companions)
            place([item for item in others if item not in companions], max(fullest, load))

    place(list(range(len(weights))), 0.0)
    return best


def heaviest(weights: np.ndarray, bins: np.ndarray) -> np.ndarray:
    return np.array([row[placed].sum(axis=1).max() for row, placed in zip(weights, bins, strict=True)])


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    shape=st.sampled_from([(2, 2), (2, 4), (3, 3), (4, 2), (4, 3), (3, 4), (2, 6), (5, 2), (6, 2), (2, 7)]),
)
def test_small_rows_are_packed_as_well_as_any_packing(data: st.DataObject, shape: tuple[int, int]) -> None:
    num_bins, size = shape
    weights = data.draw(arrays(np.float64, num_bins * size, elements=st.floats(0.0, 1e6, width=32)))
    bins = pack(weights[None], num_bins)
    assert sorted(bins.ravel().tolist()) == list(range(num_bins * size))
    assert bins.shape == (1, num_bins, size)
    assert heaviest(weights[None], bins)[0] <= CLOSE * lightest_fullest_bin(weights.tolist(), num_bins) + 1e-9


def test_rows_that_are_searched_exactly_are_exact() -> None:
    weights = np.random.default_rng(5).lognormal(0.0, 1.0, (20, 12))
    found = heaviest(weights, pack(weights, 4))
    best = [lightest_fullest_bin(row.tolist(), 4) for row in weights]
    # Rows within a thousandth of the bound are left as they are.
    np.testing.assert_array_less(found, np.array(best) * 1.001 + 1e-12)


def test_heavy_items_do_not_share_a_bin() -> None:
    # 9 + 1, 8 + 2, 7 + 3: every bin has 10.
    bins = pack(np.array([[1.0, 2.0, 3.0, 7.0, 8.0, 9.0]]), 3)
    assert sorted(sorted(pair) for pair in bins[0].tolist()) == [[0, 5], [1, 4], [2, 3]]


def test_more_items_than_an_exact_search_takes_come_near_the_mean() -> None:
    weights = np.random.default_rng(1).lognormal(0.0, 0.47, (8, 256))
    assert weights.shape[1] > EXACT_ITEMS
    assert (heaviest(weights, pack(weights, 32)) / weights.mean(axis=1) / 8).max() < 1.01


def test_exchanges_never_make_the_fullest_bin_fuller_and_leave_what_is_balanced() -> None:
    random = np.random.default_rng(2)
    for names in (None, np.tile(np.arange(32) % 24, (6, 1))):
        weights = random.lognormal(0.0, 1.0, (6, 32))
        start = np.tile(np.arange(32).reshape(8, 4), (6, 1, 1))
        found = exchange(weights, start, names)
        assert (heaviest(weights, found) <= heaviest(weights, start)).all()
        assert all(sorted(row.ravel().tolist()) == list(range(32)) for row in found)
    even = np.ones((2, 8))
    at_rest = np.tile(np.arange(8).reshape(4, 2), (2, 1, 1))
    np.testing.assert_array_equal(exchange(even, at_rest), at_rest)


def test_copies_of_one_item_lie_in_different_bins() -> None:
    names = np.array([[0, 0, 0, 1, 1, 2, 3, 4]])
    weights = np.array([[9.0, 9.0, 9.0, 5.0, 5.0, 1.0, 1.0, 1.0]])
    bins = pack(weights, 4, names)
    assert all(len(set(names[0][bin_].tolist())) == 2 for bin_ in bins[0])


@pytest.mark.parametrize("num_bins", [1, 4])
def test_one_bin_and_one_item_a_bin_are_what_they_are(num_bins: int) -> None:
    bins = pack(np.array([[3.0, 1.0, 2.0, 5.0]]), num_bins)
    assert bins.reshape(-1).tolist() == [0, 1, 2, 3]
