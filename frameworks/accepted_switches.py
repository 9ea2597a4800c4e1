"""Switches that a search turns on wherever the target allows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from cost_models.shapes import effective_switches
from cost_models.shapes.effective_switches import usual_features
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, SWITCHES, Feature, alternatives
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.facts import FactRule
from frameworks.legality import rules_for
from frameworks.registry import cautions_of, fixed_by
from frameworks.rule import SwitchRule


def with_taken(workload: Workload, batch: StrategyBatch, wanted: Feature) -> StrategyBatch:
    """The rows with each switch of ``wanted`` turned on if it has an effect, the target takes it and no rival is on. ``[n]``

    A switch that a page of the framework warns of stays off.

    Switches are tried in the order of the table; of switches that exclude each other, the first allowed one stays. Rows that
    differ still differ. The target is the workload's target. Other columns do not change.
    """
    usual = wanted & DEFAULT_FEATURES
    off = {each.feature: each for each in fixed_by(workload.software.target) if not each.on} if usual else {}
    cautions = {each.feature: each for each in cautions_of(workload.software.target)}
    if usual:
        batch = varied(batch, features=batch.features & ~int(usual))
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
        if feature in off:
            rows &= ~off[feature].rows(workload, on)
        if feature in cautions:
            rows &= ~cautions[feature].rows(workload, on)
        batch = varied(batch, features=np.where(rows, on.features, batch.features))
    return batch


def taken(workload: Workload, strategy: ParallelStrategy, wanted: Feature) -> ParallelStrategy:
    """One strategy with the switches of ``wanted`` that the target allows with it."""
    column = with_taken(workload, StrategyBatch.of([strategy]), wanted).features
    return replace(strategy, features=Feature(int(column[0])))


def with_usual(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """One strategy with the usual switches turned on that the target can set; the target leaves them off in some plans."""
    usual = usual_if_set(workload)
    return taken(workload, strategy, usual) if usual else strategy


def usual_if_set(workload: Workload) -> Feature:
    """The usual switches that the target leaves off in some plan."""
    return Feature(sum(each.feature for each in fixed_by(workload.software.target) if not each.on)) & usual_features(workload)


def rivals(feature: Feature) -> Feature:
    """The switches that exclude ``feature`` because they replace the same thing."""
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


def on_anyway(workload: Workload, strategy: ParallelStrategy, asked: Mapping[str, bool]) -> list[str]:
    """A sentence on each switch that is asked off, and that the target has on all the same."""
    batch, target = StrategyBatch.of([strategy]), workload.software.target
    return [
        Sentence("strategy.switches: {} is priced as off, and {} has it on: {}.", name, target, each.why)
        for each in fixed_by(target)
        if each.on and asked.get(name := str(each.feature.name).lower()) is False and each.changes(workload, batch)[0]
    ]
