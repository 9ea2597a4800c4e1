"""Registry of the frameworks. A new framework is a folder and an entry here; a new release is an entry among its siblings.

Targets, legality rules, launch blocks and files, documents and the names in a job all come from this tuple.
"""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.strategy import CpAlgo
from cost_models.shapes.switches import SWITCHES, Feature
from cost_models.shapes.traits import family_traits
from documents.errors import did_you_mean
from documents.sentences import Sentence, joined
from frameworks.caution import Caution
from frameworks.facts import beside
from frameworks.fixed import Fixed
from frameworks.framework import Framework
from frameworks.megatron_lm.framework import MEGATRON_LM
from frameworks.mindformers.framework import MINDFORMERS
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from frameworks.mindspeed_llm_fsdp2.framework import MINDSPEED_FSDP2
from frameworks.placements import ANYWHERE, Placements
from frameworks.target import ANY, Target, TargetError
from frameworks.torchtitan.framework import TORCHTITAN, TORCHTITAN_MAIN

FRAMEWORKS: tuple[Framework, ...] = (*MEGATRON_LM, MINDSPEED_LLM, MINDFORMERS, TORCHTITAN, TORCHTITAN_MAIN, MINDSPEED_FSDP2)
BY_LABEL = {framework.target.label: framework for framework in FRAMEWORKS}
# A bare name stands for the release that is listed first.
BY_NAME = {name: next(f for f in FRAMEWORKS if f.name == name) for name in dict.fromkeys(f.name for f in FRAMEWORKS)}
TARGETS: tuple[Target, ...] = (ANY, *(framework.target for framework in FRAMEWORKS))


def parse_target(text: str) -> Target:
    """The target of ``name`` or ``name@release``; raises ``TargetError``."""
    name, _, release = text.strip().lower().partition("@")
    named = [target for target in TARGETS if target.name == name]
    if not named:
        labels = joined(", ", (target.label for target in TARGETS))
        known = [target.name for target in TARGETS]
        raise TargetError(
            Sentence("software.target: {!r} is unknown{}; give one of {}.", text, did_you_mean(name, known), labels)
        )
    if not release:
        return named[0]
    for target in named:
        if release in (target.release, *target.other_releases):
            return replace(target, year=target.earlier.get(release, target.year))
    releases = joined(", ", (r for target in named for r in (target.release, *target.other_releases) if r)) or Sentence(
        "no release"
    )
    raise TargetError(
        Sentence("software.target: {!r} is unknown; the rules of {} cover {}, not {!r}.", text, name, releases, release)
    )


def releases_of(name: str) -> tuple[Framework, ...]:
    """The releases of a framework, the default for its bare name first."""
    return tuple(framework for framework in FRAMEWORKS if framework.name == name)


def framework_of(target: str) -> Framework | None:
    """The release that a job's target names; ``None`` for physics alone. Raises ``TargetError`` for an unknown one."""
    return BY_LABEL.get(parse_target(target).label)


def newer_release(label: str) -> str | None:
    """``name@release`` of the newest release of the target's framework; ``None`` if the target is that, or has no year."""
    target = parse_target(label)
    later = [other for other in TARGETS if other.name == target.name and (other.year or 0.0) > (target.year or 0.0)]
    return max(later, key=lambda other: other.year or 0.0).label if target.year is not None and later else None


def releases_for(name: str, target: str) -> tuple[Framework, ...]:
    """The release of a framework that a job's target names; all releases if the target is another framework."""
    meant = parse_target(target)
    return (BY_LABEL[meant.label],) if meant.name == name else releases_of(name)


def offered(target: str, family: str) -> Feature:
    """The switches that a target has on devices of a family. Physics alone has all but those of other devices' libraries."""
    framework = framework_of(target)
    if framework is not None:
        return framework.table.offered
    libraries = (None, family_traits(family).library)
    return Feature(sum(feature for feature, switch in SWITCHES.items() if switch.library in libraries))


def cp_algos_tried(target: str) -> tuple[CpAlgo, ...]:
    """Algorithms of context parallelism that a search tries: gathering keys and values only where the target has it."""
    framework = framework_of(target)
    gathers = framework is not None and CpAlgo.KV_ALLGATHER in framework.table.cp_algos
    return (CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID, *((CpAlgo.KV_ALLGATHER,) if gathers else ()))


def usual_cp_algo(target: str) -> CpAlgo:
    """Algorithm of context parallelism of a plan that states none: the first of the target's table, or a ring."""
    framework = framework_of(target)
    known = () if framework is None else tuple(framework.table.cp_algos)
    return known[0] if known else CpAlgo.RING


def fixed_by(target: str) -> tuple[Fixed, ...]:
    """Switches that the target sets by itself in some plans; physics alone sets none."""
    framework = framework_of(target)
    return () if framework is None else framework.fixed


def cautions_of(target: str) -> tuple[Caution, ...]:
    """What is legal for a target and only its pages warn of."""
    framework = framework_of(target)
    return () if framework is None else framework.cautions


def placements_of(target: str, *, merged_chunks: bool = False) -> Placements:
    """Placements that a target can express; ``merged_chunks``: under ``moe_comm_overlap`` with interleaved virtual stages."""
    framework = framework_of(target)
    if framework is None:
        return ANYWHERE
    return framework.merged_chunks if merged_chunks and framework.merged_chunks else framework.placements


def off_beside(target: str, feature: Feature) -> Feature:
    """Switches that the target's framework needs off if ``feature`` is on."""
    framework = framework_of(target)
    return Feature(0) if framework is None else beside(framework.rules, feature)
