"""Processor time of pricing post-training: ``python -m benchmarks.post_training``.

Two cases, each a minute on two cores: 10,000 rollouts of 512 prompts x 16 answers on 32 instances; and the search over
placements, splits, layouts and staleness for Pangu Ultra MoE on a supernode of 384 packages.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from app.rl.job import parse_rl_job
from app.rl.service import rl_document, rl_search_document
from cost_models.post_training.lengths import draw_lengths, lengths_from_mean
from cost_models.post_training.rollout_side import rollout_steps
from cost_models.serving.batching import batched_times
from cost_models.serving.engine import ServingLayout

ROLLOUTS, AT_ONCE = 10_000, 250
PROMPTS, SAMPLES, INSTANCES = 512, 16, 32
MEAN, CAP = 1640, 28_672
DIES = 768
JOB: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": DIES},
    "post_training": {"prompts": 256, "samples": 16, "lengths": {"mean": 2048, "cap": 4096}},
}
SMALL = {**JOB, "model": "qwen2.5-math-7b", "cluster": {"hardware": "h20-sxm-96gb", "num_devices": 64}}


def main() -> None:
    """Prints seconds of processor time."""
    lengths = lengths_from_mean(MEAN, CAP)
    steps = rollout_steps(parse_rl_job(SMALL).serving(INSTANCES), ServingLayout(tp=1), PROMPTS * SAMPLES // INSTANCES, CAP)
    begin = time.process_time()
    longest = []
    for first in range(0, ROLLOUTS, AT_ONCE):
        drawn = np.stack([draw_lengths(lengths, PROMPTS, SAMPLES, seed) for seed in range(first, first + AT_ONCE)])
        dealt = drawn.reshape(AT_ONCE, PROMPTS // INSTANCES, INSTANCES, SAMPLES).swapaxes(1, 2).reshape(AT_ONCE, INSTANCES, -1)
        longest.append(batched_times(150.0, dealt, steps, max_in_flight=256).makespan_s.max(axis=1))
    made = np.concatenate(longest)
    taken = time.process_time() - begin
    print(
        f"{ROLLOUTS:,} rollouts of {PROMPTS} x {SAMPLES}: {taken:5.1f} s, last answers at {made.mean():.0f} +- {made.std():.0f} s"
    )
    for name, priced in (("estimate", rl_document), ("search", rl_search_document)):
        begin = time.process_time()
        priced(parse_rl_job(JOB))
        print(f"{name} on {DIES} dies: {time.process_time() - begin:5.1f} s")


if __name__ == "__main__":
    main()
