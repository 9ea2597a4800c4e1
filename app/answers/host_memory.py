"""What a plan asks of the hosts: their memory for optimizer states, and their processors for Adam."""

from __future__ import annotations

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.host_update import LEAST_FRACTION, MOST_FRACTION, host_bytes_of_node, host_rate_bytes_per_s
from documents.quantities import gibibytes
from documents.sentences import Sentence


def host_sentences(workload: Workload, plan: ParallelStrategy) -> list[str]:
    """Sentences on optimizer states that the plan keeps on the host; none if it keeps none."""
    held = float(host_bytes_of_node(workload, StrategyBatch.of([plan]))[0])
    if not held:
        return []
    profile = workload.cluster.profile
    known = profile.host_memory_bytes
    whole = Sentence("{} states none", profile.name) if known is None else Sentence("{} has {}", profile.name, gibibytes(known))
    memory = Sentence("Optimizer states take {} of host memory on each node; {}.", gibibytes(held), whole)
    if Feature.OPTIMIZER_CPU_OFFLOAD not in plan.features:
        return [memory]
    nominal = profile.host_memory_bytes_per_s
    basis = Sentence("the profile's") if nominal is not None else Sentence("assumed, as the profile states none")
    adam = Sentence(
        "Adam runs on the host at {} GB/s a rank ({}), which no measured run has: the interval takes it {} to {} times as long.",
        round(host_rate_bytes_per_s(workload) / 1e9),
        basis,
        LEAST_FRACTION,
        MOST_FRACTION,
    )
    return [memory, adam]
