"""Post-training: placements, the step of one of them, and what the server refuses, in a real browser over a real server."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from app.rl.schemas import RlDocument, RlSearchDocument
from tests.browser.conftest import DESKTOP, EVERY_LOOK, PHONE, OpenView, Site

ADDRESS = (
    "/rl?model=qwen2.5-math-7b&hardware=h20-sxm-96gb&devices=16&prompts=16&samples=8&mean=800&cap=4096"
    "&max_staleness=2&rollout_tp=1"
)


def searched(page: Page, button: str = "Search") -> RlSearchDocument:
    with page.expect_response("**/v1/rl/searches", timeout=60_000) as answered:
        page.get_by_role("button", name=button, exact=True).click()
    assert answered.value.status == 200, answered.value.text()
    return RlSearchDocument.model_validate(answered.value.json())


@pytest.mark.parametrize(("language", "button", "placements"), [("en-US", "Search", "Placements"), ("zh-CN", "搜索", "放置方案")])
def test_a_search_of_placements_is_drawn_and_listed_in_every_look(
    view: OpenView, site: Site, language: str, button: str, placements: str
) -> None:
    opened = view(site.url, language=language)
    page = opened.open(ADDRESS)
    answer = searched(page, button)
    expect(page.get_by_role("region", name=placements, exact=True).get_by_role("row")).to_have_count(1 + len(answer.plans))
    assert page.locator("[role=img][aria-label]").count() == 3  # tasks over devices, parts, throughput against staleness
    page.mouse.move(0, 0)
    for _, width in opened.looks(*EVERY_LOOK):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_a_placement_of_the_list_is_looked_at_as_it_was_priced(view: OpenView, site: Site) -> None:
    page = view(site.url).open(ADDRESS)
    answer = searched(page)
    plan = next(plan for plan in answer.plans if plan.placement == "separate")
    with page.expect_response("**/v1/rl/estimates", timeout=60_000) as answered:
        page.get_by_role("button", name=f"The step of placement {plan.rank}", exact=True).click()
    step = RlDocument.model_validate(answered.value.json())
    assert (step.placement, step.train_devices, step.staleness_steps) == ("separate", plan.train_devices, plan.staleness_steps)
    assert step.step_time_s == pytest.approx(plan.step_time_s)
    expect(page.get_by_text("The step as asked for")).to_be_visible()
    expect(page).to_have_url(re.compile("ask=estimate&placement=separate|placement=separate&.*ask=estimate"))


def test_the_timeline_tells_every_task_as_a_table(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"{ADDRESS}&ask=estimate&placement=separate&staleness=1&partial=yes&algorithm=grpo")
    with page.expect_response("**/v1/rl/estimates", timeout=60_000) as answered:
        page.get_by_role("button", name="Estimate", exact=True).click()
    step = RlDocument.model_validate(answered.value.json())
    page.get_by_role("button", name="Tasks over devices: Show as a table").click()
    shown = [bar for bar in step.timeline if bar.end_s > bar.start_s]
    rows = page.get_by_role("region", name="Tasks over devices").get_by_role("row")
    expect(rows).to_have_count(1 + sum(len(bar.pools) for bar in shown))
    assert any(bar.task == "rollout" and bar.made_s is not None and bar.made_s > bar.end_s for bar in shown)
    expect(rows.first.get_by_role("columnheader", name="Complete")).to_be_visible()
    page.get_by_role("button", name="Tasks over devices: Show as a chart").click()
    expect(page.get_by_role("img", name=re.compile("Timeline of tasks .*Answers that go on"))).to_be_visible()
    assert step.switches is not None
    rows = page.get_by_role("region", name="Change of layout").get_by_role("row")
    expect(rows).to_have_count(1 + sum(1 + len(side.parts) for side in (step.switches.to_rollout, step.switches.to_train)))
    expect(rows.filter(has_text="Groups made").first).to_contain_text(re.compile(r"0 s.*[0-9] (m?s).*–"))
    for variant in ("Synchronous", "Any staleness", "With a queue"):
        expect(page.get_by_role("region", name="With one thing otherwise").get_by_text(variant)).to_be_visible()


@pytest.mark.parametrize(
    ("given", "instead", "label"), [("mean=800", "mean=9000", "Mean tokens of an answer"), ("rollout_tp=1", "rollout_tp=3", None)]
)
def test_what_the_server_refuses_is_told_and_stands_beside_its_field(
    view: OpenView, site: Site, given: str, instead: str, label: str | None
) -> None:
    opened = view(site.url)
    page = opened.open(ADDRESS.replace(given, instead))
    with page.expect_response("**/v1/rl/searches") as answered:
        page.get_by_role("button", name="Search", exact=True).click()
    assert answered.value.status == 422
    expect(page.get_by_text(answered.value.json()["detail"]).first).to_be_visible()
    if label:
        assert page.get_by_label(label).first.get_attribute("aria-invalid") == "true"
    opened.complaints.clear()  # the browser reports every 422


def test_a_search_of_placements_is_stored_and_shown_as_its_answer(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(ADDRESS)
    page.get_by_role("button", name="As a study").click()
    page.wait_for_url("**/studies/*")
    page.get_by_role("heading", name="Throughput against staleness").wait_for(timeout=90_000)
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []
