"""Operator packs and host options: factors on constants of the model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.constants import CONSTANTS, constants_with_options, prior_constants
from cost_models.shapes.software_options import HOST, OPERATORS, OPTION_NAMES, SOFTWARE_OPTIONS, SoftwareOption, options_for
from cost_models.shapes.traits import Library
from cost_models.shapes.workload import Software
from tests.worked_examples import worked

ASCEND = prior_constants("ascend")
BOUNDS = {constant.name: (constant.low, constant.high) for constant in CONSTANTS}
IN_RUNS = tuple(option.name for option in SOFTWARE_OPTIONS if option.in_runs)
subsets = {kind: st.lists(st.sampled_from(OPTION_NAMES[kind]), unique=True).map(tuple) for kind in (OPERATORS, HOST)}


def software(operators: tuple[str, ...] = (), host: tuple[str, ...] | None = None) -> Software:
    return Software("mindspeed-llm", operators=operators, host=host)


@pytest.mark.parametrize("option", SOFTWARE_OPTIONS, ids=lambda o: o.name)
def test_every_option_names_constants_a_source_and_a_basis(option: SoftwareOption) -> None:
    assert option.changes
    assert {change.constant for change in option.changes} <= BOUNDS.keys()
    assert re.fullmatch(r"\[[^\]]+\]", option.source)
    assert option.basis in {"vendor", "measured", "inferred", "assumed"}
    assert not option.in_runs or option.kind == HOST


def test_a_job_that_says_nothing_has_the_constants_of_the_runs() -> None:
    assert constants_with_options(ASCEND, software()) == ASCEND
    assert constants_with_options(ASCEND, software(host=IN_RUNS)) == ASCEND


def test_the_packs_have_their_published_factors() -> None:
    fast = constants_with_options(ASCEND, software(("flash-attention", "matmul", "vector")))
    assert fast.attention_forward_fraction == pytest.approx(1.5 * 0.45)
    fitted = constants_with_options(ASCEND.with_values({"attention_forward_fraction": 0.4617}), software(("flash-attention",)))
    assert fitted.attention_forward_fraction == pytest.approx(worked("flash-attention-pack"))
    # Of the backward's rate, which is a share of the forward's.
    backward = fast.attention_forward_fraction * fast.attention_backward_fraction
    assert backward == pytest.approx(1.3 * 0.45 * 0.75)
    assert fast.matmul_fraction == pytest.approx(1.1 * 0.97)
    assert fast.permute_passes == 20.0 / 4
    assert fast.cross_entropy_bytes == 79.0 / 4
    assert fast.vector_fraction == 1.0  # four times 0.9 of the bandwidth is more than there is


def test_an_option_that_the_runs_had_costs_its_factor_where_it_is_missing() -> None:
    slow = constants_with_options(ASCEND, software(host=("cpu-affinity",)))
    assert slow.host_kernel_s == pytest.approx(2 * 2e-5)
    slower = constants_with_options(ASCEND, software(host=()))
    assert slower.host_kernel_s == pytest.approx(2 * 2e-5 * 11.78 / 9.90)


def test_no_wait_is_left_but_the_least_that_a_constant_may_be() -> None:
    quiet = constants_with_options(ASCEND, software(host=(*IN_RUNS, "no-synchronisation")))
    assert (quiet.host_moe_sync_s, quiet.host_micro_batch_s) == (1e-5, 1e-5)


@given(subsets[OPERATORS], st.none() | subsets[HOST])
def test_no_option_takes_a_constant_beyond_its_bounds(operators: tuple[str, ...], host: tuple[str, ...] | None) -> None:
    found = constants_with_options(ASCEND, software(operators, host))
    for name, (low, high) in BOUNDS.items():
        assert low <= getattr(found, name) <= high


def test_gpus_have_their_own_options_and_graphs_no_host() -> None:
    assert [option.name for option in options_for(Library.CUDA, eager=True)] == ["no-synchronisation"]
    assert all(option.kind == OPERATORS for option in options_for(Library.CANN, eager=False))
