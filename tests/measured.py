"""A device without hardware: every call of a case takes what a formula says, on a clock of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from calibration.measurements.cases import Case, Kind
from calibration.measurements.files import Device
from calibration.measurements.timing import Prepared, UnsupportedCaseError, Work


def one_call_s(case: Case) -> float:
    """100 TFLOPS, 1 TB/s, 5 us a launch."""
    sizes = case.by_name
    moved = sizes.get("message_bytes", 0) + 4 * sizes.get("tokens", 0) * sizes.get("width", 0)
    return 5e-6 + case.flops / 1e14 + moved / 1e12


@dataclass
class FakeBackend:
    """Runs every case but those of ``refused``; ``stops_at``: the case, counted from 1, that a user interrupts."""

    kind: str = "cuda"
    num_ranks: int = 1
    rank: int = 0
    compute_capability: float | None = None
    refused: Mapping[Kind, str] = field(default_factory=dict)
    stops_at: int | None = None
    seconds_of: Callable[[Case], float] = one_call_s
    prepared: list[Case] = field(default_factory=list)

    @property
    def description(self) -> Device:
        return Device("Fake 100", self.kind, self.num_ranks, self.compute_capability)

    @property
    def software(self) -> Mapping[str, str]:
        return {"fake": "1.0"}

    def prepare(self, case: Case) -> Prepared:
        self.prepared.append(case)
        if len(self.prepared) == self.stops_at:
            raise KeyboardInterrupt
        if case.kind in self.refused:
            raise UnsupportedCaseError(self.refused[case.kind])
        memory = (lambda: (1000, 1250)) if case.kind is Kind.LAYER else None
        return Prepared(self.work(case), f"fake.{case.kind}", memory=memory)

    def work(self, case: Case) -> Work:
        return lambda calls: calls * self.seconds_of(case)
