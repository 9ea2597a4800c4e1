"""Histories of checks: trends, table, a check's own page, files and keyboard, in a real browser over a real server."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from app.checks.baseline import parse_baseline
from tests.browser.conftest import CHECKED, EVERY_LOOK, HISTORY, OpenView, Site
from tests.servers import Server

TRENDS = ("Step time", "Peak memory", "Throughput")


def saved(page: Page, title: str, kind: str) -> bytes:
    page.get_by_role("button", name=f"{title}: Save the chart").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile(kind)).click()
    return download.value.path().read_bytes()


def rows(page: Page) -> Any:
    return page.get_by_role("region", name=f"Checks of {HISTORY}", exact=True).get_by_role("row")


def listed(site: Site) -> list[dict[str, Any]]:
    """Oldest first."""
    items: list[dict[str, Any]] = httpx.get(f"{site.url}/v1/checks", params={"name": HISTORY}).json()["items"]
    return items[::-1]


@pytest.mark.parametrize(("language", "trend"), [("en-US", "Step time of 4 checks"), ("zh-CN", "4 次检查的单步时间")])
def test_a_history_is_drawn_and_listed_in_every_look(view: OpenView, site: Site, language: str, trend: str) -> None:
    opened = view(site.url, language=language)
    page = opened.open("/checks")
    expect(page.get_by_role("img", name=re.compile(trend))).to_be_visible()
    assert page.locator("[role=img][aria-label]").count() == len(TRENDS)
    for _, width in opened.looks(*EVERY_LOOK):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_the_table_says_what_failed_and_what_moved(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/checks")
    expect(rows(page)).to_have_count(5)
    newest, infeasible, broken, oldest = (rows(page).nth(place) for place in range(1, 5))
    expect(broken).to_contain_text("Broken")
    expect(broken).to_contain_text("Step time against the baseline")
    expect(broken).to_contain_text("strategy.recompute")
    expect(infeasible).to_contain_text("Infeasible")
    expect(newest).to_contain_text("Passed")
    old, slow, _, new = listed(site)
    change = slow["metrics"]["step_time_s"] / old["metrics"]["step_time_s"] - 1
    expect(broken).to_contain_text(f"+{100 * change:.1f} %")
    since_priced = 1 - new["metrics"]["step_time_s"] / slow["metrics"]["step_time_s"]  # the one between has no price
    expect(newest).to_contain_text(f"−{100 * since_priced:.1f} %")
    link = oldest.get_by_role("link", name=re.compile("Open the change: 111111111111"))
    expect(link).to_have_attribute("href", "https://gitlab.example/training/jobs/-/merge_requests/1")
    expect(link).to_have_attribute("rel", re.compile("noopener noreferrer"))


def test_what_is_chosen_is_in_the_address_and_survives_a_reload(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/checks")
    page.get_by_role("combobox", name="All branches").or_(page.get_by_label("Branch")).first.click()
    page.get_by_role("option", name="main").click()
    expect(rows(page)).to_have_count(3)
    page.get_by_text("Time", exact=True).last.click()
    page.get_by_role("checkbox", name="Budget lines").uncheck()
    page.get_by_label("Result").first.click()
    page.get_by_role("option", name="Infeasible").click()
    expect(rows(page)).to_have_count(2)
    assert {"branch=main", "axis=time", "bounds=no", "status=infeasible"} <= set(page.url.partition("?")[2].split("&"))
    page.reload()
    opened.settle()
    expect(rows(page)).to_have_count(2)
    expect(page.get_by_role("checkbox", name="Budget lines")).not_to_be_checked()
    expect(page.get_by_role("img", name=re.compile("Step time of 2 checks"))).to_be_visible()


def test_trends_are_saved_as_picture_drawing_and_data(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/checks")
    page.get_by_role("img", name=re.compile("Step time of 4 checks")).wait_for()
    assert saved(page, "Step time", "PNG").startswith(b"\x89PNG\r\n")
    assert b"at most" in saved(page, "Step time", "SVG")
    lines = list(csv.DictReader(io.StringIO(saved(page, "Step time", "CSV").decode())))
    kept = listed(site)
    assert [line["id"] for line in lines] == [check["id"] for check in kept]
    assert [float(line["step_time_s"]) if line["step_time_s"] else None for line in lines] == [
        check["metrics"].get("step_time_s") for check in kept
    ]
    assert [line["step_time_s_max"] for line in lines] == ["14"] * 4
    page.get_by_role("button", name="Step time: Show as a table").click()
    table = page.get_by_role("region", name="Step time", exact=True)
    expect(table.get_by_role("row")).to_have_count(5)
    expect(table.get_by_role("row").nth(3)).to_contain_text("Infeasible")


def test_the_keyboard_goes_to_the_page_through_the_table_and_into_a_check(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/models")
    page.keyboard.press("g")
    page.keyboard.press("k")
    page.wait_for_url("**/checks")
    rows(page).nth(1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/checks/{site.broken_check}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{HISTORY} · 22222222")


def test_a_check_shows_each_bound_and_both_comparisons(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(f"/checks/{site.broken_check}")
    whole = httpx.get(f"{site.url}/v1/checks/{site.broken_check}").json()
    bounds = page.get_by_role("region", name="Budget and baseline", exact=True).last
    expect(bounds.get_by_role("row")).to_have_count(1 + len(whole["lines"]))
    for line in whole["lines"]:
        expect(bounds).to_contain_text(line["sentence"])
    expect(page.get_by_text("(said by CI_COMMIT_SHA)")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile(r"Step time by part: Recompute \+"))).to_be_visible()
    page.get_by_text("the baseline", exact=True).click()
    expect(page.get_by_text("Changed in the job")).to_be_visible()
    assert "against=baseline" in page.url
    by_part = list(csv.DictReader(io.StringIO(saved(page, "Memory by part", "CSV").decode())))
    assert {line["part"]: float(line["change_bytes"]) for line in by_part} == {
        part["part"]: part["change"] for part in whole["check"]["baseline"]["memory_parts"]
    }
    assert opened.violations() == []


def test_a_check_that_cannot_run_says_why(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/checks/{site.infeasible_check}")
    expect(page.get_by_text("does not divide the 8 devices")).to_be_visible()
    expect(page.get_by_text("There is no breakdown to compare with.")).to_be_visible()
    expect(page.get_by_role("button", name="Save as a baseline")).to_have_count(0)


def test_a_check_is_saved_as_a_baseline_and_leads_to_its_neighbours(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/checks/{site.passed_check}")
    expect(page.get_by_text("It had no baseline, and no check stands before it.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a baseline").click()
    baseline = parse_baseline(json.loads(download.value.path().read_text()), "saved")
    assert baseline.estimate["step_time_s"] == listed(site)[0]["metrics"]["step_time_s"]
    expect(page.get_by_role("link", name="Check before")).to_have_count(0)
    page.get_by_role("link", name="Check after").click()
    page.wait_for_url(f"**/checks/{site.broken_check}")
    page.get_by_role("link", name=HISTORY).click()
    expect(rows(page)).to_have_count(5)


def test_a_check_is_archived_and_deleted(view: OpenView, empty_server: Server, site: Site) -> None:
    opened = view(empty_server.url)
    page = opened.open("/checks")
    expect(page.get_by_role("heading", name="No history yet")).to_be_visible()
    expect(page.get_by_role("region", name=re.compile("first check of a history"))).to_contain_text(
        f"--server {empty_server.url}"
    )
    assert opened.violations() == []
    body = {**CHECKED, "strategy": {"tp": 8}, "history": {"name": "mine", "branch": "main"}}
    kept = httpx.post(f"{empty_server.url}/v1/checks:keep", json=body, timeout=60).json()["id"]
    page = opened.open(f"/checks/{kept}")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Archived", exact=True)).to_be_visible()
    assert httpx.get(f"{empty_server.url}/v1/histories").json()["items"] == []
    httpx.post(f"{empty_server.url}/v1/checks:keep", json=body, timeout=60).raise_for_status()
    put_away = opened.open("/checks?archived=yes").get_by_role("region", name="Checks of mine", exact=True)
    expect(put_away.get_by_role("link", name=re.compile("ago|now"))).to_have_attribute("href", f"/checks/{kept}")
    page = opened.open(f"/checks/{kept}")
    page.get_by_role("button", name="Take out of the archive").click()
    expect(page.get_by_role("button", name="Archive", exact=True)).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    assert opened.violations() == []
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("region", name="Checks of mine", exact=True).get_by_role("row")).to_have_count(2)
    assert httpx.get(f"{empty_server.url}/v1/checks/{kept}").status_code == 404
    opened.complaints.clear()  # the check that has gone may have been asked for once more


def test_who_may_shares_a_check_and_others_only_read_it(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page, path = opened.page, f"**/v1/checks/{site.passed_check}"
    told: dict[str, Any] = httpx.get(f"{site.url}/v1/checks/{site.passed_check}").json() | {
        "owner": "ada",
        "visibility": "private",
    }
    scopes, asked = ["read"], []

    def answered(route: Route) -> None:
        if route.request.method == "PATCH":
            asked.append(route.request.post_data_json)
            told.update(asked[-1])
        route.fulfill(json=told)

    page.route(path, answered)
    page.route("**/v1/terms", lambda route: route.fulfill(json={"owner": "ada", "scopes": scopes, "keep_studies_days": 0}))
    opened.open(f"/checks/{site.passed_check}")
    expect(page.get_by_text("of ada")).to_be_visible()
    expect(page.get_by_role("button", name="Archive")).to_have_count(0)
    scopes.append("write")
    page.reload()
    page.get_by_label("Who sees it").first.click()
    page.get_by_role("option", name="seen by everybody").click()
    expect(page.get_by_label("Who sees it").first).to_have_value("seen by everybody")
    assert asked == [{"visibility": "public"}]
    assert opened.violations() == []


def test_a_check_that_is_not_there_is_told_in_the_servers_words(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    opened.page.goto(f"{site.url}/checks/0123456789abcdef")
    opened.page.get_by_role("alert").wait_for()
    assert "0123456789abcdef" in opened.page.get_by_role("alert").inner_text()
    assert all("404" in complaint for complaint in opened.complaints)
    opened.complaints.clear()
