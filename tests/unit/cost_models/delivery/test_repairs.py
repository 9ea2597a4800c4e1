"""Spares: Erlang's loss formula, a Markov chain, and limits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.delivery.failures import DAY_S
from cost_models.delivery.repairs import supply
from tests.oracle.markov import stationary


def chain(num_spares: int, rate: float, repair_s: float, shares: list[float]) -> dict[int, float]:
    """Nodes in repair; ``shares`` is the rate of the job with 1, 2, ... nodes missing."""
    rates = {}
    working = [1.0] * (num_spares + 1) + shares
    for away, share in enumerate(working[:-1]):
        rates[f"{away:03d}", f"{away + 1:03d}"] = rate * share
        rates[f"{away + 1:03d}", f"{away:03d}"] = (away + 1) / repair_s
    return {int(state): share for state, share in stationary(rates).items()}


def test_the_example_of_a_thousand_nodes() -> None:
    found = supply(20, 1024 * 4e-3 / DAY_S, 3 * DAY_S)
    load = 1024 * 4e-3 * 3
    erlang = load**21 / math.factorial(21) / sum(load**k / math.factorial(k) for k in range(22))
    assert found.waiting == pytest.approx(erlang, rel=1e-12)
    assert found.missing == 0.0
    assert found.mean_in_repair == pytest.approx(load * (1 - erlang), rel=1e-12)


@given(
    st.integers(0, 6), st.floats(1e-7, 1e-4), st.floats(600.0, 5 * DAY_S), st.integers(1, 5), st.sampled_from([0.25, 1.0, 2.0])
)
def test_an_elastic_job_is_its_markov_chain(
    spares: int, rate: float, repair_s: float, replicas: int, replicas_per_node: float
) -> None:
    lost = max(replicas_per_node, 1.0)
    shares = [max(1.0 - k * lost / replicas, 0.0) for k in range(1, math.ceil(replicas / lost) + 1)]
    expected = chain(spares, rate, repair_s, shares)
    found = supply(spares, rate, repair_s, num_replicas=replicas, replicas_per_node=replicas_per_node, elastic=True)
    waiting = sum(share for away, share in expected.items() if away > spares and shares[away - spares - 1] == 0.0)
    missing = sum(share * (1 - shares[away - spares - 1]) for away, share in expected.items() if away > spares) - waiting
    assert found.waiting == pytest.approx(waiting, abs=1e-9)
    assert found.missing == pytest.approx(missing, abs=1e-9)


@given(st.integers(0, 40), st.floats(1e-8, 1e-3), st.floats(1.0, 10 * DAY_S), st.integers(1, 64))
def test_spares_and_elasticity_never_hurt(spares: int, rate: float, repair_s: float, replicas: int) -> None:
    rigid = supply(spares, rate, repair_s, num_replicas=replicas)
    assert supply(spares + 1, rate, repair_s, num_replicas=replicas).rate >= rigid.rate - 1e-12
    assert supply(spares, rate, repair_s, num_replicas=replicas, elastic=True).rate >= rigid.rate - 1e-12
    assert 0.0 <= rigid.rate <= 1.0


def test_nothing_is_lost_where_nothing_breaks() -> None:
    assert supply(0, 0.0, DAY_S).rate == 1.0
    assert supply(0, 1e-3, 0.0).rate == 1.0
