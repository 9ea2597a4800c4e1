"""Words in charts: whole, inside the drawing, and apart from each other, by the boxes that Chromium gives the saved drawing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import DESKTOP, TABLET, WIDE, OpenView, Site, StoredPlan

# How many charts a page has.
PAGES = {
    "/studies/{completed}": 4,
    "/studies/{sampled}?tab=trials": 1,
    "{plan}?tab=memory": 2,
    "{plan}?tab=delivery": 3,
    "/compare?studies={completed},{long_name}": 2,
    "/accuracy": 1,
}
WIDTHS = [("en-US", TABLET), ("zh-CN", TABLET), ("en-US", DESKTOP), ("zh-CN", WIDE)]
SAVE = re.compile(": Save the chart$|：保存图表$")
SPARE_PX = 1.5
# A text and its box in the drawing, of all texts; the drawing's own size first.
_BOXES = """(text) => {
    const holder = document.createElement("div");
    holder.style.cssText = "position: absolute; left: 0; top: 0; visibility: hidden";
    holder.innerHTML = text;
    document.body.append(holder);
    const whole = holder.querySelector("svg").getBoundingClientRect();
    const texts = [...holder.querySelectorAll("text")].filter((node) => node.textContent.trim()).map((node) => {
        const box = node.getBoundingClientRect();
        return [node.textContent, box.left - whole.left, box.top - whole.top, box.right - whole.left, box.bottom - whole.top];
    });
    holder.remove();
    return [whole.width, whole.height, texts];
}"""


def wrong_labels(page: Page, svg: str) -> list[str]:
    width, height, texts = page.evaluate(_BOXES, svg)
    found = [f"cut: {text}" for text, *_ in texts if text.endswith(("…", "..."))]
    found += [
        f"outside {width:.0f} x {height:.0f}: {text} at {left:.0f}, {top:.0f}, {right:.0f}, {bottom:.0f}"
        for text, left, top, right, bottom in texts
        if min(left, top) < -SPARE_PX or right > width + SPARE_PX or bottom > height + SPARE_PX
    ]
    for place, (text, left, top, right, bottom) in enumerate(texts):
        for other, other_left, other_top, other_right, other_bottom in texts[:place]:
            across = min(right, other_right) - max(left, other_left)
            along = min(bottom, other_bottom) - max(top, other_top)
            if across > SPARE_PX and along > 2 * SPARE_PX:
                found.append(f"over each other by {across:.0f} x {along:.0f}: {other} and {text}")
    return found


def test_wrong_labels_are_found(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    frame = '<svg xmlns="http://www.w3.org/2000/svg" width="100" height="50">{}</svg>'
    good = '<text x="5" y="20">one</text><text x="60" y="20">two</text>'
    assert wrong_labels(page, frame.format(good)) == []
    for bad, kind in [
        ('<text x="5" y="40">1...</text>', "cut"),
        ('<text x="80" y="40">longer</text>', "outside"),
        ('<text x="10" y="24">on it</text>', "over"),
    ]:
        assert [line.startswith(kind) for line in wrong_labels(page, frame.format(good + bad))] == [True]


@pytest.mark.parametrize("address", PAGES)
def test_labels_of_charts_are_whole_inside_and_apart(view: OpenView, site: Site, stored: StoredPlan, address: str) -> None:
    found = []
    for language, width in WIDTHS:
        opened = view(site.url, language=language, width=width)
        opened.page.set_viewport_size({"width": width, "height": 4500})  # charts are drawn where they are seen
        page = opened.open(address.format(**vars(site), plan=stored.path))
        expect(page.locator("main .mantine-Skeleton-root")).to_have_count(0)
        saves = page.get_by_role("button", name=SAVE)
        expect(saves).to_have_count(PAGES[address])
        for save in saves.all():
            save.press("Enter")
            with page.expect_download() as download:
                page.get_by_role("menuitem", name="SVG").click()
            drawn = download.value.path().read_text(encoding="utf-8")
            found += [f"{language} {width} {save.get_attribute('aria-label')}: {wrong}" for wrong in wrong_labels(page, drawn)]
    assert found == []
