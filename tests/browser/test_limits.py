"""The limit of memory by which plans are judged is the one that every page shows."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.browser.conftest import OpenView, Site, StoredPlan

GIB = 2**30
_WORDS = """() => [document.querySelector("main").innerText,
        ...[...document.querySelectorAll("main [aria-label]")].map((node) => node.ariaLabel)]
    .join("\\n").replaceAll("\\u00a0", " ")"""


def _gib(value: float) -> str:
    return f"{value / GIB:.1f} GiB"


@pytest.mark.parametrize("tab", ["overview", "memory", "timeline", "changes"])
def test_each_tab_of_a_plan_tells_the_limit_by_which_it_fits(view: OpenView, site: Site, stored: StoredPlan, tab: str) -> None:
    estimate = stored.document["estimate"]
    judged, usable = _gib(estimate["fit_limit_bytes"]), _gib(estimate["memory_limit_bytes"])
    assert judged != usable
    words = view(site.url).open(f"{stored.path}?tab={tab}").evaluate(_WORDS)
    assert f"limit {judged}" in words
    assert f"{_gib(estimate['fit_limit_bytes'] - estimate['peak_memory_bytes'])}\n" in words  # the tile
    assert set(re.findall(r"limit(?: of)? ([\d.]+ GiB)", words)) == {judged}
    assert words.count(usable) == words.count(f"Of the {usable} that a job can fill") == 1  # the question mark says what is less


def test_the_study_its_chart_and_a_comparison_tell_the_same_limit(view: OpenView, site: Site) -> None:
    study = httpx.get(f"{site.url}/v1/studies/{site.completed}/ranking?limit=1", timeout=30).json()["items"][0]
    judged, usable = (_gib(study["estimate"][name]) for name in ("fit_limit_bytes", "memory_limit_bytes"))
    opened = view(site.url)
    page = opened.open(f"/studies/{site.completed}")
    words = page.evaluate(_WORDS)
    assert (f"of {judged}" in words, usable in words) == (True, False)
    page.set_viewport_size({"width": 1280, "height": 4000})  # charts are drawn where they are seen
    page.get_by_role("button", name="Step time against memory: Save the chart").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("SVG")).click()
    drawn = download.value.path().read_text(encoding="utf-8")
    assert f"Limit {judged}" in drawn
    words = opened.open(f"/compare?studies={site.completed},{site.long_name}").evaluate(_WORDS)
    assert (judged in words, usable in words) == (True, False)
