"""What a plan must run on: the physics alone, or a release of a training framework."""

from __future__ import annotations

from dataclasses import dataclass

from documents.errors import InputError, did_you_mean


class TargetError(InputError):
    """A target that has no rules here; the message names the value and what is allowed."""


@dataclass(frozen=True)
class Target:
    """A framework and the release that its rules were read in; ``any`` has no release.

    ``families`` are the device families that the framework runs on.
    """

    name: str
    release: str = ""
    other_releases: tuple[str, ...] = ()  # spellings of it, and releases with the same rules
    families: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``name@release``, or the name alone."""
        return f"{self.name}@{self.release}" if self.release else self.name


ANY = Target("any")
MEGATRON = Target("megatron-lm", "0.12", ("0.12.0", "0.12.1", "core_r0.12.0", "core_v0.12.0", "core_v0.12.1"), ("nvidia", "amd"))
MINDSPEED = Target("mindspeed-llm", "master", (), ("ascend",))
MINDFORMERS = Target("mindformers", "1.8", ("1.5", "1.6", "1.7", "r1.5.0", "r1.6.0", "r1.7.0", "r1.8.0"), ("ascend",))
TARGETS = (ANY, MEGATRON, MINDSPEED, MINDFORMERS)
FRAMEWORKS = TARGETS[1:]


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
