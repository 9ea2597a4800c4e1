"""Members of every process group against the lists of ranks that Megatron-LM makes [megatron-0.12, parallel_state.py]."""

from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.network.rank_placement import Group, rank_groups
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch

Groups = set[frozenset[int]]


class Degrees(NamedTuple):
    tp: int
    cp: int
    dp: int
    pp: int
    etp: int
    ep: int


def _by_megatron(order: dict[str, int], joined: str) -> Groups:
    """Ranks that differ in the named dimensions only; the first dimension of `order` changes fastest."""
    found: dict[tuple[int, ...], set[int]] = {}
    names = list(order)
    # itertools lets the last one change fastest.
    for rank, place in enumerate(product(*(range(size) for size in reversed(order.values())))):
        at = dict(zip(reversed(names), place, strict=True))
        found.setdefault(tuple(at[name] for name in names if name not in joined.split("-")), set()).add(rank)
    return {frozenset(members) for members in found.values()}


def _by_stride(group: Group, num_ranks: int) -> Groups:
    """As the placement map of the dashboard reads size and stride."""
    size, stride = int(group.size[0]), int(group.stride[0])
    ranks = np.arange(num_ranks)
    first = ranks - ranks // stride % size * stride
    return {frozenset((start + stride * np.arange(size)).tolist()) for start in np.unique(first)}


@st.composite
def degrees(draw: st.DrawFn) -> Degrees:
    tp, cp, dp, pp = (draw(st.sampled_from(values)) for values in ((1, 2, 4, 8), (1, 2, 3), (1, 2, 4, 6), (1, 2, 3, 5)))
    etp = draw(st.sampled_from(sorted({1, tp})))
    of_experts = tp * cp * dp // etp
    ep = draw(st.sampled_from([n for n in range(1, of_experts + 1) if of_experts % n == 0]))
    return Degrees(tp, cp, dp, pp, etp, ep)


@given(degrees())
def test_every_group_has_the_members_that_megatron_gives_it(chosen: Degrees) -> None:
    tp, cp, dp, pp, etp, ep = chosen
    edp = tp * cp * dp // (etp * ep)
    ranks = rank_groups(StrategyBatch.of([ParallelStrategy(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp)]))
    dense = {"tp": tp, "cp": cp, "ep": 1, "dp": dp, "pp": pp}
    experts = {"tp": etp, "cp": 1, "ep": ep, "dp": edp, "pp": pp}
    total = prod(dense.values())
    assert total == prod(experts.values())
    assert _by_stride(ranks.tp, total) == _by_megatron(dense, "tp")
    assert _by_stride(ranks.cp, total) == _by_megatron(dense, "cp")
    assert _by_stride(ranks.dp_cp, total) == _by_megatron(dense, "dp-cp")
    assert _by_stride(ranks.pp, total) == _by_megatron(dense, "pp")
    assert _by_stride(ranks.ep, total) == _by_megatron(experts, "ep")
    assert _by_stride(ranks.edp, total) == _by_megatron(experts, "dp")


@pytest.mark.parametrize(("joined", "first"), [("tp", {0, 1}), ("pp", {0, 8}), ("dp", {0, 2, 4, 6}), ("tp-pp", {0, 1, 8, 9})])
def test_the_oracle_gives_the_example_in_megatrons_own_docstring(joined: str, first: set[int]) -> None:
    # 16 ranks, tp 2, dp 4, pp 2: tensor-parallel groups [g0, g1] .. and pipeline groups [g0, g8] .. with order tp-dp-pp
    assert frozenset(first) in _by_megatron({"tp": 2, "cp": 1, "ep": 1, "dp": 4, "pp": 2}, joined)
