"""How soon the dashboard shows a study of 1,000 plans, and how it moves with 10,000: a real server and browser, one machine."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from playwright.sync_api import Browser, Route, sync_playwright

from scripts.dashboard.server import server

JOB: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144, "precision": "bf16"},
    "search": {"top": 1000},
}
LOADS = 7
SEARCH_LIMIT_S = 600
LIMITS_S = {"table of plans": 1.5, "all plans in it": 1.5, "charts of all plans": 2.0}
LIMIT_BYTES = 500_000
CROWD = 10_000
WHEELS = 40
QUERIES = ("tp", "swap", "swap full", "")  # each typed in place of the one before


def searched(url: str) -> tuple[str, list[dict[str, Any]]]:
    """Run a study; return its id and its stored plans."""
    with httpx.Client(base_url=url, timeout=30, transport=httpx.HTTPTransport(retries=20)) as client:
        study = client.post("/v1/studies", json=JOB).raise_for_status().json()["id"]
        deadline_s = time.monotonic() + SEARCH_LIMIT_S
        while (state := client.get(f"/v1/studies/{study}").json()["state"]) in ("queued", "running"):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"study {study} is {state} after {SEARCH_LIMIT_S} s")
            time.sleep(1)
        plans = client.get(f"/v1/studies/{study}/ranking", params={"limit": 1000}).json()["items"]
    return study, plans


# Looks at the page at every frame, from before its first script; times count from the navigation.
_WATCH = """(drawn) => {
    window.seen = {};
    const look = () => {
        for (const [name, [selector, text]] of Object.entries(drawn))
            if (!(name in seen) && [...document.querySelectorAll(selector)].some((found) => found.textContent.includes(text)))
                seen[name] = performance.now() / 1000;
        if (Object.keys(seen).length < Object.keys(drawn).length) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""
_SENT = "() => performance.getEntries().filter((e) => e.transferSize).map((e) => [e.name.endsWith('.js'), e.transferSize])"


def load(browser: Browser, url: str, num_plans: int) -> dict[str, float]:
    """One first visit: seconds until the table, all its plans and the charts are drawn; bytes that were sent."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", locale="en-US")
    page = context.new_page()
    drawn = {
        "table of plans": ("tbody tr", ""),
        "all plans in it": ("main", f"of {num_plans:,}"),
        "charts of all plans": (f"[aria-label*='of {num_plans} plans'] canvas", ""),
    }
    page.add_init_script(f"({_WATCH})({json.dumps(drawn)})")
    page.goto(url, wait_until="commit")
    page.locator(drawn["charts of all plans"][0]).first.wait_for()
    page.wait_for_load_state("networkidle")
    seen_s: dict[str, float] = page.evaluate("seen")
    sent = page.evaluate(_SENT)
    context.close()
    return {
        **{name: seen_s[name] for name in drawn},
        "script": sum(size for is_script, size in sent if is_script),
        "other": sum(size for is_script, size in sent if not is_script),
    }


# Keeps the durations of long tasks, and the times at which the count below the table changed.
_TASKS = """() => {
    Object.assign(window, {tasks: [], typed: 0, shown: 0});
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({duration}) => duration))).observe({type: "longtask"});
    document.addEventListener("input", () => Object.assign(window, {typed: performance.now(), shown: 0}), true);
    let before = "";
    const look = () => {
        const count = document.querySelector("main [aria-live=polite].number")?.textContent ?? "none";
        if (count !== before && typed && !shown) shown = performance.now();
        before = count;
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""


def crowd(browser: Browser, url: str, plans: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Seconds from a keystroke in the search field to the filtered table, and the longest task in the 3 s after it.

    The server stores at most 1,000 plans of a study; the test answers in its place and repeats them.
    """
    many = [{**plans[at % len(plans)], "rank": at + 1, "plan_id": f"{at:012x}"} for at in range(CROWD)]

    def ranking(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        first = int(asked.get("cursor", ["0"])[0])
        last = first + int(asked["limit"][0])
        route.fulfill(json={"items": many[first:last], "next_cursor": str(last) if last < CROWD else None})

    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", locale="en-US")
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.route("**/ranking*", ranking)
    page.add_init_script(f"({_TASKS})()")
    page.goto(url)
    page.get_by_text(f"of {CROWD:,}").first.wait_for()
    for end in ("End", "Home"):  # every chart is drawn once
        page.keyboard.press(end)
        page.wait_for_timeout(5_000)
    found = {}
    for query in QUERIES:
        page.evaluate("tasks.length = 0")
        page.get_by_label("Search plans").fill(query)
        page.wait_for_timeout(3_000)
        shown_ms, longest_ms = page.evaluate("[shown - typed, Math.max(0, ...tasks)]")
        found[f"search {query!r}"] = (shown_ms / 1e3, longest_ms / 1e3)
    page.evaluate("tasks.length = 0")
    page.mouse.move(640, 600)
    for step in [1] * WHEELS + [-1] * WHEELS:
        page.mouse.wheel(0, step * 120)
        page.wait_for_timeout(16)
    found["scroll"] = (0.0, page.evaluate("Math.max(0, ...tasks)") / 1e3)
    context.close()
    return found


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium here: `make chromium` installs Debian's")
        return
    with server(workers=1) as url, sync_playwright() as playwright:
        study, plans = searched(url)
        num_plans = len(plans)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        load(browser, f"{url}/studies/{study}", num_plans)  # the first page is the server's
        loads = [load(browser, f"{url}/studies/{study}", num_plans) for _ in range(LOADS)]
        moves = crowd(browser, f"{url}/studies/{study}", plans)
        browser.close()
    print(f"first visit to a study of {num_plans:,} plans, {LOADS} times with an empty cache")
    print(f"{'drawn':<22}{'median':>10}{'worst':>10}{'target':>10}")
    for name in [name for name in loads[0] if name not in ("script", "other")]:
        times_s = [one[name] for one in loads]
        print(f"{name:<22}{statistics.median(times_s):>8.2f} s{max(times_s):>8.2f} s{LIMITS_S[name]:>8.1f} s")
    print(f"{'JavaScript sent':<22}{loads[0]['script'] / 1e3:>7.0f} kB{'':>10}{LIMIT_BYTES / 1e3:>7.0f} kB")
    print(f"{'everything else sent':<22}{loads[0]['other'] / 1e3:>7.0f} kB")
    print(f"{CROWD:,} plans in the page")
    print(f"{'done':<22}{'shown':>10}{'longest task':>14}")
    for name, (shown_s, longest_s) in moves.items():
        print(f"{name:<22}{shown_s:>8.2f} s{longest_s:>12.2f} s")


if __name__ == "__main__":
    main()
