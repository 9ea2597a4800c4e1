"""How a job scales, in numbers worked by hand."""

import pytest

from search.sweep.scaling_curves import KNEE, knee, linearity, marginal


def test_linearity_is_tokens_of_a_device_over_those_at_the_smallest_count() -> None:
    # 100, 90 and 50 tokens/s of each device.
    assert linearity([8, 16, 32], [800.0, 1440.0, 1600.0]) == pytest.approx([1.0, 0.9, 0.5])


def test_marginal_is_what_the_devices_beyond_the_count_before_bring() -> None:
    # 640 tokens/s of 8 more devices are 80 each, 160 of 16 more are 10 each; one of the first brings 100.
    assert marginal([8, 16, 32], [800.0, 1440.0, 1600.0]) == [None, pytest.approx(0.8), pytest.approx(0.1)]


def test_the_knee_is_the_count_before_devices_bring_less_than_half() -> None:
    assert knee([8, 16, 32], [800.0, 1440.0, 1600.0]) == 16
    assert knee([8, 16, 32], [800.0, 1440.0, 1440.0 + KNEE * 1600.0]) is None
    assert knee([8, 16], [800.0, 799.0]) == 8
    assert knee([8], [800.0]) is None
