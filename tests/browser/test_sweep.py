"""A job at many sizes: form, curves, costs, points and files, in a real browser over a real server."""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import Page, Route, expect

from app.sweeps.schemas import SweepDocument
from tests.browser.conftest import DESKTOP, EVERY_LOOK, PHONE, OpenView, Site

ADDRESS = (
    "/sweep?model=llama-2-7b&hardware=atlas-800t-a2&devices=1,8,12&batch=64&sequence=4096"
    "&tokens=100000000000&price=2&deadline=400"
)


def swept(page: Page, button: str = "Sweep") -> SweepDocument:
    with page.expect_response("**/v1/sweeps", timeout=60_000) as answered:
        page.get_by_role("button", name=button, exact=True).click()
    assert answered.value.status == 200, answered.value.text()
    return SweepDocument.model_validate(answered.value.json())


@pytest.mark.parametrize(("language", "button", "points"), [("en-US", "Sweep", "Points"), ("zh-CN", "扫描", "各点")])
def test_a_sweep_is_drawn_and_listed_in_every_look(view: OpenView, site: Site, language: str, button: str, points: str) -> None:
    opened = view(site.url, language=language)
    page = opened.open(ADDRESS)
    answer = swept(page, button)
    assert answer.best is not None
    rows = page.get_by_role("region", name=points, exact=True).get_by_role("row")
    expect(rows).to_have_count(1 + answer.num_points)
    assert page.locator("[role=img][aria-label]").count() == 6  # throughput, linearity, days, cost, energy, days against cost
    page.mouse.move(0, 0)
    for _, width in opened.looks(*EVERY_LOOK):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_a_point_without_a_plan_says_why_and_the_others_lead_to_studies(view: OpenView, site: Site) -> None:
    page = view(site.url).open(ADDRESS.replace("1,8,12", "8,12") + "&limit=50")
    answer = swept(page)
    planned = next(point for point in answer.points if point.strategy is not None)
    assert planned.strategy is not None
    page.get_by_role("link", name=f"New study of the plan of point {planned.point}").click()
    expect(page.get_by_role("heading", name="New study")).to_be_visible()
    command = page.get_by_role("region", name="The same search from a terminal")
    expect(command).to_contain_text(f"--devices {planned.num_devices}")
    expect(command).to_contain_text(f"--tp {planned.strategy.tp}")
    expect(command).to_contain_text(f"--pp {planned.strategy.pp}")


def test_charts_are_saved_as_picture_drawing_and_data(view: OpenView, site: Site) -> None:
    page = view(site.url).open(ADDRESS)
    answer = swept(page)
    found = {}
    for kind in ("PNG", "SVG", "CSV"):
        page.get_by_role("button", name="Scaling: Save the chart").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=re.compile(kind)).click()
        assert download.value.suggested_filename == f"scaling.{kind.lower()}"
        found[kind] = download.value.path().read_bytes()
    assert found["PNG"].startswith(b"\x89PNG\r\n")
    assert found["SVG"].startswith(b"<svg")
    assert b"Tokens/s" in found["SVG"]
    lines = list(csv.DictReader(io.StringIO(found["CSV"].decode())))
    assert [line["num_devices"] for line in lines] == [str(point.num_devices) for point in answer.points]
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of all points").click()
    saved = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    for line, point in zip(saved, answer.points, strict=True):
        assert line["state"] == point.state
        assert (float(line["days"]) if line["days"] else None) == point.days


def _days(days: float) -> str:
    return f"{days:.3g} d" if days >= 2 else f"{24 * days:.2g} h"


def test_days_and_cost_carry_the_interval_of_the_step(view: OpenView, site: Site) -> None:
    page = view(site.url).open(ADDRESS)
    answer = swept(page)
    (best,) = (point for point in answer.points if answer.best is not None and point.point == answer.best.point)
    days = best.intervals["days"]
    tile = page.get_by_text("Days", exact=True).first.locator("xpath=..")
    expect(tile).to_contain_text(f"80 %: {_days(days.low)} to {_days(days.high)}".replace(" d", "\u00a0d"))
    row = page.get_by_role("region", name="Points", exact=True).get_by_role("row").nth(best.point)
    expect(row).to_contain_text(f"{_days(days.low)} – {_days(days.high)}")
    page.get_by_role("region", name="Points", exact=True).scroll_into_view_if_needed()
    page.get_by_role("button", name="Export").last.click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    line = next(line for line in lines if line["point"] == str(best.point))
    assert [float(line["days_low"]), float(line["days_high"])] == pytest.approx([days.low, days.high])
    cost = best.intervals["cost_usd"]
    assert [float(line["cost_usd_low"]), float(line["cost_usd_high"])] == pytest.approx([cost.low, cost.high])


def test_a_study_is_swept_as_its_job_was(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(f"/studies/{site.completed}")
    page.get_by_role("link", name="Sweep", exact=True).last.click()
    expect(page.get_by_label("Job as JSON", exact=True).last).to_have_value(re.compile("llama-2-7b"))
    page.get_by_role("textbox", name="Devices").fill("8,16")
    answer = swept(page)
    assert [point.num_devices for point in answer.points] == [8, 16]
    assert answer.job["search"]["tp"] == [1, 2, 4, 8]


def test_what_the_server_refuses_stands_beside_its_field(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(ADDRESS.replace("devices=1,8,12", "devices=many"))
    with page.expect_response("**/v1/sweeps") as answered:
        page.get_by_role("button", name="Sweep", exact=True).click()
    assert answered.value.status == 422
    expect(page.get_by_text(answered.value.json()["detail"]).first).to_be_visible()
    assert page.get_by_role("textbox", name="Devices").get_attribute("aria-invalid") == "true"
    opened.complaints.clear()  # the browser reports every 422


def test_limits_that_nothing_meets_and_a_cut_are_told(view: OpenView, site: Site) -> None:
    page = view(site.url).open(ADDRESS.replace("deadline=400", "deadline=0.001"))
    answer = swept(page)
    assert answer.why_none is not None
    expect(page.get_by_text(answer.why_none)).to_be_visible()
    page = view(site.url).open(ADDRESS + "&limit=0.001")
    answer = swept(page)
    assert answer.stopped_by == "time_limit"
    expect(page.get_by_text("Cut short")).to_be_visible()


def test_a_server_that_is_away_or_slow_can_be_left(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(ADDRESS)
    page.route("**/v1/sweeps", lambda route: route.abort())
    page.get_by_role("button", name="Sweep", exact=True).click()
    page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    opened.complaints.clear()
    page.unroute("**/v1/sweeps")
    held: list[Route] = []
    page.route("**/v1/sweeps", lambda route: held.append(route))
    page.get_by_role("button", name="Sweep", exact=True).click()
    waiting = page.get_by_role("status", name="The server searches the best plan of each point")
    waiting.wait_for()
    assert opened.violations() == []
    page.get_by_role("button", name="Cancel").click()
    waiting.wait_for(state="detached")
    expect(page.get_by_role("button", name="Sweep", exact=True)).to_be_enabled()


def test_a_sweep_is_stored_followed_and_shown_as_its_answer(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(ADDRESS)
    page.get_by_role("button", name="As a study").click()
    page.wait_for_url("**/studies/*")
    page.get_by_role("heading", name="Scaling", exact=True).wait_for(timeout=90_000)
    expect(page.get_by_text("3 of 3 points done")).to_be_visible()
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []
    page.goto(f"{site.url}/studies")
    expect(page.get_by_role("table").get_by_text("Sweep").first).to_be_visible()
