"""Launch arguments of strategies for every framework."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.traits import stacks_of
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.framework import Framework, LaunchArguments
from frameworks.legality import Violation, broken_rules, cautions, launchable_each, violation_of
from frameworks.registry import BY_NAME, releases_for
from frameworks.rule import Rule

LENGTHS_UNSAID = Sentence("The file does not say how long samples are: read it with the same --lengths, or its price is another.")


def launch_block(workload: Workload, strategy: ParallelStrategy) -> dict[str, dict[str, Any]]:
    """``launch_blocks`` of one strategy."""
    return launch_blocks(workload, [strategy])[0]


def launch_blocks(
    workload: Workload, strategies: Sequence[ParallelStrategy], launchable: Sequence[Collection[str]] | None = None
) -> list[dict[str, dict[str, Any]]]:
    """``target``, ``launchable``, ``arguments``, ``environment``, ``notes`` and ``rules`` of each framework, for each strategy.

    All is ready for JSON. ``target`` is the release that the job names. For other frameworks it is the first release that runs
    the plan, else the first that builds the model, else the first. ``launchable`` says whether the framework runs exactly this
    plan, of this model. If the plan breaks a rule of the framework, the arguments describe the nearest plan that it takes,
    ``rules`` lists the broken rules, and notes state each rule and each replaced setting. ``arguments`` is null if the framework
    does not run on the devices, or if it cannot be told the model and would train another one. There is at least one strategy.
    The argument ``launchable`` is the result of ``frameworks.legality.launchable_each`` for them, if known.
    """
    labels = launchable_each(workload, StrategyBatch.of(strategies)) if launchable is None else launchable
    blocks: list[dict[str, dict[str, Any]]] = [{} for _ in strategies]
    for name in BY_NAME:
        releases = releases_for(name, workload.software.target)
        usual = next((release for release in releases if not release.untold(workload)), releases[0])
        running = [next((at for at, release in enumerate(releases) if release.target.label in each), None) for each in labels]
        for at in dict.fromkeys(running):
            rows = [row for row, each in enumerate(running) if each == at]
            framework = usual if at is None else releases[at]
            entries = _entries(workload, [strategies[row] for row in rows], framework, runs=at is not None)
            for row, entry in zip(rows, entries, strict=True):
                blocks[row][name] = entry
    return blocks


def _entries(
    workload: Workload, strategies: Sequence[ParallelStrategy], framework: Framework, *, runs: bool
) -> list[dict[str, Any]]:
    """Entries of one framework, which runs either all of the strategies as they are or none."""
    profile, target = workload.cluster.profile, framework.target
    if profile.family not in target.families:
        families = joined(" and ", map(Sentence.whole, target.families))
        note = Sentence("{} runs on {} devices, not on {}.", target.name, families, profile.device)
        return [_entry(framework, runs, None, [note], []) for _ in strategies]
    broken: list[list[Rule]] = [[] for _ in strategies] if runs else broken_rules(workload, strategies, target)
    untold = framework.untold(workload)
    far = [() if untold else framework.unwritable(workload, strategy) for strategy in strategies]
    launches = [
        None if untold or too_far else framework.write(workload, strategy)
        for strategy, too_far in zip(strategies, far, strict=True)
    ]
    of_other_plans = [launch for launch, rules in zip(launches, broken, strict=True) if launch is not None and rules]
    prices = _price_notes(workload, of_other_plans, framework)
    misstated = framework.misstated(workload)
    entries = []
    for strategy, rules, too_far, launch in zip(strategies, broken, far, launches, strict=True):
        violations = [violation_of(workload, strategy, rule) for rule in rules]
        notes: list[str] = [*(Sentence("Not as planned ({}): {}.", v.rule, v.sentence) for v in violations), *untold, *too_far]
        if untold:
            notes.append(Sentence("No file is written, since it would train something else."))
        elif launch is None:
            notes.append(Sentence("No file is written, since it would be of another plan."))
        else:
            notes += [next(prices)] if rules else []
            if workload.training.mean_squared_length_fraction < 1.0:
                notes.append(LENGTHS_UNSAID)
            notes += [*misstated, *cautions(workload, strategy, target), *launch.notes]
        entries.append(_entry(framework, runs, launch, notes, violations))
    return entries


def _entry(
    framework: Framework, runs: bool, launch: LaunchArguments | None, notes: list[str], violations: Sequence[Violation]
) -> dict[str, Any]:
    return {
        "target": framework.target.label,
        "launchable": runs,
        "arguments": None if launch is None else list(launch.arguments),
        "environment": {} if launch is None else dict(launch.environment),
        "notes": notes,
        "rules": [{"rule": violation.rule, "sentence": violation.sentence} for violation in violations],
    }


def _price_notes(workload: Workload, launches: Sequence[LaunchArguments], framework: Framework) -> Iterator[str]:
    """Where the price of each file of another plan is, if the framework takes that plan."""
    if not launches:
        return
    own = framework.target.priced_as
    if own in stacks_of(workload.cluster.profile.family):  # a file is read with its framework's stack, whatever the job's is
        workload = replace(workload, software=replace(workload.software, stack=own, target=framework.target.label))
    for left in broken_rules(workload, [launch.strategy for launch in launches], framework.target):
        if left:
            rules = joined(", ", (rule.name for rule in left))
            yield Sentence("No price of this file is known: `meshplan estimate` refuses it too ({}).", rules)
        else:
            yield Sentence("Its price is not the plan's: `meshplan estimate` of this file says it, and whether it fits.")
