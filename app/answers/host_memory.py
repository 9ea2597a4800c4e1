"""What a plan asks of the hosts: their memory for optimizer states, and their processors for Adam."""

from __future__ import annotations

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.host_update import (
    ATTAINED_FRACTION,
    THREAD_BYTES_PER_S,
    THREADS,
    host_bytes_of_node,
    host_rate_bytes_per_s,
    host_update_fractions,
    share_bytes_per_s,
)
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
    memory = Sentence("Optimizer states take {} of host memory on each node at their peak; {}.", gibibytes(held), whole)
    if Feature.OPTIMIZER_CPU_OFFLOAD not in plan.features:
        return [memory]
    least, most = host_update_fractions(workload)
    adam = Sentence(
        "Adam runs on the host at {} GB/s a rank ({}): the interval takes it {} to {} times as long.",
        round(host_rate_bytes_per_s(workload) / 1e9),
        _basis(workload),
        f"{least:.2g}",
        f"{most:.2g}",
    )
    return [memory, adam]


def _basis(workload: Workload) -> str:
    """Where the rate of a rank comes from, as a part of a sentence."""
    share = share_bytes_per_s(workload)
    if host_rate_bytes_per_s(workload) < ATTAINED_FRACTION * share:
        return Sentence("{} threads of {} GB/s each", THREADS, round(THREAD_BYTES_PER_S / 1e9))
    of_share = Sentence("{} of its share of {} GB/s", ATTAINED_FRACTION, f"{share / 1e9:.1f}")
    if workload.cluster.profile.host_memory_bytes_per_s is not None:
        return of_share
    return Sentence("{}, assumed as the profile states none", of_share)
