"""Plans and studies side by side."""

from __future__ import annotations

import re
from urllib.parse import unquote

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import DESKTOP, LONG_NAME, PHONE, SMALL, OpenView, Scheme, Site, searched, until

PIPELINES = {
    **SMALL,
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "search": {"tp": [1, 2], "cp": 1, "pp": [2, 4, 8], "recompute": ["none", "full"], "zero_stage": 1},
}


@pytest.fixture(scope="module")
def plans(site: Site) -> list[str]:
    """Plans with pipelines, best first, as the address names them."""
    study = searched(site.url, PIPELINES)
    return [f"{study}:{plan['plan_id']}" for plan in httpx.get(f"{site.url}/v1/studies/{study}/plans").json()["items"]]


def _columns(page: Page) -> list[str]:
    return [
        text.split("\n")[0] for text in page.get_by_role("region", name="Comparison").locator("thead th").all_inner_texts()[1:]
    ]


def _window(picture: Locator) -> tuple[float, float]:
    start, end = (picture.get_attribute("data-window") or "").split(",")
    return float(start), float(end)


@pytest.mark.parametrize(("scheme", "language", "width"), [("light", "en-US", DESKTOP), ("dark", "zh-CN", PHONE)])
def test_plans_with_timelines_are_accessible_and_fit(
    view: OpenView, site: Site, plans: list[str], scheme: Scheme, language: str, width: int
) -> None:
    opened = view(site.url, scheme=scheme, language=language, width=width)
    page = opened.open(f"/compare?plans={','.join(plans[:3])}&timelines=on")
    expect(page.get_by_test_id("timeline")).to_have_count(3)
    assert opened.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_plans_of_a_study_are_selected_and_compared(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/studies/{site.completed}")
    for rank in (1, 6):  # the next ones take the same time, of which no difference is shown
        page.get_by_role("checkbox", name=f"Select Plan {rank}:").check()
    page.get_by_role("region", name="Selected plans").get_by_role("link", name="Compare").click()
    page.wait_for_url(re.compile(r"/compare\?plans="))
    rows = page.get_by_role("region", name="Comparison").get_by_role("row")
    documents = httpx.get(f"{site.url}/v1/studies/{site.completed}/plans?limit=6").json()["items"][::5]
    slower = documents[1]["estimate"]["step_time_s"] / documents[0]["estimate"]["step_time_s"] - 1
    expect(rows.filter(has_text="Step time").first).to_contain_text(f"+{slower:.1%}".replace("%", " %"))
    for name in ("tp", "pp", "dp", "micro_batch_size"):
        label = {"tp": "Tensor", "pp": "Pipeline", "dp": "Data"}.get(name, "Micro batch size")
        row = rows.filter(has=page.get_by_role("rowheader", name=re.compile(f"^{label}( parallel)?( \\(differs\\))?$")))
        differs = documents[0]["strategy"][name] != documents[1]["strategy"][name]
        expect(row).to_have_attribute("data-differs", "true") if differs else expect(row).not_to_have_attribute(
            "data-differs", "true"
        )


def test_any_plans_of_two_studies_are_put_side_by_side(view: OpenView, site: Site, plans: list[str]) -> None:
    other = plans[0].partition(":")[0]
    opened = view(site.url)
    page = opened.open(f"/compare?studies={site.completed},{other}")
    picker = page.get_by_role("combobox", name="Another plan in place of B").or_(
        page.get_by_role("textbox", name="Another plan in place of B")
    )
    picker.first.click()
    page.get_by_role("option", name=re.compile("^Plan 2:")).click()
    expect(page.get_by_role("link", name=re.compile("^Plan 2:"))).to_be_visible()
    recommended = httpx.get(f"{site.url}/v1/studies/{site.completed}").json()["result"]["recommended"]["plan_id"]
    assert recommended != site.best_plan  # a study stands for the plan to run, not for the fastest
    assert f"plans={site.completed}:{recommended},{plans[1]}" in unquote(unquote(page.url))
    assert len(_columns(page)) == 2
    assert opened.violations() == []


def test_only_differences_is_in_the_address(view: OpenView, site: Site, plans: list[str]) -> None:
    page = view(site.url).open(f"/compare?plans={plans[0]},{plans[1]}")
    table = page.get_by_role("region", name="Comparison")
    everything = table.get_by_role("row").count()
    page.get_by_role("switch", name="Only differences").check(force=True)
    expect(page).to_have_url(re.compile("only=on"))
    fresh = view(site.url).open(page.url.removeprefix(site.url))
    rows = fresh.get_by_role("region", name="Comparison").locator("tbody tr:not(:first-child)")
    assert 0 < rows.count() < everything
    assert all(rows.nth(row).get_attribute("data-differs") for row in range(rows.count()))


def test_studies_stand_by_their_best_plans_and_tell_their_jobs_apart(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/compare?studies={site.completed},{site.long_name},{site.without_plan}")
    rows = page.get_by_role("region", name="Comparison").get_by_role("row")
    expect(rows.filter(has_text="model.name")).to_contain_text(LONG_NAME)
    expect(rows.filter(has=page.get_by_role("rowheader", name="Best proved"))).to_contain_text("proved")
    expect(page.get_by_text("No plan fits")).to_be_visible()


def test_items_are_added_moved_and_taken_out(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/compare")
    picker = page.get_by_role("combobox", name="Add a study").or_(page.get_by_role("textbox", name="Add a study")).first
    for study in (site.completed, site.long_name):
        picker.click()
        picker.fill(study[:6])
        page.get_by_role("option").filter(has_text=study[:6]).click()
        expect(page).to_have_url(re.compile(study))
    assert opened.violations() == []
    page.get_by_role("button", name="Compare with B").click()
    expect(page).to_have_url(re.compile(f"studies={site.long_name}%2C{site.completed}"))
    assert len(_columns(page)) == 2
    page.get_by_role("button", name="Take A out").click()
    expect(page.get_by_text("Add another one to compare with")).to_be_visible()
    assert site.long_name not in page.url


def test_timelines_share_one_scale_and_one_window(view: OpenView, site: Site, plans: list[str]) -> None:
    page = view(site.url).open(f"/compare?plans={plans[0]},{plans[-1]}")
    page.get_by_role("button", name="Simulate and show").click()
    pictures = page.get_by_test_id("timeline")
    expect(pictures).to_have_count(2)
    expect(pictures.nth(1)).to_have_attribute("data-window", re.compile(","))
    whole = [_window(pictures.nth(place)) for place in range(2)]
    boxes = [pictures.nth(place).bounding_box() for place in range(2)]
    per_second = [
        box and (box["width"] - 138) / window[1] for box, window in zip(boxes, whole, strict=True)
    ]  # beside the ranks' names
    assert per_second[0] == pytest.approx(per_second[1], rel=0.02)
    before = pictures.nth(1).get_attribute("data-window") or ""
    pictures.first.focus()
    page.keyboard.press("w", delay=200)
    expect(page).to_have_url(re.compile("window="))
    expect(pictures.nth(1)).not_to_have_attribute("data-window", before)
    page.wait_for_load_state("networkidle")
    # The first comes to rest, the second follows.
    until(page, lambda: _window(pictures.first) == pytest.approx(_window(pictures.nth(1)), rel=1e-3))
    page.get_by_role("button", name="Whole step").click()
    expect(page).not_to_have_url(re.compile("window="))


def test_more_than_four_and_what_is_not_there_are_told(view: OpenView, site: Site, plans: list[str]) -> None:
    page = view(site.url).open(f"/compare?plans={','.join(plans[:5])}")
    expect(page.get_by_text("Only 4 can be compared; 5 were asked for.")).to_be_visible()
    assert len(_columns(page)) == 4
    opened = view(site.url)
    missing = opened.page
    missing.goto(f"{site.url}/compare?studies={site.completed}&plans={site.completed}:0123456789ab,{plans[0]}")
    expect(missing.get_by_role("alert")).to_contain_text("0123456789ab")
    missing.get_by_role("button", name="Leave it out").click()
    expect(missing.get_by_role("alert")).to_be_hidden()
    assert len(_columns(missing)) == 2
    assert all("404" in complaint for complaint in opened.complaints)
    opened.complaints.clear()
