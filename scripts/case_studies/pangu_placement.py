"""Sections of the Pangu Ultra MoE case study on the placement of layers and on the experts' degree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.calibrations.constants import constants_for
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from scripts.case_studies.pangu import (
    AS_PUBLISHED,
    EXPERT_DEGREES,
    FLAT_LOAD_FACTOR,
    STRUCTURE,
    TOKENS_PER_S,
    YEAR_OF_PUBLICATION,
    as_usual,
    best_of_degree,
    best_published,
    of_year,
    searched,
    with_expert_load,
)
from scripts.case_studies.prices import rank_seconds, simulated
from scripts.checks.layer_moves import checked
from scripts.pages.text import ends_text, layout_text, memory_text, million, peak_text, percent, switches_text, table
from search.plans.plan import DeploymentPlan

FUSED_MATMULS = ["mc2", "coc"]  # matmuls in one operator with the collectives of tensor parallelism


def placements(workload: Workload, best: ParallelStrategy) -> list[tuple[str, ParallelStrategy]]:
    """The published layout with default placement, with one layer moved, and with the best placement."""
    rows = [list(row) for row in default_layout(workload.model, best.pp, best.vpp, best.schedule)]
    rows[-1][-1] -= 1
    rows[-1][-2] += 1
    one_moved = replace(as_usual(best), layer_layout=tuple(map(tuple, rows)))
    return [("unless told", as_usual(best)), ("one layer off the last rank", one_moved), ("best", best)]


def placement_section(workload: Workload) -> str:
    best = best_published(workload).parallel
    earlier = of_year(workload, YEAR_OF_PUBLICATION - 1)
    named = placements(workload, best)
    strategies = [strategy for _, strategy in named]
    found, before = simulated(workload, strategies), simulated(earlier, strategies)
    rows = []
    for (name, strategy), e, in_year in zip(named, found, before, strict=True):
        *others_s, last_s = rank_seconds(workload, strategy)
        rows.append(
            (
                name,
                ends_text(workload.model, strategy),
                f"{1e3 * last_s:.0f}",
                f"{1e3 * max(others_s):.0f}",
                f"{e['step_time_s']:.2f} s",
                million(e["tokens_per_s"]),
                f"{of_published(e):.2f}",
                f"{in_year['step_time_s']:.2f} s",
                f"{of_published(in_year):.2f}",
            )
        )
    header = (
        "layers lie",
        "on the last virtual stages",
        "last rank, ms",
        "busiest other, ms",
        "step",
        "tokens/s",
        "of the published",
        f"step, software of {YEAR_OF_PUBLICATION - 1:.0f}",
        "of the published",
    )
    usual_s, moved_s, best_s = (float(e["step_time_s"]) for e in found)
    moves = checked(workload, best, constants_for(workload))
    gain = "none makes it faster" if moves.best is None else f"the best takes {percent(moves.gain_fraction)} off"
    again = best_published(earlier).estimate
    bare = searched(workload, {**AS_PUBLISHED, "forbid": FUSED_MATMULS}, top=1).plans[0].estimate
    return f"""## Where the layers lie

Which layers lie on which virtual stage is not published. Here is the published layout under three placements, everything else as
it is fastest under the best of them: {memory_text(workload, best)}, with {switches_text(best)}. A rank's milliseconds are those
of a micro batch, forward and backward; *m* is the prediction layer.

{table(header, rows)}
The last rank runs two output heads and two losses, the model's and the prediction layer's, beside its own
layers. By default it runs the prediction layer too, and all others wait for it. One layer less takes
{percent(1 - moved_s / usual_s)} off the step. The best placement takes {percent(1 - best_s / usual_s)} off,
with the prediction layer {stage_text(best.mtp_before_head)} the head. Of {moves.num_moves:,} further moves of
one layer {moves.num_allowed:,} can be made and fit; {gain}.

So the published layout reaches {million(found[2]["tokens_per_s"])} tokens/s, {against_published(found[2])}.
Without matmuls that are fused with their collectives (`mc2`), which the publications as quoted here do not
mention, it reaches {million(bare["tokens_per_s"])}, {against_published(bare)}. A job that does not state the
year of its software, as here, is priced under the newest release, of {YEAR_OF_PUBLICATION:.0f}, as the report
is. With software of the year before the step takes {again["step_time_s"]:.2f} s:
{million(again["tokens_per_s"])} tokens/s, {against_published(again)}.
"""


def of_published(estimate: Mapping[str, Any]) -> float:
    return float(estimate["tokens_per_s"]) / TOKENS_PER_S[6144]


def against_published(estimate: Mapping[str, Any]) -> str:
    ratio = of_published(estimate) - 1
    return f"{percent(abs(ratio))} {'above' if ratio > 0 else 'below'} the published {million(TOKENS_PER_S[6144])}"


def stage_text(before_head: int) -> str:
    return {0: "on the virtual stage of", 1: "one virtual stage before"}.get(before_head, f"{before_head} virtual stages before")


def degree_section(workload: Workload) -> str:
    spread = workload.training.expert_spread
    assert spread is not None
    flat = with_expert_load(workload, FLAT_LOAD_FACTOR)
    found = {ep: (best_of_degree(workload, ep), best_of_degree(flat, ep)) for ep in EXPERT_DEGREES}
    rows = [
        (
            f"{ep}",
            percent(float(spread.load_factor(ep)) - 1),
            "does not fit" if ours is None else layout_text(ours.parallel),
            "" if ours is None else memory_text(workload, ours.parallel),
            step_text(ours),
            "" if ours is None else peak_text(ours.estimate),
            step_text(even),
        )
        for ep, (ours, even) in found.items()
    ]
    header = (
        "EP",
        "fullest rank above the mean",
        "best setting",
        "memory",
        "step",
        "peak, GiB",
        f"step, {percent(FLAT_LOAD_FACTOR - 1)} for all",
    )
    ours_s = {ep: step_s(ours) for ep, (ours, _) in found.items()}
    flat_s = {ep: step_s(even) for ep, (_, even) in found.items()}
    ep, large = STRUCTURE["ep"], 2 * STRUCTURE["ep"]
    return f"""## The degree of the experts

The fewer experts a rank has, the less their loads even out. The load of the fullest rank over the mean
follows from the spread of single experts ([ADR 15](../adr/0015-expert-load-model.md)). The table has the
published structure with other degrees, each at its best setting, beside the same under one load for every
degree.

{table(header, rows)}
With loads that follow the degree {published_text(ours_s, ep)}; under one load for all {published_text(flat_s, ep)}.
EP{large} takes {percent(ours_s[large] / ours_s[ep] - 1)} more than EP{ep}, under one load for all
{percent(flat_s[large] / flat_s[ep] - 1)}.
"""


def step_s(plan: DeploymentPlan | None) -> float:
    return float("inf") if plan is None else float(plan.estimate["step_time_s"])


def step_text(plan: DeploymentPlan | None) -> str:
    return "" if plan is None else f"{step_s(plan):.2f} s"


def fastest(times_s: Mapping[int, float]) -> int:
    return min(times_s, key=lambda ep: times_s[ep])


def published_text(times_s: Mapping[int, float], ep: int) -> str:
    first = fastest(times_s)
    if first == ep:
        return f"the published EP{ep} is fastest"
    return f"EP{first} is fastest, and the published EP{ep} takes {percent(times_s[ep] / times_s[first] - 1)} more"
