"""Plans that cannot be told apart share a group, inside which the sturdier comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES
from cost_models.shapes.workload import DEFAULT_CONFIDENCE
from documents.said import Said
from documents.sentences import Sentence, plain

# Probabilities to fit, below which a plan is less sturdy; between them plans are as sure. What a search allows by default counts
# before all switches: a plan that is unlikely to start is none. The second decides between plans that are alike in them.
FITS, SURELY_FITS = DEFAULT_CONFIDENCE, 0.95


NO_BASIS = plain(Sentence("no paired error was given"))


@dataclass(frozen=True)
class PairedError:
    """How far the difference of two plans' step times may be off, as a part of the faster one's, and what that rests on.

    A plan that is predicted slower by less is slower with less than ``confidence_fraction``. ``num_groups`` jobs were measured
    under several plans, with ``num_pairs`` pairs among them; ``basis`` says it in words. Without any, only plans of one time tie.
    """

    fraction: float = 0.0
    confidence_fraction: float = 1.0
    num_groups: int = 0
    num_pairs: int = 0
    basis: Said = NO_BASIS


def rank_groups(step_times_s: Sequence[float], fraction: float) -> list[int]:
    """The group, from 1, of each of these times, the shortest first.

    A group holds what is slower than its first by less than ``fraction``; the first that is not leads the next. So the last of a
    group and the first of the next may be closer than that, but no two that are further apart share one.
    """
    groups: list[int] = []
    leader_s = 0.0
    for time_s in step_times_s:
        if not groups or not (time_s == leader_s or time_s < leader_s * (1.0 + fraction)):
            groups.append(groups[-1] + 1 if groups else 1)
            leader_s = time_s
        else:
            groups.append(groups[-1])
    return groups


def group_of(step_time_s: float, leaders_s: Sequence[float], fraction: float) -> int | None:
    """The group in which a further time falls, given the first of each; ``None`` behind the last group."""
    led = [leader_s for leader_s in leaders_s if leader_s <= step_time_s]
    if len(led) == len(leaders_s) and led and not (step_time_s == led[-1] or step_time_s < led[-1] * (1.0 + fraction)):
        return None
    return max(len(led), 1)


def sturdiness(strategy: ParallelStrategy, estimate: Mapping[str, Any], launchable_on: Sequence[str]) -> tuple[int, ...]:
    """What orders plans of a group, the least first: a framework takes it as it is, it fits, few odd switches, it surely fits."""
    fits = estimate["fits_probability"]
    return int(not launchable_on), int(fits < FITS), num_exotic_switches(strategy), int(fits < SURELY_FITS)


def num_exotic_switches(strategy: ParallelStrategy) -> int:
    """Switches that are on and are so in no framework's usual start: those that no strategy has unless told."""
    return int(strategy.features & ~DEFAULT_FEATURES).bit_count()


def tie_sentences(step_times_s: Sequence[float], groups: Sequence[int], error: PairedError) -> list[str | None]:
    """For each plan in the order of the answer: which others it cannot be told from, and why; ``None`` where there are none."""
    sentences: dict[int, str | None] = {}
    for group in dict.fromkeys(groups):
        members = [place for place, other in enumerate(groups) if other == group]
        times = [step_times_s[place] for place in members]
        sentences[group] = None
        if len(members) > 1:
            names = Sentence(
                "Plans {} {} {}", members[0] + 1, Sentence("to") if len(members) > 2 else Sentence("and"), members[-1] + 1
            )
            sentences[group] = Sentence(
                "{} cannot be told apart: they lie within {:.1%}, below the paired error of {:.1%} ({}).",
                names,
                max(times) / min(times) - 1.0,
                error.fraction,
                Sentence.whole(error.basis),
            )
    return [sentences[group] for group in groups]
