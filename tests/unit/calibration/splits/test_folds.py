import pytest

from calibration.splits.folds import FEWEST_TAUGHT, grouped_folds, rolling_folds


def test_each_group_is_judged_by_all_others() -> None:
    first, second = grouped_folds(["a", "b", None, "a"])
    assert first.judged.tolist() == [True, False, False, True]
    assert first.teaches.tolist() == [False, True, True, False]  # a run of no group always teaches
    assert second.judged.tolist() == [False, True, False, False]


def test_an_origin_rolls_over_what_was_published_before() -> None:
    # Nine runs of period 1, one of 2, one of 3, one without a date: period 1 has nothing before it.
    folds = rolling_folds([1] * 9 + [3, 2, None])
    assert [(fold.judged.sum(), fold.teaches.sum()) for fold in folds] == [(1, 9), (1, 10)]
    assert folds[0].judged[10]
    assert folds[1].judged[9]
    assert not any(fold.judged[11] or fold.teaches[11] for fold in folds)


@pytest.mark.parametrize("num_before", [FEWEST_TAUGHT - 1, FEWEST_TAUGHT])
def test_an_origin_needs_a_history(num_before: int) -> None:
    assert len(rolling_folds([1] * num_before + [2])) == (num_before == FEWEST_TAUGHT)


def test_no_run_teaches_the_fold_that_judges_it() -> None:
    for folds in (grouped_folds([1, 2, 2, 3]), rolling_folds([*range(12)] * 2)):
        assert folds
        assert not any((fold.teaches & fold.judged).any() for fold in folds)
