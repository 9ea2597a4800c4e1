"""Two choices among the layers of a part: the least time that brute force over all splits of the layers finds."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.tensor_choice.frontier import LayerOptions
from search.tensor_choice.mixtures import LayerPart, cheapest_mixtures
from search.tensor_choice.solver import Limits

MB, MS = 1e6, 1e-3


def layer(*rows: tuple[float, float, float]) -> LayerOptions:
    """Options of a layer from (bytes kept [MB], seconds [ms], bytes in use [MB]); each is a set of tensors of its own."""
    kept, seconds, works = (np.array(column) * unit for column, unit in zip(zip(*rows, strict=True), (MB, MS, MB), strict=True))
    return LayerOptions(kept, seconds, works, np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64))


def one_line(in_flight: list[float], most_mb: float) -> Limits:
    zero = np.zeros(1)
    return Limits(np.array([in_flight]), zero, zero, zero, np.array([most_mb * MB]))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[LayerPart], Limits]:
    small = st.integers(0, 20)
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        rows = draw(st.lists(st.tuples(small, small, small), min_size=1, max_size=4))
        parts.append(LayerPart(layer(*rows), draw(st.integers(1, 4)), draw(st.integers(0, 1))))
    lines = draw(st.integers(1, 2))

    def column(most: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(0, most), min_size=lines, max_size=lines)), dtype=np.float64)

    in_flight = np.array([column(4) for _ in parts]).T
    return parts, Limits(in_flight, MB * column(20), MB * column(30), MB * column(10), MB * column(400))


def least_s(parts: list[LayerPart], limits: Limits, most_choices: int) -> float | None:
    """Least seconds over every multiset of choices for the layers of each part, with at most so many different ones."""
    found = None
    layers = [
        combinations_with_replacement(range(len(part.options)), part.num_layers + part.num_prediction_layers) for part in parts
    ]
    for rows in product(*([each for each in one if len(set(each)) <= most_choices] for one in layers)):
        pairs = [(part.options, row) for part, of_part in zip(parts, rows, strict=True) for row in of_part]
        works = max(options.working_bytes[row] for options, row in pairs)
        held = limits.fixed_bytes + np.maximum(limits.least_bytes, limits.beside_bytes + works)
        for number, (part, of_part) in enumerate(zip(parts, rows, strict=True)):
            held = held + limits.in_flight[:, number] * sum(part.options.kept_bytes[row] for row in of_part)
        seconds = sum(options.seconds[row] for options, row in pairs)
        if (held <= limits.most_bytes).all() and (found is None or seconds < found):
            found = seconds
    return found


@settings(max_examples=150, deadline=None)
@given(problems())
def test_mixtures_are_the_best_of_two_choices_a_part_and_the_gap_covers_any_choice(
    problem: tuple[list[LayerPart], Limits],
) -> None:
    parts, limits = problem
    two, any_choice, found = least_s(parts, limits, 2), least_s(parts, limits, 9), cheapest_mixtures(parts, limits)
    assert (found is None) == (two is None)
    if found is None or two is None or any_choice is None:
        return
    seconds = sum(found.seconds)
    assert seconds == pytest.approx(two, abs=1e-9)
    assert seconds - found.gap_s <= any_choice + 1e-9
    for part, choices in zip(parts, found.choices, strict=True):
        assert len(choices) <= 2
        assert sum(share.num_layers for share in choices) <= part.num_layers
        assert choices[-1].num_layers == 0


def test_three_of_four_layers_pay_where_one_choice_for_all_would_make_the_fourth_pay_too() -> None:
    # 40 MB must become 30. All four at 6 MB take 4 ms, one at 0 MB takes 4 ms, three at 6 MB keep 28 and take 3 ms.
    part = LayerPart(layer((10, 0, 0), (6, 1, 0), (0, 4, 0)), num_layers=4)
    found = cheapest_mixtures([part], one_line([1.0], 30.0))
    assert found is not None
    assert found.seconds == pytest.approx((3e-3,))
    assert sorted((share.choice.recompute, share.num_layers) for share in found.choices[0]) in (
        [(0, 0), (1, 3)],
        [(0, 1), (1, 0)],
    )


def test_prediction_layers_take_the_choice_of_the_last_layers() -> None:
    # One layer and two prediction layers: 30 MB must become 22. One that frees 10 MB is enough, and it is the layer.
    part = LayerPart(layer((10, 0, 0), (0, 4, 0)), num_layers=1, num_prediction_layers=2)
    found = cheapest_mixtures([part], one_line([1.0], 22.0))
    assert found is not None
    assert [(share.choice.recompute, share.num_layers) for share in found.choices[0]] == [(1, 1), (0, 0)]
    assert found.seconds == pytest.approx((4e-3,))
    assert found.gap_s == pytest.approx(0.8e-3, rel=1e-2)  # 8 of 10 MB at 0.4 ms each MB are the bound
