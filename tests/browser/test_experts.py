"""Loads of experts in, heat maps and a map out: in a real browser, answered by a real server."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from app.experts.schemas import ExpertPlanDocument
from tests.browser.conftest import DESKTOP, PHONE, OpenView, Site

ADDRESS = "/experts?model=deepseek-v2-lite&hardware=atlas-800t-a2&devices=64&ep=16&steps=12"


def planned(page: Page, button: str = "Plan") -> ExpertPlanDocument:
    with page.expect_response("**/v1/experts/plans", timeout=60_000) as answered:
        page.get_by_role("button", name=button, exact=True).click()
    assert answered.value.status == 200, answered.value.text()
    return ExpertPlanDocument.model_validate(answered.value.json())


def test_a_generated_trace_becomes_heat_maps_and_a_map(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(ADDRESS)
    answer = planned(page)
    assert answer.is_worth
    for name in ("Before", "After"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    most = max(max(ranks) for ranks in answer.relative_loads_before)
    label = page.get_by_role("img", name="Heat map of expert loads before").get_attribute("aria-label")
    assert label is not None
    assert f"{most:.3g} times the mean" in label
    expect(page.get_by_role("img", name="Heat map of expert loads after")).to_be_visible()
    expect(page.get_by_text(answer.reason)).to_be_visible()
    page.get_by_role("button", name=re.compile("^Before: Show")).click()
    region = page.get_by_role("region", name="Before")
    expect(region.get_by_role("row")).to_have_count(1 + len(answer.layers))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the map").click()
    assert download.value.suggested_filename == "expert_map.json"
    written = json.loads(download.value.path().read_text())
    assert [one["device_expert"] for one in written["layer_list"][0]["device_list"]] == answer.placement[0]
    page.mouse.move(0, 0)  # off the button, whose tooltip lies outside the page's landmarks
    for _, width in opened.looks(("light", DESKTOP), ("dark", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_a_log_is_sent_as_it_is_and_a_map_comes_back(view: OpenView, site: Site) -> None:
    page = view(site.url).open(ADDRESS)
    rows = "\n".join(f"{layer},{expert},{1000 + 997 * expert % 641}" for layer in range(26) for expert in range(64))
    page.locator("textarea").first.fill(f"layer,expert,tokens\n{rows}\n")
    answer = planned(page)
    assert answer.forecast.num_steps == 1
    assert answer.load_after < answer.load_before


def test_the_page_and_its_answer_are_chinese(view: OpenView, site: Site) -> None:
    opened = view(site.url, language="zh-CN", width=PHONE)
    page = opened.open(ADDRESS)
    planned(page, "规划")
    expect(page.get_by_role("heading", name="迁移前", exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="迁移后的专家负载热图")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert opened.violations() == []


@pytest.mark.parametrize(
    ("change", "log", "label"),
    [("ep=16", "layer,expert,tokens\n0,0,-1\n", "Log of tokens"), ("ep=1", "", "EP"), ("devices=64", "", "")],
)
def test_what_the_server_refuses_stands_beside_its_field(view: OpenView, site: Site, change: str, log: str, label: str) -> None:
    opened = view(site.url)
    address = ADDRESS.replace("ep=16", change) if change.startswith("ep") else ADDRESS.replace("ep=16", "ep=3")
    page = opened.open(address)
    page.locator("textarea").first.fill(log)
    with page.expect_response("**/v1/experts/plans") as answered:
        page.get_by_role("button", name="Plan", exact=True).click()
    assert answered.value.status == 422
    detail = answered.value.json()["detail"]
    expect(page.get_by_text(detail).first).to_be_visible()
    if label:
        assert page.get_by_label(label).first.get_attribute("aria-invalid") == "true"
    opened.complaints.clear()  # the browser reports every 422


def test_models_of_the_list_have_experts(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/experts")
    page.get_by_role("combobox", name="Model").click()
    offered = set(page.get_by_role("option").all_inner_texts())
    known = httpx.get(f"{site.url}/v1/models", timeout=30).json()["items"]
    assert {item["name"] for item in known if item["num_experts"]} & offered
    assert not {item["name"] for item in known if not item["num_experts"]} & offered
