"""The summary of a sweep's points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.answers.costs import basis_sentences
from app.answers.step_interval import probability_of_factor, step_factor_at
from app.jobs.job import Job
from app.sweeps.points import constraints_of
from app.sweeps.schemas import Curve, Structure, SweepPoint, Winner
from documents.sentences import Sentence, joined
from search.objectives.table import OBJECTIVES
from search.ranking.pareto import pareto
from search.ranking.structures import STRUCTURE, structure_of
from search.sweep.scaling_curves import knee, linearity, marginal

SURE = 0.8  # confidence of the days of a sweep without one


def summary(job: Job, points: Sequence[SweepPoint], confidence: float | None = None) -> dict[str, Any]:
    """Curves, front, structures and the winner, and the points with references to them.

    A deadline must be met with ``confidence``; ``None``: by the days as predicted.
    """
    constraints = constraints_of(job)
    curves = _curves(points)
    changes: dict[int, dict[str, Any]] = {point.point: {} for point in points}
    for curve, shares, gains in curves:
        for number, share, gain in zip(curve.points, shares, gains, strict=True):
            changes[number] = {"linearity_fraction": share, "marginal_fraction": gain}
    for point in points:
        changes[point.point] |= _certainty(point, constraints.get("days"), confidence)
    points = [point.model_copy(update=changes[point.point]) for point in points]
    of_days = "days" if confidence is None else "sure_days"
    for point in points:
        if point.plan_id is not None:
            checked = {of_days if name == "days" else name: most for name, most in constraints.items()}
            changes[point.point]["within"] = all(_is_within(point, name, most) for name, most in checked.items())
    told = [point.model_copy(update=changes[point.point]) for point in points]
    planned = [point for point in told if point.plan_id is not None]
    priced = all(point.cost_usd is not None for point in planned)
    names = ["days", "cost_usd" if priced else "device_days"]
    weighed = [point for point in planned if point.days is not None]
    front = pareto([[getattr(point, name) for name in names] for point in weighed])
    best, why_none = _best(job, planned, constraints, confidence)
    return {
        "constraints": constraints,
        "points": told,
        "curves": [curve for curve, _, _ in curves],
        "pareto": [weighed[row].point for row in front],
        "pareto_of": names,
        "structures": _structures(planned),
        "best": best,
        "why_none": why_none,
    }


def _certainty(point: SweepPoint, deadline_days: float | None, confidence: float | None) -> dict[str, float | None]:
    """Days that are met with some probability, and the probability of the deadline, by the error of the step."""
    if point.days is None:
        return {}
    factor = step_factor_at(vars(point), confidence or SURE)
    within = None if deadline_days is None else probability_of_factor(vars(point), deadline_days / point.days)
    return {"sure_days": point.days * (1.0 if factor is None else factor), "within_probability": within}


def _is_within(point: SweepPoint, name: str, most: float) -> bool:
    value = getattr(point, name)
    return value is not None and value <= most


def _curves(points: Sequence[SweepPoint]) -> list[tuple[Curve, list[float], list[float | None]]]:
    """Curves of at least two points with a plan that differ in devices only, or in devices and the batch that grows with them."""
    planned = [point for point in points if point.plan_id is not None]
    same: dict[tuple[Any, ...], list[SweepPoint]] = {}
    for point in planned:
        kind = (point.hardware, point.stack, point.target, point.seq_length)
        same.setdefault((*kind, point.global_batch_size), []).append(point)
    if all(len(group) == 1 for group in same.values()):
        same = {}
        for point in planned:
            kind = (point.hardware, point.stack, point.target, point.seq_length)
            same.setdefault((*kind, point.global_batch_size / point.num_devices), []).append(point)
    found = []
    for group in same.values():
        if len(group) < 2:
            continue
        group.sort(key=lambda point: point.num_devices)
        devices, rates = [point.num_devices for point in group], [point.tokens_per_s or 0.0 for point in group]
        first = group[0]
        curve = Curve(
            hardware=first.hardware,
            stack=first.stack,
            target=first.target,
            seq_length=first.seq_length,
            global_batch_size=first.global_batch_size,
            points=[point.point for point in group],
            knee_devices=knee(devices, rates),
        )
        found.append((curve, linearity(devices, rates), marginal(devices, rates)))
    return found


def _structures(planned: Sequence[SweepPoint]) -> list[Structure]:
    """Structures, the one that wins most points first."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for point in planned:
        assert point.strategy is not None
        found.setdefault(structure_of(point.strategy), []).append(point.point)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[1]))
    return [Structure.model_validate({**dict(zip(STRUCTURE, values, strict=True)), "points": of}) for values, of in ordered]


def _best(
    job: Job, planned: Sequence[SweepPoint], constraints: dict[str, float], confidence: float | None
) -> tuple[Winner | None, str | None]:
    objective = job.settings.objectives[0]
    of_point = OBJECTIVES[objective].of_point
    if not planned:
        return None, Sentence("No point has a plan.")
    allowed = [point for point in planned if point.within]
    if not allowed:
        return None, _none_within(planned, constraints, confidence)
    valued = [(value, point.num_devices, point.point) for point in allowed if (value := of_point.value(point)) is not None]
    if not valued:
        return None, Sentence("The best by {} is unknown: no point has {}.", objective, of_point.needed)
    value, devices, number = min(valued)
    number_of = Sentence("{} point{}", len(allowed), "" if len(allowed) == 1 else "s")
    limits = (
        Sentence(" of {} within {}", number_of, _limits(constraints, confidence))
        if constraints
        else Sentence(" of {}", number_of)
    )
    return Winner(
        point=number,
        objective=objective,
        value=abs(value),
        why=Sentence("{}{}, on {:,} devices", of_point.called, limits, devices),
    ), None


def _limits(constraints: dict[str, float], confidence: float | None) -> str:
    texts: list[str] = []
    if "days" in constraints:
        sure = "" if confidence is None else Sentence(" with a probability of {:.0%}", confidence)
        texts.append(Sentence("{:g} days{}", constraints["days"], sure))
    if "cost_usd" in constraints:
        texts.append(Sentence("{:,.0f} USD", constraints["cost_usd"]))
    return joined(" and ", texts)


def _none_within(planned: Sequence[SweepPoint], constraints: dict[str, float], confidence: float | None) -> str:
    parts = []
    if "days" in constraints:
        taken = (point.days if confidence is None else point.sure_days for point in planned)
        days = [each for each in taken if each is not None]
        parts.append(Sentence("the fastest takes {:,.1f} days", min(days)) if days else Sentence("no point ever ends"))
    if "cost_usd" in constraints:
        costs = [point.cost_usd for point in planned if point.cost_usd is not None]
        cheapest = Sentence("the cheapest costs {:,.0f} USD", min(costs)) if costs else None
        parts.append(cheapest or Sentence("no point has a price (--price-per-device-hour)"))
    return Sentence("No point is within {}: {}.", _limits(constraints, confidence), joined(", ", parts))


def assumptions_of(jobs: Sequence[Job]) -> list[str]:
    """Assumptions of all points without repetition, and the sources of power and price."""
    sentences = [sentence for job in jobs for sentence in job.assumptions]
    if jobs[0].workload.training.train_tokens is None:
        sentences.append(
            Sentence("training.train_tokens = 1e+12 (neither the job nor its preset says; days and costs are for these)")
        )
    return list(dict.fromkeys([*sentences, *basis_sentences(jobs)]))
