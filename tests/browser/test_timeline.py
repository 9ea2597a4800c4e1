"""The timeline of a plan under mouse and keyboard, and what its numbers are called."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import DESKTOP, OpenView, Site, StoredPlan, until


def _picture(page: Page) -> Locator:
    canvas = page.get_by_test_id("timeline")
    expect(canvas).to_have_attribute("data-tasks", re.compile(r"\d"))
    return canvas


def _window(page: Page) -> tuple[float, float]:
    start, end = (_picture(page).get_attribute("data-window") or "").split(",")
    return float(start), float(end)


def _width(page: Page) -> float:
    start, end = _window(page)
    return end - start


def test_a_timeline_is_saved_as_picture_drawing_and_rows(view: OpenView, site: Site, stored: StoredPlan) -> None:
    page = view(site.url).open(f"{stored.path}?tab=timeline")
    found = {}
    for kind in ("PNG", "SVG", "CSV"):
        page.get_by_role("button", name="Pipeline timeline: Save the chart").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=re.compile(kind)).click()
        found[kind] = download.value.path().read_bytes()
    tasks = stored.timeline["tasks"]["rank"]
    assert found["PNG"].startswith(b"\x89PNG\r\n")
    assert found["SVG"].startswith(b"<svg")
    assert found["CSV"].count(b"\n") == 1 + len(tasks)


def test_the_timeline_draws_every_task_and_zooms_pans_and_scrolls(view: OpenView, site: Site, stored: StoredPlan) -> None:
    page = view(site.url).open(f"{stored.path}?tab=timeline")
    canvas = _picture(page)
    step_s = stored.timeline["step_time_s"]
    # All ranks at once: the picture scrolls where they need more room.
    page.set_viewport_size({"width": DESKTOP, "height": 1400})
    expect(canvas).to_have_attribute("data-tasks", str(stored.num_tasks))
    assert _window(page) == pytest.approx((0, step_s))

    canvas.hover(position={"x": 600, "y": 200})
    before = _width(page)
    page.mouse.wheel(0, -600)
    until(page, lambda: _width(page) < before * 0.6)
    expect(page).to_have_url(re.compile("window="))

    canvas.focus()
    width = _width(page)
    page.keyboard.down("w")
    until(page, lambda: _width(page) < width)
    page.keyboard.up("w")
    start = _window(page)[0]
    page.keyboard.down("d")
    until(page, lambda: _window(page)[0] > start)
    page.keyboard.up("d")
    page.keyboard.press("0")
    until(page, lambda: _window(page) == pytest.approx((0, step_s)))
    expect(page).not_to_have_url(re.compile("window="))


def test_a_task_is_chosen_with_the_mouse_and_kept_by_the_address(view: OpenView, site: Site, stored: StoredPlan) -> None:
    page = view(site.url).open(f"{stored.path}?tab=timeline")
    canvas = _picture(page)
    tasks, step_s = stored.timeline["tasks"], stored.timeline["step_time_s"]
    first = next(i for i, rank in enumerate(tasks["rank"]) if rank == 0 and tasks["stream"][i] == 0)
    gutter, plot = 138, canvas.bounding_box()["width"] - 138  # type: ignore[index]
    x = gutter + (tasks["start_s"][first] + tasks["end_s"][first]) / 2 / step_s * plot
    canvas.click(position={"x": x, "y": 80})
    chosen = page.get_by_role("region", name="Selected task")
    expect(chosen).to_contain_text("Forward")
    expect(page).to_have_url(re.compile(rf"task={first}(&|$)"))
    window = f"{step_s / 8:.4f},{step_s / 4:.4f}"
    page.goto(f"{site.url}{stored.path}?tab=timeline&task={first + 40}&window={window}&ranks=2,3")
    expect(chosen).to_contain_text("Micro batch")
    shown = sum(
        rank in (2, 3) and start < step_s / 4 and end > step_s / 8
        for rank, start, end in zip(tasks["rank"], tasks["start_s"], tasks["end_s"], strict=True)
    )
    # Tasks at the edges of the window may be either.
    until(page, lambda: abs(int(_picture(page).get_attribute("data-tasks") or 0) - shown) <= 4)


COMMUNICATION = ("tp_comm", "cp_comm", "ep_comm", "dp_comm", "weight_gather", "pipeline_p2p")


def test_exposed_communication_means_one_thing(view: OpenView, site: Site, stored: StoredPlan) -> None:
    """The overview and the table of plans sum the parts of the critical rank; streams of a timeline are called otherwise."""
    opened = view(site.url)
    page = opened.open(stored.path)
    estimate = stored.document["estimate"]
    exposed = sum(estimate["time_breakdown_s"].get(part, 0.0) for part in COMMUNICATION)
    share = f"{100 * exposed / estimate['step_time_s']:.1f} %"
    expect(page.get_by_role("row").filter(has_text="of it exposed communication")).to_contain_text(share)
    page = opened.open(f"{stored.path.rpartition('/plans/')[0]}?columns=communication")
    expect(page.get_by_role("row").nth(stored.document["rank"])).to_contain_text(share)
    page = opened.open(f"{stored.path}?tab=timeline")
    expect(page.get_by_role("columnheader", name="Communication streams alone")).to_be_visible()
    expect(page.get_by_text("Exposed communication")).to_have_count(0)


def test_the_legend_of_a_timeline_says_why_its_shares_add_up_to_more_than_the_step(
    view: OpenView, site: Site, stored: StoredPlan
) -> None:
    page = view(site.url).open(f"{stored.path}?tab=timeline")
    tasks, streams = stored.timeline["tasks"], stored.timeline["streams"]
    spans = zip(tasks["stream"], tasks["start_s"], tasks["end_s"], strict=True)
    sums = {True: 0.0, False: 0.0}
    for stream, start_s, end_s in spans:
        sums[streams[stream] in ("compute", "optimizer")] += end_s - start_s
    whole_s = stored.timeline["step_time_s"] * stored.timeline["num_ranks"]
    shares = [f"{100 * sums[is_compute] / whole_s:.1f} %" for is_compute in (True, False)]
    expect(page.get_by_text(f"Streams run at the same time: {shares[0]} compute, the others add {shares[1]}.")).to_be_visible()


def test_the_timeline_is_read_with_the_keyboard_alone(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    page = opened.open(f"{stored.path}?tab=timeline")
    _picture(page).focus()
    page.keyboard.press("ArrowRight")
    said = page.get_by_role("status").filter(has_text="rank 0")
    expect(said).to_contain_text("micro batch 0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("status").filter(has_text="rank 1")).to_be_attached()
    page.keyboard.press("f")
    until(page, lambda: _width(page) < stored.timeline["step_time_s"] / 20)
    assert opened.violations() == []
    page.keyboard.press("Escape")
    expect(page.get_by_text("Select a task to see it in detail")).to_be_visible()
    expect(page).not_to_have_url(re.compile("task="))


def _many(num_ranks: int, per_rank: int) -> dict[str, Any]:
    """Bars of every size, some of them a millionth of the step, on two streams."""
    columns: dict[str, list[Any]] = {name: [] for name in ("rank", "stream", "kind", "chunk", "micro_batch", "start_s", "end_s")}
    for rank in range(num_ranks):
        for i in range(per_rank):
            for stream in (0, 1):
                start = i / per_rank
                values = (rank, stream, i % 2 + 6 * stream, 0, i // 2, start, start + (1e-6 if i % 3 else 0.9 / per_rank))
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
    kinds = ["forward", "backward", "input_gradient", "weight_gradient", "pair", "recompute", "dispatch", "combine"]
    return {
        "schema_version": 1,
        "step_time_s": 1.0,
        "num_ranks": num_ranks,
        "streams": ["compute", "expert_communication"],
        "kinds": kinds,
        "tasks": columns,
        "memory": {"rank": [], "time_s": [], "bytes": []},
        "bubble_s": [0.0] * num_ranks,
    }


def test_130_000_tasks_are_all_drawn(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url, width=1600)
    opened.page.set_viewport_size({"width": 1600, "height": 1400})
    body = json.dumps(_many(16, 4096))
    opened.page.route("**/timeline", lambda route: route.fulfill(body=body, content_type="application/json"))
    page = opened.open(f"{stored.path}?tab=timeline")
    canvas = _picture(page)
    expect(canvas).to_have_attribute("data-tasks", str(16 * 4096 * 2))
    # No column of a lane that holds tasks is left blank: each is read back from the picture.
    blank = canvas.evaluate(
        """(canvas) => {
            const ratio = devicePixelRatio, context = canvas.getContext('2d');
            const width = Math.floor((canvas.clientWidth - 138) * ratio);
            const pixels = context.getImageData(139 * ratio, 82 * ratio, width - 2, 1).data;
            let ground = 0;
            for (let x = 0; x < pixels.length; x += 4) if (pixels[x + 3] < 100) ground++;
            return ground;
        }"""
    )
    assert blank == 0


def test_a_plan_without_a_timeline_says_so_and_can_be_asked_again(view: OpenView, site: Site, stored: StoredPlan) -> None:
    opened = view(site.url)
    problem = {
        "type": "urn:meshplan:problem:conflict",
        "title": "t",
        "status": 409,
        "detail": "The plan has no timeline: too long.",
    }
    rest = {"pointer": None, "parameter": None, "hint": "", "instance": ""}
    refusal = json.dumps({**problem, **rest})
    opened.page.route(
        "**/timeline", lambda route: route.fulfill(status=409, body=refusal, content_type="application/problem+json")
    )
    opened.page.goto(f"{site.url}{stored.path}?tab=timeline")
    expect(opened.page.get_by_role("alert")).to_contain_text("The plan has no timeline: too long.")
    assert opened.violations() == []
    opened.page.unroute("**/timeline")
    opened.page.get_by_role("button", name="Try again").click()
    _picture(opened.page)
    assert all("409" in complaint for complaint in opened.complaints)
    opened.complaints.clear()
