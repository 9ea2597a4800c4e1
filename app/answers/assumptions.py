"""What each default of a job moves: the plan priced again with another value of each, in closed form as it is itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from app.calibrations.constants import calibration_sentence, constants_for
from app.jobs.assumed import NOT_GIVEN, joined, text_of
from app.jobs.defaults import SHOWN, Other, others, priced_switches
from app.jobs.fields import StrategySection
from app.jobs.job import Job, parse_job
from app.jobs.strategy import strategy_from_section
from app.text.quantities import GIB
from calibration.files import Calibration
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload, WorkloadError
from cost_models.step.composition import estimate
from documents.checking import check
from documents.errors import InputError
from frameworks.legality import own_rules, rules_for
from frameworks.rule import Mask, Rule
from frameworks.target import ANY, TargetError
from search.limits import SWITCHES, LimitFields
from search.plan import strategy_to_mapping
from search.space import search_space

TOLD_STEP_FRACTION: Final = 0.02
TOLD_PEAK_BYTES: Final = 1.0 * GIB
MAX_VIRTUAL_STAGES: Final = 128  # a price grows with their square, and this takes dozens
_NO_OTHER = "not measured, as no other value runs with this strategy"
_LIMIT_NAMES = {"moe_dispatcher": "dispatcher"}  # of the search's limits and space, where it is not the strategy's own
_FOLLOWS = ("dp", "num_microbatches", "distributed_optimizer", "noop_layers")  # from the other fields of a resolved strategy


class _Price(NamedTuple):
    step_time_s: float
    peak_bytes: float
    fits: bool


class _Variant(NamedTuple):
    """The plan with another value of one field, which ``told`` is about."""

    told: str
    value: str
    section: StrategySection


@dataclass(frozen=True)
class _Effect:
    """What another value of a field does to the step, as a fraction of it, and to the peak."""

    value: str
    step_fraction: float
    peak_bytes: float
    fits: bool | None  # None: as without it

    @property
    def weight(self) -> float:
        """Above 1, an answer tells it."""
        return max(abs(self.step_fraction) / TOLD_STEP_FRACTION, abs(self.peak_bytes) / TOLD_PEAK_BYTES)

    def sentence(self) -> str:
        step, peak = f"{abs(self.step_fraction) * 100:.1f}", f"{self.peak_bytes / GIB:+.1f}"
        if float(step) == 0.0 == float(peak):
            return f"{self.value} would move neither the step nor the peak"
        fits = {None: "", True: ", which fits", False: ", which does not fit"}[self.fits]
        moved = f"make the step {step} % {'faster' if self.step_fraction < 0 else 'slower'}" if float(step) else "keep the step"
        return f"{self.value} would {moved}, peak {peak} GiB{fits}"


@dataclass(frozen=True)
class _Line:
    """A default's sentence. ``effects``: of the values that were tried; ``None`` where there is no other."""

    told: str
    is_silent: bool
    effects: tuple[_Effect, ...] | None

    @property
    def largest(self) -> _Effect | None:
        return max(self.effects or (), key=lambda effect: effect.weight, default=None)

    @property
    def weight(self) -> float:
        return 0.0 if self.largest is None else self.largest.weight

    def sentence(self) -> str:
        if self.effects is None:
            return self.told
        return f"{self.told}: {_NO_OTHER if self.largest is None else self.largest.sentence()}"


def assumption_sentences(
    job: Job,
    own: Sequence[Calibration] = (),
    plan: ParallelStrategy | None = None,
    left_out_of: Literal["strategy", "search"] | None = None,
) -> list[str]:
    """What an answer assumes, what moves it most first.

    Without a ``plan`` there is nothing to try other values on. Its own options are defaults where the job's ``strategy`` left
    them out, or where its ``search`` tried one value of them unasked.
    """
    whole = [*job.assumptions, *map(calibration_sentence, own)]
    if plan is None or plan.pp * plan.vpp > MAX_VIRTUAL_STAGES:
        return whole
    with np.errstate(all="ignore"):  # another value of an extreme job may have no finite price
        measured = _Measured(job, own, plan)
        lines = list(measured.of_job())
        if left_out_of is not None:
            lines += measured.of_strategy() if left_out_of == "strategy" else measured.of_search()
    lines = [line for line in lines if not line.is_silent or line.weight > 1.0]
    return joined([line.sentence() for line in sorted(lines, key=lambda line: -line.weight)], whole)


class _Measured:
    """One plan of a job, priced as it is and with other values."""

    def __init__(self, job: Job, own: Sequence[Calibration], strategy: ParallelStrategy) -> None:
        self._job, self._own, self._strategy, self._workload = job, own, strategy, job.workload
        self._mapping = strategy_to_mapping(job.workload, strategy)
        self._batch = StrategyBatch.of([strategy])
        # What its user could run: under the target, else with the stack's framework, as far as the plan itself keeps its rules.
        self._rules = [rule for rule in _rules_of(self._workload) if not rule.violates(self._workload, self._batch)[0]]
        (self._as_it_is,) = self._prices(self._workload, self._batch)

    def of_job(self) -> Iterator[_Line]:
        """The fields outside the strategy."""
        for entry in self._job.assumed.values():
            stands_for = SHOWN.get(entry.field)
            shown = stands_for(self._workload) if stands_for is not None and entry.value is None else entry.value
            values = others(entry.field, self._workload, self._strategy, shown)
            workloads = [(value, _with_value(self._job, entry.field, value)) for value in values]
            effects = [
                self._effect(value, price)
                for value, workload in workloads
                if workload is not None and self._runs(workload, self._batch).all()
                for price in self._prices(workload, self._batch)
                if isfinite(price.step_time_s)
            ]
            yield _Line(entry.sentence(shown), entry.is_silent, tuple(effects) if values else None)

    def of_strategy(self) -> Iterator[_Line]:
        """The fields that the job's own strategy leaves out."""
        section = self._job.section
        assert section is not None  # there is a strategy
        names = [name for name in StrategySection.model_fields if name not in section.model_fields_set]
        switches = () if section.features is not None else set(priced_switches()) - section.switches.model_fields_set
        return self._lines(
            [*self._other_values("strategy", section, names), *self._other_switches("strategy.switches", section, switches)]
        )

    def of_search(self) -> Iterator[_Line]:
        """The options that the job's search tries one value of, which the job does not name."""
        limits, space = self._job.limits, search_space(self._workload, self._job.limits)
        fields = {name: _LIMIT_NAMES.get(name, name) for name in LimitFields.model_fields}
        names = [name for name, own in fields.items() if getattr(limits, own) is None and len(getattr(space, own)) == 1]
        combinations = space.features_with(self._strategy.schedule)
        fixed = {name for name in priced_switches() if len({bool(SWITCHES[name] & one) for one in combinations}) == 1}
        switches = {name for name in fixed if SWITCHES[name] not in limits.switches}
        section = check(StrategySection, {name: value for name, value in self._mapping.items() if name not in _FOLLOWS})
        return self._lines([*self._other_values("search", section, names), *self._other_switches("search", section, switches)])

    def _other_values(self, prefix: str, section: StrategySection, names: Iterable[str]) -> Iterator[_Variant]:
        for name in names:
            value = self._mapping.get(name)
            told = f"{prefix}.{name} = {_shown(name, value)} {NOT_GIVEN}"
            for other in others(f"strategy.{name}", self._workload, self._strategy, value):
                plain, text = (other.value, other.text) if isinstance(other, Other) else (other, text_of(other))
                yield _Variant(told, text, section.model_copy(update={name: plain}))

    def _other_switches(self, prefix: str, section: StrategySection, names: Collection[str]) -> Iterator[_Variant]:
        for name in filter(names.__contains__, SWITCHES):
            is_on = bool(self._strategy.features & SWITCHES[name])
            switches = section.switches.model_copy(update={name: not is_on})
            told = f"{prefix}.{name} = {text_of(is_on)} {NOT_GIVEN}"
            yield _Variant(told, text_of(not is_on), section.model_copy(update={"switches": switches}))

    def _lines(self, variants: Sequence[_Variant]) -> Iterator[_Line]:
        """One line for each field, all priced in one batch."""
        told, strategies = [], []
        for variant in variants:
            with suppress(InputError):
                strategies.append(strategy_from_section(variant.section, self._workload))
                told.append(variant)
        if not strategies:
            return
        batch = StrategyBatch.of(strategies)
        runs = np.flatnonzero(self._runs(self._workload, batch))
        effects: dict[str, list[_Effect]] = {}
        for row, price in zip(runs.tolist(), self._prices(self._workload, batch.take(runs)), strict=True):
            if isfinite(price.step_time_s):
                effects.setdefault(told[row].told, []).append(self._effect(told[row].value, price))
        yield from (_Line(sentence, True, tuple(found)) for sentence, found in effects.items())

    def _runs(self, workload: Workload, batch: StrategyBatch) -> Mask:
        found = np.ones(len(batch), dtype=np.bool_)
        for rule in self._rules:
            found &= ~rule.violates(workload, batch)
        return found

    def _prices(self, workload: Workload, batch: StrategyBatch) -> list[_Price]:
        if not len(batch):
            return []
        found = estimate(workload, batch, constants_for(workload, self._own))
        columns = (found.step_time_s, found.peak_memory_bytes, found.fits)
        return [_Price(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _effect(self, value: Any, price: _Price) -> _Effect:
        now = self._as_it_is
        fraction = price.step_time_s / now.step_time_s - 1.0
        change = None if price.fits == now.fits else price.fits
        return _Effect(text_of(value), fraction, price.peak_bytes - now.peak_bytes, change)


def _rules_of(workload: Workload) -> tuple[Rule, ...]:
    software = workload.software
    rules = rules_for(software.target)
    if software.target != ANY.name:
        return rules
    with suppress(TargetError):  # no release of the stack is known here
        rules += own_rules(software.stack)
    return rules


def _with_value(job: Job, field: str, value: Any) -> Workload | None:
    """The job's workload with another value of one field, and with what follows from it; ``None`` where that is no job."""
    silent = {entry.field for entry in job.assumed.values() if entry.is_silent}
    document = {name: part for name, part in job.document.items() if name not in ("strategy", "assumed", "search")}
    for section in ("cluster", "training", "software"):
        document[section] = {name: own for name, own in document[section].items() if f"{section}.{name}" not in silent}
    section, _, name = field.partition(".")
    document[section] = {**document[section], name: value}
    try:
        changed = parse_job(document, profile=job.workload.cluster.profile).workload
    except (InputError, WorkloadError):
        return None
    return replace(changed, model=job.workload.model, room=job.workload.room)  # an equal model, of which more is known already


def _shown(name: str, value: Any) -> str:
    if name == "layer_layout":
        return "the default"
    return text_of(value["granularity"] if isinstance(value, Mapping) else value)
