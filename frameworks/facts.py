"""Legality rules of plans, derived from a release's facts about its arguments.

A ``Term`` maps one argument to plans. With it a condition such as ``expert-model-parallel-size>1`` can be evaluated for every
row of a batch, and be put into words for one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import SWITCHES, Feature, Scope
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.release import Exclusion, Fact, Release, parts_of
from frameworks.rule import Mask, Rule, SwitchRule, has_effect, none_of

Column = Callable[[Workload, StrategyBatch], Any]
Words = Callable[[Workload, ParallelStrategy], str]


@dataclass(frozen=True)
class Term:
    """One framework argument as a function of the plan.

    ``column`` gives a mask, numbers, or one value for all rows; ``codes`` maps values of the argument to values of the column.
    ``name`` is the plan's word for the argument. ``said`` states the plan's value; ``state`` states it after "needs ...".
    ``feature`` is its switch, if it is one. With ``of_job`` the column is one value that the job decides.
    """

    column: Column
    name: str
    said: Words
    state: Words = lambda _workload, _strategy: ""
    codes: Mapping[str, int] | None = None
    feature: Feature = Feature(0)
    of_job: bool = False

    def rows(self, sign: str, wanted: str, workload: Workload, batch: StrategyBatch) -> Any:
        """Rows for which a condition on the argument holds."""
        column = self.column(workload, batch)
        if not sign:
            return column if getattr(column, "dtype", None) == np.bool_ else column != 0
        if sign == ">":
            return column > int(wanted)
        code = int(wanted) if self.codes is None else self.codes.get(wanted)
        equal = code is not None and column == code
        return equal if sign == "=" else np.logical_not(equal)

    def needed(self, sign: str, wanted: str, workload: Workload, strategy: ParallelStrategy) -> str:
        """The requirement in words, with the plan's own value."""
        value = {">": Sentence(" above {}", wanted), "=": Sentence(" {}", wanted)}.get(sign, "")
        state = self.state(workload, strategy)
        return Sentence("{}{} ({})", self.name, value, state) if state else f"{self.name}{value}"


Terms = Mapping[str, Term]  # terms by argument, or by a whole condition


def number(name: str, field: str | None = None) -> Term:
    """A term for a numeric column, under the plan's name for it."""
    field = field or name
    return Term(
        lambda w, b: getattr(b, field),
        name,
        lambda w, s: Sentence("{} {}", name, getattr(s, field)),
        lambda w, s: Sentence("it is {}", getattr(s, field)),
    )


def choice(name: str, column: Column, codes: Mapping[str, int], label: Words) -> Term:
    """A term for a column of codes, each for a value of the argument."""
    return Term(
        column,
        name,
        lambda w, s: Sentence("{} {}", name, label(w, s)),
        lambda w, s: Sentence("it is {}", label(w, s).split(" ")[0]),
        codes,
    )


def _switch_sentence(name: str, over: str, *, off: bool) -> str:
    return Sentence("{} off{}", name, over) if off else Sentence("{}{}", name, over)


def switch(feature: Feature, *, off: bool = False, codes: Mapping[str, int] | None = None) -> Term:
    """A term for a switch that is on and has an effect; with ``off`` the opposite."""
    name = str(feature.name).lower()
    scope = SWITCHES[feature].acts_on
    field = "tp" if scope & Scope.TENSOR_PARALLEL else "ep" if scope & Scope.EXPERTS else ""

    def state(_workload: Workload, s: ParallelStrategy) -> str:
        return (
            Sentence("it does nothing over {} {}", field, getattr(s, field))
            if field and not off and feature in s.features
            else ""
        )

    return Term(
        (lambda w, b: ~b.has(feature)) if off else (lambda w, b: has_effect(w, b, feature)),
        Sentence("{} off", name) if off else name,
        lambda w, s: _switch_sentence(name, field and Sentence(" over {} {}", field, getattr(s, field)), off=off),
        state,
        codes=codes,
        feature=feature,
    )


SEQUENCE_PARALLEL = Term(
    lambda w, b: b.sequence_parallel != 0,
    "sequence_parallel",
    lambda w, s: Sentence("sequence_parallel {}", str(s.sequence_parallel).lower()),
    lambda w, s: Sentence("it is {}", str(s.sequence_parallel).lower()),
)


@dataclass(frozen=True)
class _Condition:
    """A condition on an argument that plans decide."""

    term: Term
    sign: str
    wanted: str

    @property
    def sayable(self) -> bool:
        """Whether some plan can have the value."""
        return self.sign != "=" or self.term.codes is None or self.wanted in self.term.codes

    def rows(self, workload: Workload, batch: StrategyBatch) -> Any:
        return self.term.rows(self.sign, self.wanted, workload, batch)

    def needed(self, workload: Workload, strategy: ParallelStrategy) -> str:
        return self.term.needed(self.sign, self.wanted, workload, strategy)


@dataclass(frozen=True)
class _Fact:
    """The other conditions of an exclusion or a requirement besides the subject. ``needs`` is empty for an exclusion."""

    beside: tuple[_Condition, ...]
    needs: tuple[_Condition, ...]

    def possible(self, workload: Workload, batch: StrategyBatch) -> bool:
        """Whether the job alone does not already decide the fact."""
        met = any(need.term.of_job and need.rows(workload, batch) for need in self.needs)
        return not met and all(condition.rows(workload, batch) for condition in self.beside if condition.term.of_job)

    def broken(self, workload: Workload, batch: StrategyBatch) -> Any:
        """Rows that break the fact, if they have the subject."""
        rows = [condition.rows(workload, batch) for condition in self.beside]
        rows += [np.logical_not(need.rows(workload, batch)) for need in self.needs]
        return reduce(and_, rows) if rows else True

    def words(self, workload: Workload, strategy: ParallelStrategy) -> str:
        beside = joined(" with ", (condition.term.said(workload, strategy) for condition in self.beside))
        needed = joined(" or ", (need.needed(workload, strategy) for need in self.needs))
        return Sentence("with {} needs {}", beside, needed) if beside and needed else beside or needed


@dataclass(frozen=True)
class Extra:
    """A further rule for plans with the subject that conditions on arguments cannot express: its rows and its words."""

    broken: Column
    words: Words


@dataclass(frozen=True)
class FactRule(SwitchRule):
    """A rule derived from facts about ``subject``. ``excludes`` and ``needs`` are switches that it excludes or requires."""

    excludes: Feature = Feature(0)
    needs: Feature = Feature(0)


def fact_rule(
    release: Release, terms: Terms, name: str, requirement: str, *, extra: Extra | None = None, sentence: Words | None = None
) -> FactRule:
    """The rule that the facts of that name form; ``sentence`` replaces the derived one.

    All facts share their first condition, the subject. Raises ``ValueError`` if there is no fact, or if plans can meet none of
    several needs (needs that no plan can meet are ignored). Raises ``KeyError`` for another argument without a term.
    """
    given = [fact for fact in release.facts if fact.rule == name]
    subjects = {(fact.conditions if isinstance(fact, Exclusion) else fact.when)[0] for fact in given}
    if len(subjects) != 1:
        raise ValueError(
            Sentence("{}: the facts of {} with this rule are about {}", name, release.name, sorted(subjects) or "nothing")
        )
    subject = _condition(terms, subjects.pop())
    facts = [_fact(terms, fact) for fact in given]

    def violates(workload: Workload, batch: StrategyBatch) -> Mask:
        possible = [fact for fact in facts if fact.possible(workload, batch)]
        if extra is None and not possible:
            return none_of(batch)
        held = subject.rows(workload, batch)
        if not np.any(held):
            return none_of(batch)
        broken = [fact.broken(workload, batch) for fact in possible]
        if extra is not None:
            broken.append(extra.broken(workload, batch))
        return np.broadcast_to(np.asarray(held & reduce(or_, broken), dtype=np.bool_), len(batch))

    def words(workload: Workload, strategy: ParallelStrategy) -> str:
        one = StrategyBatch.of([strategy])
        found = [fact for fact in facts if np.any(fact.broken(workload, one))]
        broken = [fact.words(workload, strategy) for fact in found if fact.beside and fact.needs]
        needs = [fact.words(workload, strategy) for fact in found if fact.needs and not fact.beside]
        excludes = [fact.words(workload, strategy) for fact in found if fact.beside and not fact.needs]
        if needs:
            broken.append(Sentence("needs {}", joined(", ", needs, " and ")))
        if excludes:
            broken.append(Sentence("excludes {}", joined(", ", excludes, " and ")))
        if extra is not None and np.any(extra.broken(workload, one)):
            broken.append(extra.words(workload, strategy))
        return joined(", and ", broken) or Sentence("is refused")

    return FactRule(
        name,
        f"[{joined('; ', dict.fromkeys(fact.source[1:-1] for fact in given))}]",
        requirement,
        violates,
        sentence or (lambda w, s: Sentence("{} {}", subject.term.said(w, s), words(w, s))),
        subject=subject.term.feature,
        reason=lambda w, s: Sentence("it {}", words(w, s)),
        excludes=_features([fact.beside for fact in facts if not fact.needs]),
        needs=_features([fact.needs for fact in facts if not fact.beside]),
    )


def _fact(terms: Terms, fact: Fact) -> _Fact:
    if isinstance(fact, Exclusion):
        return _Fact(tuple(_condition(terms, c) for c in fact.conditions[1:]), ())
    needs = [_condition(terms, need) for need in fact.needs if need in terms or parts_of(need)[0] in terms]
    sayable = tuple(need for need in needs if need.sayable)
    if not sayable:
        raise ValueError(Sentence("{}: no plan says {}", fact.rule, joined(" or ", fact.needs)))
    return _Fact(tuple(_condition(terms, c) for c in fact.when[1:]), sayable)


def _features(conditions: Sequence[tuple[_Condition, ...]]) -> Feature:
    """Switches that are the only condition of a fact."""
    found = Feature(0)
    for alone in conditions:
        found |= alone[0].term.feature if len(alone) == 1 else Feature(0)
    return found


def beside(rules: Sequence[Rule], feature: Feature) -> Feature:
    """Switches that must be off if ``feature`` is on: those that its facts exclude, and those that need an excluded one."""
    excluded = Feature(0)
    for rule in rules:
        if isinstance(rule, FactRule) and rule.subject == feature:
            excluded |= rule.excludes
    for rule in rules:
        if isinstance(rule, FactRule) and rule.needs & excluded:
            excluded |= rule.subject
    return excluded


def _condition(terms: Terms, text: str) -> _Condition:
    name, sign, wanted = parts_of(text)
    return _Condition(terms[text], "", "") if text in terms else _Condition(terms[name], sign, wanted)
