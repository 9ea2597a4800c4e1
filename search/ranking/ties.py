"""Ties: plans whose predicted difference is below the paired error share a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES
from cost_models.shapes.workload import DEFAULT_CONFIDENCE
from documents.said import Said
from documents.sentences import Sentence, plain

# Probabilities to fit, below which a plan is less sturdy. The first, the default of a search, counts
# before the number of switches; the second decides between plans with equally many.
FITS, SURELY_FITS = DEFAULT_CONFIDENCE, 0.95

MOST_EMPTY_FRACTION = 0.1  # slots without a layer, over the layers: with more a plan is less sturdy


NO_BASIS = plain(Sentence("no paired error was given"))


@dataclass(frozen=True)
class PairedError:
    """The error of the difference of two plans' step times, as a fraction of the faster one's, and its evidence.

    A plan predicted slower by less than ``fraction`` may be the faster one; it is slower with less than ``confidence_fraction``.
    ``num_groups`` jobs were measured under several plans, with ``num_pairs`` pairs among them. Without evidence only equal times
    tie.
    """

    fraction: float = 0.0
    confidence_fraction: float = 1.0
    num_groups: int = 0
    num_pairs: int = 0
    basis: Said = NO_BASIS


def ties(time_s: float, other_s: float, fraction: float) -> bool:
    """Whether two times are equal or differ by less than ``fraction`` of the shorter one."""
    return time_s == other_s or max(time_s, other_s) < min(time_s, other_s) * (1.0 + fraction)


def rank_groups(step_times_s: Sequence[float], fraction: float) -> list[int]:
    """The group, from 1, of each of these times, the shortest first.

    A group holds times that are longer than its first by less than ``fraction``. The first time that is not in it leads the next
    group. Two times that are further apart than ``fraction`` never share a group.
    """
    groups: list[int] = []
    leader_s = 0.0
    for time_s in step_times_s:
        if not groups or not ties(time_s, leader_s, fraction):
            groups.append(groups[-1] + 1 if groups else 1)
            leader_s = time_s
        else:
            groups.append(groups[-1])
    return groups


def group_of(step_time_s: float, leaders_s: Sequence[float], fraction: float) -> int | None:
    """The first group whose first time a further time ties with, given the first time of each group; ``None`` without one."""
    return next((group for group, leader_s in enumerate(leaders_s, start=1) if ties(step_time_s, leader_s, fraction)), None)


def sturdiness(
    strategy: ParallelStrategy, estimate: Mapping[str, Any], launchable_on: Sequence[str], empty_fraction: float = 0.0
) -> tuple[int, ...]:
    """The order of plans in a group, smallest first: launchable, fits, few empty slots, few unusual switches, surely fits.

    ``empty_fraction``: slots without a layer, over the layers. A plan with many of them needs a measurable gain over one without.
    """
    fits = estimate["fits_probability"]
    many = int(empty_fraction > MOST_EMPTY_FRACTION)
    return int(not launchable_on), int(fits < FITS), many, num_exotic_switches(strategy), int(fits < SURELY_FITS)


def num_exotic_switches(strategy: ParallelStrategy) -> int:
    """The number of switches that are on and off in the default."""
    return int(strategy.features & ~DEFAULT_FEATURES).bit_count()


def tie_sentences(step_times_s: Sequence[float], groups: Sequence[int], error: PairedError) -> list[str | None]:
    """Sentence for each plan in the order of the answer that names the plans it ties with; ``None`` without a tie."""
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
