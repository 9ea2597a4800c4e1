"""A few legal plans of a job's lattice, drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from app.jobs.job import parse_job
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from frameworks.framework import Framework
from frameworks.legality import legal_mask
from search.space.enumeration import Rejections, chunks
from search.space.search_space import search_space


def sampled(
    framework: Framework, document: Mapping[str, Any], count: int, seed: int
) -> Iterator[tuple[Workload, ParallelStrategy]]:
    """Up to ``count`` plans of the job in ``document``; none for a model that the framework does not train."""
    job = parse_job({**document, "software": {"target": framework.target.label}})
    workload = job.workload
    if framework.untold(workload):
        return
    random = np.random.default_rng(seed)
    found: list[ParallelStrategy] = []
    for chunk in chunks(workload, search_space(workload, job.limits), Rejections()):
        legal = np.flatnonzero(legal_mask(workload, chunk.batch))
        found += [chunk.batch.row(int(row)) for row in random.permutation(legal)[:count]]
    for index in random.permutation(len(found))[:count]:
        yield workload, found[index]
