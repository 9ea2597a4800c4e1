"""The type of legality rules, and helpers that several rules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes import effective_switches
from cost_models.shapes.layer_keys import distinct_rows
from cost_models.shapes.layout import EMPTY_STAGES, default_layout, layer_layout, lean_tail_layout
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, Schedule, StrategyBatch, by_schedule
from cost_models.shapes.switches import ANY_DISPATCHER, Exclusive, Feature, acting_in, alternatives
from cost_models.shapes.workload import ModelShape, Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """One reason for which a strategy cannot run.

    ``violates`` returns ``[n]``, True for illegal rows; it never raises on a row that other rules reject.
    ``sentence`` says with numbers why one such strategy is illegal. ``layout_only``: the rule reads only degrees, the schedule
    and the micro batch size, so one verdict holds for all options of a layout (such physics rules come first).
    ``targets``, from the registry: ``any`` for physics, which applies to every target, else the releases (``name@release``) that
    have the rule. Releases of one framework can have different rules of the same name.
    ``reads_placement``: the rule reads the placement of layers; a search checks it for each placement.
    ``job_only``: the rule reads only the job, so one verdict holds for all strategies (``every_row``).
    """

    name: str
    source: str
    requirement: str
    violates: Callable[[Workload, StrategyBatch], Mask]
    sentence: Callable[[Workload, ParallelStrategy], str]
    layout_only: bool = False
    reads_placement: bool = False
    job_only: bool = False
    targets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SwitchRule(Rule):
    """A rule about the switch ``subject``, if any; if it is broken, a draft drops the switch for the ``reason``."""

    subject: Feature = Feature(0)
    reason: Callable[[Workload, ParallelStrategy], str] = lambda _workload, _strategy: ""


def rules_in(module: Mapping[str, object]) -> tuple[Rule, ...]:
    """The rules that a module defines, in its order. An illegal strategy is counted under the first rule that it breaks."""
    return tuple(value for value in module.values() if isinstance(value, Rule))


def every_row(batch: StrategyBatch, illegal: bool) -> Mask:
    """One verdict for the whole batch, for a rule that reads only the job."""
    return np.full(len(batch), illegal, dtype=np.bool_)


def none_of(batch: StrategyBatch) -> Mask:
    """A mask that rejects no row."""
    return np.zeros(len(batch), dtype=np.bool_)


def num_microbatches(workload: Workload, strategy: ParallelStrategy) -> int:
    """Micro batches of one replica in a step."""
    return workload.training.global_batch_size // (strategy.micro_batch_size * strategy.dp)


def up_to(most: int) -> Sentence:
    """The integers from 0 to ``most``, for a sentence."""
    return Sentence("0 to {}", most) if most else Sentence("0 alone")


def either(names: Sequence[str], *, last: str = "or") -> str:
    """The names as a choice, for a sentence."""
    return joined(", ", names, f" {last} ")


def all_of(names: Sequence[str]) -> str:
    """The names as a list, for a sentence."""
    return either(names, last="and")


def nearest_divisors(total: int, degree: int) -> str:
    """The nearest divisors of ``total`` below and above ``degree``, for the end of a sentence."""
    below = next(d for d in range(min(degree, total), 0, -1) if total % d == 0)
    above = next((d for d in range(degree + 1, total + 1) if total % d == 0), None)
    return Sentence("{} does", below) if above is None else Sentence("{} and {} do", below, above)


def has_effect(workload: Workload, batch: StrategyBatch, feature: Feature) -> Mask:
    """Rows that have any of ``feature``, with an effect. ``[n]``

    The dispatcher is ignored: a framework rejects an overlap with the wrong dispatcher, so rules must see it there.
    """
    mask: Mask = effective_switches.acting(workload.model, batch, feature, given=ANY_DISPATCHER) != 0
    return mask


def effective_features(workload: Workload, strategy: ParallelStrategy) -> Feature:
    """The features of one strategy that have an effect, with any dispatcher."""
    return strategy.features & acting_in(effective_switches.scope_of(workload.model, strategy) | ANY_DISPATCHER)


def one_of(
    kind: Exclusive,
    name: str,
    source: str,
    requirement: str,
    sentence: Callable[[str, ParallelStrategy], str],
    gives_way: Feature = Feature(0),
) -> SwitchRule:
    """The rule for switches that exclude each other: ``sentence`` gets the names of those on, ``gives_way`` is the subject."""
    features = alternatives(kind)

    def violates(workload: Workload, batch: StrategyBatch) -> Mask:
        acts = effective_switches.acting(workload.model, batch, Feature(sum(features)), given=ANY_DISPATCHER)
        mask: Mask = (acts & (acts - 1)) != 0  # more than one bit
        return mask

    def names(on: Feature) -> str:
        return joined(" and ", (str(feature.name).lower() for feature in features if feature in on))

    return SwitchRule(
        name,
        source,
        requirement,
        violates,
        lambda w, s: sentence(names(s.features), s),
        subject=gives_way,
        reason=lambda w, s: Sentence("it excludes {}", names(s.features & ~gives_way)),
    )


def layout_of(workload: Workload, strategy: ParallelStrategy) -> LayerLayout:
    """Layers of each virtual stage, ``[chunk][stage]``, given or default."""
    return strategy.layer_layout or default_layout(workload.model, strategy.pp, strategy.vpp, strategy.schedule)


def unless_default(layout: LayerLayout, schedule: Schedule) -> LayerLayout | None:
    """The layout, or ``None`` if it is the default of every model with as many layers."""
    layers, pp, vpp = sum(map(sum, layout)), len(layout[0]), len(layout)
    if schedule.rules.is_vee:
        defaults = {lean_tail_layout(layers, pp, vpp)}
    else:
        defaults = {layer_layout(layers, pp, vpp, keep_first=full) for full in (False, True)}
    return None if defaults == {layout} else layout


_IS_VEE = by_schedule(lambda rules: rules.is_vee)
_EXAMPLES = [next(schedule for schedule in Schedule if schedule.rules.is_vee == vee) for vee in (False, True)]


def most_stages(model: ModelShape, batch: StrategyBatch) -> NDArray[np.int64]:
    """Most virtual stages of each row's default layout: those of the embedding and the loss may hold no layer, but in a V."""
    most: NDArray[np.int64] = model.num_layers + np.where(_IS_VEE[batch.schedule], 0, EMPTY_STAGES)
    return most


def layout_violates(workload: Workload, batch: StrategyBatch, forbids: Callable[[LayerLayout, int, ModelShape], bool]) -> Mask:
    """Rows whose layer layout, with ``mtp_before_head``, is rejected by ``forbids``. Each distinct pair is checked once.

    Rows with more virtual stages than ``most_stages`` have no default layout and pass; ``layers_per_stage`` rejects them.
    """
    model = workload.model
    given = batch.layout_index >= 0
    vee = _IS_VEE[batch.schedule]
    default = ~given & (batch.pp * batch.vpp <= most_stages(model, batch))
    span = model.num_layers + EMPTY_STAGES + 1
    plain = default & (batch.mtp_before_head == 0)
    key = np.where(plain, (batch.pp * span + batch.vpp) * 2 + vee, 0)
    present = np.zeros(2 * span * span, dtype=np.bool_)
    present[key] = True
    table = np.zeros(2 * span * span, dtype=np.bool_)
    for code in np.flatnonzero(present):
        if code:
            pp, vpp = divmod(int(code) // 2, span)
            table[code] = forbids(_default_layout(model, pp, vpp, bool(code % 2)), 0, model)
    mask: Mask = table[key]
    others = np.flatnonzero(given | (default & ~plain))
    if len(others):
        rows = batch.take(others)
        layout, vee = rows.layout_index, vee[others]
        shape = [np.where(layout < 0, column, 0) for column in (rows.pp, rows.vpp, vee)]
        first, index = distinct_rows([layout, rows.mtp_before_head, *shape])
        verdicts = np.array(
            [
                forbids(
                    batch.layouts[layout[row]]
                    if layout[row] >= 0
                    else _default_layout(model, int(rows.pp[row]), int(rows.vpp[row]), bool(vee[row])),
                    int(rows.mtp_before_head[row]),
                    model,
                )
                for row in first
            ],
            dtype=np.bool_,
        )
        mask[others] = verdicts[index]
    return mask


@lru_cache(maxsize=4096)
def _default_layout(model: ModelShape, pp: int, vpp: int, vee: bool) -> LayerLayout:
    return default_layout(model, pp, vpp, _EXAMPLES[vee])
