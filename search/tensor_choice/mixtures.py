"""Two choices of tensors among the layers of a virtual stage, where one for all of them leaves memory unused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cost_models.shapes.tensors import LayerChoices, TensorShare
from search.tensor_choice.frontier import Counts, LayerOptions, Options, unbeaten
from search.tensor_choice.solver import ROUNDING, Chosen, Floats, Limits, cheapest, relaxation

MOST_MIXED = 48  # choices of a layer that are mixed, those nearest to the bound


@dataclass(frozen=True)
class LayerPart:
    """Layers of one kind on a virtual stage. Prediction layers come last and take the choice of the last layer."""

    options: LayerOptions
    num_layers: int
    num_prediction_layers: int = 0

    @property
    def num_all(self) -> int:
        """Layers with the prediction layers."""
        return self.num_layers + self.num_prediction_layers

    def uniform(self) -> MixedOptions:
        """One choice for all layers."""
        of_all, rows = self.options.of_layers(self.num_all), np.arange(len(self.options))
        return MixedOptions(of_all.kept_bytes, of_all.seconds, of_all.working_bytes, rows, rows, np.zeros_like(rows))


@dataclass(frozen=True)
class MixedOptions(Options):
    """Options ``[option]`` of a part: its first ``num_first`` layers take the layer option ``first``, all others ``rest``."""

    first: Counts
    rest: Counts
    num_first: Counts

    def with_others(self, others: MixedOptions) -> MixedOptions:
        """These and others."""
        return MixedOptions(*(np.concatenate(pair) for pair in zip(vars(self).values(), vars(others).values(), strict=True)))

    def choices(self, row: int, of_layer: LayerOptions) -> LayerChoices:
        """One of them."""
        rest = TensorShare(of_layer.choice(int(self.rest[row])))
        num_first = int(self.num_first[row])
        return (TensorShare(of_layer.choice(int(self.first[row])), num_first), rest) if num_first else (rest,)


@dataclass(frozen=True)
class ChosenMixtures:
    """The choices of every part, the seconds of each, and how far their sum can be above the least of any choice by layer."""

    choices: tuple[LayerChoices, ...]
    seconds: tuple[float, ...]
    gap_s: float


def cheapest_mixtures(parts: Sequence[LayerPart], limits: Limits, worth_s: float = 0.0) -> ChosenMixtures | None:
    """The choices of least time that fit, up to ``worth_s``, with at most two among the layers of a part; ``None`` if none fit.

    One choice for each part comes first. Where none fits, no mixture does: of two choices, the one that keeps less fits in place
    of both. A mixture can only be faster if the surplus of its layers over the bound is less than what the bound leaves open, so
    only choices of small surplus are mixed. The bound holds for any choice by layer, and the gap is the distance from it.
    """
    uniform = [part.uniform() for part in parts]
    chosen = cheapest(uniform, limits, worth_s)
    if chosen is None or not parts:
        return None if chosen is None else ChosenMixtures((), (), 0.0)
    relaxed = relaxation(uniform, limits.binding())
    open_s = chosen.seconds - relaxed.least_s
    tables = uniform
    if open_s > worth_s + ROUNDING * chosen.seconds:
        mixed = [_mixed(part, over / part.num_all, open_s) for part, over in zip(parts, relaxed.over_s, strict=True)]
        tables = [table.with_others(more) for table, more in zip(uniform, mixed, strict=True)]
        chosen = min(
            chosen, cheapest(tables, limits, worth_s) or chosen, key=lambda one: one.seconds
        )  # rows of both are the same
    return _told(parts, tables, chosen, relaxed.least_s)


def _told(parts: Sequence[LayerPart], tables: Sequence[MixedOptions], chosen: Chosen, least_s: float) -> ChosenMixtures:
    rows = list(zip(parts, tables, chosen.options, strict=True))
    choices = tuple(table.choices(row, part.options) for part, table, row in rows)
    seconds = tuple(float(table.seconds[row]) for _, table, row in rows)
    return ChosenMixtures(choices, seconds, max(chosen.seconds - max(least_s, 0.0), 0.0))


def _mixed(part: LayerPart, over_s: Floats, open_s: float) -> MixedOptions:
    """Mixtures whose surplus ``over_s`` ``[layer option]`` adds up to at most ``open_s``, without those that others beat."""
    near = np.argsort(over_s, kind="stable")[:MOST_MIXED]
    near = near[over_s[near] <= open_s]
    most = min(part.num_layers, part.num_all - 1)
    first, rest, number = (each.ravel() for each in np.meshgrid(near, near, np.arange(1, most + 1), indexing="ij"))
    # Without prediction layers both orders of two choices are the same.
    apart = (first != rest) if part.num_prediction_layers else (first < rest)
    apart &= over_s[first] * number + over_s[rest] * (part.num_all - number) <= open_s
    first, rest, number = first[apart], rest[apart], number[apart]
    of = part.options
    kept = of.kept_bytes[first] * number + of.kept_bytes[rest] * (part.num_all - number)
    seconds = of.seconds[first] * number + of.seconds[rest] * (part.num_all - number)
    working = np.maximum(of.working_bytes[first], of.working_bytes[rest])
    rows = unbeaten(kept, seconds, working) if len(kept) else np.zeros(0, dtype=np.int64)
    return MixedOptions(kept[rows], seconds[rows], working[rows], first[rows], rest[rows], number[rows])
