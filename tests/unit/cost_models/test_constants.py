"""The table of constants."""

import re
from dataclasses import fields

import pytest

from cost_models.constants import CONSTANTS, Constant, Constants, prior_constants


def test_the_table_and_the_fields_are_the_same_names() -> None:
    assert [*(c.name for c in CONSTANTS), "peak_spread"] == [f.name for f in fields(Constants)]


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda c: c.name)
def test_priors_lie_inside_their_bounds(constant: Constant) -> None:
    assert constant.low < constant.high
    assert constant.low <= constant.ascend <= constant.high
    assert constant.low <= constant.gpu <= constant.high
    assert 0 < constant.log_spread <= 1


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda c: c.name)
def test_every_constant_says_what_it_is_and_where_it_comes_from(constant: Constant) -> None:
    assert re.fullmatch(r"\[[^\]]+\](; \[[^\]]+\])*", constant.source)
    assert constant.basis in {"vendor", "measured", "inferred", "assumed"}
    assert len(constant.meaning) > 10
    # The unit of the name is the unit of the number.
    assert constant.name.endswith("_s") == (constant.unit == "s")
    assert constant.name.endswith("_bytes") == (constant.unit == "B")


def test_families_have_priors_of_their_own() -> None:
    assert prior_constants("nvidia") == prior_constants("amd")
    assert prior_constants("ascend") != prior_constants("nvidia")
    assert prior_constants("ascend").cross_entropy_bytes == next(c.ascend for c in CONSTANTS if c.name == "cross_entropy_bytes")


def test_values_replace_priors() -> None:
    prior = prior_constants("ascend")
    changed = prior.with_values({"kernel_s": 2e-5})
    assert changed.kernel_s == 2e-5
    assert changed.with_values({"kernel_s": prior.kernel_s}) == prior


def test_an_unknown_constant_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="unknown constants: kernels_s"):
        prior_constants("ascend").with_values({"kernels_s": 1.0})
