"""Physics of switches: what must be there for an overlap or a fused operator to act on."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import FUSIONS, Feature
from cost_models.shapes.workload import Workload
from frameworks.rule import Mask, Rule, has_effect


def _fusions(workload: Workload, batch: StrategyBatch) -> Mask:
    count = np.zeros(len(batch), dtype=np.int64)
    for feature in FUSIONS:
        count += has_effect(workload, batch, feature)
    return count > 1


ONE_MATMUL_FUSION = Rule(
    "one_matmul_fusion",
    "[mindspeed, mc2.py; locl_coc.py; tp_2d.py]",
    "mc2, coc, tp_comm_overlap and tp_2d each replace the same matmuls and collectives: one of them",
    _fusions,
    lambda w, s: (
        f"{' and '.join(str(f.name).lower() for f in FUSIONS if f in s.features)} "
        f"all replace the collectives of tp {s.tp}: choose 1"
    ),
)

FINE_GRAIN_INTERLEAVE = Rule(
    "fine_grain_interleave",
    "[mindformers-1.8, Parallel configuration]",
    "fine_grain_interleave cuts a micro batch in two halves: micro_batch_size is even",
    lambda w, b: has_effect(w, b, Feature.FINE_GRAIN_INTERLEAVE) & (b.micro_batch_size % 2 != 0),
    lambda w, s: f"fine_grain_interleave cuts a micro batch in two halves, and micro_batch_size is {s.micro_batch_size}",
)

RULES = (ONE_MATMUL_FUSION, FINE_GRAIN_INTERLEAVE)
