"""Strategies a second of an exhaustive search, by wall time: ``python -m benchmarks.lattice [MODEL HARDWARE DEVICES]``.

The target is 100,000 legal strategies a second (placement, time, bound and memory) for Pangu Ultra MoE 718B on 6,144 NPUs, on
two cores, in less than 1 GiB. It is not met since layers are placed for each strategy: a search decided 47,000 of them per CPU
second on a machine with fifteen other jobs (2026-11-23: 700,903 in 14.9 s of user time), startup and explanation included.
Rows sampled from the run are priced again one by one: a batch must not change a price.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from app.catalogue.models.presets import model_preset
from cost_models.constants import Constants, prior_constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.traits import default_stack
from cost_models.shapes.workload import Cluster, Software, TrainingJob, Workload
from cost_models.step.composition import estimate, estimate_priced
from cost_models.step.priced_groups import PricedBatch
from cost_models.step.result import Estimate
from hardware_profiles.catalogue import profile
from search.exhaustive.lattice_search import search
from search.results.search_result import SearchResult
from search.session.request import SearchRequest
from search.space.search_space import search_space

NUM_SAMPLES = 100
TOLERANCE = 1e-12
TIMES = ("step_time_s", "step_time_lower_bound_s")
COLUMNS = (*TIMES, "peak_memory_bytes")


class Sampler:
    """Prices batches and keeps a few random rows of each with their prices."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.rows: list[tuple[ParallelStrategy, dict[str, float]]] = []

    def __call__(self, batch: PricedBatch, *, memory: bool = True) -> Estimate:
        priced = estimate_priced(batch, memory=memory)
        names = COLUMNS if memory else TIMES
        for row in self._random.integers(len(batch.batch), size=4).tolist():
            self.rows.append((batch.batch.row(row), {name: float(getattr(priced, name)[row]) for name in names}))
        return priced

    def sample(self) -> list[tuple[ParallelStrategy, dict[str, float]]]:
        """``NUM_SAMPLES`` of the rows seen, spread over the whole run."""
        chosen = self._random.permutation(len(self.rows))[:NUM_SAMPLES]
        return [self.rows[index] for index in chosen.tolist()]


def job(model: str, hardware: str, num_devices: int) -> Workload:
    """Sequence length 8,192 and one sample a device, on the framework of the hardware's vendor."""
    cluster = Cluster(profile(hardware), num_devices)
    training = TrainingJob(seq_length=8192, global_batch_size=num_devices)
    return Workload(model_preset(model).model, training, cluster, Software(default_stack(cluster.profile.family)))


def largest_difference(workload: Workload, constants: Constants, sampler: Sampler) -> float:
    """Largest relative difference between a row's price in its batch and alone."""
    worst = 0.0
    for strategy, prices in sampler.sample():
        alone = estimate(workload, StrategyBatch.of([strategy]), constants)
        worst = max(worst, *(abs(float(getattr(alone, name)[0]) / price - 1.0) for name, price in prices.items()))
    return worst


def report(result: SearchResult, wall_s: float, cpu_s: float, difference: float) -> str:
    """The measurements, a line for each."""
    timing, counts = result.timing, result.counts
    phases = {
        "enumerate": timing.enumerate_s,
        "legality": timing.legality_s,
        "price": timing.price_s,
        "rank": timing.rank_s,
        "explain": timing.explain_s,
    }
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines = [
        f"enumerated       {counts.enumerated:>14,}",
        f"legal, priced    {counts.estimated:>14,}",
        f"fit              {counts.fits_memory:>14,}",
        f"wall             {wall_s:>14.2f} s ({cpu_s:.2f} s of CPU)",
        f"rate             {counts.estimated / wall_s:>14,.0f} legal strategies/s",
        f"peak memory      {peak_bytes / 2**20:>14.0f} MiB",
        *(f"  {name:<15}{seconds / wall_s:>14.1%}" for name, seconds in phases.items()),
        f"one by one       {difference:>14.1e} largest relative difference over {NUM_SAMPLES} rows",
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the benchmark; 1 if the price of a row differs from its price in the batch."""
    model, hardware, devices = arguments or ["pangu-ultra-moe-718b", "atlas-800t-a2", "6144"]
    workload = job(model, hardware, int(devices))
    constants = prior_constants(workload.cluster.profile.family)
    sampler = Sampler()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    result = search(SearchRequest(workload, search_space(workload), constants, clock=time.perf_counter), pricer=sampler)
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    difference = largest_difference(workload, constants, sampler)
    print(f"{model} on {devices} x {hardware}")
    print(report(result, wall_s, cpu_s, difference))
    return 0 if difference <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
