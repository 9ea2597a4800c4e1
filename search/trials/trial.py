"""The record of a trial, and the JSON form in which it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from search.errors import SearchError
from search.space.search_space import SearchSpace
from search.trials.named_choices import StrategyChoices, Value

OUTCOMES = FITS, TOO_LARGE, ILLEGAL = ("fits", "too_large", "illegal")
_EVALUATED = ("outcome", "rule", "step_time_s", "peak_memory_bytes")  # names in a trial's JSON
BASELINE, SAMPLED, SEED = "baseline", "sampled", "seed"
UNPRICED = 1e30  # value of an illegal strategy; its constraint shows a sampler that it is not just slow


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one strategy. ``rule`` is the first rule that an illegal one breaks; only legal ones have a price.

    In a refinement, ``step_time_s`` is simulated, and ``None`` where a bound says that the strategy cannot be better. The
    objective minimises ``value``. ``constraints`` above zero are violated: ``memory`` is the missing share of the device's usable
    memory, ``legality`` the number of broken rules.
    """

    outcome: str
    rule: str | None
    step_time_s: float | None
    peak_memory_bytes: float | None
    value: float
    constraints: Mapping[str, float]


@dataclass(frozen=True)
class Trial:
    """A strategy that a sampler proposed. ``best_value`` is the smallest value of all trials so far that fit.

    ``parameters`` make the strategy (``named_choices.py``); ``attributes`` are the sampler's own notes.
    """

    number: int
    source: str  # baseline | sampled | seed: in a refinement, an elite or an elite with one change
    strategy: ParallelStrategy
    evaluation: Evaluation
    best_value: float | None
    duplicate_of: int | None
    parameters: Mapping[str, Value]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, Any]:
        """The trial as JSON without its strategy, which follows from the parameters."""
        evaluation = self.evaluation
        return {
            "number": self.number,
            "source": self.source,
            **{name: getattr(evaluation, name) for name in _EVALUATED},
            "value": None if evaluation.outcome == ILLEGAL else evaluation.value,
            "best_value": self.best_value,
            "duplicate_of": self.duplicate_of,
            "sampler_state": {
                "parameters": dict(self.parameters),
                "constraints": dict(evaluation.constraints),
                "attributes": dict(self.attributes),
            },
        }


def trials_from_mappings(workload: Workload, space: SearchSpace, mappings: Iterable[Mapping[str, Any]]) -> list[Trial]:
    """The trials that ``Trial.to_mapping`` wrote for the same search. Raises ``SearchError`` for anything else."""
    proposals = StrategyChoices(workload, space)
    try:
        return [_trial(proposals, mapping) for mapping in mappings]
    except (KeyError, TypeError, ValueError) as error:
        raise SearchError(Sentence("trials: not those that a search of this version wrote ({}).", error)) from None


def _trial(proposals: StrategyChoices, mapping: Mapping[str, Any]) -> Trial:
    state = mapping["sampler_state"]
    parameters = state["parameters"]
    return Trial(
        **{name: mapping[name] for name in ("number", "source", "best_value", "duplicate_of")},
        strategy=proposals.strategy(lambda name, offered: parameters[name]),
        evaluation=evaluation_of(mapping),
        parameters=parameters,
        attributes=state["attributes"],
    )


def evaluation_of(mapping: Mapping[str, Any]) -> Evaluation:
    """The evaluation that ``Trial.to_mapping`` wrote. Raises ``KeyError`` for anything else."""
    value, constraints = mapping["value"], mapping["sampler_state"]["constraints"]
    evaluated = {name: mapping[name] for name in _EVALUATED}
    return Evaluation(**evaluated, value=UNPRICED if value is None else value, constraints=constraints)
