"""What the server says on Chinese pages: its sentences come in the reader's language, and change with it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, SMALL, OpenView, Site, searched

UNVALIDATED: dict[str, Any] = {**SMALL, "cluster": {"hardware": "atlas-950-superpod", "num_devices": 8}}


@pytest.fixture(scope="module")
def warned(site: Site) -> tuple[str, list[str]]:
    """A plan of a profile that nobody has measured, and what is warned of."""
    with httpx.Client(base_url=site.url, timeout=90) as client:
        study = searched(site.url, UNVALIDATED)
        plan = client.get(f"/v1/studies/{study}/plans?limit=1").json()["items"][0]["plan_id"]
        english = client.get(f"/v1/studies/{study}").json()["warnings"]
        assert english
        return f"/studies/{study}/plans/{plan}", english


def test_a_plan_warns_in_the_language_of_its_page(view: OpenView, site: Site, warned: tuple[str, list[str]]) -> None:
    path, english = warned
    page = view(site.url, language="zh-CN").open(path)
    warning = page.get_by_role("alert").filter(has_text="atlas-950-superpod")
    expect(warning.first).to_contain_text(re.compile("尚未交付|未经验证"))
    expect(page.get_by_text(english[0])).to_have_count(0)


def test_another_language_asks_the_server_again(view: OpenView, site: Site, warned: tuple[str, list[str]]) -> None:
    path, english = warned
    opened = view(site.url)
    page = opened.open(path)
    expect(page.get_by_text(english[0]).first).to_be_visible()
    page.get_by_role("button", name="Language").click()
    page.get_by_role("menuitem", name="中文").click()
    expect(page.get_by_text(re.compile("尚未交付|未经验证")).first).to_be_visible()
    expect(page.get_by_text(english[0])).to_have_count(0)


def test_a_refused_form_says_why_in_chinese(view: OpenView, site: Site) -> None:
    opened = view(site.url, language="zh-CN")
    page = opened.open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=16&global_batch_size=0")
    page.get_by_role("button", name="开始搜索").click()
    expect(page.get_by_label("全局批次大小（序列数）")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("training.global_batch_size：不允许 0；请给出 1 至").first).to_be_visible()
    assert all("422" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


# Chinese may be broken behind every character: what stands in a column must not be one or two characters wide.
SQUEEZED = """() => [...document.querySelectorAll("th, td")].filter((cell) => cell.checkVisibility()).flatMap((cell) => {
  const text = document.createRange(), found = [];
  for (const node of cell.querySelectorAll("*:not(code)").length ? [cell, ...cell.querySelectorAll("*:not(code)")] : [cell])
    for (const child of node.childNodes) {
      if (child.nodeType !== Node.TEXT_NODE || !/^[\u4e00-\u9fff]{2,8}$/.test(child.data.trim())) continue;
      text.selectNodeContents(child);
      if (new Set([...text.getClientRects()].map(({top}) => Math.round(top))).size > 1) found.push(child.data);
    }
  return found;
})"""


@pytest.mark.parametrize(
    "path",
    ["/studies/{completed}/plans/{best_plan}", "/studies/{completed}/plans/{best_plan}?tab=network", "/checks/{broken_check}"],
)
def test_no_word_of_a_table_is_broken_on_a_phone(view: OpenView, site: Site, path: str) -> None:
    page = view(site.url, language="zh-CN", width=PHONE).open(path.format(**vars(site)))
    page.locator("td").first.wait_for()
    assert page.evaluate(SQUEEZED) == []


def test_quotes_of_chinese_are_as_wide_as_its_characters(view: OpenView, site: Site) -> None:
    widths = """() => {
      const brush = document.createElement("canvas").getContext("2d");
      brush.font = `100px ${getComputedStyle(document.body).fontFamily}`;
      return [..."“”…—"].map((mark) => Math.round(brush.measureText(mark).width));
    }"""
    page = view(site.url, language="zh-CN").open("/studies")
    page.evaluate("() => document.fonts.load(`100px ${getComputedStyle(document.body).fontFamily}`)")
    assert page.evaluate(widths) == [100, 100, 100, 100]
    english = view(site.url).open("/studies")
    assert all(width < 50 for width in english.evaluate(widths)[:2])


def test_a_number_stays_on_the_line_of_its_unit(view: OpenView, site: Site) -> None:
    page = view(site.url, language="zh-CN", width=PHONE).open(f"/studies/{site.completed}")
    said = page.get_by_text(re.compile("策略格点含 .*个策略，")).first.evaluate("(element) => element.textContent")
    assert re.search(r"耗时 [\d.]+\u00a0(s|min)。", said), said
