"""Combinations that a framework's validators take and that only its pages warn of. They are legal, priced, and said."""

from __future__ import annotations

from collections.abc import Callable

from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from frameworks.rule import Mask


@dataclass(frozen=True)
class Caution:
    """``rows`` are the strategies with ``feature`` that the sentence is about, ``[n]``; ``source`` is the page that warns.

    A search does not switch ``feature`` on by itself in such strategies.
    """

    feature: Feature
    rows: Callable[[Workload, StrategyBatch], Mask]
    sentence: str
    source: str
