"""Chooses the placement of layers under which the pipeline of each strategy is fastest, for columns of strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.costs import LayerCosts
from cost_models.shapes.layer_keys import Floats, rows_alike
from cost_models.shapes.layout import default_layout
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, LayerLayout, ParallelStrategy, Placement, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.placing import Alternatives, Paces, fitting, least_step_times_s, paces, work
from cost_models.step.priced_groups import PricedBatch, pipeline_switches, priced_batch
from frameworks.registry import placements_of
from search.placement.placement_family import Contents, candidate_placements
from search.space.enumeration import Rejections, charge_illegal, placement_rules

MOST_KNOWN = 16  # pipelines: those of one chunk, and of the leaner forms of its rows
TIE = 1e-9  # relative difference of paces below which the earlier placement is taken


Form = tuple[LayerLayout | None, int]  # the layout and the place of the prediction layers, as a strategy gives them


class _Pipeline(NamedTuple):
    """The placements that strategies of one pipeline may have."""

    forms: Sequence[Form]
    alternatives: Alternatives


class _Comparison(NamedTuple):
    """Rows that share a pipeline, and their pace under each of its placements."""

    rows: IntColumn
    alike: PricedBatch
    pipeline: _Pipeline
    found: Paces


class Placed(NamedTuple):
    """Rows with a placement each; ``compared`` rows have the best one."""

    priced: PricedBatch
    compared: NDArray[np.bool_]
    comparisons: Sequence[_Comparison]


class Placer:
    """Finds placements for one workload, among those that its target can express."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._rules = placement_rules(workload)
        self._known: dict[tuple[int, ...], _Pipeline | None] = {}  # none where the target takes no placement

    def takes_as_placed(self, priced: PricedBatch) -> NDArray[np.bool_]:
        """Rows whose own placement the target takes."""
        refused = np.zeros(len(priced.batch), dtype=np.bool_)
        for rule in self._rules:
            refused |= rule.violates(self._workload, priced.batch)
        return ~refused

    def charge_unplaceable(self, batch: StrategyBatch, rejections: Rejections) -> StrategyBatch:
        """Rows for which the target takes some placement. Others are charged to the rule that their default breaks."""
        model, kept = self._workload.model, np.ones(len(batch), dtype=np.bool_)
        for rule in self._rules:
            kept &= ~rule.violates(self._workload, batch)
        others = np.flatnonzero(~kept)
        few = batch.take(others)
        for rows in rows_alike([few.pp, few.vpp, few.schedule, pipeline_switches(model, few)]) if len(few) else ():
            kept[others[rows]] = bool(self._of_pipeline(few.row(int(rows[0])), model.num_layers))
        unplaced = batch.take(~kept)
        if len(unplaced):
            charge_illegal(self._workload, unplaced, self._rules, rejections)
        return batch.take(kept)

    def fastest(self, priced: PricedBatch, to_beat_s: float = np.inf) -> Placed:
        """Every row under its fastest placement, without rows that no placement makes faster than ``to_beat_s``."""
        compared = np.zeros(len(priced.batch), dtype=np.bool_)
        chosen, comparisons = _Chosen.of(priced.batch), []
        for rows, alike, pipeline in self._pipelines(priced):
            found = paces(alike, pipeline.alternatives)
            comparisons.append(_Comparison(rows, alike, pipeline, found))
            best = (found.steady_s <= found.steady_s.min(axis=0) * (1.0 + TIE)).argmax(axis=0)
            steady_s, busiest_s = (np.take_along_axis(each, best[None], axis=0)[0] for each in (found.steady_s, found.busiest_s))
            least = least_step_times_s(alike, work(alike), steady_s[found.of_row], busiest_s[found.of_row])
            compared[rows] = least.step_s < to_beat_s
            chosen.take(rows, pipeline.forms, best[found.of_row])
        return Placed(priced.placed(chosen.batch), compared, comparisons)

    def fastest_that_fit(self, placed: Placed, rows: NDArray[np.bool_], to_beat_s: float = np.inf) -> Placed:
        """Rows under the fastest placement that has room, without rows for which no faster one has room."""
        compared = np.zeros(len(placed.priced.batch), dtype=np.bool_)
        chosen = _Chosen.of(placed.priced.batch)
        for every, alike, pipeline, found in placed.comparisons:
            wanted = rows[every]
            few, of_row, here = alike.take(wanted), found.of_row[wanted], every[wanted]
            if not len(here):
                continue
            steady_s, busiest_s = found.steady_s[:, of_row], found.busiest_s[:, of_row]
            matters = least_step_times_s(few, work(few), steady_s, busiest_s).step_s < to_beat_s
            tried = np.flatnonzero(matters.any(axis=1))
            if not len(tried):
                continue
            fits = fitting(few, pipeline.alternatives, tried) & matters[tried]
            best_s = np.where(fits, steady_s[tried], np.inf)
            compared[here] = some = fits.any(axis=0)
            chosen.take(here[some], pipeline.forms, tried[best_s.argmin(axis=0)][some])
        return Placed(placed.priced.placed(chosen.batch), compared, placed.comparisons)

    def best(self, constants: Constants, strategies: Sequence[ParallelStrategy]) -> list[ParallelStrategy]:
        """Each strategy, legal but for its placement, under the fastest placement that has room, if any."""
        if not strategies:
            return []
        batch = StrategyBatch.of(strategies)
        placed = self.fastest(priced_batch(self._workload, batch, constants))
        placed = self.fastest_that_fit(placed, np.ones(len(batch), dtype=np.bool_))
        return [placed.priced.batch.row(row) for row in range(len(batch))]

    def _pipelines(self, priced: PricedBatch) -> Iterator[tuple[IntColumn, PricedBatch, _Pipeline]]:
        """Rows that share a pipeline of several ranks, with its placements, if any."""
        batch, switches, head_layers = priced.batch, priced.shared_switches, self._head_layers(priced)
        for rows in rows_alike([batch.pp, batch.vpp, batch.schedule, switches, head_layers]):
            if batch.pp[rows[0]] == 1:
                continue
            alike = priced.take(rows)
            one, of_head = alike.batch.row(0), int(head_layers[rows[0]])
            key = one.pp, one.vpp, one.schedule, int(switches[rows[0]]), of_head
            if key not in self._known:
                while len(self._known) >= MOST_KNOWN:
                    del self._known[next(iter(self._known))]
                placements = self._of_pipeline(one, of_head)
                usual = default_layout(self._workload.model, one.pp, one.vpp, one.schedule)
                forms = tuple(_shortest_form(placement, usual) for placement in placements)
                self._known[key] = _Pipeline(forms, Alternatives(alike.under(placements))) if forms else None
            if (pipeline := self._known[key]) is not None:
                yield rows, alike, pipeline

    def _of_pipeline(self, one: ParallelStrategy, head_layers: int) -> tuple[Placement, ...]:
        model = self._workload.model
        leading = 0 if model.moe is None else model.moe.num_leading_dense_layers
        contents = Contents(model.num_layers, leading, head_layers, model.mtp_num_layers)
        usual = Placement(default_layout(model, one.pp, one.vpp, one.schedule))
        target = placements_of(self._workload.software.target)
        if target.even:
            most = max(map(max, usual.layer_layout)) + 1 + leading
            shapes = target.shapes(model.num_layers, one.pp, one.vpp)
            found = tuple(Placement(shape) for shape in shapes if max(map(max, shape)) <= most)
        else:
            found = candidate_placements(contents, one.pp, one.vpp, one.schedule) if one.pp > 1 else ()
        return self.takes(one, tuple(dict.fromkeys((usual, *found))))

    def takes(self, one: ParallelStrategy, placements: Sequence[Placement]) -> tuple[Placement, ...]:
        """The placements of one strategy that the target takes."""
        batch = _under(one, placements)
        refused = np.zeros(len(batch), dtype=np.bool_)
        for rule in self._rules:
            refused |= rule.violates(self._workload, batch)
        return tuple(placement for placement, no in zip(placements, refused, strict=True) if not no)

    def _head_layers(self, priced: PricedBatch) -> IntColumn:
        """Layers that take as long as the extra work of the last virtual stage, rounded up to 1, 2, 4, ..., ``[n]``.

        It depends on each row alone, so that a placement does not depend on the other rows of the batch.
        """
        (keys, of_row), mtp = priced.fewer, self._workload.model.mtp_num_layers
        layer_s = np.min([_seconds(costs) for costs in keys.layers], axis=0)
        head_s = (1 + mtp) * (keys.edges.head_forward_s + keys.edges.head_backward_s) + mtp * _seconds(keys.layers[-1])
        powers = np.ceil(np.log2(np.maximum(np.ceil(head_s / layer_s), 1.0)))
        rounded: IntColumn = (2**powers).astype(np.int64)[of_row]
        return rounded


def _under(one: ParallelStrategy, placements: Sequence[Placement]) -> StrategyBatch:
    """One strategy under each placement."""
    layouts = tuple(dict.fromkeys(placement.layer_layout for placement in placements))
    numbers = {layout: number for number, layout in enumerate(layouts)}
    return replace(
        StrategyBatch.of([one]).take(np.zeros(len(placements), dtype=np.int64)),
        layouts=layouts,
        layout_index=np.array([numbers[placement.layer_layout] for placement in placements], dtype=np.int64),
        mtp_before_head=np.array([placement.mtp_before_head for placement in placements], dtype=np.int64),
    )


def _shortest_form(placement: Placement, usual: LayerLayout) -> Form:
    """The placement as a strategy gives it: nothing for the default."""
    return None if placement.layer_layout == usual else placement.layer_layout, placement.mtp_before_head


class _Chosen:
    """The placements of a batch while they are chosen."""

    def __init__(self, batch: StrategyBatch) -> None:
        self.batch = batch

    @classmethod
    def of(cls, batch: StrategyBatch) -> _Chosen:
        """The placements that the rows have."""
        return cls(varied(batch, layout_index=batch.layout_index.copy(), mtp_before_head=batch.mtp_before_head.copy()))

    def take(self, rows: IntColumn, placements: Sequence[Form], best: IntColumn) -> None:
        """Give rows the ``best``-th of some placements."""
        layouts = dict.fromkeys((*self.batch.layouts, *(layout for layout, _ in placements if layout is not None)))
        numbers = {layout: number for number, layout in enumerate(layouts)}
        index = np.array([-1 if layout is None else numbers[layout] for layout, _ in placements], dtype=np.int64)
        self.batch = varied(self.batch, layouts=tuple(layouts))
        self.batch.layout_index[rows] = index[best]
        self.batch.mtp_before_head[rows] = np.array([before for _, before in placements], dtype=np.int64)[best]


def _seconds(costs: LayerCosts) -> Floats:
    seconds: Floats = costs.forward_s + costs.backward_s
    return seconds
