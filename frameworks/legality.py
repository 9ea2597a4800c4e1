"""Which strategies can run: named rules, in the order in which an illegal strategy is charged to the first it breaks.

Physics binds every target; a framework adds its own rules. ``docs/legality.md`` lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.shapes.strategy import IntColumn, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from frameworks.megatron_lm import rules as rules_megatron
from frameworks.mindformers import rules as rules_mindformers
from frameworks.mindspeed_llm import rules as rules_mindspeed
from frameworks.physics import degrees as rules_degrees
from frameworks.physics import memory as rules_memory
from frameworks.physics import pipeline as rules_pipeline
from frameworks.physics import switches as rules_features
from frameworks.rule import Mask, Rule
from frameworks.target import FRAMEWORKS, TARGETS, Target, TargetError, parse_target

__all__ = [
    "RULES",
    "TARGETS",
    "Rule",
    "Target",
    "TargetError",
    "Violation",
    "first_violation",
    "launchable_on",
    "legal_mask",
    "parse_target",
    "rules_for",
    "violations",
]

RULES: tuple[Rule, ...] = (
    *rules_degrees.LAYOUT_RULES,
    *rules_pipeline.LAYOUT_RULES,
    *rules_degrees.OPTION_RULES,
    *rules_pipeline.OPTION_RULES,
    *rules_memory.RULES,
    *rules_features.RULES,
    *rules_megatron.RULES,
    *rules_mindspeed.RULES,
    *rules_mindformers.RULES,
)


@dataclass(frozen=True)
class Violation:
    """One broken rule of one strategy: its name, a sentence with the numbers, and the rule's source."""

    rule: str
    sentence: str
    source: str


def rules_for(target: str | Target) -> tuple[Rule, ...]:
    """The rules of a target, in the order of ``RULES``: physics, then its own. Raises ``TargetError`` for an unknown name."""
    name = (parse_target(target) if isinstance(target, str) else target).name
    return tuple(rule for rule in RULES if "any" in rule.targets or name in rule.targets)


def first_violation(workload: Workload, batch: StrategyBatch, target: str | Target | None = None) -> IntColumn:
    """Index into ``RULES`` of the first rule that each row breaks, -1 where it is legal. ``[n]``

    ``target`` defaults to the workload's. Degrees and micro batch sizes must be at least 1.
    """
    wanted = rules_for(workload.software.target if target is None else target)
    first = np.full(len(batch), -1, dtype=np.int64)
    for rule in reversed(wanted):
        first[rule.violates(workload, batch)] = _INDEX[rule.name]
    return first


def legal_mask(workload: Workload, batch: StrategyBatch, target: str | Target | None = None) -> Mask:
    """Whether each row breaks no rule. ``[n]``"""
    mask = np.ones(len(batch), dtype=np.bool_)
    for rule in rules_for(workload.software.target if target is None else target):
        mask &= ~rule.violates(workload, batch)
    return mask


def violations(workload: Workload, strategy: ParallelStrategy, target: str | Target | None = None) -> tuple[Violation, ...]:
    """Every rule that one strategy breaks, in order; empty where it is legal."""
    batch = StrategyBatch.of([strategy])
    return tuple(
        Violation(rule.name, rule.sentence(workload, strategy), rule.source)
        for rule in rules_for(workload.software.target if target is None else target)
        if rule.violates(workload, batch)[0]
    )


def launchable_on(workload: Workload, strategy: ParallelStrategy) -> tuple[str, ...]:
    """``name@release`` of each framework that runs on these devices and takes this strategy."""
    family = workload.cluster.profile.family
    batch = StrategyBatch.of([strategy])
    return tuple(t.label for t in FRAMEWORKS if family in t.families and legal_mask(workload, batch, t)[0])


_INDEX = {rule.name: index for index, rule in enumerate(RULES)}
