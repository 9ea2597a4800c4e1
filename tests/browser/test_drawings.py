"""Every drawing of every page: named, read without sight, saved as picture, drawing and data, and shown again by its link."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenView, Site

PLAN = "/studies/{completed}/plans/{best_plan}"
# How many drawings a page has.
PAGES = {
    "/studies/new?model=deepseek-v3&hardware=atlas-900-a3-superpod&devices=1024": 1,
    "/studies/{completed}": 4,
    "/studies/{sampled}?tab=trials": 1,
    f"{PLAN}?tab=memory": 2,
    f"{PLAN}?tab=network": 2,
    f"{PLAN}?tab=timeline": 1,
    f"{PLAN}?tab=delivery": 3,
    "/compare?studies={completed},{long_name}&timelines=on": 4,
    "/accuracy": 1,
    "/hardware/atlas-800t-a2": 2,
}
# Charts that are drawn by boxes and text are tables themselves.
TABLES = {PLAN: 1, f"{PLAN}?tab=changes": 1}
DRAWN = "main [role=img][aria-label], main canvas[role=application]"
# Of a drawing: its name, whether its card saves it, whether numbers stand in words or in a table of its card or of the page.
_READ = """(drawing) => {
    const card = drawing.closest(".mantine-Card-root");
    const buttons = [...card.querySelectorAll("button")].map((button) => button.ariaLabel ?? "");
    return {
        name: drawing.ariaLabel ?? "",
        isSaved: buttons.some((name) => name.endsWith("Save the chart")),
        isTold: buttons.some((name) => name.endsWith("Show as a table")) || document.querySelector("main table") !== null
            || /\\d.*: .*\\d/.test(drawing.ariaLabel),
    };
}"""


@pytest.mark.parametrize("address", PAGES)
def test_every_drawing_is_named_told_in_words_or_numbers_and_saved(view: OpenView, site: Site, address: str) -> None:
    opened = view(site.url)
    opened.page.set_viewport_size({"width": 1280, "height": 4000})  # what is drawn when it comes into sight is drawn
    page = opened.open(address.format(**vars(site)))
    drawings = page.locator(DRAWN)
    expect(drawings).to_have_count(PAGES[address])
    for drawing in drawings.all():
        read = drawing.evaluate(_READ)
        assert len(read["name"]) > 10, read
        assert (read["isSaved"], read["isTold"]) == (True, True), read
    for save in page.get_by_role("button", name=re.compile(": Save the chart$")).all():
        save.press("Enter")  # by keys alone
        items = page.get_by_role("menuitem")
        expect(items).to_have_text([re.compile("PNG"), re.compile("SVG"), re.compile("CSV")])
        items.first.press("Escape")
        expect(items).to_have_count(0)


@pytest.mark.parametrize("address", TABLES)
def test_what_is_drawn_by_boxes_in_a_table_is_saved_too(view: OpenView, site: Site, address: str) -> None:
    page = view(site.url).open(address.format(**vars(site)))
    expect(page.get_by_role("button", name=re.compile(": Save the chart$"))).to_have_count(TABLES[address])
    assert page.locator("main table").count() >= 1


def test_a_link_shows_the_numbers_where_the_reader_saw_numbers(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"{PLAN}?tab=delivery".format(**vars(site)))
    page.get_by_role("button", name="A simulated month: Show as a table").click()
    expect(page).to_have_url(re.compile("tables=a-simulated-month"))
    page.reload()
    expect(page.get_by_role("region", name="A simulated month").get_by_role("table")).to_be_visible()
    page.get_by_role("button", name="A simulated month: Show as a chart").click()
    expect(page.get_by_role("img", name=re.compile("30 days of a simulated history"))).to_be_visible()
    expect(page).not_to_have_url(re.compile("tables="))


def test_a_task_of_a_compared_timeline_is_told_and_in_the_address(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/compare?studies={completed},{long_name}&timelines=on".format(**vars(site)))
    first = page.get_by_role("application").first
    first.focus()
    first.press("ArrowRight")
    told = page.get_by_role("status").filter(has_text=re.compile("rank 0, micro batch"))
    expect(told).to_be_visible()
    expect(page).to_have_url(re.compile("task-A="))
    words = told.inner_text()
    page.reload()
    expect(page.get_by_text(words)).to_be_visible()
