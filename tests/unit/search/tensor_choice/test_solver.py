"""The solver equals brute force, written apart, wherever that can be run."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from search.tensor_choice.frontier import Options, unbeaten
from search.tensor_choice.solver import Limits, cheapest

SECONDS = st.integers(0, 30)
BYTES = st.integers(0, 40)


@st.composite
def options(draw: st.DrawFn) -> Options:
    rows = draw(st.lists(st.tuples(BYTES, SECONDS, BYTES), min_size=1, max_size=6))
    kept, seconds, works = (
        np.array(column, dtype=np.float64) * scale
        for column, scale in zip(zip(*rows, strict=True), (1e6, 1e-3, 1e6), strict=True)
    )
    return Options(kept, seconds, works)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Options], Limits]:
    parts = draw(st.lists(options(), min_size=1, max_size=4))
    lines = draw(st.integers(1, 4))

    def column(most: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(0, most), min_size=lines, max_size=lines)), dtype=np.float64)

    in_flight = np.array([column(5) for _ in parts]).T
    return parts, Limits(in_flight, 1e6 * column(20), 1e6 * column(30), 1e6 * column(10), 1e6 * column(400))


def brute_force(parts: list[Options], limits: Limits) -> float | None:
    """Least seconds over every combination, each line added up one by one."""
    best = None
    for rows in product(*(range(len(part.seconds)) for part in parts)):
        works = max(part.working_bytes[row] for part, row in zip(parts, rows, strict=True))
        fits = True
        for line in range(len(limits.most_bytes)):
            held = limits.fixed_bytes[line] + max(limits.least_bytes[line], limits.beside_bytes[line] + works)
            for number, (part, row) in enumerate(zip(parts, rows, strict=True)):
                held += limits.in_flight[line, number] * part.kept_bytes[row]
            fits = fits and held <= limits.most_bytes[line]
        seconds = sum(part.seconds[row] for part, row in zip(parts, rows, strict=True))
        if fits and (best is None or seconds < best):
            best = seconds
    return best


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_cheapest_choice_is_that_of_brute_force(problem: tuple[list[Options], Limits]) -> None:
    parts, limits = problem
    least, found = brute_force(parts, limits), cheapest(parts, limits)
    assert (found is None) == (least is None)
    if found is not None and least is not None:
        assert abs(found.seconds - least) < 1e-9
        assert abs(found.least_s - least) < 1e-9
        kept = np.array([part.kept_bytes[row] for part, row in zip(parts, found.options, strict=True)])
        works = max(part.working_bytes[row] for part, row in zip(parts, found.options, strict=True))
        assert limits.fit((limits.in_flight @ kept)[:, None], np.array([works]))[0]


@settings(max_examples=80, deadline=None)
@given(problems(), st.integers(0, 10))
def test_what_is_not_worth_looking_for_bounds_the_answer(problem: tuple[list[Options], Limits], worth: int) -> None:
    parts, limits = problem
    least, found = brute_force(parts, limits), cheapest(parts, limits, worth * 1e-3)
    assert (found is None) == (least is None)
    if found is not None and least is not None:
        assert found.least_s - 1e-9 <= least <= found.seconds + 1e-9
        assert found.seconds - found.least_s <= worth * 1e-3 + 1e-9


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(BYTES, BYTES, BYTES), min_size=1, max_size=40))
def test_unbeaten_rows_are_those_that_no_other_row_beats(rows: list[tuple[int, int, int]]) -> None:
    table = np.array(rows, dtype=np.float64)
    kept = {rows[index] for index in unbeaten(*table.T).tolist()}
    beaten = {row for row in rows for other in rows if other != row and all(o <= r for o, r in zip(other, row, strict=True))}
    assert kept == set(rows) - beaten
    assert len(unbeaten(*table.T)) == len(kept)  # one of equals


def test_a_rank_with_no_layers_fits_or_does_not() -> None:
    one = np.ones(1)
    assert cheapest([], Limits(np.zeros((1, 0)), one, one, one, 5 * one)) is not None
    assert cheapest([], Limits(np.zeros((1, 0)), one, one, one, 0.5 * one)) is None
