"""Switches that a target takes beside the rest of a strategy: what a search switches on wherever nothing speaks against it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from cost_models.shapes import effective_switches
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import SWITCHES, Feature, alternatives
from cost_models.shapes.workload import Workload
from frameworks.facts import FactRule
from frameworks.legality import rules_for
from frameworks.rule import SwitchRule


def with_taken(workload: Workload, batch: StrategyBatch, wanted: Feature) -> StrategyBatch:
    """The rows with each switch of ``wanted`` on where it acts, the target takes it and no other does the same. ``[n]``

    One after the other in the order of the table, so that of those that replace the same the first that is taken stays. Rows that
    differ still differ. The target is that of the workload; a row's other columns stay as they are.
    """
    for feature in SWITCHES:
        if feature not in wanted or not len(batch):
            continue
        on = varied(batch, features=batch.features | int(feature))
        rows = effective_switches.acting(workload.model, on, feature) != 0
        others = rivals(feature)
        if others:
            rows &= (batch.features & int(others)) == 0
        if not rows.any():
            continue
        for rule in _rules_about(workload.software.target, feature):
            rows &= ~rule.violates(workload, on)
        batch = varied(batch, features=np.where(rows, on.features, batch.features))
    return batch


def taken(workload: Workload, strategy: ParallelStrategy, wanted: Feature) -> ParallelStrategy:
    """One strategy with the switches of ``wanted`` that the target takes beside it."""
    column = with_taken(workload, StrategyBatch.of([strategy]), wanted).features
    return replace(strategy, features=Feature(int(column[0])))


def rivals(feature: Feature) -> Feature:
    """The switches that replace the same as ``feature`` in another way."""
    kind = SWITCHES[feature].one_of
    return Feature(0) if kind is None else Feature(sum(alternatives(kind))) & ~feature


@lru_cache(maxsize=512)
def _rules_about(target: str, feature: Feature) -> tuple[SwitchRule, ...]:
    return tuple(
        rule
        for rule in rules_for(target)
        if isinstance(rule, SwitchRule)
        and (feature in rule.subject or (isinstance(rule, FactRule) and feature in rule.excludes | rule.needs))
    )
