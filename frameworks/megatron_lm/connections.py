"""Hardware queues of a GPU: as a plan is started, and what a script may not say of them [megatron-0.19, arguments.py]."""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import Feature
from documents.sentences import Sentence
from frameworks.framework import EnvironmentFaults
from frameworks.megatron_lm import fully_sharded
from frameworks.release import Given, Release, holds
from hardware_profiles.schema import HardwareProfile

NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
BLACKWELL = 10.0  # compute capability from which on several ranks need no single queue
PAIRS = "overlap-moe-expert-parallel-comm"  # either number is taken beside it
SPLITS = ("tensor-model-parallel-size>1", "context-parallel-size>1")


def variables(s: ParallelStrategy) -> dict[str, str]:
    """The variable of a plan."""
    if s.zero_stage >= 2:
        return {}  # fully sharded data parallelism rejects a single connection
    if Feature.MOE_COMM_OVERLAP in s.features:
        return {NAME: "32"}  # one connection would put the exchange behind the compute
    return {NAME: "1"} if s.tp * s.cp > 1 else {}


def faults(release: Release, given: Given, exported: Mapping[str, str], profile: HardwareProfile) -> EnvironmentFaults:
    """What ``validate_args`` refuses; a script that does not export the variable may be started with it."""
    stated = exported.get(NAME)
    sharding = next((name for name in fully_sharded.KINDS if name in release.arguments and holds(release, given, name)), None)
    if sharding is not None:
        source = f"[megatron-{release.version}, arguments.py]"
        refused = [Sentence("{}=1 excludes {} {}", NAME, sharding, source)] if stated == "1" else []
        return EnvironmentFaults(refused)
    split = next((condition for condition in SPLITS if holds(release, given, condition)), None)
    free = PAIRS in release.arguments and holds(release, given, PAIRS)
    if split is None or free or stated == "1" or profile.least_compute_capability >= BLACKWELL:
        return EnvironmentFaults()
    if stated is None:
        doubt = Sentence(
            "{} needs {}=1 on a GPU before Blackwell, which the script does not export: it starts only where the environment "
            "has it.",
            split,
            NAME,
        )
        return EnvironmentFaults(doubts=[doubt])
    source = f"[megatron-{release.version}, arguments.py]"
    return EnvironmentFaults([Sentence("{} needs {}=1 on a GPU before Blackwell, not {} {}", split, NAME, stated, source)])
