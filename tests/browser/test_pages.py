"""Every page in both themes, both languages, wide and narrow: accessible, silent, and nothing from elsewhere."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route

from tests.browser.conftest import CHINESE_LOOKS, DESKTOP, LOOKS, PHONE, OpenView, Scheme, Site
from tests.browser.words import english_words, note_drawn
from tests.servers import Server

PAGES = {
    "studies": "/studies",
    "new study": "/studies/new?model=deepseek-v3&hardware=atlas-900-a3-superpod&devices=1024",
    "study": "/studies/{completed}",
    "sampled study": "/studies/{sampled}",
    "study without a plan": "/studies/{without_plan}",
    "failed study": "/studies/{failed}",
    "cancelled study": "/studies/{cancelled}",
    "study with a long name": "/studies/{long_name}",
    "plan": "/studies/{completed}/plans/{best_plan}",
    "sweep": "/sweep?model=deepseek-v3&hardware=atlas-900-a3-superpod,h100-sxm-80gb&devices=64..4096",
    "post-training": "/rl?model=qwen3-8b&hardware=h100-sxm-80gb&devices=64&ask=estimate&placement=separate&queue=yes",
    "scripts": "/scripts",
    "experts": "/experts",
    "compare": "/compare?studies={completed},{long_name}",
    "compare nothing": "/compare",
    "checks": "/checks",
    "check": "/checks/{broken_check}",
    "check that cannot run": "/checks/{infeasible_check}",
    "accuracy": "/accuracy",
    "own runs": "/accuracy?tab=own",
    "calibrations": "/accuracy?tab=calibrations",
    "hardware": "/hardware",
    "hardware profile": "/hardware/atlas-800t-a2",
    "models": "/models",
    "import": "/models?import=yes",
    "model": "/models/deepseek-v3",
    "no such page": "/no-such-page",
}


def _address(site: Site, page: str) -> str:
    return PAGES[page].format(**vars(site))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_accessible_and_fits_in_both_themes(view: OpenView, site: Site, page: str) -> None:
    opened = view(site.url)
    shown = opened.open(_address(site, page))
    assert shown.locator("html").get_attribute("lang") == "en"
    for scheme, width in opened.looks(*LOOKS):
        assert shown.evaluate("document.documentElement.dataset.mantineColorScheme") == scheme
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        if width in (DESKTOP, PHONE):
            assert opened.violations() == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_chinese_and_fits_every_width(view: OpenView, site: Site, page: str) -> None:
    opened = note_drawn(view(site.url, language="zh-CN", width=PHONE))
    shown = opened.open(_address(site, page))
    assert shown.locator("html").get_attribute("lang") == "zh-CN"
    for _, width in opened.looks(*CHINESE_LOOKS):
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert english_words(shown) == []


@pytest.mark.parametrize("page", ["study", "plan", "hardware profile"])
def test_every_tab_and_part_of_a_page_is_chinese(view: OpenView, site: Site, page: str) -> None:
    opened = note_drawn(view(site.url, language="zh-CN"))
    shown = opened.open(_address(site, page))
    for tab in shown.get_by_role("tab").all():
        tab.click()
        opened.settle()
        for part in shown.locator("summary:visible, [role=tabpanel] button[aria-expanded=false]:visible").all()[:6]:
            part.click()
            shown.keyboard.press("Escape")  # a menu that it opened lies over the next one
        opened.settle()
        assert english_words(shown) == [], tab.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_server_without_studies_says_how_to_begin(view: OpenView, empty_server: Server, scheme: Scheme) -> None:
    opened = view(empty_server.url, scheme=scheme)
    shown = opened.open("/")
    assert shown.url.endswith("/studies")
    assert shown.get_by_role("heading", name="No studies yet").is_visible()
    assert opened.violations() == []


def test_a_page_that_still_loads_says_so(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    held: list[Route] = []
    opened.page.route("**/v1/studies?*", lambda route: held.append(route))
    opened.page.goto(f"{site.url}/studies")
    opened.page.get_by_role("status", name="Loading").wait_for()
    assert opened.violations() == []
    for route in held:
        route.continue_()
    opened.page.get_by_role("table").wait_for()


def test_a_server_that_has_gone_is_told_and_asked_again(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    opened.page.route("**/v1/studies?*", lambda route: route.abort())
    opened.page.goto(f"{site.url}/studies")
    opened.page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    assert opened.violations() == []
    opened.page.unroute("**/v1/studies?*")
    opened.page.get_by_role("button", name="Try again").click()
    opened.page.get_by_role("table").wait_for()
    assert opened.complaints
    assert all("net::ERR_FAILED" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_a_study_that_is_opened_after_the_server_has_gone_says_so(view: OpenView, site: Site) -> None:
    """Neither what the page would ask nor the page itself comes."""
    opened = view(site.url)
    page = opened.open("/studies")
    page.route("**/*", lambda route: route.abort())
    page.get_by_role("table").get_by_role("link").first.click()
    page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    page.unroute("**/*")
    page.get_by_role("button", name="Reload").click()
    page.get_by_role("tab", name="Job").wait_for()
    assert opened.complaints
    assert all("ERR_FAILED" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_a_study_that_is_open_when_the_server_goes_says_so_where_it_asks_more(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open(f"/studies/{site.completed}")
    page.route("**/*", lambda route: route.abort())
    page.get_by_role("tab", name="Rejected").click()
    page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    assert page.get_by_role("heading", level=1).is_visible()  # what was there stays
    opened.complaints.clear()


def test_an_unknown_study_is_told_in_the_servers_words(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    opened.page.goto(f"{site.url}/studies/0123456789abcdef")
    opened.page.get_by_role("alert").wait_for()
    assert "0123456789abcdef" in opened.page.get_by_role("alert").inner_text()
    opened.expected = "404"
