"""Enumerates the lattice in chunks, in one fixed order, and charges each illegal strategy to the first rule it breaks.

Order: pp from the middle of its values outwards, vpp, schedule, tp, cp, ep, etp, micro batch size, then the options, each
ascending. The best plans are rarely at the ends, and a good time early rules out much. A chunk holds rows of one pipeline,
whatever the group size of its micro batches, since the cost model vectorises over those. Rules that look at a layout alone
(``layout_only``) are checked once a layout, and the block of its options is charged by arithmetic. So a space with few legal
layouts costs little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, takewhile

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import IntColumn, ParallelStrategy, StrategyBatch, concatenate
from cost_models.shapes.workload import Workload
from frameworks.accepted_switches import with_taken
from frameworks.legality import RULES, rules_for
from frameworks.rule import Rule
from search.space.option_tables import Layouts, OptionTable, OptionTables, option_classes
from search.space.search_space import Pipeline, SearchSpace

CHUNK_ROWS = 1 << 16
LAYOUTS_PER_SLICE = 1 << 15


@dataclass(frozen=True)
class Chunk:
    """Rows that no layout rule rejects, and how far the enumeration has come.

    ``num_enumerated`` counts the rows of ``batch`` and those charged since the last chunk.
    """

    batch: StrategyBatch
    num_enumerated: int
    done_fraction: float


@dataclass
class Rejections:
    """Illegal strategies by the first rule that they break, with the first example of each."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, tuple[Rule, ParallelStrategy]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All illegal strategies so far."""
        return sum(self.counts.values())

    def charge(self, rule: Rule, num_strategies: int, example: ParallelStrategy) -> None:
        """Count strategies against a rule."""
        self.examples.setdefault(rule.name, (rule, example))  # first: an interrupt leaves no count without its example
        self.counts[rule.name] = self.counts.get(rule.name, 0) + num_strategies

    def __reduce__(self) -> tuple[object, ...]:
        """Rules travel to another process by their place in the list, since their functions cannot be pickled."""
        places = {name: (RULES.index(rule), example) for name, (rule, example) in self.examples.items()}
        return _of_places, (self.counts, places)

    def taken(self) -> Rejections:
        """The charges so far, which are removed here."""
        found = Rejections(self.counts, self.examples)
        self.counts, self.examples = {}, {}
        return found

    def add(self, others: Rejections) -> None:
        """Add the charges of others."""
        for name, count in others.counts.items():
            rule, example = others.examples[name]
            self.charge(rule, count, example)


def _of_places(counts: dict[str, int], places: dict[str, tuple[int, ParallelStrategy]]) -> Rejections:
    return Rejections(counts, {name: (RULES[place], example) for name, (place, example) in places.items()})


def refusals(workload: Workload) -> tuple[Rule, ...]:
    """The rules of the workload's target that refuse the job under every strategy."""
    one = StrategyBatch.of([ParallelStrategy()])
    return tuple(rule for rule in rules_for(workload.software.target) if rule.job_only and rule.violates(workload, one)[0])


def layout_rules(workload: Workload) -> tuple[Rule, ...]:
    """The rules that are charged a layout at a time: refusals of the job, or else the leading rules on layouts alone.

    Only leading rules can be: behind a rule that reads options, rows of one layout differ. Refusals come first, since no change
    of a strategy helps against them.
    """
    return refusals(workload) or _leading(workload)


def option_rules(workload: Workload) -> tuple[Rule, ...]:
    """The rules of the target behind the leading ones, in their order, without ``placement_rules``."""
    return rules_before_placement(workload)[len(_leading(workload)) :]


def placement_rules(workload: Workload) -> tuple[Rule, ...]:
    """The rules of the target on placements. Rows of the lattice have no placement before one is chosen."""
    return tuple(rule for rule in rules_for(workload.software.target) if rule.reads_placement)


def rules_before_placement(workload: Workload) -> tuple[Rule, ...]:
    """The other rules of the target, in their order."""
    return tuple(rule for rule in rules_for(workload.software.target) if not rule.reads_placement)


def _leading(workload: Workload) -> tuple[Rule, ...]:
    return tuple(takewhile(lambda rule: rule.layout_only, rules_before_placement(workload)))


def chunks(
    workload: Workload,
    space: SearchSpace,
    rejections: Rejections,
    chunk_rows: int = CHUNK_ROWS,
    rules: tuple[Rule, ...] | None = None,
) -> Iterator[Chunk]:
    """Every strategy of the lattice once, in canonical form, without those that a layout rule rejects.

    Rejected strategies are added to ``rejections`` and counted in ``Chunk.num_enumerated``. Memory stays that of one
    chunk and one slice of layouts.
    """
    rules = layout_rules(workload) if rules is None else rules
    tables = OptionTables(workload, space)
    pipelines = sorted(space.pipelines(), key=lambda pipeline: abs(2 * space.pp.index(pipeline.pp) - len(space.pp) + 1))
    num_layouts = math.prod(_shape(space))

    def of_pipeline(index: int, pipeline: Pipeline) -> Iterator[Chunk]:
        last = 0
        for layouts in layouts_of(workload, space, pipeline.pp):
            first, last = last, last + len(layouts.tp)
            block = _Slice(pipeline, tables.of(pipeline), layouts, option_classes(workload, space, layouts))
            num_rejected, block = block.without_illegal(workload, rules, rejections)
            done = ((index + first / num_layouts) / len(pipelines), (index + last / num_layouts) / len(pipelines))
            for chunk in block.chunks(num_rejected, done, chunk_rows):
                yield replace(chunk, batch=with_taken(workload, chunk.batch, space.wanted))

    for _, alike in groupby(enumerate(pipelines), key=lambda numbered: numbered[1][:3]):  # pipelines of all group sizes
        of_sizes = [of_pipeline(*numbered) for numbered in alike]
        yield from of_sizes[0] if len(of_sizes) == 1 else _filled(chain(*of_sizes), chunk_rows)


def _filled(found: Iterable[Chunk], chunk_rows: int) -> Iterator[Chunk]:
    """Rows in as few chunks as possible, since a small chunk costs almost as much as a full one."""
    held: list[Chunk] = []
    for chunk in found:
        if held and sum(len(one.batch) for one in held) + len(chunk.batch) > chunk_rows:
            yield _joined(held)
            held = []
        held.append(chunk)
    if held:
        yield _joined(held)


def _joined(parts: Sequence[Chunk]) -> Chunk:
    number = sum(part.num_enumerated for part in parts)
    return Chunk(concatenate([part.batch for part in parts]), number, parts[-1].done_fraction)


def charge_illegal(workload: Workload, batch: StrategyBatch, rules: tuple[Rule, ...], rejections: Rejections) -> StrategyBatch:
    """The legal rows; each other row is charged to the first of ``rules`` that it breaks."""
    legal = legal_rows(workload, batch, rules, rejections)
    return batch if np.all(legal) else batch.take(legal)


def legal_rows(workload: Workload, batch: StrategyBatch, rules: tuple[Rule, ...], rejections: Rejections) -> NDArray[np.bool_]:
    """Which rows are legal; each other row is charged to the first of ``rules`` that it breaks."""
    charged = _first_broken(workload, batch, rules)
    for index in np.unique(charged[charged >= 0]):
        rows = np.flatnonzero(charged == index)
        rejections.charge(rules[index], len(rows), batch.row(int(rows[0])))
    legal: NDArray[np.bool_] = charged < 0
    return legal


def _first_broken(workload: Workload, batch: StrategyBatch, rules: tuple[Rule, ...]) -> NDArray[np.int64]:
    charged = np.full(len(batch), -1, dtype=np.int64)
    for index, rule in enumerate(rules):
        charged[(charged < 0) & rule.violates(workload, batch)] = index
    return charged


def _shape(space: SearchSpace) -> tuple[int, ...]:
    """Values of each dimension of a layout."""
    return len(space.tp), len(space.cp), len(space.ep), len(space.etp), len(space.micro_batch_size)


def layouts_of(workload: Workload, space: SearchSpace, pp: int) -> Iterator[Layouts]:
    """All layouts of the pipelines of a depth, slice by slice."""
    shape = _shape(space)
    num_layouts = math.prod(shape)
    for first in range(0, num_layouts, LAYOUTS_PER_SLICE):
        last = min(first + LAYOUTS_PER_SLICE, num_layouts)
        yield _layouts(workload, space, pp, np.unravel_index(np.arange(first, last), shape))


def _layouts(workload: Workload, space: SearchSpace, pp: int, digits: tuple[NDArray[np.intp], ...]) -> Layouts:
    values = (space.tp, space.cp, space.ep, space.etp, space.micro_batch_size)
    tp, cp, ep, etp, micro_batch_size = (
        np.array(of_dimension, dtype=np.int64)[digit] for of_dimension, digit in zip(values, digits, strict=True)
    )
    return Layouts(tp, cp, ep, etp, micro_batch_size, dp=np.maximum(workload.cluster.num_devices // (tp * pp * cp), 1))


@dataclass(frozen=True)
class _Slice:
    """Some layouts of one pipeline with the class of each in every option table."""

    pipeline: Pipeline
    tables: tuple[OptionTable, ...]
    layouts: Layouts
    classes: tuple[IntColumn, ...]

    @property
    def block_sizes(self) -> IntColumn:
        """Strategies of each layout."""
        sizes = np.ones_like(self.layouts.tp)
        for table, of_layout in zip(self.tables, self.classes, strict=True):
            sizes = sizes * table.counts[of_layout]
        return sizes

    def take(self, mask: NDArray[np.bool_]) -> _Slice:
        """The chosen layouts."""
        layouts = Layouts(**{name: column[mask] for name, column in vars(self.layouts).items()})
        return _Slice(self.pipeline, self.tables, layouts, tuple(column[mask] for column in self.classes))

    def without_illegal(self, workload: Workload, rules: tuple[Rule, ...], rejections: Rejections) -> tuple[int, _Slice]:
        """The number of strategies that the layout rules reject, and the layouts that are left."""
        sizes = self.block_sizes
        first_of_each = self.rows(np.arange(len(sizes)), np.zeros_like(sizes))
        charged = _first_broken(workload, first_of_each, rules)
        charged[sizes == 0] = len(rules)  # no variant of some option: the layout holds no strategy
        for index in np.unique(charged[(charged >= 0) & (charged < len(rules))]):
            broken = charged == index
            rejections.charge(rules[index], int(sizes[broken].sum()), first_of_each.row(int(np.argmax(broken))))
        return int(sizes[charged >= 0].sum()), self.take(charged < 0)

    def chunks(self, num_rejected: int, done_fractions: tuple[float, float], chunk_rows: int) -> Iterator[Chunk]:
        """All strategies of the layouts, at least one chunk (perhaps empty) to report what was rejected."""
        sizes = self.block_sizes
        ends = np.cumsum(sizes)
        starts = ends - sizes
        total = int(ends[-1]) if len(ends) else 0
        begin, end = done_fractions
        for first in range(0, max(total, 1), chunk_rows):
            last = min(first + chunk_rows, total)
            positions = np.arange(first, last)
            layout = np.searchsorted(ends, positions, side="right")
            batch = self.rows(layout, positions - starts[layout])
            done = begin + (end - begin) * last / max(total, 1) if total else end
            yield Chunk(batch, len(batch) + (num_rejected if first == 0 else 0), done)

    def rows(self, layout: NDArray[np.int64], position: NDArray[np.int64]) -> StrategyBatch:
        """Strategies by their layout and position in its block; the last option varies fastest."""
        columns = {name: column[layout] for name, column in vars(self.layouts).items()}
        rest = position
        for table, of_layout in zip(reversed(self.tables), reversed(self.classes), strict=True):
            variant_class = of_layout[layout]
            rest, digit = np.divmod(rest, np.maximum(table.counts[variant_class], 1))
            values = table.values[variant_class, digit]
            columns |= {name: values[:, index] for index, name in enumerate(table.columns)}
        constant = {
            "pp": self.pipeline.pp,
            "vpp": self.pipeline.vpp,
            "schedule": int(self.pipeline.schedule),
            "microbatch_group_size_per_vp_stage": self.pipeline.group_size,
            "mtp_before_head": 0,
            "layout_index": -1,
            "recompute_plan_index": -1,
            "tensor_plan_index": -1,
        }
        columns |= {name: np.full(len(layout), value, dtype=np.int64) for name, value in constant.items()}
        return StrategyBatch(**columns)
