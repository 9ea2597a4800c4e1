"""The plan to run: of the plans that tie with the fastest, the sturdiest that no other beats in time and memory.

The probability to fit follows from the peak, so a plan that is faster and smaller is also surer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from documents.said import Said
from documents.sentences import Sentence, joined
from search.plans.plan import DeploymentPlan
from search.ranking.ties import num_exotic_switches, sturdiness

COMPARED = 20  # fastest plans of which one is recommended, however many are listed


@dataclass(frozen=True)
class Candidate:
    """A listed plan with the numbers that decide, and those of its variants: step times [s] and peaks [bytes]."""

    strategy: ParallelStrategy
    estimate: Mapping[str, Any]
    launchable_on: Sequence[str]
    variants: Sequence[tuple[float, float]] = ()
    empty_slots_fraction: float = 0.0

    @property
    def numbers(self) -> tuple[float, float]:
        """Step time and peak."""
        return self.estimate["step_time_s"], self.estimate["peak_memory_bytes"]


@dataclass(frozen=True)
class Recommendation:
    """The plan to run, its place in the list, and why this one."""

    plan_id: str
    rank: int
    why: Said


def recommendation(plan: DeploymentPlan) -> Recommendation:
    """The recommendation of a plan that says why it is the one to run."""
    return Recommendation(plan.plan_id, plan.rank, plan.why_recommended or "")


def recommended_place(candidates: Sequence[Candidate], groups: Sequence[int]) -> int:
    """The place, from 0, of the plan to run among plans in the order of time.

    Only plans of the first group count. Where a framework takes some of them, a plan that none takes beats none of these.
    """
    tied = [candidate for candidate, group in zip(candidates, groups, strict=True) if group == groups[0]]
    taken = [place for place, candidate in enumerate(tied) if candidate.launchable_on] or list(range(len(tied)))
    rivals = [numbers for place in taken for numbers in (tied[place].numbers, *tied[place].variants)]
    unbeaten = [place for place in taken if not any(_beats(rival, tied[place].numbers) for rival in rivals)]

    def order(place: int) -> tuple[tuple[int, ...], int]:
        candidate = tied[place]
        return sturdiness(candidate.strategy, candidate.estimate, candidate.launchable_on, candidate.empty_slots_fraction), place

    return min(unbeaten, key=order)


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def why_recommended(candidates: Sequence[Candidate], groups: Sequence[int], place: int, paired_error: float) -> str:
    """One sentence on why the plan at this place is the one to run."""
    num_tied = sum(group == groups[0] for group in groups)
    if place == 0:
        if num_tied == 1:
            return Sentence("plan 1 is the fastest by prediction")
        more = num_tied - 1
        others = Sentence("at least {}", more) if num_tied == COMPARED else str(more)
        return Sentence("fastest by prediction; {} more within its error of {:.1%}", others, paired_error)
    fastest, chosen = candidates[0], candidates[place]
    slower = chosen.numbers[0] / fastest.numbers[0] - 1.0
    return Sentence(
        "{:.1%} slower than plan 1 (error {:.1%}), but {}",
        slower,
        paired_error,
        joined(", ", _advantages(chosen, fastest)),
    )


def _advantages(chosen: Candidate, fastest: Candidate) -> list[str]:
    """What the chosen plan has over the fastest one."""
    found: list[str] = []
    if chosen.launchable_on and not fastest.launchable_on:
        found.append(Sentence("a framework takes it"))
    fits, less_sure = (one.estimate["fits_probability"] for one in (chosen, fastest))
    if fits > less_sure:
        found.append(Sentence("fits with {}, not {}", _chance(fits), _chance(less_sure)))
    fewer = num_exotic_switches(fastest.strategy) - num_exotic_switches(chosen.strategy)
    if fewer > 0:
        found.append(Sentence("one unusual switch fewer") if fewer == 1 else Sentence("{} unusual switches fewer", fewer))
    return found


def _chance(probability: float) -> str:
    return f"{min(max(probability, 0.001), 0.999):.1%}"
