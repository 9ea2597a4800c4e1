"""The largest of sets of rows."""

from __future__ import annotations

import numpy as np

from cost_models.pipeline.largest import largest_of, member_table


def test_each_set_has_the_largest_of_its_own_rows() -> None:
    values = np.array([[1.0, 8.0], [5.0, 2.0], [3.0, 9.0], [-4.0, -6.0]])
    members = member_table([[1], [0, 2, 3], [3], [2, 1]])
    assert members.shape == (3, 4)
    assert largest_of(values, members).tolist() == [[5.0, 2.0], [3.0, 9.0], [-4.0, -6.0], [5.0, 9.0]]


def test_a_value_that_is_not_known_stays_unknown() -> None:
    assert np.isnan(largest_of(np.array([[np.nan], [1.0]]), member_table([[1, 0]]))).all()
