"""The number of strategies of a lattice, counted without making them."""

from __future__ import annotations

import math

import numpy as np

from cost_models.shapes.workload import Workload
from search.space.enumeration import layouts_of
from search.space.option_tables import OptionTables, option_classes
from search.space.search_space import SearchSpace


def lattice_size(workload: Workload, space: SearchSpace) -> int:
    """Strategies of the lattice, legal or not, without the memory-saving forms of those that do not fit.

    Layouts of one class in every table hold equally many, and the classes do not depend on the virtual stages.
    """
    tables, size = OptionTables(workload, space), 0
    pipelines = [(pipeline.pp, tables.of(pipeline)) for pipeline in space.pipelines()]
    for pp in space.pp:
        number: dict[tuple[int, ...], int] = {}
        for layouts in layouts_of(workload, space, pp):
            classes = np.stack(option_classes(workload, space, layouts), axis=1)
            distinct, counts = np.unique(classes, axis=0, return_counts=True)
            for chosen, count in zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True):
                number[chosen] = number.get(chosen, 0) + count
        for own_pp, of_pipeline in pipelines:
            if own_pp == pp:
                size += sum(
                    count * math.prod(int(table.counts[index]) for table, index in zip(of_pipeline, chosen, strict=True))
                    for chosen, count in number.items()
                )
    return size
