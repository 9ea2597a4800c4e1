"""Chooses the placement of layers under which the pipeline of each strategy is fastest, for columns of strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.costs import LayerCosts
from cost_models.memory.fit import fit_rule
from cost_models.shapes.layer_keys import Floats, rows_alike
from cost_models.shapes.layout import default_layout
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, LayerLayout, ParallelStrategy, Placement, StrategyBatch, concatenate
from cost_models.shapes.workload import Workload
from cost_models.step.placing import Alternatives, Paces, fullest_bytes, least_peaks_bytes, paces
from cost_models.step.priced_groups import PricedBatch, pipeline_switches, priced_batch
from documents.sentences import Sentence
from frameworks.registry import placements_of
from search.placement.placement_family import MOST_COMPLETE, Contents, candidate_placements, is_complete
from search.space.enumeration import Rejections, charge_illegal, placement_rules

MOST_KNOWN = 16  # pipelines: those of one chunk, and of the leaner forms of its rows
TIE = 1e-9  # relative difference of paces that are equal
NEAR = 0.03  # fraction by which the pace of a candidate exceeds the best one at most, where not all placements are compared

CouldFit = Callable[[StrategyBatch], NDArray[np.bool_]]
Form = tuple[LayerLayout | None, int]  # the layout and the place of the prediction layers, as a strategy gives them


class _Pipeline(NamedTuple):
    """The placements that strategies of one pipeline may have, up to ``head_layers`` of the head.

    Fewer ``head_layers`` allow fewer of the placements. All are compared together, since a call costs more than its rows. A
    candidate is slower than the best pace by the fraction ``near`` at most: ranks wait for each other less than the pace says.
    """

    head_layers: int
    near: float
    forms: Sequence[Form]  # none where the target takes no placement
    alternatives: Alternatives | None
    allowed: dict[int, NDArray[np.bool_]]  # for fewer head layers: whether each placement is a candidate; filled on use


class Comparison(NamedTuple):
    """Rows that share a pipeline, and how fast each of its placements makes them: ``[placement, k]``, and the k of each row.

    Placements that are no candidates of a row take an infinite time.
    """

    rows: IntColumn
    priced: PricedBatch
    pipeline: _Pipeline
    found: Paces


class Placed(NamedTuple):
    """Rows ``[n]`` under the candidate placements that have room: ``priced`` ``[k]``, and the row of each form.

    ``peak_bytes`` ``[k]`` is the peak of the fullest rank. ``is_open``: some placement may be faster than the time to beat.
    ``is_cramped``: such a candidate has no room. ``is_hopeless``: ``could_fit`` was false, so that no room was looked for.
    """

    priced: PricedBatch
    origin: IntColumn
    peak_bytes: Floats
    is_open: NDArray[np.bool_]
    is_cramped: NDArray[np.bool_]
    is_hopeless: NDArray[np.bool_]


class Placer:
    """Finds placements for one workload, among those that its target can express."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._rules = placement_rules(workload)
        self._known: dict[tuple[int, ...], _Pipeline] = {}

    def charge_unplaceable(self, batch: StrategyBatch, rejections: Rejections) -> StrategyBatch:
        """The rows that some placement lets the target take; each other row is charged to the rule that its default breaks."""
        model, kept = self.workload.model, np.ones(len(batch), dtype=np.bool_)
        for rule in self._rules:
            kept &= ~rule.violates(self.workload, batch)
        others = np.flatnonzero(~kept)
        few = batch.take(others)
        for rows in rows_alike([few.pp, few.vpp, few.schedule, pipeline_switches(model, few)]) if len(few) else ():
            kept[others[rows]] = bool(self._of_pipeline(few.row(int(rows[0])), model.num_layers))
        unplaced = batch.take(~kept)
        if len(unplaced):
            charge_illegal(self.workload, unplaced, self._rules, rejections)
        return batch.take(kept)

    def fastest_that_fit(self, priced: PricedBatch, to_beat_s: float = np.inf, could_fit: CouldFit | None = None) -> Placed:
        """Rows under every candidate placement that has room, where that may be faster than ``to_beat_s``.

        ``could_fit`` tells which rows, of those that may be fast enough, are worth a look at their memory.
        """
        is_open, is_cramped, is_hopeless = (np.zeros(len(priced.batch), dtype=np.bool_) for _ in range(3))
        rows, peaks = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        chosen = [priced.batch.take(rows[0])]
        limit_bytes = fit_rule(self.workload, priced.constants).fit_limit_bytes
        for every, alike, pipeline, found in self._compared(priced, to_beat_s):
            is_open[every] = found.least_step_s.min(axis=0)[found.of_row] < to_beat_s
            some = np.flatnonzero(is_open[every])
            if could_fit is not None and len(some):
                hope = could_fit(alike.batch.take(some))
                is_hopeless[every[some[~hope]]] = True
                some = some[hope]
            if not len(some):
                continue
            here, few, of_row = every[some], alike.take(some), found.of_row[some]
            may_be = found.least_step_s[:, of_row] < to_beat_s
            peak_bytes = self._peaks_bytes(few, pipeline, limit_bytes)
            has_room = peak_bytes <= limit_bytes
            roomy = np.flatnonzero(has_room.any(axis=0))
            if len(roomy) and np.isfinite(pipeline.near):
                distinct, index = np.unique(of_row[roomy], return_inverse=True)
                pace_s = found.steady_of(distinct)[:, index]
                best_s = np.where(has_room[:, roomy], pace_s, np.inf).min(axis=0)
                may_be[:, roomy] &= pace_s <= best_s * (1.0 + pipeline.near)
            is_cramped[here] = (may_be & ~has_room).any(axis=0)
            row, form = np.nonzero((may_be & has_room).T)
            if len(row):
                placed = _Chosen.of(few.batch.take(row))
                placed.take(np.arange(len(row)), pipeline.forms, form)
                rows.append(here[row])
                peaks.append(peak_bytes[form, row])
                chosen.append(placed.batch)
        origin = np.concatenate(rows)
        return Placed(
            priced.take(origin).placed(concatenate(chosen)), origin, np.concatenate(peaks), is_open, is_cramped, is_hopeless
        )

    def has_room(self, priced: PricedBatch, like: PricedBatch, limit_bytes: float) -> NDArray[np.bool_]:
        """Whether rows have room under some placement of the rows that they are forms of, ``like``. ``[n]``"""
        found, head_layers = np.zeros(len(priced.batch), dtype=np.bool_), self._head_layers(like)
        for rows, alike, pipeline in self._pipelines(priced, head_layers):
            has_room = self._peaks_bytes(alike, pipeline, limit_bytes) <= limit_bytes
            found[rows] = (has_room & self._allowed(pipeline, alike.batch.row(0), head_layers[rows])).any(axis=0)
        return found

    def _peaks_bytes(self, priced: PricedBatch, pipeline: _Pipeline, limit_bytes: float) -> Floats:
        """Peaks under each placement, ``[placement, n]``, as ``fullest_bytes``.

        The bytes that all ranks keep together rule out most rows that do not fit; their peaks are infinite.
        """
        assert pipeline.alternatives is not None
        can_be = np.flatnonzero(least_peaks_bytes(priced) <= limit_bytes)
        found = np.full((len(pipeline.forms), len(priced.batch)), np.inf)
        if len(can_be):
            found[:, can_be] = fullest_bytes(priced.take(can_be), pipeline.alternatives, limit_bytes)
        return found

    def placed_by_pace(self, constants: Constants, strategies: Sequence[ParallelStrategy]) -> list[list[ParallelStrategy]]:
        """Each strategy, legal but for its placement, under every candidate placement that has room."""
        found: list[list[ParallelStrategy]] = [[] for _ in strategies]
        if strategies:
            placed = self.fastest_that_fit(priced_batch(self.workload, StrategyBatch.of(strategies), constants))
            for number, row in enumerate(placed.origin.tolist()):
                found[row].append(placed.priced.batch.row(number))
        return found

    def lies_elsewhere(
        self, forms: PricedBatch, strategies: PricedBatch, of_row: IntColumn, to_beat_s: float = np.inf
    ) -> NDArray[np.bool_]:
        """Whether a form may be faster than ``to_beat_s`` under a candidate that is none of its strategy's (``of_row``)."""
        number: dict[Form, int] = {}
        own, others = self._near(forms, number, to_beat_s), self._near(strategies, number)
        width = len(number)
        every = [np.pad(found, ((0, 0), (0, width - found.shape[1]))) for found in (own, others)]
        elsewhere: NDArray[np.bool_] = np.any(every[0] & ~every[1][of_row], axis=1)
        return elsewhere

    def _near(self, priced: PricedBatch, number: dict[Form, int], to_beat_s: float = np.inf) -> NDArray[np.bool_]:
        """The candidate placements of each row that may be faster than ``to_beat_s``, ``[n, placement]``.

        ``number`` gives their columns, and gets new ones.
        """
        compared = []
        for rows, _, pipeline, found in self._compared(priced, to_beat_s):
            pace_s = found.steady_s
            near = (pace_s <= pace_s.min(axis=0) * (1.0 + pipeline.near)) & (found.least_step_s < to_beat_s)
            compared.append((rows, pipeline.forms, near[:, found.of_row]))
            for form in pipeline.forms:
                number.setdefault(form, len(number))
        placed = np.zeros((len(priced.batch), len(number)), dtype=np.bool_)
        for rows, forms, near in compared:
            placed[rows[:, None], [number[form] for form in forms]] = near.T
        return placed

    def best(self, constants: Constants, strategies: Sequence[ParallelStrategy]) -> list[ParallelStrategy]:
        """Each strategy, legal but for its placement, under the first placement of the best pace that has room.

        Without room anywhere it is under the placement of the best pace.
        """
        if not strategies:
            return []
        priced = priced_batch(self.workload, StrategyBatch.of(strategies), constants)
        limit_bytes, chosen = fit_rule(self.workload, constants).fit_limit_bytes, _Chosen.of(priced.batch)
        for rows, alike, pipeline, found in self._compared(priced):
            pace_s = found.steady_s[:, found.of_row]
            has_room = self._peaks_bytes(alike, pipeline, limit_bytes) <= limit_bytes
            pace_s = np.where(has_room | ~has_room.any(axis=0), pace_s, np.inf)
            chosen.take(rows, pipeline.forms, (pace_s <= pace_s.min(axis=0) * (1.0 + TIE)).argmax(axis=0))
        return list(map(chosen.batch.row, range(len(strategies))))

    def _compared(self, priced: PricedBatch, to_beat_s: float = np.inf) -> Iterator[Comparison]:
        head_layers = self._head_layers(priced)
        for rows, alike, pipeline in self._pipelines(priced, head_layers):
            assert pipeline.alternatives is not None
            found = paces(alike, pipeline.alternatives, to_beat_s)
            of_head = np.empty(found.least_step_s.shape[1], dtype=np.int64)
            of_head[found.of_row] = head_layers[rows]  # equal for equal layer costs
            allowed = self._allowed(pipeline, alike.batch.row(0), of_head)
            yield Comparison(rows, alike, pipeline, found if allowed.all() else found.among(allowed))

    def _pipelines(self, priced: PricedBatch, head_layers: IntColumn) -> Iterator[tuple[IntColumn, PricedBatch, _Pipeline]]:
        """Rows that share a pipeline, with the placements that they may have, if any."""
        batch, switches = priced.batch, priced.shared_switches
        for rows in rows_alike([batch.pp, batch.vpp, batch.schedule, switches]):
            alike = priced.take(rows)
            one, most = alike.batch.row(0), int(head_layers[rows].max())
            key = one.pp, one.vpp, one.schedule, int(switches[rows[0]])
            if key not in self._known or self._known[key].head_layers < most:
                self._known.pop(key, None)
                while len(self._known) >= MOST_KNOWN:
                    del self._known[next(iter(self._known))]
                placements = self._of_pipeline(one, most)
                usual = default_layout(self.workload.model, one.pp, one.vpp, one.schedule)
                forms = tuple(_shortest_form(placement, usual) for placement in placements)
                alternatives = Alternatives.of(alike, placements) if forms else None
                near = np.inf if is_complete(self.workload.model.num_layers, one.pp * one.vpp) else NEAR
                self._known[key] = _Pipeline(most, near, forms, alternatives, {})
            if (pipeline := self._known[key]).forms:
                yield rows, alike, pipeline

    def _allowed(self, pipeline: _Pipeline, one: ParallelStrategy, head_layers: IntColumn) -> NDArray[np.bool_]:
        """Which placements are candidates of rows with this many head layers, ``[placement, n]``."""
        values, of_row = np.unique(head_layers, return_inverse=True)
        for value in values.tolist():
            if value not in pipeline.allowed:
                model = self.workload.model
                usual = default_layout(model, one.pp, one.vpp, one.schedule)
                candidates = {_shortest_form(placement, usual) for placement in self._candidates(one, value)}
                pipeline.allowed[value] = np.array([form in candidates for form in pipeline.forms])
        allowed: NDArray[np.bool_] = np.stack([pipeline.allowed[value] for value in values.tolist()], axis=1)[:, of_row]
        return allowed

    def _of_pipeline(self, one: ParallelStrategy, head_layers: int) -> tuple[Placement, ...]:
        return self.takes(one, self._candidates(one, head_layers))

    def _candidates(self, one: ParallelStrategy, head_layers: int) -> tuple[Placement, ...]:
        """Placements to compare, whether the target takes them or not; more head layers add some and leave out none."""
        model = self.workload.model
        leading = 0 if model.moe is None else model.moe.num_leading_dense_layers
        contents = Contents(model.num_layers, leading, head_layers, model.mtp_num_layers)
        usual = Placement(default_layout(model, one.pp, one.vpp, one.schedule))
        target = placements_of(self.workload.software.target)
        if target.even:
            most = max(map(max, usual.layer_layout)) + 1 + leading
            shapes = target.shapes(model.num_layers, one.pp, one.vpp)
            found = tuple(Placement(shape) for shape in shapes if max(map(max, shape)) <= most)
        else:
            found = candidate_placements(contents, one.pp, one.vpp, one.schedule) if one.pp > 1 else ()
        return tuple(dict.fromkeys((usual, *found)))

    def takes(self, one: ParallelStrategy, placements: Sequence[Placement]) -> tuple[Placement, ...]:
        """The placements of one strategy that the target takes."""
        batch = _under(one, placements)
        refused = np.zeros(len(batch), dtype=np.bool_)
        for rule in self._rules:
            refused |= rule.violates(self.workload, batch)
        return tuple(placement for placement, no in zip(placements, refused, strict=True) if not no)

    def _head_layers(self, priced: PricedBatch) -> IntColumn:
        """Layers that take as long as the extra work of the last virtual stage, rounded up to 1, 2, 4, ..., ``[n]``.

        It depends on each row alone, so that a placement does not depend on the other rows of the batch.
        """
        (keys, of_row), mtp = priced.fewer, self.workload.model.mtp_num_layers
        layer_s = np.min([_seconds(costs) for costs in keys.layers], axis=0)
        head_s = (1 + mtp) * (keys.edges.head_forward_s + keys.edges.head_backward_s)
        head_s = head_s + mtp * (_seconds(keys.layers[-1]) + keys.edges.mtp_module_s)
        powers = np.ceil(np.log2(np.maximum(np.ceil(head_s / layer_s), 1.0)))
        rounded: IntColumn = (2**powers).astype(np.int64)[of_row]
        return rounded


def placements_text(num_layers: int, pp: Sequence[int], vpp: Sequence[int]) -> Sentence:
    """Which placements the strategies of a space have, whose pipelines are all combinations of ``pp`` and ``vpp``."""
    stages = [ranks * chunks for ranks in pp for chunks in vpp if ranks > 1 and ranks * chunks <= num_layers]
    if all(is_complete(num_layers, number) for number in stages):
        return Sentence("all that keep the order of the layers and that the target takes")
    return Sentence(
        "all of pipelines that have at most {}; of others those with even inner virtual stages and a pace within {:.0%} of the "
        "best; those that the target takes, and that keep the order of the layers",
        MOST_COMPLETE,
        NEAR,
    )


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
