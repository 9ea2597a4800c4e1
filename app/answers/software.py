"""What the options of a job's software move: the plan priced again with one of them the other way, under the same fidelity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.calibrations.constants import constants_for
from calibration.files import Calibration
from cost_models.shapes.software_options import HOST, OPTION_NAMES, SOFTWARE_OPTIONS, SoftwareOption, has_option, options_for
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Software, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from frameworks.legality import violations


def software_document(
    workload: Workload, strategy: ParallelStrategy, numbers: Estimate, own: Sequence[Calibration] = ()
) -> dict[str, Any]:
    """The ``software`` of an estimate's document; ``numbers`` are the strategy's own, with their breakdown."""
    return {
        "host_s": _host_s(numbers),
        "host_fraction": _host_s(numbers) / float(numbers.step_time_s[0]),
        "options": [*_options(workload, strategy, numbers, own), *_larger_micro_batch(workload, strategy, numbers, own)],
    }


def other_way(software: Software, option: SoftwareOption) -> Software:
    """The same software with the option if it has not, else without."""
    if option.kind == HOST:
        now = {one.name for one in SOFTWARE_OPTIONS if one.kind == HOST and has_option(one, (), software.host)} ^ {option.name}
        return replace(software, host=tuple(name for name in OPTION_NAMES[HOST] if name in now))
    return replace(software, operators=tuple(sorted({*software.operators} ^ {option.name})))


def _host_s(numbers: Estimate) -> float:
    assert numbers.breakdown is not None
    return float(numbers.breakdown.time_s["host"][0])


def _options(
    workload: Workload, strategy: ParallelStrategy, numbers: Estimate, own: Sequence[Calibration]
) -> Iterator[dict[str, Any]]:
    software, library = workload.software, workload.device_traits.library
    here = constants_for(workload, own)
    for option in options_for(library, eager=workload.software_traits.eager):
        is_on = has_option(option, software.operators, software.host)
        other = replace(workload, software=other_way(software, option))
        there = constants_for(other, own)
        values = {
            on: {change.constant: getattr(c, change.constant) for change in option.changes}
            for on, c in ((is_on, here), (not is_on, there))
        }
        yield {
            "name": option.name,
            "kind": option.kind,
            "is_on": is_on,
            "meaning": option.meaning,
            "constants_with": values[True],
            "constants_without": values[False],
            "source": option.source.strip("[]"),
            "basis": option.basis,
            **_moved(other, strategy, numbers, own, is_on=is_on),
        }


def _larger_micro_batch(
    workload: Workload, strategy: ParallelStrategy, numbers: Estimate, own: Sequence[Calibration]
) -> Iterator[dict[str, Any]]:
    """Twice the micro batch, which the host dispatches in as many kernels, where it is legal."""
    larger = replace(strategy, micro_batch_size=2 * strategy.micro_batch_size)
    if not violations(workload, larger):
        yield {
            "name": f"micro_batch_size = {larger.micro_batch_size}",
            "kind": "strategy",
            "is_on": False,
            "meaning": "As many kernels for twice the tokens.",
            "constants_with": {},
            "constants_without": {},
            "source": "",
            "basis": "",
            **_moved(workload, larger, numbers, own, is_on=False),
        }


def _moved(
    workload: Workload, strategy: ParallelStrategy, numbers: Estimate, own: Sequence[Calibration], *, is_on: bool
) -> dict[str, Any]:
    price = simulate if numbers.fidelity == "simulated" else estimate
    found = price(workload, StrategyBatch.of([strategy]), constants_for(workload, own), breakdown=True)
    here_s, there_s = float(numbers.step_time_s[0]), float(found.step_time_s[0])
    with_s, without_s = (here_s, there_s) if is_on else (there_s, here_s)
    return {
        "other_step_time_s": there_s,
        "other_host_fraction": _host_s(found) / there_s,
        "other_fits": bool(found.fits[0]),
        "gain_fraction": without_s / with_s - 1.0,
    }
