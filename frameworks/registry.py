"""The frameworks that plans are made for: a new one is a folder, and an entry here.

Targets, rules of legality, launch blocks and files, documents and what a job may name all come from this tuple.
"""

from __future__ import annotations

from cost_models.shapes.switches import Feature
from documents.errors import did_you_mean
from frameworks.facts import beside
from frameworks.framework import Framework
from frameworks.megatron_lm.framework import MEGATRON_LM
from frameworks.mindformers.framework import MINDFORMERS
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from frameworks.target import ANY, Target, TargetError

FRAMEWORKS: tuple[Framework, ...] = (MEGATRON_LM, MINDSPEED_LLM, MINDFORMERS)
BY_NAME = {framework.name: framework for framework in FRAMEWORKS}
TARGETS: tuple[Target, ...] = (ANY, *(framework.target for framework in FRAMEWORKS))


def parse_target(text: str) -> Target:
    """The target that ``name`` or ``name@release`` stands for; raises ``TargetError``."""
    name, _, release = text.partition("@")
    by_name = {target.name: target for target in TARGETS}
    if name not in by_name:
        labels = ", ".join(target.label for target in TARGETS)
        raise TargetError(f"software.target: {text!r} is unknown{did_you_mean(name, by_name)}; give one of {labels}.")
    target = by_name[name]
    if release and release not in (target.release, *target.other_releases):
        known = ", ".join(r for r in (target.release, *target.other_releases) if r) or "no release"
        raise TargetError(f"software.target: {text!r} is unknown; the rules of {name} cover {known}, not {release!r}.")
    return target


def offers(target: str, feature: Feature) -> bool:
    """Whether a target has a switch; physics alone has all."""
    framework = BY_NAME.get(parse_target(target).name)
    return framework is None or feature in framework.table.offered


def off_beside(target: str, feature: Feature) -> Feature:
    """Switches that the target's framework wants off where ``feature`` is on."""
    framework = BY_NAME.get(parse_target(target).name)
    return Feature(0) if framework is None else beside(framework.rules, feature)
