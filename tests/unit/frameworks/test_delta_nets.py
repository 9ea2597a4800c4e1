"""Gated delta nets divide their heads over all of cp, whatever attention does [megatron-0.19, gated_delta_net/common.py]."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.price import priced
from app.jobs.job import parse_job
from cost_models.shapes.strategy import CpAlgo, StrategyBatch
from frameworks.legality import violations


def job(target: str = "megatron-lm@0.19", **strategy: Any) -> Any:
    return parse_job(
        {
            "model": "qwen3-next-80b-a3b",  # 16 key heads and 32 value heads; attention has 16 heads in 2 query groups
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 64},
            "training": {"seq_length": 32768, "global_batch_size": 64},
            "software": {"target": target},
            "strategy": {"tp": 1, "ep": 8, "micro_batch_size": 1, **strategy},
        }
    )


@pytest.mark.parametrize("target", ["any", "megatron-lm@0.19"])
def test_a_ring_of_attention_is_taken_beside_delta_nets(target: str) -> None:
    ring = job(target, cp=4, cp_algo="ring")
    assert violations(ring.workload, ring.strategy) == ()
    seconds = priced(ring.workload, StrategyBatch.of([ring.strategy]))
    assert seconds.breakdown is not None
    assert seconds.breakdown.time_s["cp_comm"][0] > 0.0


def test_the_usual_algorithm_of_the_target_is_taken_where_none_is_named() -> None:
    assert job(cp=4).strategy.cp_algo is CpAlgo.RING


def test_all_of_cp_divides_the_heads_under_a_ring() -> None:
    wide = job("any", cp=32, cp_algo="ring")
    (broken,) = (each for each in violations(wide.workload, wide.strategy) if each.rule == "ulysses_heads")
    assert broken.sentence == "tp 1 x cp 32 = 32 does not divide local_attention.num_key_heads 16"
