"""The case study of DeepSeek-V3: its claims hold, and the page says what its script prices."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from cost_models.shapes.strategy import Schedule
from cost_models.shapes.switches import Feature
from frameworks.legality import violations
from scripts.case_studies.deepseek import DETACHED, HOURS_PER_TRILLION_TOKENS, MERGED, recipe, trained, under, workload_of
from scripts.case_studies.prices import layer_exchange, simulated
from scripts.case_studies.ran_layouts import rank_parts
from scripts.case_studies.write_deepseek import PAGE, bubble_section, head, recipe_section, schedule_section, trained_section
from scripts.pages.text import wrapped

ON_A3, ON_H800 = workload_of("recipe"), workload_of("trained")


def steps_s() -> dict[tuple[Schedule, Feature], float]:
    strategies = under(recipe())
    found = simulated(ON_A3, strategies)
    return {(s.schedule, s.features & DETACHED): e["step_time_s"] for s, e in zip(strategies, found, strict=True)}


def test_the_recipe_is_legal_where_it_was_published() -> None:
    assert violations(ON_A3, recipe(), "any") == ()
    assert violations(ON_A3, recipe(), "mindspeed-llm") == ()


def test_every_schedule_is_legal_for_the_physics() -> None:
    for strategy in under(recipe()):
        assert violations(ON_A3, strategy, "any") == ()


def test_schedules_come_in_the_order_of_what_they_add() -> None:
    found = steps_s()
    none = Feature(0)
    assert found[Schedule.ZB1P, none] < found[Schedule.ONE_F_ONE_B, none]
    assert found[Schedule.INTERLEAVED, MERGED] < found[Schedule.INTERLEAVED, none] < found[Schedule.ONE_F_ONE_B, none]
    assert found[Schedule.DUALPIPE_V, DETACHED] < found[Schedule.DUALPIPE_V, MERGED] < found[Schedule.DUALPIPE_V, none]


def test_a_merged_pair_hides_all_expert_communication_of_the_recipe() -> None:
    # [mindspeed, fb-overlap] all of it in the steady phase, about half of it in warm-up and cool-down.
    layer = layer_exchange(ON_A3, recipe())
    assert layer.left_s <= 0.02 * layer.total_s
    assert 0.5 < layer.left_alone_s / layer.total_s < 0.7


def test_dualpipe_holds_the_weights_of_two_stages() -> None:
    # [dualpipe, README] parameters of 1F1B twice, on a rank that has four MoE layers up and down the pipeline
    both, one = trained(Schedule.DUALPIPE, 1, MERGED), trained(Schedule.ONE_F_ONE_B, 1, Feature(0))
    assert rank_parts(ON_H800, both)[8]["weights"] == 2 * rank_parts(ON_H800, one)[8]["weights"]


def test_dualpipe_on_h800_comes_near_the_published_throughput() -> None:
    # [deepseek-v3, table 1] 180,000 H800 hours for 10^12 tokens; nothing is fitted to an H800.
    (found,) = simulated(ON_H800, [trained(Schedule.DUALPIPE, 1, MERGED)])
    published = 1e12 / (HOURS_PER_TRILLION_TOKENS * 3600.0)
    assert found["tokens_per_s_per_device"] == pytest.approx(published, rel=0.25)


@pytest.mark.parametrize(
    "section",
    [
        head,
        partial(recipe_section, ON_A3),
        partial(schedule_section, ON_A3),
        partial(bubble_section, ON_A3),
        partial(trained_section, ON_H800),
    ],
    ids=["head", "recipe", "schedules", "bubble", "trained"],
)
def test_the_page_agrees_with_the_script(section: Callable[[], str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert wrapped(section()).strip() in text, "the model or its calibration changed: run `make docs` and review the diff"


def test_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / link).is_file(), link
