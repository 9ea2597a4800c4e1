"""A page on paper: what Chromium lays out when it prints, measured at the moment in which it does, and the page afterwards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import DESKTOP, TABLET, WIDE, OpenView, Site, StoredPlan

TABS = ("overview", "timeline", "memory", "network", "changes", "delivery", "launch")
PAPER_PX = 703  # A4 between margins of 12 mm
MEASURED = """() => {
    const seen = (node) => node.checkVisibility();
    const main = document.querySelector("main");
    const edge = main.getBoundingClientRect().right + 1;
    const inner = (box) => {
        const {paddingLeft, paddingRight} = getComputedStyle(box);
        return box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    };
    const charts = [...main.querySelectorAll("[role=img] canvas")];
    const cards = [...main.querySelectorAll(".mantine-Card-root")];
    const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).every((part) => Number(part) > 240);
    const boxes = [...main.querySelectorAll("canvas, table, pre, img, svg, h1, h2, p, dd, dt, td, th")].filter(seen);
    const colors = [...main.querySelectorAll("canvas")].filter(seen).map((canvas) => {
        const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        Object.assign(copy.canvas, {width: canvas.width, height: canvas.height});
        copy.drawImage(canvas, 0, 0);
        const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
        const found = new Set();
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) found.add(data.slice(at, at + 3).join());
        return [...found];
    });
    return {
        width: main.getBoundingClientRect().width,
        menus: [...document.querySelectorAll("header, nav, main button:not([role=tab], th *)")].filter(seen).length,
        headings: [...main.querySelectorAll("th button")].filter(seen).length,
        tabs: [...main.querySelectorAll("[role=tab]")].filter(seen).map((tab) => tab.textContent),
        outside: boxes.filter((box) => box.getBoundingClientRect().right > edge).map((box) => box.outerHTML.slice(0, 120)),
        narrow: charts.filter((canvas) => canvas.clientWidth < inner(canvas.closest(".mantine-Card-root")) - 1).length,
        dark: [document.body, ...cards].filter((box) => !light(getComputedStyle(box).backgroundColor)).length,
        zooms: [...main.querySelectorAll("table")].map((table) => Number(table.style.zoom || 1)),
        colors: colors.flat(),
        text: main.innerText,
    };
}"""


def printed(view: OpenView, site: Site, path: str, to: Path, *, width: int = DESKTOP, language: str = "en-US") -> dict[str, Any]:
    opened = view(site.url, scheme="dark", width=width, language=language)
    page = opened.open(path)
    page.evaluate(f"() => addEventListener('beforeprint', () => {{ window.onPaper = ({MEASURED})(); }})")
    to.write_bytes(page.pdf(format="A4", print_background=True))
    found: dict[str, Any] = page.evaluate("() => window.onPaper")
    opened.settle()
    after = page.evaluate(MEASURED)
    assert after["width"] > PAPER_PX
    assert (after["menus"] > 5, after["dark"] > 1, set(after["zooms"]) <= {1}) == (True, True, True)
    assert page.evaluate("() => ({...document.documentElement.dataset})")["mantineColorScheme"] == "dark"
    return found


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_of_a_plan_prints_whole_light_and_without_menus(
    view: OpenView, site: Site, stored: StoredPlan, tab: str, tmp_path: Path
) -> None:
    found = printed(view, site, f"{stored.path}?tab={tab}", tmp_path / "plan.pdf")
    assert found["width"] <= PAPER_PX
    assert (found["menus"], found["outside"], found["narrow"], found["dark"], len(found["tabs"])) == (0, [], 0, 0, 1)
    assert min(found["zooms"], default=1) > 0.55  # of 8 pt
    assert re.search(r"Step time\s+[\d.]+ m?s", found["text"])
    assert (tmp_path / "plan.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(("width", "language"), [(TABLET, "en-US"), (WIDE, "zh-CN")])
def test_charts_are_drawn_for_paper_from_every_width_of_screen(
    view: OpenView, site: Site, stored: StoredPlan, width: int, language: str, tmp_path: Path
) -> None:
    found = printed(view, site, f"{stored.path}?tab=memory", tmp_path / "plan.pdf", width=width, language=language)
    assert (found["outside"], found["narrow"], found["headings"] > 10) == ([], 0, True)
    line = {"light": "194,47,47", "dark": "242,128,128"}  # the limit, in the palettes
    assert (line["light"] in found["colors"], line["dark"] in found["colors"]) == (True, False)
