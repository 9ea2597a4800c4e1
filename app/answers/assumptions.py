"""Effects of a job's defaults: the plan is priced again, in closed form, with another value of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from math import isfinite
from types import SimpleNamespace
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np

from app.answers.host_memory import host_sentences
from app.calibrations.constants import calibration_sentence, constants_for
from app.jobs.assumed import NOT_GIVEN, SEARCHED, Assumption, joined, text_of
from app.jobs.defaults import KEEP_PEAK, SHOWN, Other, others, others_of_plan, priced_switches
from app.jobs.fields import StrategySection
from app.jobs.job import Job, parse_job
from app.jobs.strategy import strategy_from_section, usual_zero_stage
from app.jobs.written_numbers import quantity
from calibration.files.calibrations import Calibration
from cost_models.shapes.effective_switches import scope_of, usual_features
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import FUSED_KERNELS, Feature, acting_in
from cost_models.shapes.workload import Workload, WorkloadError
from cost_models.step.composition import estimate_priced
from cost_models.step.priced_groups import KnownPipelines, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from documents.checking import check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.quantities import GIB
from documents.sentences import Sentence, plain
from frameworks.legality import own_rules, rules_for
from frameworks.rule import Mask, Rule
from frameworks.target import ANY, TargetError
from search.plans.plan import strategy_to_mapping
from search.space.limits import SWITCHES, LimitFields
from search.space.search_space import search_space

TOLD_STEP_FRACTION: Final = 0.02
TOLD_PEAK_BYTES: Final = 1.0 * GIB
MAX_VIRTUAL_STAGES: Final = 128  # pipeline stages at most: a price grows with their square, and this needs dozens of prices
MOST_KEYS: Final = 1024  # prices of layers under each other value of a job: a few hundred bytes each, kept as long as the job
FITS = Sentence(", which fits")
_OF_FIELD = re.compile(r"\{0\}(\.\{1\})? = \{\d\} \{\d\}")  # the template of a field, its value and where it is from
_SWITCH = "strategy.switches."  # a switch is known by its own name
_NO_OTHER = Sentence("not measured, as no other value runs with this strategy")
_LIMIT_NAMES = {"moe_dispatcher": "dispatcher"}  # names in the search's limits, if they differ from the strategy's
_FOLLOWS = ("dp", "num_microbatches", "distributed_optimizer", "noop_layers")  # fields derived from the others


class Price(NamedTuple):
    """Price of a plan in closed form."""

    step_time_s: float
    peak_bytes: float
    fits: bool


class _Variant(NamedTuple):
    """A plan with another value of one field; ``told`` describes the change. Without a ``strategy``, only switches differ."""

    told: str
    value: str
    features: Feature
    strategy: ParallelStrategy | None = None


@dataclass(frozen=True)
class _Effect:
    """Effect of another value of a field on the step time, as a fraction, and on the peak."""

    value: str
    step_fraction: float
    peak_bytes: float
    fits: bool | None  # None: as without the change

    @property
    def weight(self) -> float:
        """Importance; an answer lists the default if this is above 1."""
        return max(abs(self.step_fraction) / TOLD_STEP_FRACTION, abs(self.peak_bytes) / TOLD_PEAK_BYTES)

    def sentence(self) -> str:
        step, peak = f"{abs(self.step_fraction) * 100:.1f}", f"{self.peak_bytes / GIB:+.1f}"
        if float(step) == 0.0 == float(peak):
            return Sentence("{} would move neither the step nor the peak", self.value)
        fits = {None: "", True: FITS, False: Sentence(", which does not fit")}[self.fits]
        moved = (
            Sentence("make the step {} % {}", step, Sentence("faster") if self.step_fraction < 0 else Sentence("slower"))
            if float(step)
            else Sentence("keep the step")
        )
        moved_peak = Sentence(", peak {} GiB", peak) if float(peak) else ""
        return Sentence("{} would {}{}{}", self.value, moved, moved_peak, fits)


@dataclass(frozen=True)
class _Line:
    """Sentence on a default. ``effects`` has the effect of each tried value; ``None`` if there is no other value."""

    told: str
    is_silent: bool
    effects: tuple[_Effect, ...] | None

    @cached_property
    def largest(self) -> _Effect | None:
        return max(self.effects or (), key=lambda effect: effect.weight, default=None)

    @property
    def weight(self) -> float:
        return 0.0 if self.largest is None else self.largest.weight

    def sentence(self) -> str:
        if self.effects is None:
            return self.told
        return Sentence("{}: {}", self.told, _NO_OTHER if self.largest is None else self.largest.sentence())


class Asked(NamedTuple):
    """A plan of a job. An option is a default if neither the job's strategy (``section``) nor its search gave it."""

    plan: ParallelStrategy
    section: StrategySection | None = None
    left_out_of: Literal["strategy", "search"] | None = None


def assumption_sentences(
    job: Job,
    own: Sequence[Calibration] = (),
    plan: ParallelStrategy | None = None,
    left_out_of: Literal["strategy", "search"] | None = None,
) -> list[str]:
    """Assumptions of an answer, the one with the largest effect first.

    Without a ``plan``, no other values can be tried. An option of the plan is a default if the job's ``strategy`` left it out,
    or if its ``search`` tried only one value by default.
    """
    if plan is None:
        return _told_anyway(job, own)
    (found,) = Measured(job, own).sentences([Asked(plan, job.section, left_out_of)])
    return found


def brief(sentence: str) -> str:
    """An assumption without the origin of its value. A sentence on something else than a field is returned unchanged."""
    if not isinstance(sentence, Sentence) or not sentence.values:
        return sentence
    told, *effect = sentence.values if isinstance(sentence.values[0], Sentence) else (sentence,)
    if not isinstance(told, Sentence) or not _OF_FIELD.fullmatch(told.template):
        return sentence
    *field, value, _ = told.values
    name = ".".join(field).removeprefix(_SWITCH)
    text = Sentence("{} = {}", name, value.partition(", ")[0])
    if not effect:
        return text
    moves = effect[0].values if isinstance(effect[0], Sentence) else ()
    moved = moves[1] if len(moves) == 4 else None
    if not isinstance(moved, Sentence):
        return Sentence("{}: {}", text, effect[0])
    other, _, moved_peak, fits = moves
    peak = moved_peak.values[0] if isinstance(moved_peak, Sentence) else None
    short = (Sentence("fits") if plain(fits) == plain(FITS) else Sentence("too large")) if plain(fits) else None
    if not moved.values:
        text = Sentence("{}; {}: peak {} GiB", text, other, peak)
        return text if short is None else Sentence("{}, {}", text, short)
    step, way = moved.values
    sign = "-" if plain(way) == "faster" else "+"
    if short is not None:
        return Sentence("{}; {}: step {}{} %, {}", text, other, sign, step, short)
    if peak is None:
        return Sentence("{}; {}: step {}{} %", text, other, sign, step)
    return Sentence("{}; {}: step {}{} %, peak {} GiB", text, other, sign, step, peak)


def _told_anyway(job: Job, own: Sequence[Calibration]) -> list[str]:
    return [*job.assumptions, *map(calibration_sentence, own)]


class _Changed(NamedTuple):
    """A field outside the strategy, with the prices of layers under each other value; ``None``: the value gives no job."""

    entry: Assumption
    shown: Any
    values: Sequence[tuple[Any, _Prices | None]]


class _Prices(NamedTuple):
    """Prices that plans under one workload share, each computed once."""

    layers: LayerPrices
    pipelines: KnownPipelines
    broken: tuple[bool | None, ...]  # whether the job breaks each rule that depends on the job only; None for other rules


class Measured:
    """Prices of one job's plans, with their values and with other values of their defaults. Many plans take as long as one."""

    def __init__(self, job: Job, own: Sequence[Calibration] = ()) -> None:
        self._job, self._own, self._workload = job, own, job.workload
        self._rules = _rules_of(job.workload)
        self._as_it_is = self._prices_of(job.workload)

    @cached_property
    def unmeasured(self) -> list[str]:
        """Assumptions of every answer on the job, without their effects."""
        return _told_anyway(self._job, self._own)

    def sentences(self, asked: Sequence[Asked], known: Sequence[Price] | None = None) -> list[list[str]]:
        """Assumptions of an answer on each plan, the one with the largest effect first.

        ``known`` are their prices in closed form, if already computed.
        """
        found: list[list[str]] = [[] for _ in asked]
        short = [index for index, one in enumerate(asked) if one.plan.pp * one.plan.vpp <= MAX_VIRTUAL_STAGES]
        if short:
            with np.errstate(all="ignore"):  # another value of an extreme job may have no finite price
                now = None if known is None else [known[index] for index in short]
                lines = self._lines([asked[index] for index in short], now)
            for index, of_plan in zip(short, lines, strict=True):
                told = [line for line in of_plan if not line.is_silent or line.weight > 1.0]
                found[index] = [line.sentence() for line in sorted(told, key=lambda line: -line.weight)]
        of_hosts = (host_sentences(self._workload, one.plan) for one in asked)
        return [joined([*told, *of_host], self.unmeasured) for told, of_host in zip(found, of_hosts, strict=True)]

    def _lines(self, asked: Sequence[Asked], now: Sequence[Price] | None) -> list[list[_Line]]:
        batch = StrategyBatch.of([one.plan for one in asked])
        # Variants that the user could run: legal for the target, or for the stack's framework, as far as the plan itself is.
        kept = [~rule.violates(self._workload, batch) for rule in self._rules]
        now = now or _priced(self._as_it_is, batch)
        lines = self._of_job(asked, batch, kept, now)
        for of_plan, of_options in zip(lines, self._of_options(asked, kept, now), strict=True):
            of_plan.extend(of_options)
        return lines

    def _of_job(
        self, asked: Sequence[Asked], batch: StrategyBatch, kept: Sequence[Mask], now: Sequence[Price]
    ) -> list[list[_Line]]:
        """The fields outside the strategy, of each plan."""
        lines: list[list[_Line]] = [[] for _ in now]
        everyone = np.arange(len(batch))
        for entry, shown, values in self._changed:
            effects: list[list[_Effect]] = [[] for _ in now]
            for value, prices in values:
                under = batch if prices is None else self._with_usual(prices.layers.workload, asked, batch)
                rows = [] if prices is None else np.flatnonzero(self._runs(prices, under, kept, everyone)).tolist()
                keeps_peak = entry.field in KEEP_PEAK
                found = [] if prices is None or not rows else _priced(prices, under.take(np.array(rows)), memory=not keeps_peak)
                for row, price in zip(rows, found, strict=True):
                    if isfinite(price.step_time_s):
                        if keeps_peak:
                            price = price._replace(peak_bytes=now[row].peak_bytes, fits=now[row].fits)
                        effects[row].append(_effect(quantity(entry.field, value), price, now[row]))
            for of_plan, own in zip(lines, effects, strict=True):
                told = entry.sentence(quantity(entry.field, shown))
                of_plan.append(_Line(told, entry.is_silent, tuple(own) if values else None))
        return lines

    def _with_usual(self, workload: Workload, asked: Sequence[Asked], batch: StrategyBatch) -> StrategyBatch:
        """The plans with the fused kernels and the ZeRO stage usual under another workload, where the job does not state them."""
        before, after = (int(usual_features(each) & FUSED_KERNELS) for each in (self._workload, workload))
        if before != after:
            free = np.array([int(_unstated_kernels(one.section)) for one in asked])
            batch = varied(batch, features=(batch.features & ~(free & before)) | (free & after))
        if workload.software_traits.fp32_shards != self._workload.software_traits.fp32_shards:
            pairs = list(zip(asked, batch.zero_stage.tolist(), strict=True))
            usual = [usual_zero_stage(workload, one.plan.pp) if _is_usual_stage(one.section) else given for one, given in pairs]
            replicated = batch.dp * batch.cp > 1
            batch = varied(batch, zero_stage=np.where(replicated, np.array(usual), batch.zero_stage))
        return batch

    @cached_property
    def _changed(self) -> list[_Changed]:
        found = []
        for entry in self._job.assumed.values():
            stands_for = SHOWN.get(entry.field)
            shown = stands_for(self._workload) if stands_for is not None and entry.value is None else entry.value
            workloads = (
                (value, _with_value(self._job, entry.field, value)) for value in others(entry.field, self._workload, shown)
            )
            values = [(value, None if workload is None else self._prices_of(workload)) for value, workload in workloads]
            found.append(_Changed(entry, shown, values))
        return found

    def _of_options(self, asked: Sequence[Asked], kept: Sequence[Mask], now: Sequence[Price]) -> list[list[_Line]]:
        """A line for each option of each plan; all are priced in one batch."""
        variants = [(owner, variant) for owner, one in enumerate(asked) for variant in self._variants(one)]
        effects: list[dict[str, list[_Effect]]] = [{} for _ in asked]
        if variants:
            batch = _batch_of([one.plan for one in asked], variants)
            owners = np.array([owner for owner, _ in variants])
            rows = np.flatnonzero(self._runs(self._as_it_is, batch, kept, owners))
            found = _priced(self._as_it_is, batch.take(rows)) if len(rows) else []
            for row, price in zip(rows.tolist(), found, strict=True):
                owner, variant = variants[row]
                if isfinite(price.step_time_s):
                    effects[owner].setdefault(variant.told, []).append(_effect(variant.value, price, now[owner]))
        return [[_Line(told, True, tuple(found)) for told, found in of_plan.items()] for of_plan in effects]

    def _variants(self, asked: Asked) -> Iterator[_Variant]:
        if asked.left_out_of == "strategy":
            return self._of_strategy(asked.plan, asked.section)
        return self._of_search(asked.plan) if asked.left_out_of == "search" else iter(())

    def _of_strategy(self, plan: ParallelStrategy, section: StrategySection | None) -> Iterator[_Variant]:
        """The fields that the job's own strategy leaves out."""
        assert section is not None  # there is a strategy
        mapping = strategy_to_mapping(self._workload, plan)
        names = [name for name in StrategySection.model_fields if name not in {*section.model_fields_set, "switches"}]
        switches = () if section.features is not None else set(priced_switches()) - section.switches.model_fields_set
        yield from self._other_values("strategy", plan, mapping, section, names)
        yield from self._other_switches("strategy.switches", plan, switches)

    def _of_search(self, plan: ParallelStrategy) -> Iterator[_Variant]:
        """Options that the job does not name and that the search tries with one value only."""
        limits, space = self._job.limits, search_space(self._workload, self._job.limits)
        mapping = strategy_to_mapping(self._workload, plan)
        fields = {name: _LIMIT_NAMES.get(name, name) for name in LimitFields.model_fields}
        names = [name for name, own in fields.items() if getattr(limits, own) is None and len(getattr(space, own)) == 1]
        combinations = space.features_with(plan.schedule)
        fixed = {name for name in priced_switches() if len({bool(SWITCHES[name] & one) for one in combinations}) == 1}
        switches = {name for name in fixed if SWITCHES[name] not in limits.switches}
        section = check(StrategySection, {name: value for name, value in mapping.items() if name not in _FOLLOWS})
        yield from self._other_values("search", plan, mapping, section, names)
        yield from self._other_switches("search", plan, switches)

    def _other_values(
        self, prefix: str, plan: ParallelStrategy, mapping: Mapping[str, Any], section: StrategySection, names: Iterable[str]
    ) -> Iterator[_Variant]:
        for name in names:
            value = mapping.get(name)
            told = Sentence("{}.{} = {} {}", prefix, name, _shown(name, value), _why(prefix))
            for other in others_of_plan(f"strategy.{name}", self._workload, plan, value):
                given, text = (other.value, other.text) if isinstance(other, Other) else (other, text_of(other))
                with suppress(InputError):
                    # Avoids a copy of the section, which takes as long as reading it.
                    other_section = cast(StrategySection, SimpleNamespace(**{**vars(section), name: given}))
                    strategy = strategy_from_section(other_section, self._workload)
                    yield _Variant(told, text, strategy.features, strategy)

    def _other_switches(self, prefix: str, plan: ParallelStrategy, names: Collection[str]) -> Iterator[_Variant]:
        """Variants of the switches that have an effect in the plan."""
        effective = acting_in(scope_of(self._workload.model, plan))
        return iter(_turned(prefix, plan.features, frozenset(name for name in names if SWITCHES[name] & effective)))

    def _runs(self, prices: _Prices, batch: StrategyBatch, kept: Sequence[Mask], owners: IntColumn) -> Mask:
        """Mask of the rows that break no rule kept by the plan that they derive from."""
        workload, found = prices.layers.workload, np.ones(len(batch), dtype=np.bool_)
        for rule, by_plan, broken in zip(self._rules, kept, prices.broken, strict=True):
            if broken is not False:
                found &= ~((rule.violates(workload, batch) if broken is None else broken) & by_plan[owners])
        return found

    def _prices_of(self, workload: Workload) -> _Prices:
        layers = LayerPrices(workload, constants_for(workload, self._own), most_keys=MOST_KEYS)
        anyone = StrategyBatch.of([ParallelStrategy()])
        broken = tuple(bool(rule.violates(workload, anyone)[0]) if rule.job_only else None for rule in self._rules)
        return _Prices(layers, KnownPipelines(), broken)


def _is_usual_stage(section: StrategySection | None) -> bool:
    """Whether a strategy leaves its ZeRO stage open."""
    return section is None or (section.zero_stage is None and section.distributed_optimizer is None)


def _unstated_kernels(section: StrategySection | None) -> Feature:
    """The fused kernels whose switches a strategy does not state; all without a strategy."""
    if section is None:
        return FUSED_KERNELS
    stated = () if section.features is None else FUSED_KERNELS
    names = section.switches.model_fields_set
    return Feature(sum(f for f in FUSED_KERNELS if f not in stated and str(f.name).lower() not in names))


def _batch_of(plans: Sequence[ParallelStrategy], variants: Sequence[tuple[int, _Variant]]) -> StrategyBatch:
    """The variants as rows, each with the number of its plan. Most differ in switches only, so no strategy is built for them."""
    strategies, rows = list(plans), []
    for owner, variant in variants:
        rows.append(owner if variant.strategy is None else len(strategies))
        if variant.strategy is not None:
            strategies.append(variant.strategy)
    batch = StrategyBatch.of(strategies).take(np.array(rows))
    return replace(batch, features=np.array([int(variant.features) for _, variant in variants]))


def _why(prefix: str) -> Sentence:
    return SEARCHED if prefix.startswith("search") else NOT_GIVEN


@lru_cache(maxsize=1024)  # most requests to a server have the same switches
def _turned(prefix: str, features: Feature, names: frozenset[str]) -> tuple[_Variant, ...]:
    """Variants of a plan, each with one of the switches flipped."""
    found = []
    for name in filter(names.__contains__, SWITCHES):
        is_on = bool(features & SWITCHES[name])
        told = Sentence("{}.{} = {} {}", prefix, name, text_of(is_on), _why(prefix))
        found.append(_Variant(told, text_of(not is_on), features ^ SWITCHES[name]))
    return tuple(found)


def _priced(prices: _Prices, batch: StrategyBatch, *, memory: bool = True) -> list[Price]:
    return prices_of(estimate_priced(priced_by(prices.layers, batch, prices.pipelines), memory=memory))


def prices_of(found: Estimate) -> list[Price]:
    """The price of each row."""
    columns = (found.step_time_s, found.peak_memory_bytes, found.fits)
    return [Price(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _effect(value: Any, price: Price, now: Price) -> _Effect:
    fraction = price.step_time_s / now.step_time_s - 1.0
    change = None if price.fits == now.fits else price.fits
    return _Effect(text_of(value), fraction, price.peak_bytes - now.peak_bytes, change)


def _rules_of(workload: Workload) -> tuple[Rule, ...]:
    software = workload.software
    rules = rules_for(software.target)
    if software.target != ANY.name:
        return rules
    with suppress(TargetError):  # no release of the stack is known
        rules += own_rules(software.stack)
    return rules


def _with_value(job: Job, field: str, value: Any) -> Workload | None:
    """The job's workload with another value of one field and its consequences; ``None`` if that is no valid job."""
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
    return replace(changed, model=job.workload.model, room=job.workload.room)  # an equal model with cached values


def _shown(name: str, value: Any) -> str:
    if name == "layer_layout":
        return Sentence("the default")
    return text_of(value["granularity"] if isinstance(value, Mapping) else value)
