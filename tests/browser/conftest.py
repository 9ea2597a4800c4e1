"""The dashboard in a real browser, over a real server and database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from app.storage.session import Database
from app.storage.tables import Study
from documents.sentences import Sentence
from meshplan import Client
from tests.servers import Server, running_server

Scheme = Literal["light", "dark"]
Look = tuple[Scheme, int]
PHONE, TABLET, DESKTOP, WIDE = 390, 820, 1280, 2560
HEIGHT = 900
TIMEOUT_MS = 60_000  # what comes in a second, on a machine that does much else
ENDS_S = 300.0  # a search of a second
FAILURE = Sentence("Internal error: {}: {}", "MemoryError", "the worker had no memory left for a chunk of strategies")
LONG_NAME = "our-internal-experiment-with-a-very-long-name-that-a-sweep-generated-2026-11-21T18-50-00Z-revision-17"

expect.set_options(timeout=TIMEOUT_MS)

LABELS = {
    "name": "附录 A: random against exhaustive, " + "a-name-as-long-as-they-may-be-" * 2,
    "tags": [
        "a tag of forty characters, and no more!".replace(",", ""),
        "appendix",
        "samplers",
        *(f"run {number}" for number in range(9)),
    ],
    "note": "Forty trials are too few; asked for by the reviewers.\n" + "https://example.org/" + "a-long-address-" * 12,
}

# What axe leaves to judgement is not asked: only rules of WCAG 2.2 A and AA, and its best practices.
AXE_OPTIONS = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}

_ANIMATIONS_DONE = """() => Promise.all(document.getAnimations()
    .filter(({effect}) => effect?.getComputedTiming().iterations !== Infinity)
    .map((animation) => animation.finished.catch(() => null)))"""

# Without a font for them all characters are the same box, of another width than theirs.
_DRAWS_CHINESE = """() => {
  const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const [one, other] = ["中", "国"].map((character) => {
    brush.clearRect(0, 0, 40, 40);
    brush.font = "30px sans-serif";
    brush.fillText(character, 2, 32);
    return brush.getImageData(0, 0, 40, 40).data.join();
  });
  return one !== other;
}"""

_NEXT_FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
_QUIET_FRAMES = 3
_MOVE_MS = 50

SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
    "search": {"tp": [1, 2, 4, 8], "cp": 1, "recompute": ["none", "full"], "zero_stage": 1},
}


PIPELINE = {
    **SMALL,
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "search": {"tp": 1, "cp": 1, "pp": 16, "vpp": 2, "micro_batch_size": 1, "recompute": ["none"], "zero_stage": 1},
}  # 16 ranks and 64 micro batches

# Pages are as wide as their fonts: Chromium finds these and no others, whatever else the machine has.
FONTS = ("DejaVu Sans", "DejaVu Sans Mono", "DejaVu Serif", "WenQuanYi Micro Hei", "WenQuanYi Micro Hei Mono")
FONT_CONFIGURATION = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <selectfont>
    <rejectfont><pattern/></rejectfont>
    <acceptfont>{accepted}</acceptfont>
  </selectfont>
</fontconfig>
"""
ACCEPTED = "<pattern><patelt name='family'><string>{family}</string></patelt></pattern>"


@pytest.fixture(scope="package")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration for fontconfig."""
    path = tmp_path_factory.mktemp("fonts") / "fonts.conf"
    path.write_text(FONT_CONFIGURATION.format(accepted="".join(ACCEPTED.format(family=family) for family in FONTS)))
    return path


@pytest.fixture(scope="package")
def browser(fonts: Path) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here; `make chromium` installs Debian's where apt works")
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not run as root. One process draws all pages, so that what it compiled for one serves the
        # next: opening a page takes half the time.
        options = ["--no-sandbox", "--disable-gpu", "--process-per-site"]
        environment = {**os.environ, "FONTCONFIG_FILE": str(fonts)}
        running = playwright.chromium.launch(executable_path=found, args=options, env=environment)
        yield running
        running.close()


@pytest.fixture(scope="package")
def draws_chinese(browser: Browser) -> bool:
    with browser.new_page() as page:
        return bool(page.evaluate(_DRAWS_CHINESE))


@dataclass(frozen=True)
class Site:
    """A server with studies in every state, and a history of checks; the fields are their ids, the checks oldest first."""

    url: str
    completed: str
    sampled: str
    without_plan: str
    failed: str
    cancelled: str
    long_name: str
    best_plan: str
    passed_check: str
    broken_check: str
    infeasible_check: str
    last_check: str


HISTORY = "jobs/llama-2-7b.yaml"
BRANCH = "feature/" + "a-branch-with-a-very-long-name-" * 3
CHECKED: dict[str, Any] = {
    **{name: SMALL[name] for name in ("model", "cluster", "training")},
    "budget": {"step_time_s": {"max": 14.0}, "tokens_per_s": {"min": 1000.0}},
}


def _kept(client: httpx.Client, number: int, strategy: dict[str, Any], **more: Any) -> str:
    """A check of a pipeline, in a history of one job."""
    change = {"commit": f"{number}" * 40, "branch": "main" if number % 2 else BRANCH}
    url = f"https://gitlab.example/training/jobs/-/merge_requests/{number}"
    taken = {"commit": "CI_COMMIT_SHA", "branch": "CI_COMMIT_REF_NAME", "change_url": "CI_MERGE_REQUEST_IID"}
    history = {"name": HISTORY, **change, "change_url": url, "taken_from": taken}
    answer = client.post("/v1/checks:keep", json={**CHECKED, "strategy": strategy, "history": history, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _history(client: httpx.Client) -> list[str]:
    """Four checks: one that passes, one that is slower than its baseline, one that cannot run, and one that is fast again."""
    passed = _kept(client, 1, {"tp": 8})
    baseline = client.get(f"/v1/checks/{passed}").json()["check"]
    broken = _kept(client, 2, {"tp": 8, "recompute": "full"}, baseline=baseline)
    return [passed, broken, _kept(client, 3, {"tp": 3}), _kept(client, 4, {"tp": 4})]


def searched(url: str, job: dict[str, Any]) -> str:
    """A study of the job that has ended, however busy the machine is."""
    with Client(url) as client:
        return client.wait(client.submit(job).id, timeout_s=ENDS_S).id


def _named(client: httpx.Client, name: str) -> dict[str, Any]:
    return {**client.get("/v1/models/qwen3-8b").json()["model"], "name": name}


def _fail(folder: Path, study_id: str) -> None:
    """A worker that dies of itself cannot be ordered: the row says what it would have left."""
    database = Database(f"sqlite:///{folder / 'meshplan.db'}")
    with database.write() as session:
        study = session.query(Study).where(Study.id == study_id).one()
        study.state, study.error, study.finished_at_s = "failed", FAILURE, study.created_at_s + 3
    database.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with running_server(folder) as server, httpx.Client(base_url=server.url, timeout=90) as client:
        completed = searched(server.url, SMALL)
        long_name = searched(server.url, {**SMALL, "model": _named(client, LONG_NAME)})
        sampled = searched(server.url, {**SMALL, "search": {"sampler": "random", "max_trials": 40}})
        too_few = {"hardware": "atlas-800t-a2", "num_devices": 1}
        without_plan = searched(server.url, {**SMALL, "model": "llama-2-70b", "cluster": too_few, "search": {}})
        failed = searched(server.url, SMALL)
        _fail(folder, failed)
        large = {"model": "pangu-ultra-moe-718b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144}}
        cancelled = client.post("/v1/studies", json=large).json()["id"]
        client.post(f"/v1/studies/{cancelled}:cancel").raise_for_status()
        client.patch(f"/v1/studies/{sampled}", json=LABELS).raise_for_status()
        best = client.get(f"/v1/studies/{completed}/plans?limit=1").json()["items"][0]["plan_id"]
        yield Site(server.url, completed, sampled, without_plan, failed, cancelled, long_name, best, *_history(client))


@dataclass(frozen=True)
class StoredPlan:
    path: str
    document: dict[str, Any]
    timeline: dict[str, Any]
    launch: dict[str, Any]

    @property
    def num_tasks(self) -> int:
        return len(self.timeline["tasks"]["rank"])


@pytest.fixture(scope="package")
def stored(site: Site) -> StoredPlan:
    with httpx.Client(base_url=site.url, timeout=90) as client:
        study = searched(site.url, PIPELINE)
        plan = client.get(f"/v1/studies/{study}/plans?limit=1").json()["items"][0]
        path = f"/studies/{study}/plans/{plan['plan_id']}"
        timeline, launch = (client.get(f"/v1{path}/{part}").json() for part in ("timeline", "launch"))
        return StoredPlan(path, plan, timeline, launch)


@pytest.fixture(scope="package")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("empty"), "--workers", "0") as server:
        yield server


@dataclass
class View:
    """A page of the dashboard, and what its browser complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    expected: str = ""  # in complaints that a test asks for, which may come after its last step
    asked: set[Request] = field(default_factory=set)

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Everything that was asked for has been drawn."""
        self.page.locator("h1, [role=alert], h2").first.wait_for()
        self.page.locator("[role=status][aria-label]").first.wait_for(state="detached")
        quiet = 0
        while quiet < _QUIET_FRAMES:  # what is drawn may ask for more
            self.page.evaluate(_NEXT_FRAME)
            quiet = 0 if self.asked else quiet + 1

    def looks(self, *looks: Look) -> Iterator[Look]:
        """The page as it stands, in each theme and width."""
        for scheme, width in looks:
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.settle()
            yield scheme, width

    def violations(self) -> list[str]:
        """What axe finds, one line a broken rule, with the first elements that break it."""
        # Half-faded colours would be measured as they are at that moment.
        self.page.evaluate(_ANIMATIONS_DONE)
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(Axe().axe_script)
        found = self.page.evaluate("(options) => axe.run(options).then(({violations}) => violations)", AXE_OPTIONS)
        return [
            f"{rule['id']}: {node['html'][:200]}: {node['failureSummary'][:300]}" for rule in found for node in rule["nodes"][:3]
        ]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"outside request: {request.url}")
        if not request.url.endswith("/events"):  # those go on
            self.asked.add(request)

    def watch(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._on_request)
        for end in ("requestfinished", "requestfailed"):
            self.page.on(end, lambda request: self.asked.discard(request))  # type: ignore[call-overload]


OpenView = Callable[..., View]


def until(page: Page, holds: Callable[[], bool]) -> None:
    """For what moves by itself: it comes to hold, however slow the machine."""
    for _ in range(TIMEOUT_MS // _MOVE_MS):
        if holds():
            return
        page.wait_for_timeout(_MOVE_MS)
    assert holds()


EVERY_LOOK: list[Look] = [(scheme, width) for width in (DESKTOP, TABLET, WIDE, PHONE) for scheme in ("light", "dark")]
# Every width in both themes and in both languages, every theme at every width: half of the combinations in each language.
LOOKS: list[Look] = [("light", DESKTOP), ("dark", TABLET), ("light", WIDE), ("dark", PHONE)]
CHINESE_LOOKS: list[Look] = [("dark", DESKTOP), ("light", TABLET), ("dark", WIDE), ("light", PHONE)]


@pytest.fixture(scope="package")
def windows(browser: Browser) -> Callable[[str], BrowserContext]:
    """One window a language: scripts that it has compiled once stay compiled."""

    @cache
    def window(language: str) -> BrowserContext:
        context = browser.new_context(locale=language, reduced_motion="reduce")
        context.set_default_timeout(TIMEOUT_MS)
        return context

    return window


@pytest.fixture
def view(windows: Callable[[str], BrowserContext], draws_chinese: bool) -> Iterator[OpenView]:
    """Opens pages; a complaint of the browser that the test has not taken fails it."""
    opened: list[View] = []

    def create(url: str, *, scheme: Scheme = "light", language: str = "en-US", width: int = DESKTOP) -> View:
        if language.startswith("zh") and not draws_chinese:
            pytest.skip("no Chinese font here: Chinese pages cannot be judged; `make chromium` installs one where apt works")
        window = windows(language)
        if not window.pages:
            window.new_page().goto(f"{url}/theme.js")  # never closed: the process of a site ends with its last page
        page = window.new_page()
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": HEIGHT})
        created = View(page, url)
        created.watch()
        opened.append(created)
        return created

    yield create
    for one in opened:
        with suppress(PlaywrightError):  # a page that never loaded keeps nothing
            one.page.evaluate("localStorage.clear()")
        one.page.close()
    complaints = [
        complaint for one in opened for complaint in one.complaints if not one.expected or one.expected not in complaint
    ]
    assert complaints == []
