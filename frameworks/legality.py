"""Legality of strategies: named rules. An illegal strategy is counted under the first rule that it breaks.

Physics rules apply to every target; a framework adds its own. ``docs/legality.md`` lists them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from cost_models.shapes.strategy import IntColumn, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.framework import Framework
from frameworks.physics import degrees, memory, optimizers, pipeline, switches
from frameworks.registry import FRAMEWORKS, cautions_of, parse_target
from frameworks.rule import Mask, Rule
from frameworks.target import ANY, Target

PHYSICS: tuple[Rule, ...] = (
    *degrees.LAYOUT_RULES,
    *pipeline.LAYOUT_RULES,
    *degrees.OPTION_RULES,
    *pipeline.OPTION_RULES,
    *memory.RULES,
    *optimizers.RULES,
    *switches.RULES,
)


def _with_targets() -> tuple[Rule, ...]:
    """Each rule once, in the order of the registry, with the targets that have it."""
    targets: dict[Rule, set[str]] = {rule: {ANY.label} for rule in PHYSICS}
    for framework in FRAMEWORKS:
        for rule in framework.rules:
            targets.setdefault(rule, set()).add(framework.target.label)
    names = {rule.name for rule in targets}
    for framework in FRAMEWORKS:
        if missing := {fact.rule for fact in framework.release.facts} - {"", *names}:
            raise ValueError(
                Sentence(
                    "{}: facts of the release name {}, which are no rules", framework.target.label, joined(", ", sorted(missing))
                )
            )
    return tuple(replace(rule, targets=frozenset(labels)) for rule, labels in targets.items())


RULES = _with_targets()


@dataclass(frozen=True)
class Violation:
    """One broken rule of one strategy: its name, a sentence with the numbers, and the rule's source.

    ``job_only``: no other strategy of the job keeps it.
    """

    rule: str
    sentence: str
    source: str
    job_only: bool = False


def rules_for(target: str | Target) -> tuple[Rule, ...]:
    """The rules of a target, in the order of ``RULES``: physics, then its own. Raises ``TargetError`` for an unknown name."""
    return _rules_of((parse_target(target) if isinstance(target, str) else target).label)


@lru_cache(maxsize=64)
def _rules_of(label: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule.targets & {ANY.label, label})


def first_violation(workload: Workload, batch: StrategyBatch, target: str | Target | None = None) -> IntColumn:
    """Index into ``RULES`` of the first rule that each row breaks, -1 for a legal row. ``[n]``

    ``target`` defaults to the workload's. Degrees and micro batch sizes must be at least 1.
    """
    wanted = rules_for(workload.software.target if target is None else target)
    first = np.full(len(batch), -1, dtype=np.int64)
    for rule in reversed(wanted):
        first[rule.violates(workload, batch)] = _INDEX[rule]
    return first


def own_rules(target: str | Target) -> tuple[Rule, ...]:
    """The rules of a target in addition to physics; none for ``any``."""
    return tuple(rule for rule in rules_for(target) if ANY.name not in rule.targets)


def refused_mask(workload: Workload, batch: StrategyBatch, target: str | Target) -> Mask:
    """Whether the target rejects a row that physics allows. ``[n]``"""
    mask = np.zeros(len(batch), dtype=np.bool_)
    for rule in own_rules(target):
        mask |= rule.violates(workload, batch)
    return mask


def legal_mask(workload: Workload, batch: StrategyBatch, target: str | Target | None = None) -> Mask:
    """Whether each row breaks no rule. ``[n]``"""
    mask = np.ones(len(batch), dtype=np.bool_)
    for rule in rules_for(workload.software.target if target is None else target):
        mask &= ~rule.violates(workload, batch)
    return mask


def violations(workload: Workload, strategy: ParallelStrategy, target: str | Target | None = None) -> tuple[Violation, ...]:
    """Every rule that one strategy breaks, in order; empty if it is legal."""
    (broken,) = broken_rules(workload, [strategy], workload.software.target if target is None else target)
    return tuple(violation_of(workload, strategy, rule) for rule in broken)


def violation_of(workload: Workload, strategy: ParallelStrategy, rule: Rule) -> Violation:
    """The violation of a rule that the strategy breaks."""
    return Violation(rule.name, rule.sentence(workload, strategy), rule.source, rule.job_only)


def broken_rules(workload: Workload, strategies: Sequence[ParallelStrategy], target: str | Target) -> list[list[Rule]]:
    """Every rule that each of at least one strategies breaks, in order. Many at once take little more time than one."""
    batch = StrategyBatch.of(strategies)
    broken: list[list[Rule]] = [[] for _ in strategies]
    for rule in rules_for(target):
        for row in np.flatnonzero(rule.violates(workload, batch)).tolist():
            broken[row].append(rule)
    return broken


def cautions(workload: Workload, strategy: ParallelStrategy, target: Target | None = None) -> tuple[str, ...]:
    """Sentences on what a strategy has, its target takes, and the framework's pages warn of."""
    batch = StrategyBatch.of([strategy])
    label = workload.software.target if target is None else target.label
    return tuple(
        Sentence("{} {}.", each.sentence, each.source)
        for each in cautions_of(label)
        if each.feature in strategy.features and each.rows(workload, batch)[0]
    )


def launchable_on(workload: Workload, strategy: ParallelStrategy) -> tuple[str, ...]:
    """``name@release`` of each release that runs on these devices, accepts this strategy and builds this model."""
    return launchable_each(workload, StrategyBatch.of([strategy]))[0]


def launchable_each(workload: Workload, batch: StrategyBatch) -> list[tuple[str, ...]]:
    """``launchable_on`` for each row."""
    family = workload.cluster.profile.family
    able = [each for each in FRAMEWORKS if family in each.target.families and not each.untold(workload)]
    masks = [_exact_mask(workload, batch, each) for each in able]
    return [tuple(each.target.label for each, exact in zip(able, masks, strict=True) if exact[row]) for row in range(len(batch))]


def _exact_mask(workload: Workload, batch: StrategyBatch, framework: Framework) -> Mask:
    """Whether the framework runs each row as it is: the row is legal, and no switch that the framework sets differs. ``[n]``"""
    mask = legal_mask(workload, batch, framework.target)
    for each in framework.fixed:
        mask &= ~each.changes(workload, batch)
    return mask


_INDEX = {rule: index for index, rule in enumerate(RULES)}
