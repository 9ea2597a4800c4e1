"""Measurements as entries of a hardware profile: rates of matmuls, and curves of collectives."""

from __future__ import annotations

from calibration.measurements.cases import Kind
from calibration.measurements.collective_logs import CollectiveLog
from calibration.measurements.files import Measurements
from calibration.measurements.op_summaries import OperatorRate


def matmul_rates(measurements: Measurements) -> tuple[OperatorRate, ...]:
    """The sustained rate of each dense matmul, the most work first."""
    found = [
        OperatorRate("matmul", r.case.precision, r.case.title, r.timing.num_calls, r.case.flops, r.case.flops / r.timing.time_s)
        for r in measurements.results
        if r.case.kind is Kind.MATMUL
    ]
    return tuple(sorted(found, key=lambda rate: -rate.flops))


def collectives(measurements: Measurements) -> tuple[CollectiveLog, ...]:
    """A curve for each operation and group with at least two measured sizes, in increasing size."""
    points: dict[tuple[str, int], dict[int, float]] = {}
    for result in measurements.results:
        if result.case.kind is Kind.COLLECTIVE:
            ranks, message_bytes = result.case.sizes
            if ranks > 1:
                points.setdefault((result.case.operation, ranks), {})[message_bytes] = result.timing.time_s * 1e6
    return tuple(
        CollectiveLog(op, ranks, tuple(map(float, sorted(times))), tuple(times[size] for size in sorted(times)))
        for (op, ranks), times in sorted(points.items())
        if len(times) > 1
    )
