"""Launch arguments of a strategy for every framework."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.framework import Framework
from frameworks.legality import Violation, cautions, launchable_on, violations
from frameworks.registry import BY_NAME, releases_for

LENGTHS_UNSAID = Sentence("The file does not say how long samples are: read it with the same --lengths, or its price is another.")


def launch_block(
    workload: Workload, strategy: ParallelStrategy, launchable: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """``target``, ``launchable``, ``arguments``, ``environment``, ``notes`` and ``rules`` of each framework, ready for JSON.

    ``target`` is the release that the job names. For other frameworks it is the first release that runs the plan, else the first
    that builds the model, else the first. ``launchable`` says whether the framework runs exactly this plan, of this model. If the
    plan breaks a rule of the framework, the arguments describe the nearest plan that it takes, ``rules`` lists the broken rules,
    and notes state each rule and each replaced setting. ``arguments`` is null if the framework does not run on the devices, or if
    it cannot be told the model and would train another one. The argument ``launchable`` is the result of
    ``frameworks.legality.launchable_on`` for the plan, if known.
    """
    labels = launchable_on(workload, strategy) if launchable is None else launchable
    profile = workload.cluster.profile
    block: dict[str, dict[str, Any]] = {}
    for name in BY_NAME:
        releases = releases_for(name, workload.software.target)
        running = next((release for release in releases if release.target.label in labels), None)
        framework = running or next((release for release in releases if not release.untold(workload)), releases[0])
        target = framework.target
        arguments: list[str] | None = None
        environment: dict[str, str] = {}
        if profile.family not in target.families:
            note = Sentence(
                "{} runs on {} devices, not on {}.",
                target.name,
                joined(" and ", map(Sentence.whole, target.families)),
                profile.device,
            )
            notes: list[str] = [note]
            broken: tuple[Violation, ...] = ()
        else:
            broken = () if running is not None else violations(workload, strategy, target)
            untold = framework.untold(workload)
            far = () if untold else framework.unwritable(workload, strategy)
            notes = [*(Sentence("Not as planned ({}): {}.", v.rule, v.sentence) for v in broken), *untold, *far]
            if untold:
                notes.append(Sentence("No file is written, since it would train something else."))
            elif far:
                notes.append(Sentence("No file is written, since it would be of another plan."))
            else:
                launch = framework.write(workload, strategy)
                arguments, environment = list(launch.arguments), dict(launch.environment)
                notes += _price_notes(workload, strategy, framework) if broken else ()
                if workload.training.mean_squared_length_fraction < 1.0:
                    notes.append(LENGTHS_UNSAID)
                notes += [*framework.misstated(workload), *cautions(workload, strategy, target), *launch.notes]
        block[target.name] = {
            "target": target.label,
            "launchable": running is not None,
            "arguments": arguments,
            "environment": environment,
            "notes": notes,
            "rules": [{"rule": violation.rule, "sentence": violation.sentence} for violation in broken],
        }
    return block


def _price_notes(workload: Workload, strategy: ParallelStrategy, framework: Framework) -> tuple[str, ...]:
    """Where the price of a file of another plan is, if the framework takes that plan."""
    nearest, _ = framework.nearest(workload, strategy)
    left = violations(workload, nearest, framework.target)
    if left:
        rules = joined(", ", (violation.rule for violation in left))
        return (Sentence("No price of this file is known: `meshplan estimate` refuses it too ({}).", rules),)
    return (Sentence("Its price is not the plan's: `meshplan estimate` of this file says it, and whether it fits."),)
