"""Combinations of a script's arguments that its release refuses."""

from __future__ import annotations

from app.launch_scripts.launch import Launch, named_values
from frameworks.framework import Framework
from frameworks.options import as_given, options_of
from frameworks.release import Fact, accepted, arguments_of, broken_facts, holds, told

MODULES = "recompute-modules"
SELECTIVE = ("recompute-granularity=selective", "recompute-activations")


def accepted_arguments(framework: Framework, launch: Launch) -> dict[str, tuple[str, ...]]:
    """The arguments that the release knows, in the form of its table."""
    release = framework.release
    if framework.suffix == "sh":
        return accepted(release, named_values(release, launch.arguments))
    return accepted(release, {name: as_given(value) for name, value in options_of(launch.arguments).items()})


def is_of_modules(fact: Fact) -> bool:
    """Whether a fact is about modules to recompute: a plan leaves out those that it does not have, and no rule sees them."""
    return MODULES in arguments_of(fact)


def refused_modules(framework: Framework, launch: Launch) -> tuple[str, ...]:
    """A sentence for each broken fact about recompute modules that is no rule of plans.

    A release reads the modules of selective recompute alone [megatron-0.12, transformer_config.py, arguments.py].
    """
    release, given = framework.release, accepted_arguments(framework, launch)
    if MODULES not in given or not any(holds(release, given, condition) for condition in SELECTIVE):
        return ()
    broken = broken_facts(release, given)
    return tuple(told(fact) for fact in broken if is_of_modules(fact) and not fact.rule)
