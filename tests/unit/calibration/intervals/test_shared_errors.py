import numpy as np
import pytest

from calibration.intervals.shared_errors import effective_number, shared_fraction


def test_clusters_that_agree_inside_share_all_and_those_that_only_differ_inside_share_nothing() -> None:
    clusters = ["a"] * 4 + ["b"] * 4
    assert shared_fraction(np.array([0.1] * 4 + [-0.1] * 4), range(8), clusters) == 1.0
    assert shared_fraction(np.array([0.1, -0.1] * 4), range(8), clusters) == 0.0


def test_the_shared_part_is_that_of_the_variance() -> None:
    # A site's error of 0.06 and a shape's of 0.08: 36 of 100 of the variance is the site's.
    random = np.random.default_rng(7)
    sites = np.repeat(random.normal(0, 0.06, 400), 5)
    errors = sites + random.normal(0, 0.08, 2000)
    found = shared_fraction(errors, range(2000), np.repeat(np.arange(400), 5).tolist())
    assert found == pytest.approx(0.36, abs=0.04)


def test_many_runs_of_one_group_are_one_error() -> None:
    errors, groups, clusters = [0.1, -0.1, 0.2, 0.0], [0, 1, 2, 3], ["a", "a", "b", "b"]
    once = shared_fraction(np.array(errors), groups, clusters)
    often = shared_fraction(np.array([*errors, *[0.1] * 50]), [*groups, *[0] * 50], [*clusters, *["a"] * 50])
    assert often == pytest.approx(once)


@pytest.mark.parametrize("clusters", [["a", "a", "a"], ["a", "b", "c"]])
def test_what_no_run_tells_apart_is_shared(clusters: list[str]) -> None:
    assert shared_fraction(np.array([0.1, 0.0, -0.2]), range(3), clusters) == 1.0


def test_groups_that_share_all_count_as_one_and_those_that_share_nothing_each() -> None:
    assert [effective_number(9, shared) for shared in (0.0, 0.25, 1.0)] == [9.0, 3.0, 1.0]
