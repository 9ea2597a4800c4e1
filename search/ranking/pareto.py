"""Pareto front: the rows that no other row beats."""

from __future__ import annotations

from collections.abc import Sequence


def pareto(values: Sequence[Sequence[float]]) -> list[int]:
    """The rows that no other row equals or beats in every value, smaller being better, in the order of the first value."""
    order = sorted(range(len(values)), key=lambda row: (*values[row], row))
    front: list[int] = []
    for row in order:
        if not any(all(a <= b for a, b in zip(values[kept], values[row], strict=True)) for kept in front):
            front.append(row)
    return front
