"""One plan: its tabs, its launch files, its downloads and its charts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import DESKTOP, PHONE, PIPELINE, OpenView, Site, StoredPlan, searched

TABS = ("overview", "timeline", "memory", "network", "changes", "delivery", "launch")


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_accessible_and_fits(view: OpenView, site: Site, stored: StoredPlan, tab: str) -> None:
    opened = view(site.url)
    page = opened.open(f"{stored.path}?tab={tab}")
    expect(page.get_by_role("tab", selected=True)).to_be_visible()
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_the_overview_says_why_and_adds_up(view: OpenView, site: Site, stored: StoredPlan) -> None:
    page = view(site.url).open(stored.path)
    estimate = stored.document["estimate"]
    expect(page.get_by_text("Proved best of its search by step time.")).to_be_visible()
    rows = page.get_by_role("region", name="Where the time goes").get_by_role("row")
    parts = [
        part for part, seconds in estimate["time_breakdown_s"].items() if seconds > 0 or estimate["masked_s"].get(part, 0) > 0
    ]
    expect(rows).to_have_count(len(parts) + 3)  # heading, sum, and the communication in it
    expect(rows.nth(-2)).to_contain_text("100.0 %")
    expect(rows.last).to_contain_text("of it exposed communication")
    expect(page.get_by_role("img", name="80 % interval from")).to_be_visible()


def test_the_facts_name_virtual_stages_and_what_switches_recompute(view: OpenView, site: Site, stored: StoredPlan) -> None:
    def changed(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        for plan in document["items"]:
            plan["strategy"] |= {"vpp": 2, "layer_layout": [[4, 4], [5, 3]]}
            plan["strategy"]["recompute"] |= {"granularity": "none", "method": None, "num_layers": None, "modules": []}
            plan["estimate"]["time_breakdown_s"]["recompute"] = 0.09504
        route.fulfill(response=answer, json=document)

    page = view(site.url)
    page.page.route(re.compile(r"/v1/studies/\w+/plans\?"), changed)
    words = page.open(stored.path).locator("dl").inner_text().replace("\u00a0", " ")
    assert "Layers by stage, a group for each of 2 virtual stages\n2 × 4 | 5 3" in words
    assert "none; switches recompute for 95.04 ms" in words


def test_arrow_keys_move_between_tabs_and_the_address_keeps_the_tab(view: OpenView, site: Site, stored: StoredPlan) -> None:
    page = view(site.url).open(stored.path)
    page.get_by_role("tab", name="Overview").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("tab=network"))
    page.reload()
    expect(page.get_by_role("tab", name="Network")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("img", name="Pipeline parallel: 16 ranks, 1 apart")).to_be_visible()


def test_launch_files_are_copied_and_saved_as_the_server_wrote_them(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    page = opened.open(f"{stored.path}?tab=launch&framework=mindspeed-llm")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    written = {file["framework"]: file for file in stored.launch["files"]}
    script = written["mindspeed-llm"]
    page.get_by_role("button", name="Copy", exact=True).first.click()
    assert page.evaluate("navigator.clipboard.readText()") == script["text"]
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download {script['name']}").click()
    assert Path(download.value.path()).read_text(encoding="utf-8") == script["text"]
    page.get_by_text("Job (YAML)").click()
    expect(page.get_by_role("region", name=f"Text: {written[None]['name']}")).to_contain_text("model:")
    expect(page).to_have_url(re.compile("framework=job"))


def test_plan_timeline_and_trace_are_downloaded(view: OpenView, site: Site, stored: StoredPlan) -> None:
    page = view(site.url).open(stored.path)

    def saved(item: str) -> Any:
        page.get_by_role("button", name="Download").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=item).click()
        return download.value.suggested_filename, json.loads(Path(download.value.path()).read_text(encoding="utf-8"))

    assert saved("Plan (JSON)")[1] == stored.document
    assert saved("Timeline (JSON)")[1] == stored.timeline
    name, trace = saved("Chrome trace")
    assert name == "trace_view.json"
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == stored.num_tasks


def test_a_plan_is_held_against_the_fastest_other_one(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    page = opened.open(f"{stored.path}?tab=changes")
    with page.expect_response("**/v1/explanations", timeout=90_000) as answered:
        page.get_by_role("button", name="Search", exact=True).click()
    other = answered.value.json()["other"]
    region = page.get_by_role("region", name="Beside the fastest other plan")
    expect(region).to_contain_text(other["why"])
    expect(region).to_contain_text("faster than this plan" if other["difference_fraction"] < 0 else "slower than this plan")
    page.mouse.move(0, 0)
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_an_unknown_plan_leads_back_to_its_study(view: OpenView, site: Site, stored: StoredPlan) -> None:
    study = stored.path.split("/")[2]
    page = view(site.url).open(f"/studies/{study}/plans/0123456789ab")
    expect(page.get_by_role("heading", name="There is no such plan")).to_be_visible()
    page.get_by_role("link", name="To the study").click()
    expect(page).to_have_url(f"{site.url}/studies/{study}")


def test_a_long_name_fits_on_a_phone(view: OpenView, site: Site) -> None:
    plan = httpx.get(f"{site.url}/v1/studies/{site.long_name}/plans?limit=1").json()["items"][0]["plan_id"]
    page = view(site.url, width=PHONE).open(f"/studies/{site.long_name}/plans/{plan}")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def _millions(tokens: float) -> str:
    return f"{tokens / 1e6:.0f}M"


def test_a_plan_says_what_it_delivers_on_a_site(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    with opened.page.expect_response("**/v1/goodput", timeout=60_000) as first:
        page = opened.open(f"{stored.path}?tab=delivery&mtbf_s=6")
    answer = first.value.json()
    assert answer["mtbf_s"] == pytest.approx(6 * 3600)
    month = page.get_by_role("img", name="30 days of a simulated history")
    expect(month).to_have_attribute("aria-label", re.compile("Runs .*Recovers "))
    # The quantiles over months are of failures: an interval without the error of the step would be false certainty.
    ends = answer["intervals"]["delivered_tokens_per_day"]
    expect(page.get_by_text("Delivered", exact=True).first.locator("xpath=..")).to_contain_text(
        f"80 %: {_millions(ends['low'])} to {_millions(ends['high'])}month by month, from failures alone"
    )
    assert ends["high"] / ends["low"] > 1.2
    peak, delivered = answer["waterfall"][0]["tokens_per_day"], answer["delivered_tokens_per_day"]
    expect(page.get_by_role("img", name=f"{100 * delivered / peak:.1f} % of the devices' peak")).to_be_visible()
    page.get_by_role("button", name=re.compile("^On fewer and on more devices: Show")).click()
    expect(page.get_by_role("region", name="On fewer and on more devices").get_by_role("row")).to_have_count(
        1 + len(answer["on_devices"])
    )
    expect(page.get_by_role("link", name="robustrl").first).to_have_attribute("href", re.compile("^https://"))
    page.get_by_role("button", name="Language").click()
    page.get_by_role("menuitem", name="Currency").click()
    page.get_by_role("combobox", name="Currency").click()
    page.get_by_role("option", name="CNY").click()
    page.get_by_label("1 USD in CNY").fill("8")
    page.get_by_role("button", name="Show amounts so").click()
    page.get_by_label("Price of a device-hour").fill("12 CNY")
    page.get_by_label("Spare nodes").fill("4")
    with page.expect_response("**/v1/goodput", timeout=60_000) as second:
        page.get_by_role("button", name="Apply").click()
    changed = second.value.json()
    assert (changed["site"]["spares"], changed["cost"]["device_hour_usd"]) == (4, 1.5)
    cost_cny = 8 * changed["cost"]["usd_per_trillion_tokens"]
    expect(page.get_by_text(f"{cost_cny / 1e6:.3g}M CNY").first).to_be_visible()
    assert "spares=4" in page.url
    expect(page.get_by_text("no failures at all")).to_be_visible()
    page.mouse.move(0, 0)
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []
    page.get_by_label("Spare nodes").fill("-1")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_label("Spare nodes")).to_have_attribute("aria-invalid", "true")
    opened.complaints.clear()  # the browser reports every 422


def test_the_placement_map_frames_the_groups_of_a_device(view: OpenView, site: Site) -> None:
    # 16 devices in two nodes of 8: tp 2, pp 2, so dp 4; Megatron's order gives rank 3 the groups 2-3, 1 3 5 7 and 3 11.
    job = {**PIPELINE, "search": {"tp": 2, "cp": 1, "pp": 2, "vpp": 1, "micro_batch_size": 1, "zero_stage": 1}}
    with httpx.Client(base_url=site.url, timeout=90) as client:
        study = searched(site.url, job)
        plan = client.get(f"/v1/studies/{study}/plans?limit=1").json()["items"][0]["plan_id"]
    opened = view(site.url)
    page = opened.open(f"/studies/{study}/plans/{plan}?tab=network&device=3")
    canvas = page.get_by_test_id("placement-map")
    expect(canvas).to_have_attribute("data-cells", "16")
    chosen = page.get_by_role("region", name="Rank 3", exact=True)
    for row, members, shared in (
        ("Tensor parallel", "2, 3", "1 through HCCS"),
        ("Data parallel", "1, 3, 5, 7", "3 through HCCS"),
        ("Pipeline parallel", "3, 11", "1 through RoCE"),
    ):
        expect(chosen.get_by_role("row", name=row)).to_contain_text(members)
        expect(chosen.get_by_role("row", name=row)).to_contain_text(shared)
    canvas.focus()
    page.keyboard.press("PageDown")
    expect(page).to_have_url(re.compile("device=11"))
    expect(page.get_by_role("status").filter(has_text="Rank 11; Tensor parallel: 10, 11, 1 through HCCS")).to_be_attached()
    canvas.hover(position={"x": 12, "y": 12})
    expect(page.get_by_role("region", name="Rank 0", exact=True)).to_be_visible()
    page.mouse.move(0, 0)
    page.get_by_role("combobox", name="Colour by").select_option("tp")
    expect(page).to_have_url(re.compile("by=tp"))
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []
    found = {}
    for kind in ("PNG", "SVG", "CSV"):
        page.get_by_role("button", name="Placement map: Save the chart").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=re.compile(kind)).click()
        found[kind] = download.value.path().read_bytes()
    assert found["PNG"].startswith(b"\x89PNG\r\n")
    assert found["SVG"].count(b"<rect") == 1 + 16 + 2 + 4 + 2 + 1  # the ground, the devices, the groups of rank 11, itself
    lines = found["CSV"].decode().splitlines()
    assert lines[0] == "rank,node,device_in_node,tp_position,cp_position,dp_position,pp_position"
    assert lines[1 + 11] == "11,1,3,1,0,1,1"
    page.keyboard.press("Escape")
    canvas.focus()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("device="))


def test_a_hundred_thousand_devices_are_one_map(view: OpenView, site: Site, stored: StoredPlan) -> None:
    study = stored.path.split("/")[2]
    opened = view(site.url, width=1600)
    groups = [("tp", 8, 1), ("cp", 1, 8), ("dp", 625, 8), ("pp", 20, 5000)]
    placement = [{"group": name, "size": size, "stride": stride} for name, size, stride in groups]

    def larger(path: str, change: dict[str, Any]) -> None:
        document = {**httpx.get(f"{site.url}/v1{path}", timeout=60).json(), **change}
        opened.page.route(f"**/v1{path}", lambda route: route.fulfill(body=json.dumps(document), content_type="application/json"))

    larger(f"/studies/{study}", {"num_devices": 100_000})
    larger(f"{stored.path}/analysis", {"placement": placement})
    page = opened.open(f"{stored.path}?tab=network&device=99999")
    canvas = page.get_by_test_id("placement-map")
    expect(canvas).to_have_attribute("data-cells", "12500")
    expect(page.get_by_text("Each cell is 8 devices")).to_be_visible()
    expect(page.get_by_role("region", name="Rank 99,999")).to_contain_text("4,999, 9,999, 14,999, 19,999, …, 99,999")
    page.set_viewport_size({"width": PHONE, "height": 900})
    opened.settle()
    expect(canvas).to_have_attribute("data-cells", re.compile(r"^\d{3,5}$"))
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert opened.violations() == []


def test_memory_over_the_step_shows_every_rank(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    page = opened.open(f"{stored.path}?tab=memory")
    page.get_by_role("heading", name="Pipeline ranks").scroll_into_view_if_needed()
    memory = stored.timeline["memory"]
    peaks = [max(held) for held in memory["bytes"]]
    fullest = peaks.index(max(peaks))
    expect(page.get_by_role("img", name=f"16 ranks; rank {fullest} holds most")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Allocated memory over the step: Show")).click()
    rows = page.get_by_role("region", name="Allocated memory over the step").get_by_role("row")
    expect(rows).to_have_count(1 + 16)
    expect(rows.nth(1 + fullest)).to_contain_text(f"{max(peaks) / 2**30:.1f} GiB")
    page.get_by_role("button", name="Allocated memory over the step: Save the chart").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("CSV")).click()
    assert download.value.path().read_text().count("\n") == 1 + sum(map(len, memory["time_s"]))


@pytest.mark.parametrize(
    ("tab", "title", "word", "rows"),
    [
        ("overview", "Where the time goes", "Matrix multiplication", "part,exposed_s,hidden_s"),
        ("network", "Where the groups sit", "Pipeline parallel", "group,size,stride"),
        (
            "changes",
            "What the step depends on",
            "Memory bandwidth",
            "quantity,change_fraction,better_step_time_s,worse_step_time_s",
        ),
    ],
)
def test_a_picture_of_boxes_and_words_is_saved_too(
    view: OpenView, site: Site, stored: StoredPlan, tab: str, title: str, word: str, rows: str
) -> None:
    page = view(site.url).open(f"{stored.path}?tab={tab}")
    found = {}
    for kind in ("PNG", "SVG", "CSV"):
        page.get_by_role("button", name=f"{title}: Save the chart").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=re.compile(kind)).click()
        found[kind] = download.value.path().read_bytes()
    assert found["PNG"].startswith(b"\x89PNG\r\n")
    assert word in found["SVG"].decode()
    assert found["SVG"].count(b"<rect") > 3
    assert found["CSV"].decode().splitlines()[0] == rows


def test_a_plan_is_priced_elsewhere_with_sliders(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    page = opened.open(f"{stored.path}?tab=changes")
    length = page.get_by_role("slider", name="Sequence length")
    with page.expect_response("**/v1/estimates", timeout=60_000):
        length.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"slid=sequence(~|%7E)2"))
    section = page.get_by_role("region", name="The same plan elsewhere")
    with httpx.Client(base_url=site.url, timeout=60) as client:
        job = client.get(f"/v1/studies/{stored.path.split('/')[2]}").json()["job"]
        training = {**job["training"], "seq_length": 2 * job["training"]["seq_length"]}
        request = {name: job[name] for name in ("model", "cluster", "software")} | {"training": training}
        longer = client.post("/v1/estimates", json={**request, "strategy": stored.document["strategy"]}).json()["estimate"]
    expect(section).to_contain_text(
        f"{longer['step_time_s']:.3f} s" if longer["step_time_s"] < 10 else f"{longer['step_time_s']:.2f} s"
    )
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []
    page.get_by_role("button", name="As it is").click()
    expect(page).not_to_have_url(re.compile("slid="))
