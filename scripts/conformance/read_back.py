"""Whether a launch file, read back by our reader, costs what its plan costs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.calibrations.constants import constants_for
from app.jobs.job import Job, parse_job
from app.launch_scripts.files import load_script
from cost_models.shapes.strategy import StrategyBatch
from cost_models.step.composition import estimate
from documents.errors import InputError
from documents.reading import read_document

SAME = 1e-9  # relative difference of step time and memory up to which two prices are one
VALUES = ("MASTER_ADDR=localhost", "NODE_RANK=0")


def other_prices(files: Sequence[tuple[Path, Path]], processes: int) -> list[str]:
    """What each file costs and what its plan does, or why it is not read; "" for one price. ``files``: launch file and job."""
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(_other_price, files, chunksize=8))


def _other_price(pair: tuple[Path, Path]) -> str:
    file, saved = pair
    job = parse_job(read_document(saved), folder=saved.parent)
    cluster, target = job.workload.cluster, job.workload.software.target
    try:
        read = load_script(file, cluster.profile.name, target=target, values=VALUES if file.suffix == ".sh" else ()).job
    except InputError as error:
        return f"is not read: {error}"
    planned, written = _price(job), _price(read)
    if np.allclose(planned, written, rtol=SAME, atol=0.0):
        return ""
    return "costs {:.6g} s and {:.6g} bytes, its plan {:.6g} s and {:.6g} bytes".format(*written, *planned)


def _price(job: Job) -> NDArray[np.float64]:
    """Step time and peak memory of the job's strategy by the closed form. [s, bytes]"""
    assert job.strategy is not None
    priced = estimate(job.workload, StrategyBatch.of([job.strategy]), constants_for(job.workload))
    return np.array([priced.step_time_s[0], priced.peak_memory_bytes[0]])
