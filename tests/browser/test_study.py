"""One study: watched as it runs, its plans in a table and in linked charts, and what it rejected."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from app.storage.session import Database
from app.storage.tables import Plan, Study
from tests.browser.conftest import DESKTOP, FAILURE, PHONE, SMALL, TABLET, OpenView, Site, searched

ZH_RULES = json.loads((Path(__file__).parents[2] / "dashboard/src/locales/zh/rules.json").read_text(encoding="utf-8"))
LARGE = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "software": {"target": "any"},
}
# So long that much is left when it is resumed, and short to cut.
LONG = {
    **LARGE,
    "search": {name: [True, False] for name in ("swap_attention", "swap_optimizer", "moe_zero_memory", "fused_norm")},
}
VARIED = {**SMALL, "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16}, "search": {"cp": 1, "top": 30}}
MANY = 1000


@pytest.fixture(scope="module")
def varied(site: Site) -> str:
    """A study with plans of many structures."""
    return searched(site.url, VARIED)


def _plans(site: Site, study: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{site.url}/v1/studies/{study}/plans?limit=200", timeout=30).json()["items"]
    return found


def _table(page: Page) -> Locator:
    return page.get_by_role("region", name="Plans", exact=True)


def _ranks(page: Page) -> list[int]:
    cells = _table(page).locator("tbody tr td:nth-child(2)").all_inner_texts()
    return [int(cell) for cell in cells if cell.strip()]


@pytest.mark.parametrize(
    ("study", "tab"),
    [("completed", "rejections"), ("completed", "job"), ("sampled", "trials"), ("sampled", "plans"), ("long_name", "job")],
)
def test_every_tab_is_accessible_and_fits(view: OpenView, site: Site, study: str, tab: str) -> None:
    opened = view(site.url, language="zh-CN")
    page = opened.open(f"/studies/{getattr(site, study)}?tab={tab}")
    expect(page.get_by_role("tab", selected=True)).to_be_visible()
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_the_answer_stands_first(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/studies/{site.completed}")
    study = httpx.get(f"{site.url}/v1/studies/{site.completed}").json()
    recommended, proof = study["result"]["recommended"], study["result"]["proof"]
    assert recommended["plan_id"] != proof["plan_id"]  # so the page must not call the plan to run the proved one
    proved = httpx.get(f"{site.url}/v1/studies/{site.completed}/plans/{proof['plan_id']}").json()
    expect(page.get_by_text(f"Plan {proved['rank']} is proved the fastest.")).to_be_visible()
    expect(page.get_by_text(f"Plan {recommended['rank']}: {recommended['why']}")).to_be_visible()
    expect(page.get_by_text("Proved.", exact=True)).to_have_count(0)
    counts = study["result"]["counts"]
    assert counts["lattice"] < counts["enumerated"] == counts["lattice"] + counts["forms"]
    lattice = f"{counts['lattice']:,} strategies in the lattice, {counts['lattice_legal']:,} legal"
    told = f"{lattice}, {counts['forms']:,} memory-saving forms"
    expect(page.get_by_text(told)).to_be_visible()
    expect(page.get_by_text(f"No other of {counts['lattice']:,} strategies")).to_be_visible()
    words = page.get_by_role("region", name="Plans", exact=True).inner_text()
    assert (words.count("recommended"), "best" in words) == (1 + 1, False)  # the heading of the column, and one row
    gain = study["result"]["baseline"]["speedup_fraction"]
    expect(page.get_by_text(f"+{gain:.1%}".replace("%", " %"), exact=True)).to_be_visible()
    expect(page.get_by_text("the usual first plan takes")).to_be_visible()
    sampled = view(site.url).open(f"/studies/{site.sampled}")
    expect(sampled.get_by_text("Not proved.")).to_be_visible()


def test_every_number_of_the_table_has_its_unit_and_rows_lead_to_plans(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/studies/{site.completed}")
    best = _plans(site, site.completed)[0]
    row = _table(page).locator("tbody tr").first
    assert {"s", "GiB", "%"} <= set(row.inner_text().split())
    row.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/plans/{best['plan_id']}")


@pytest.mark.parametrize(
    ("width", "whole"), [(TABLET, ("Plan", "Step time", "Peak memory")), (DESKTOP, ("Plan", "Peak memory", "Launchable on"))]
)
def test_the_columns_that_decide_are_whole(view: OpenView, site: Site, width: int, whole: tuple[str, ...]) -> None:
    table = _table(view(site.url, width=width).open(f"/studies/{site.completed}"))
    seen = table.bounding_box()
    assert seen is not None
    for name in whole:
        place = table.get_by_role("columnheader", name=re.compile(f"^{name}")).bounding_box()
        assert place is not None
        assert seen["x"] <= place["x"], name
        assert place["x"] + place["width"] <= seen["x"] + seen["width"], name


def test_both_buttons_compare_the_plans_that_are_ticked(view: OpenView, site: Site) -> None:
    first, second = (plan["plan_id"] for plan in _plans(site, site.completed)[:2])
    page = view(site.url).open(f"/studies/{site.completed}")
    above = page.get_by_role("link", name="Compare", exact=True).and_(page.locator("main a")).first
    expect(above).to_have_attribute("href", f"/compare?studies={site.completed}")
    for box in _table(page).locator("tbody input[type=checkbox]").all()[:2]:
        box.check()
    chosen = f"/compare?plans={site.completed}:{first},{site.completed}:{second}"
    expect(above).to_have_attribute("href", chosen)
    expect(page.get_by_role("region", name="Selected plans").get_by_role("link", name="Compare")).to_have_attribute(
        "href", chosen
    )


def test_a_saved_table_has_all_columns_with_their_units(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/studies/{site.completed}")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Export").click()
        page.get_by_role("menuitem", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text(encoding="utf-8"))))
    best = httpx.get(f"{site.url}/v1/studies/{site.completed}/plans?limit=1").json()["items"][0]
    told = best["estimate"] | best["strategy"] | {"plan_id": best["plan_id"]}
    for name in (
        "step_time_s",
        "step_time_low_s",
        "step_time_high_s",
        "peak_memory_bytes",
        "mfu_fraction",
        "tokens_per_s",
        "tp",
        "pp",
        "dp",
    ):
        assert float(rows[0][name]) == told[name], name
    assert rows[0]["plan_id"] == told["plan_id"]


def test_the_whole_view_is_in_the_address(view: OpenView, site: Site, varied: str) -> None:
    opened = view(site.url)
    page = opened.open(f"/studies/{varied}")
    page.get_by_role("button", name="Choose columns").click()
    page.get_by_role("menuitemcheckbox", name="PP", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("columnheader", name="Peak memory").get_by_role("button").click()
    page.get_by_role("button", name="Pin plan", exact=False).nth(4).click()
    page.get_by_role("button", name=re.compile("variants? of plan")).first.click()
    page.get_by_role("button", name="Filter", exact=True).click()
    assert opened.violations() == []
    page.get_by_role("group", name="PP", exact=True).get_by_role("checkbox", name="1", exact=True).uncheck()
    page.keyboard.press("Escape")
    page.get_by_label("Rows a page").select_option("25")
    page.get_by_label("Colour").select_option("pp")
    expect(page.get_by_role("button", name="Remove the filter: PP")).to_be_visible()
    expect(page).to_have_url(re.compile("color=pp"))
    assert set(re.findall(r"[?&](\w+)=", page.url)) == {"columns", "sort", "pins", "open", "filter", "rows", "color"}
    fresh = view(site.url).open(page.url.removeprefix(site.url))
    expect(fresh.get_by_role("button", name="Remove the filter: PP")).to_be_visible()
    expect(fresh.get_by_role("columnheader", name="Peak memory")).to_have_attribute("aria-sort", "ascending")
    assert _table(fresh).locator("tbody").inner_text() == _table(page).locator("tbody").inner_text()


def test_pinned_plans_stay_on_top_of_every_order(view: OpenView, site: Site, varied: str) -> None:
    page = view(site.url).open(f"/studies/{varied}?sort=-step")
    slowest = _ranks(page)[:3]
    steps = {plan["rank"]: plan["estimate"]["step_time_s"] for plan in _plans(site, varied)}
    assert slowest == sorted(steps, key=lambda rank: float(steps[rank]), reverse=True)[:3]
    page.get_by_role("button", name=f"Pin plan {slowest[2]}", exact=True).click()
    expect(page.get_by_role("button", name=f"Pin plan {slowest[2]}", exact=True)).to_have_attribute("aria-pressed", "true")
    assert _ranks(page)[:3] == [slowest[2], slowest[0], slowest[1]]
    page.get_by_role("button", name="Rows after these").click()
    assert _ranks(page)[0] == slowest[2]


def test_filters_hold_for_table_and_charts(view: OpenView, site: Site, varied: str) -> None:
    plans = _plans(site, varied)
    kept = [plan["rank"] for plan in plans if plan["strategy"]["tp"] == 2]
    assert 0 < len(kept) < len(plans)
    page = view(site.url).open(f"/studies/{varied}?filter=tp~2&rows=100")
    assert _ranks(page) == kept
    page.get_by_role("button", name="Where the time goes: Show as a table").click()
    shares = page.get_by_role("region", name="Where the time goes")
    heads = shares.get_by_role("columnheader").all_inner_texts()
    assert heads[1:-1] == [f"#{rank}" for rank in kept[:10]]
    page.keyboard.press("/")
    page.keyboard.type("no such plan")
    expect(page.get_by_role("heading", name="No plan matches")).to_be_visible()
    page.get_by_role("main").get_by_role("button", name="Clear filters").click()
    expect(page).not_to_have_url(re.compile("filter="))


def test_brushing_an_axis_filters_the_page(view: OpenView, site: Site, varied: str) -> None:
    page = view(site.url).open(f"/studies/{varied}?rows=100")
    everything = _ranks(page)
    page.get_by_role("heading", name="Where the time goes").hover()
    page.mouse.wheel(0, 600)  # what is below comes when the reader is near
    page.get_by_role("heading", name="What plans differ in").scroll_into_view_if_needed()
    picture = page.get_by_role("img", name="One line a plan")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    x = box["x"] + 28  # the first axis, of tp, from its largest value to the middle
    page.mouse.move(x, box["y"] + 42)
    page.mouse.down()
    page.mouse.move(x, box["y"] + 90, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Remove the filter: TP")).to_be_visible()
    degrees = {plan["rank"]: plan["strategy"]["tp"] for plan in _plans(site, varied)}
    assert set(_ranks(page)) == {rank for rank in everything if degrees[rank] == max(degrees.values())}
    page.get_by_role("button", name="Remove the filter: TP").click()
    expect(_table(page).locator("tbody tr")).to_have_count(len(everything))


def test_rejected_strategies_are_counted_and_told(view: OpenView, site: Site) -> None:
    rejections = httpx.get(f"{site.url}/v1/studies/{site.completed}/rejections").json()["items"]
    page = view(site.url).open(f"/studies/{site.completed}?tab=rejections")
    for rejection in rejections:
        row = page.get_by_role("row").filter(has=page.get_by_text(rejection["rule"], exact=True))
        expect(row).to_contain_text(f"{rejection['count']:,}")
        expect(row).to_contain_text(rejection["example"])
    chinese = view(site.url, language="zh-CN").open(f"/studies/{site.completed}?tab=rejections")
    expect(chinese.get_by_text(ZH_RULES[rejections[0]["rule"]])).to_be_visible()


def test_a_samplers_trials_are_listed_with_the_best_so_far(view: OpenView, site: Site) -> None:
    trials = httpx.get(f"{site.url}/v1/studies/{site.sampled}/trials?limit=200").json()["items"]
    page = view(site.url).open(f"/studies/{site.sampled}?tab=trials")
    first = next(trial["number"] for trial in trials if trial["best_value"] == trials[-1]["best_value"])
    expect(page.get_by_text(f"found by trial {first}")).to_be_visible()
    expect(page.get_by_text(f"1 – 25 of {len(trials)}")).to_be_visible()


def test_each_end_is_told_with_what_can_be_done(view: OpenView, site: Site) -> None:
    failed = view(site.url).open(f"/studies/{site.failed}")
    expect(failed.get_by_role("alert")).to_contain_text(FAILURE)
    expect(failed.get_by_role("button", name="Resume")).to_be_visible()
    cancelled = view(site.url).open(f"/studies/{site.cancelled}")
    expect(cancelled.get_by_text("The search was stopped")).to_be_visible()
    expect(cancelled.get_by_role("button", name="Resume")).to_be_visible()
    without = view(site.url).open(f"/studies/{site.without_plan}")
    expect(without.get_by_role("heading", name="No plan fits")).to_be_visible()
    expect(without.get_by_role("link", name="Change the job")).to_have_attribute("href", f"/studies/new?from={site.without_plan}")


def test_a_study_without_a_plan_leads_to_the_nearest_that_has_one(view: OpenView, site: Site) -> None:
    told = httpx.get(f"{site.url}/v1/studies/{site.without_plan}").json()["result"]["infeasible"]
    page = view(site.url).open(f"/studies/{site.without_plan}")
    expect(page.get_by_role("heading", name="What stood in the way")).to_be_visible()
    rows = page.get_by_role("region", name="The nearest jobs that have a plan").get_by_role("row")
    expect(rows).to_have_count(1 + len(told["changes"]))
    devices = next(
        change["fields"]["cluster.num_devices"] for change in told["changes"] if "cluster.num_devices" in change["fields"]
    )
    page.get_by_role("link", name=f"New study: {devices:,} devices").click()
    expect(page.get_by_role("region", name="The same search from a terminal")).to_contain_text(f"--devices {devices}")


def test_a_refinement_tells_what_it_gained_and_lists_its_trials(view: OpenView, site: Site) -> None:
    page = view(site.url).open(
        "/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=8&global_batch_size=64&tp=1,2&cp=1&refine=12"
    )
    page.get_by_role("switch", name="For step time and memory at once").click()
    expect(page.get_by_role("region", name="The same search from a terminal")).to_contain_text("--refine 12")
    page.get_by_role("button", name="Start the search").click()
    page.get_by_role("heading", name="Refinement").wait_for(timeout=90_000)
    study = httpx.get(f"{site.url}/v1/studies/{page.url.rpartition('/')[2]}").json()
    counts = study["result"]["refinement"]["counts"]
    assert study["job"]["search"]["refine_front"] is True
    expect(page.get_by_role("region", name="Refinement")).to_contain_text(f"{counts['distinct']} distinct strategies")
    page.get_by_role("tab", name="Trials").click()
    expect(page.get_by_role("region", name="Trials", exact=True)).to_be_visible()


def test_a_search_is_watched_loses_its_connection_is_stopped_and_resumed(view: OpenView, site: Site) -> None:
    study = httpx.post(f"{site.url}/v1/studies", json=LONG).json()["id"]
    opened = view(site.url)
    page = opened.page
    followed: list[str] = []

    def lose(route: Route) -> None:
        followed.append(route.request.headers.get("last-event-id", ""))
        route.abort() if len(followed) < 3 else route.continue_()

    page.route("**/events", lose)
    page.goto(f"{site.url}/studies/{study}")
    expect(page.get_by_text("The connection to the server is lost")).to_be_visible()
    expect(page.get_by_text("The connection to the server is lost")).to_be_hidden()
    expect(page.get_by_role("img", name="Best step time so far over the time of the search")).to_be_visible()
    assert opened.violations() == []
    seen = page.get_by_text("Enumerated", exact=True).first.locator("xpath=ancestor::*[contains(@class, 'Card')][1]")
    before = seen.inner_text()
    expect(seen).not_to_have_text(before, use_inner_text=True)
    page.get_by_role("button", name="Stop the search").click()
    expect(page.get_by_text("The search was stopped", exact=True)).to_be_visible(timeout=20_000)
    expect(page.get_by_text("What it found until then is below.")).to_be_visible()
    expect(page.get_by_text("Not proved.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("progressbar", name="Layouts done")).to_be_visible()
    page.get_by_role("button", name="Stop the search").click()
    expect(page.get_by_text("The search was stopped", exact=True)).to_be_visible(timeout=20_000)
    assert len(followed) >= 3
    opened.complaints[:] = [complaint for complaint in opened.complaints if "ERR_FAILED" not in complaint]


def test_a_stream_goes_on_after_the_last_event(view: OpenView, site: Site) -> None:
    study = httpx.post(f"{site.url}/v1/studies", json=LARGE).json()["id"]
    opened = view(site.url)
    page = opened.page
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.headers.get("last-event-id", ""))
        number = min(len(asked), 2)  # then nothing new
        progress = {"done_fraction": 0.25 * number, "elapsed_s": 2.0 * number, "enumerated": 7_000 * number}
        data = json.dumps({**progress, "legal": 5, "fits_memory": 3, "simulated": 1_234, "best_step_time_s": 40.0 - number})
        body = f"id: {40 + number}\nevent: progress\ndata: {data}\n\n"
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    page.route("**/events", answer)
    page.goto(f"{site.url}/studies/{study}")
    expect(page.get_by_text("14,000", exact=True)).to_be_visible()
    expect(page.get_by_text("1,234", exact=True)).to_be_visible()
    assert asked[:2] == ["", "41"]
    httpx.post(f"{site.url}/v1/studies/{study}:cancel").raise_for_status()
    expect(page.get_by_text("The search was stopped", exact=True)).to_be_visible(timeout=20_000)


def test_a_running_search_says_what_time_remains_or_that_it_is_not_known(view: OpenView, site: Site) -> None:
    study = httpx.post(f"{site.url}/v1/studies", json=LARGE).json()["id"]
    counts = {"enumerated": 5, "legal": 5, "fits_memory": 3, "simulated": 1, "best_step_time_s": 40.0}
    shown = [0]  # reports; an even pace, 60 s for a tenth
    phases = ["enumerate"] * 5 + ["explain"]

    def answer(route: Route) -> None:
        reports = [
            {**counts, "done_fraction": 0.1 * number, "elapsed_s": 60.0 * number, "phase": phases[number]}
            for number in range(1, shown[-1] + 1)
        ]
        body = "".join(f"id: {at}\nevent: progress\ndata: {json.dumps(report)}\n\n" for at, report in enumerate(reports, 1))
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    opened = view(site.url)
    page = opened.page
    page.route("**/events", answer)
    for number_shown, said in [
        (1, "Remaining time: unknown yet."),
        (4, "Between 1 min and 16 min remain, by the pace of this search so far."),  # 10 min in all, half and twice of it
        (5, "the plans are being explained"),
    ]:
        shown.append(number_shown)
        page.goto(f"{site.url}/studies/{study}")
        expect(page.get_by_text(said)).to_be_visible()
        assert opened.violations() == []
    httpx.post(f"{site.url}/v1/studies/{study}:cancel").raise_for_status()
    expect(page.get_by_text("The search was stopped", exact=True)).to_be_visible(timeout=20_000)


@pytest.fixture(scope="module")
def thousand(site: Site, varied: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As many plans as a study stores: those of another one, again and again, each time a little slower."""
    folder = next(path for path in tmp_path_factory.getbasetemp().glob("site*") if (path / "meshplan.db").exists())
    plans = _plans(site, varied)
    database = Database(f"sqlite:///{folder / 'meshplan.db'}")
    with database.write() as session:
        source = session.query(Study).where(Study.id == varied).one()
        kept = {
            column.key: getattr(source, column.key) for column in Study.__table__.columns if column.key not in ("number", "id")
        }
        session.add(Study(id="a" * 16, **kept))
        session.flush()
        for rank in range(1, MANY + 1):
            plan = copy.deepcopy(plans[rank % len(plans)])
            plan["rank"], plan["plan_id"] = rank, f"{rank:012x}"
            plan["estimate"]["step_time_s"] *= 1 + rank / MANY
            numbers = {name: plan["estimate"][name] for name in ("step_time_s", "peak_memory_bytes")}
            session.add(Plan(study_id="a" * 16, rank=rank, plan_id=plan["plan_id"], document=plan, **numbers))
    database.close()
    return "a" * 16


def test_a_thousand_plans_are_drawn(view: OpenView, site: Site, thousand: str) -> None:
    opened = view(site.url)
    opened.page.goto(f"{site.url}/studies/{thousand}")
    expect(_table(opened.page).locator("tbody tr")).to_have_count(10)
    expect(opened.page.get_by_text("1 – 10 of 1,000")).to_be_visible()
    expect(opened.page.get_by_role("img", name="Step time and peak memory of 1000 plans")).to_be_visible()
    assert opened.violations() == []


def test_the_first_plans_do_not_wait_for_the_others(view: OpenView, site: Site, thousand: str) -> None:
    page = view(site.url).page
    held: list[Route] = []
    page.route("**/ranking?cursor=*", lambda route: held.append(route))
    page.goto(f"{site.url}/studies/{thousand}")
    expect(page.get_by_text("1 – 10 of 100", exact=True)).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.get_by_text("1 – 10 of 1,000")).to_be_visible()


MIXTURE = {
    "model": "qwen3-30b-a3b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 32},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "search": {"tp": 4, "pp": 2, "vpp": 1, "ep": 16, "micro_batch_size": 1, "recompute": "full", "top": 2},
}


@pytest.mark.parametrize(
    ("target", "heading"), [(None, "What physics alone would give"), ("any", "What frameworks take in place of the plan to run")]
)
def test_launchable_plans_and_physics_alone_stand_side_by_side(
    view: OpenView, site: Site, target: str | None, heading: str
) -> None:
    job = {**MIXTURE, **({} if target is None else {"software": {"target": target}})}
    study = httpx.get(f"{site.url}/v1/studies/{searched(site.url, job)}").json()
    opened = view(site.url)
    page = opened.open(f"/studies/{study['id']}")
    card = page.get_by_role("region", name=heading).first
    result = study["result"]
    if target is None:
        best = result["physics_best"]
        assert best["rules"]
        told = [
            best["why"],
            *(broken["sentence"] for broken in best["rules"]),
            f"{best['difference_fraction']:.1%}".replace("%", " %"),
        ]
        expect(page.get_by_text(f"the whole lattice of {study['job']['software']['target']}")).to_be_visible()
    else:
        told = [text for entry in result["nearest_launchable"] for text in (entry["target"], entry["why"], *entry["replaced"])]
    assert told
    for text in told:
        expect(card).to_contain_text(text)
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_a_study_is_saved_as_one_page(view: OpenView, site: Site) -> None:
    page = view(site.url, language="zh-CN").open(f"/studies/{site.completed}")
    with page.expect_download() as download:
        page.get_by_role("button", name="报告", exact=True).click()
    assert download.value.suggested_filename == f"meshplan-{site.completed}.html"
    text = download.value.path().read_text()
    assert text.startswith("<!doctype html>")
    assert "结论" in text
