"""The order of plans, predicted and measured, and the cost of choosing the predicted best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from documents.late_methods import dataclass

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

GAP = 1.05  # measured times closer than this are noise


@dataclass(frozen=True)
class PlanGroup:
    """Plans for one job: predicted and measured seconds a sample, in the order of the records."""

    name: str
    times: tuple[tuple[float, float], ...]

    @property
    def pairs(self) -> list[bool]:
        """Whether the predicted order is the measured one, for each pair whose measured times differ by ``GAP`` or more."""
        return [
            (first[0] < second[0]) == (first[1] < second[1])
            for first, second in combinations(self.times, 2)
            if max(first[1], second[1]) >= GAP * min(first[1], second[1]) and first[0] != second[0]
        ]

    @property
    def regret_fraction(self) -> float:
        """Measured time of the predicted best plan over the time of the measured best, minus 1."""
        return min(self.times)[1] / min(measured for _, measured in self.times) - 1.0


def plan_groups(records: Sequence[RunRecord], predicted_step_time_s: Sequence[float]) -> list[PlanGroup]:
    """Groups of at least two plans that differ in their plan only, without suspect runs."""
    table: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    names: dict[Hashable, str] = {}
    for record, predicted_s in zip(records, predicted_step_time_s, strict=True):
        if record.suspect or not record.measured.step_time_s:
            continue
        batch = record.workload.training.global_batch_size
        key = plan_key(record)
        table[key].append((predicted_s / batch, record.measured.step_time_s / batch))
        names.setdefault(key, record.ranking_group or record.id)
    return [PlanGroup(names[key], tuple(times)) for key, times in table.items() if len(times) > 1]


def plan_key(record: RunRecord) -> Hashable:
    """The published sweep if there is one; otherwise shape, sequence length, devices and software release."""
    if record.ranking_group:
        return record.ranking_group
    workload = record.workload
    cluster, training = workload.cluster, workload.training
    return workload.model, training.seq_length, training.precision, cluster.profile.name, cluster.num_devices, workload.software
