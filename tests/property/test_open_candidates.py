"""Open candidates against all rows: the best structures are listed, however close the bounds of the others come."""

from __future__ import annotations

import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from search.exhaustive.open_candidates import OpenCandidates
from search.ranking.leaderboard import Scored

BASE = ParallelStrategy(tp=2, pp=2, cp=1, ep=1, vpp=1, schedule=Schedule.ONE_F_ONE_B)
# Each differs from the base in one part of a structure.
STRUCTURES = (
    BASE,
    replace(BASE, tp=4),
    replace(BASE, pp=4),
    replace(BASE, cp=2),
    replace(BASE, ep=2),
    replace(BASE, vpp=2),
    replace(BASE, schedule=Schedule.ZB1P),
)
STEPS = (0, 1, 2, 5, 1_000, 1_000_000, 100_000_000, 300_000_000)  # of a billionth: how far times lie apart, and bounds below


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, int, float, float]:
    """A structure and a micro batch size, the simulated time, and a bound that is not above it."""
    time_s = 1.0 + draw(st.sampled_from(STEPS)) * 1e-9 + draw(st.integers(0, 3)) * 1e-3
    return (
        draw(st.integers(0, len(STRUCTURES) - 1)),
        draw(st.integers(1, 2)),
        time_s,
        time_s * (1 - draw(st.sampled_from(STEPS)) * 1e-9),
    )


class Race:
    """Rows with their true times, in the enumeration's order."""

    def __init__(self, drawn: list[tuple[int, int, float, float]]) -> None:
        structures, sizes, times_s, bounds_s = zip(*drawn, strict=True)
        self.structure = np.array(structures)
        self.true_s, self.bound_s = np.array(times_s), np.array(bounds_s)
        batch = StrategyBatch.of(
            [replace(STRUCTURES[at], micro_batch_size=size) for at, size in zip(structures, sizes, strict=True)]
        )
        self.scored = Scored(batch, (self.true_s + self.bound_s) / 2, np.ones(len(drawn)), np.arange(len(drawn)))

    def simulated(self, scored: Scored) -> Scored:
        return replace(scored, step_time_s=self.true_s[scored.ordinal])

    def best_s(self, places: int) -> list[float]:
        """The time of each of the best structures, from all rows."""
        return sorted(float(self.true_s[self.structure == at].min()) for at in np.unique(self.structure))[:places]

    def run(self, candidates: OpenCandidates, chunk: int, most: int) -> None:
        """Every chunk is considered, its most promising rows are simulated, and then what is left by its bounds."""
        for first in range(0, len(self.scored), chunk):
            rows = np.arange(first, min(first + chunk, len(self.scored)))
            candidates.consider(self.scored.take(rows), self.bound_s[rows])
            promising = candidates.most_promising(most - candidates.num_simulated)
            if promising is not None:
                candidates.settle(self.simulated(promising))
        while (batch := candidates.next_batch(most - candidates.num_simulated)) is not None:
            candidates.settle(self.simulated(batch))


races = st.lists(rows(), min_size=1, max_size=40).map(Race)


@settings(max_examples=150)
@given(races, st.integers(1, 8), st.integers(1, 40))
def test_every_place_is_that_of_all_rows(race: Race, places: int, chunk: int) -> None:
    candidates = OpenCandidates(places)
    race.run(candidates, chunk, most=1_000)
    expected = race.best_s(places)
    assert sorted(candidates.structure_s.values())[: len(expected)] == expected
    assert candidates.num_proved == len(expected)
    assert candidates.open_bound_s == np.inf


@settings(max_examples=100)
@given(races, st.integers(1, 8), st.integers(1, 40), st.integers(0, 12))
def test_places_that_are_called_proved_are_those_of_all_rows_however_few_are_simulated(
    race: Race, places: int, chunk: int, most: int
) -> None:
    candidates = OpenCandidates(places)
    race.run(candidates, chunk, most)
    assert candidates.num_simulated <= most
    num_proved = candidates.num_proved
    assert sorted(candidates.structure_s.values())[:num_proved] == race.best_s(places)[:num_proved]
    if candidates.structure_s:
        assert min(candidates.best_s, candidates.open_bound_s) <= race.best_s(1)[0]


@settings(max_examples=100)
@given(races, st.integers(1, 8), st.sampled_from([1.0, 1.001, 1.1, 1.3]))
def test_only_rows_below_the_time_to_beat_are_listed(race: Race, places: int, to_beat_s: float) -> None:
    candidates = OpenCandidates(places, to_beat_s=to_beat_s)
    race.run(candidates, chunk=5, most=1_000)
    expected = [time_s for time_s in race.best_s(places) if time_s < to_beat_s]
    assert sorted(candidates.structure_s.values())[: len(expected)] == expected


@settings(max_examples=100)
@given(races, st.integers(1, 8), st.integers(0, 12))
def test_candidates_go_on_where_they_were_saved(race: Race, places: int, most: int) -> None:
    candidates = OpenCandidates(places)
    race.run(candidates, chunk=5, most=most)
    continued = OpenCandidates.from_mapping(candidates.to_mapping(), places)
    assert continued.num_proved == candidates.num_proved
    while (batch := continued.next_batch(1_000)) is not None:
        continued.settle(race.simulated(batch))
    expected = race.best_s(places)
    assert sorted(continued.structure_s.values())[: len(expected)] == expected


@settings(max_examples=100)
@given(races, st.integers(1, 4), st.integers(1, 10))
def test_a_row_that_the_pool_has_no_room_for_leaves_its_bound(race: Race, places: int, room: int) -> None:
    candidates = OpenCandidates(places)
    with patch.object(sys.modules[OpenCandidates.__module__], "POOL_SIZE", room):
        race.run(candidates, chunk=40, most=1_000)
    num_proved = candidates.num_proved
    assert sorted(candidates.structure_s.values())[:num_proved] == race.best_s(places)[:num_proved]
    assert min(candidates.best_s, candidates.open_bound_s) <= race.best_s(1)[0]
