"""A report on paper: nothing is cut off, nothing can be scrolled there, and no text lies over another."""

from __future__ import annotations

from datetime import date
from functools import cache

import pytest
from playwright.sync_api import Browser

from app.answers.schemas import SearchDocument
from app.answers.search import search_document
from app.jobs.job import parse_job
from app.reports.report import Form, Language, report

ON_PAPER_PX = 672  # A4 less its margins, at 96 px an inch
JOB = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "atlas-900-a2-podc", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "search": {"tp": [1, 2], "cp": 1, "top": 3},
    "software": {"target": "mindspeed-llm"},
}
CUT_OFF = """() => [...document.querySelectorAll("body *")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible"
        || one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map((one) => one.outerHTML.slice(0, 80))"""
OVERLAPPING = """() => [...document.querySelectorAll("svg")].flatMap((picture) => {
    const boxes = [...picture.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    return boxes.flatMap(([name, a], index) => boxes.slice(index + 1)
        .filter(([, b]) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
        .map(([other]) => `${name} / ${other}`));
})"""
LINES = "(cell) => { const all = document.createRange(); all.selectNodeContents(cell); return all.getClientRects().length; }"


@cache
def answer() -> SearchDocument:
    return search_document(parse_job(JOB))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("form", ["html", "pdf-ready"])
def test_a_report_fits_on_paper(browser: Browser, form: Form, language: Language) -> None:
    page = browser.new_page(viewport={"width": ON_PAPER_PX, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(media="print")
    page.set_content(report(answer(), form, language, date(2026, 11, 23)))
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(OVERLAPPING) == []
    numbers = page.locator(".wide td.n")
    assert {numbers.nth(index).evaluate(LINES) for index in range(numbers.count())} == {1}  # no number goes on in another line
    assert asked == []
    page.close()
