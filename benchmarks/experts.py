"""Processor time of a plan for experts: ``python -m benchmarks.experts``. The counts are read already.

58 MoE layers of 256 experts on 32 ranks, as in DeepSeek-V3 and Pangu Ultra MoE, inside one node and over four nodes.
"""

from __future__ import annotations

import time

import numpy as np

from cost_models.shapes.expert_spread import expert_spread
from cost_models.shapes.router_balance import RouterBalance
from search.experts.generated import generated_counts
from search.experts.placement import in_order, placed_anew
from search.experts.plan import Prices, Terms, expected, plan

NUM_LAYERS, NUM_EXPERTS, NUM_RANKS, NUM_STAGES = 58, 256, 32, 16
NUM_STEPS = 50
REPEATS = 7


def main() -> None:
    """Prints the median of some repeats."""
    spread = expert_spread(RouterBalance.AUXILIARY_LOSS, NUM_EXPERTS)
    counts = generated_counts(spread, NUM_LAYERS, NUM_STEPS, 8 * 2**22)
    current = in_order(NUM_LAYERS, NUM_EXPERTS, NUM_RANKS)
    prices = Prices(
        load_s=0.1,
        move_inside_s=0.003,
        move_between_s=0.025,
        share_inside_s=0.002,
        share_between_s=0.015,
        expert_bytes=616e6,
        copy_bytes=704e6,
        spare_copies=1,
        stage_of_layer=np.arange(NUM_LAYERS) * NUM_STAGES // NUM_LAYERS,
    )
    print("nodes  copies  forecast  placement  plan  load before  after")
    for num_nodes in (1, 4):
        for max_copies in (0, 1):
            terms = Terms(num_nodes, 50, max_copies)
            taken: list[list[float]] = []
            for _ in range(REPEATS):
                begin = time.process_time()
                coming = expected(counts, terms)
                forecast_end = time.process_time()
                placed_anew(coming.shares, current, num_nodes)
                placed_end = time.process_time()
                found = plan(coming, current, prices, terms)
                taken.append([forecast_end - begin, placed_end - forecast_end, time.process_time() - placed_end])
            columns = "  ".join(f"{1e3 * value:6.1f} ms" for value in np.median(taken, axis=0).tolist())
            before = current.load_factors(coming.shares).mean()
            print(f"{num_nodes:5}  {max_copies:6}  {columns}  {before:.3f}  {found.change.load_factors.mean():.4f}")


if __name__ == "__main__":
    main()
