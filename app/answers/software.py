"""Effects of a job's software options: the plan priced again, at the same fidelity, with one option flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.numbers import numbers_of
from app.calibrations.constants import constants_for
from calibration.files.calibrations import Calibration
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.software_options import HOST, OPTION_NAMES, SOFTWARE_OPTIONS, SoftwareOption, has_option, options_for
from cost_models.shapes.strategy import IntColumn, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Software, Workload
from cost_models.step.priced_groups import KnownPipelines
from cost_models.step.result import Estimate
from documents.sentences import Sentence
from frameworks.legality import first_violation


def software_documents(
    workload: Workload,
    strategies: Sequence[ParallelStrategy],
    numbers: Estimate,
    rows: Sequence[int],
    own: Sequence[Calibration],
    known: Mapping[Software, KnownPipelines],
) -> list[dict[str, Any]]:
    """The ``software`` part of the documents of some strategies; ``rows`` of ``numbers`` are their estimates with breakdown.

    ``known`` are shared prices of earlier strategies of the job, for each software.
    """
    options: list[list[dict[str, Any]]] = [[] for _ in rows]
    places = np.array(rows)
    _options(workload, StrategyBatch.of(list(strategies)), numbers, places, own, known, options)
    _larger_micro_batches(workload, strategies, numbers, places, own, known, options)
    host_s, step_s = _host_s(numbers)[places].tolist(), numbers.step_time_s[places].tolist()
    return [
        {"host_s": host, "host_fraction": host / step, "options": of_one}
        for host, step, of_one in zip(host_s, step_s, options, strict=True)
    ]


def other_way(software: Software, option: SoftwareOption) -> Software:
    """Software of the job with the option switched on if it is off, and off if it is on."""
    if option.kind == HOST:
        now = {one.name for one in SOFTWARE_OPTIONS if one.kind == HOST and has_option(one, (), software.host)} ^ {option.name}
        return replace(software, host=tuple(name for name in OPTION_NAMES[HOST] if name in now))
    return replace(software, operators=tuple(sorted({*software.operators} ^ {option.name})))


def _host_s(numbers: Estimate) -> Floats:
    """Seconds that a step waits for its hosts: for kernel launches and for the sizes of exchanges."""
    assert numbers.breakdown is not None
    host_s: Floats = numbers.breakdown.time_s["host"] + numbers.breakdown.time_s["size_synchronisation"]
    return host_s


def _options(
    workload: Workload,
    batch: StrategyBatch,
    numbers: Estimate,
    places: IntColumn,
    own: Sequence[Calibration],
    known: Mapping[Software, KnownPipelines],
    found: list[list[dict[str, Any]]],
) -> None:
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
        told = {
            "name": option.name,
            "kind": option.kind,
            "is_on": is_on,
            "meaning": option.meaning,
            "constants_with": values[True],
            "constants_without": values[False],
            "source": option.source.strip("[]"),
            "basis": option.basis,
        }
        for of_one, moved in zip(found, _moved(other, batch, numbers, places, own, known, is_on=is_on), strict=True):
            of_one.append({**told, **moved})


def _larger_micro_batches(
    workload: Workload,
    strategies: Sequence[ParallelStrategy],
    numbers: Estimate,
    places: IntColumn,
    own: Sequence[Calibration],
    known: Mapping[Software, KnownPipelines],
    found: list[list[dict[str, Any]]],
) -> None:
    """The strategy with twice the micro batch, which needs no more kernels, if it is legal."""
    larger = [replace(strategy, micro_batch_size=2 * strategy.micro_batch_size) for strategy in strategies]
    batch = StrategyBatch.of(larger)
    legal = np.flatnonzero(first_violation(workload, batch) < 0)
    if not len(legal):
        return
    moved = _moved(workload, batch.take(legal), numbers, places[legal], own, known, is_on=False)
    for row, one in zip(legal.tolist(), moved, strict=True):
        told = {
            "name": f"micro_batch_size = {larger[row].micro_batch_size}",
            "kind": "strategy",
            "is_on": False,
            "meaning": Sentence("As many kernels for twice the tokens."),
            "constants_with": {},
            "constants_without": {},
            "source": "",
            "basis": "",
        }
        found[row].append({**told, **one})


def _moved(
    workload: Workload,
    batch: StrategyBatch,
    numbers: Estimate,
    places: IntColumn,
    own: Sequence[Calibration],
    known: Mapping[Software, KnownPipelines],
    *,
    is_on: bool,
) -> list[dict[str, Any]]:
    found = numbers_of(workload, batch, own, simulated=numbers.fidelity == "simulated", known=known[workload.software])
    columns = (numbers.step_time_s[places], found.step_time_s, _host_s(found), found.fits)
    moved = []
    for here_s, there_s, host_s, fits in zip(*(column.tolist() for column in columns), strict=True):
        with_s, without_s = (here_s, there_s) if is_on else (there_s, here_s)
        moved.append(
            {
                "other_step_time_s": there_s,
                "other_host_fraction": host_s / there_s,
                "other_fits": bool(fits),
                "gain_fraction": without_s / with_s - 1.0,
            }
        )
    return moved
