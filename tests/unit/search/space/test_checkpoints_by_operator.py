"""Checkpoints by operator and the loss by chunks in the space of a search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.switches import Feature
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.unit.frameworks.torchtitan_cases import MIXTURE, on_gpus

BY_OPERATOR = "every_other_matmul"


def tried(target: str, **changes: object) -> list[str]:
    job = on_gpus(**changes)
    return [
        mode.name for mode in search_space(replace(job, software=replace(job.software, target=target)), SearchLimits()).recompute
    ]


@pytest.mark.parametrize("model", [None, MIXTURE], ids=["dense", "experts"])
def test_a_search_tries_them_for_torchtitan_alone(model: object) -> None:
    changes = {} if model is None else {"model": model}
    assert BY_OPERATOR in tried("torchtitan@0.2.2", **changes)
    for target in ("any", "megatron-lm@0.19"):
        assert BY_OPERATOR not in tried(target, **changes)


def test_a_search_takes_the_loss_by_chunks_only_if_it_is_allowed() -> None:
    job = on_gpus()
    job = replace(job, software=replace(job.software, target="any"))
    usual, allowed = (search_space(job, SearchLimits(allow=frozenset(names))) for names in ((), ("chunked_loss",)))
    assert not any(Feature.CHUNKED_LOSS in features for features in usual.features)
    assert {Feature.CHUNKED_LOSS in features for features in allowed.features} == {True, False}
