"""Takes the pictures of the dashboard in docs/images, from a real server with real searches (two minutes; needs Chromium)."""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Literal

import httpx
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.dashboard.server import server

IMAGES = ROOT / "docs/images"
WIDTH = 1280
ANSWER_MS = 90_000


def _job(model: str, hardware: str, num_devices: int, **sections: Any) -> dict[str, Any]:
    return {"model": model, "cluster": {"hardware": hardware, "num_devices": num_devices}, **sections}


PANGU = _job("pangu-ultra-moe-718b", "atlas-800t-a2", 6144, search={"top": 40})
OTHERS = (
    _job("llama-2-70b", "atlas-800t-a2", 1),
    _job("llama-3.1-70b", "atlas-900-a2-podc", 128, search={"sampler": "tpe", "max_trials": 200, "seed": 1}),
    _job("qwen3-30b-a3b", "atlas-900-a3-superpod", 64, software={"target": "mindspeed-llm"}),
    _job("deepseek-v3", "atlas-900-a3-superpod", 1024),
)
SWEEP = "model=llama-3.1-70b&hardware=atlas-900-a3-superpod,h100-sxm-80gb&devices=64..1024"
POST_TRAINING = (
    "model=qwen2.5-math-7b&hardware=h20-sxm-96gb&devices=16&prompts=16&samples=8&mean=800&cap=4096"
    "&max_staleness=2&rollout_tp=1&ask=estimate&placement=separate&staleness=1&partial=yes&algorithm=grpo"
)
CHECKED = _job(
    "llama-2-13b", "atlas-900-a2-podc", 64, training={"seq_length": 4096, "global_batch_size": 512},
    budget={"step_time_s": {"max": 24}, "tokens_per_s": {"min": 80_000}},
)  # fmt: skip
CHANGES: tuple[dict[str, Any], ...] = (
    {"tp": 8}, {"tp": 8}, {"tp": 8, "micro_batch_size": 2}, {"tp": 4}, {"tp": 4}, {"tp": 8, "recompute": "full"}, {"tp": 3},
    {"tp": 4, "micro_batch_size": 2}, {"tp": 4, "switches": {"mc2": True}},
    {"tp": 4, "switches": {"mc2": True, "fused_rope": False}}, {"tp": 4, "switches": {"mc2": True}},
)  # fmt: skip
RUNNING = _job("pangu-ultra-moe-718b", "atlas-800t-a2", 4096)


def submit(client: httpx.Client, job: dict[str, Any]) -> str:
    return str(client.post("/v1/studies", json=job).raise_for_status().json()["id"])


def wait(client: httpx.Client, study: str) -> None:
    while client.get(f"/v1/studies/{study}").raise_for_status().json()["state"] in ("queued", "running"):
        time.sleep(1)


def keep_checks(client: httpx.Client) -> None:
    """Keep a history of checks, each compared with the last one that could run."""
    before = None
    for number, strategy in enumerate(CHANGES, start=1):
        change = {"commit": hashlib.sha1(str(number).encode()).hexdigest(), "branch": "main"}
        url = f"https://gitlab.example/training/jobs/-/merge_requests/{number + 40}"
        body = {**CHECKED, "strategy": strategy, "history": {"name": "jobs/llama-2-13b.yaml", **change, "change_url": url}}
        held = {} if before is None else {"baseline": before}
        kept = client.post("/v1/checks:keep", json={**body, **held}).raise_for_status().json()
        before = kept["check"] if kept["check"]["estimate"] else before


def take(
    browser: Browser,
    url: str,
    name: str,
    scheme: Literal["light", "dark"],
    height: int,
    begin: str | None = None,
    press: str | None = None,
) -> None:
    """Take a picture of the window after a button was pressed, from the top or from the heading ``begin``."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": height}, color_scheme=scheme, locale="en-US", reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.locator("h1").first.wait_for()
    page.locator("[role=status][aria-label]").first.wait_for(state="detached")
    page.wait_for_load_state("networkidle")
    if press is not None:
        page.get_by_role("button", name=press, exact=True).click()
    if begin is not None:
        heading = page.get_by_role("heading", name=begin, exact=True)
        heading.wait_for(timeout=ANSWER_MS)
        heading.evaluate("(found) => window.scrollBy(0, found.getBoundingClientRect().top - 90)")
        page.locator("[role=status][aria-label]").first.wait_for(state="detached")  # content that becomes visible may be loaded
    page.wait_for_timeout(1000)  # charts draw in steps
    save_picture(page.screenshot(), IMAGES / f"dashboard-{name}-{scheme}.webp")
    context.close()


def save_picture(png: bytes, path: Path) -> None:
    """Save a picture with 256 colours, each at most 16 of 255 from the original: a fifth of the bytes."""
    with Image.open(io.BytesIO(png)) as taken:
        reduced = taken.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    reduced.convert("RGB").save(path, "WEBP", lossless=True, quality=100, method=6)


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium here: `make chromium` installs Debian's")
    with server(workers=1) as url, sync_playwright() as playwright:
        transport = httpx.HTTPTransport(retries=20)
        with httpx.Client(base_url=url, timeout=30, transport=transport) as client:
            for other in [submit(client, job) for job in OTHERS]:
                wait(client, other)
            study = submit(client, PANGU)
            wait(client, study)
            first, second = [plan["plan_id"] for plan in client.get(f"/v1/studies/{study}/ranking?limit=2").json()["items"]]
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page, plan = f"{url}/studies/{study}", f"{url}/studies/{study}/plans/{first}"
            take(browser, page, "study", "light", 900)
            take(browser, f"{page}?pins={first}&color=pp", "charts", "dark", 1000, begin="Step time against memory")
            take(browser, plan, "plan", "light", 900)
            take(browser, f"{plan}?tab=timeline&window=0,5", "timeline", "dark", 810, begin="Pipeline timeline")
            take(browser, f"{plan}?tab=network", "network", "light", 800, begin="Where the groups sit")
            take(browser, f"{plan}?tab=network&device=1234", "placement", "light", 860, begin="Placement map")
            take(browser, f"{plan}?tab=memory", "memory", "dark", 1040, begin="Memory by pipeline rank")
            take(browser, f"{url}/sweep?{SWEEP}", "sweep", "light", 900, begin="Scaling", press="Sweep")
            take(browser, f"{url}/rl?{POST_TRAINING}", "rl", "light", 900, begin="Tasks over devices", press="Estimate")
            compared = f"{url}/compare?plans={study}:{first},{study}:{second}&timelines=on"
            take(browser, compared, "compare", "dark", 900)
            form = f"{url}/studies/new?model=pangu-ultra-moe-718b&hardware=atlas-900-a3-superpod&devices=6144"
            take(browser, form, "new", "light", 900)
            take(browser, f"{url}/accuracy", "accuracy", "light", 900)
            keep_checks(client)
            take(browser, f"{url}/checks", "checks", "light", 1160)
            running = submit(client, RUNNING)
            while not (client.get(f"/v1/studies/{running}").json()["progress"] or {}).get("best_step_time_s"):
                time.sleep(0.5)
            take(browser, f"{url}/studies", "studies", "light", 640)
            browser.close()


if __name__ == "__main__":
    main()
