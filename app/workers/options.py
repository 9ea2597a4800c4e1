"""Options of a worker, in a form that can be sent to another process."""

from __future__ import annotations

from documents.late_methods import dataclass


@dataclass(frozen=True)
class WorkerOptions:
    url: str
    lease_s: float
    checkpoint_s: float
    log_format: str
    niceness: int = 0  # lowers the priority for the cores, where a server shares them
    keep_studies_days: int = 0  # 0: for ever
    keep_audit_days: int = 365
    keep_checks_days: int = 0  # 0: for ever
    keep_runs_days: int = 0  # 0: for ever
