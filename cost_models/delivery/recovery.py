"""Levels of recovery from a fault, and their cost."""

from __future__ import annotations

from documents.late_methods import dataclass
from documents.sentences import Sentence


@dataclass(frozen=True)
class RecoveryMode:
    """One level of recovery.

    ``restart_s`` is the time from the end of detection until ranks can load their state. ``from_peers``: the state comes from a
    replica over the device network, and at most a step is repeated; otherwise it comes from the last checkpoint in storage.
    ``in_place_fraction`` of the interruptions by nodes are repaired without a restart.
    """

    name: str
    restart_s: float
    from_peers: bool
    source: str
    in_place_fraction: float = 0.0


# The levels of MindCluster. Its documentation has no times [mindcluster-resume], so those of other systems are used.
RECOVERY_MODES = {
    mode.name: mode
    for mode in (
        RecoveryMode(
            "job", 300.0, False, Sentence("all pods scheduled again: a restart of a task takes more than 300 s [robustrl]")
        ),
        RecoveryMode(
            "pod", 109.0, False, Sentence("one pod: 30 s to schedule, 30 s for the container, 49 s for the engine [robustrl]")
        ),
        RecoveryMode("process", 30.0, True, Sentence("the failed process alone: 30 s [huawei-10k]")),
        RecoveryMode(
            "step",
            30.0,
            True,
            Sentence("memory faults repaired in place, 91 of 419 interruptions [llama-3, table 5]; others as process"),
            in_place_fraction=91.0 / 419.0,
        ),
    )
}
REPLACED_FRACTION = 0.78  # fraction of interruptions by nodes that need repair: hardware faults [llama-3, section 3.3.4]
