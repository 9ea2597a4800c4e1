"""The documentation site in a real browser: it loads from the server alone, and its search finds words of both languages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, expect

from app.server import application
from app.server.documentation import add_documentation
from app.storage.session import Database
from scripts.packaging.build_site import build

WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the site of this checkout."""
    folder = tmp_path_factory.mktemp("documentation") / "site"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def documentation(site: Path) -> Iterator[str]:
    """Address of the site, served as `meshplan serve` does."""
    with pytest.MonkeyPatch.context() as patch, Database("sqlite:///never-opened.db") as database:
        patch.setattr(application, "add_documentation", partial(add_documentation, folder=site))
        server = uvicorn.Server(uvicorn.Config(application.create_app(database), port=0, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/docs"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("page", ["", "/tutorial.html", "/zh/tutorial.html", "/model.html", "/cli.html"])
def test_a_page_fits_and_loads_from_the_server_alone(browser: Browser, documentation: str, page: str) -> None:
    tab = browser.new_page(viewport={"width": WIDTHS[0], "height": 900})
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    tab.goto(documentation + page, wait_until="networkidle")
    assert [url for url in asked if not url.startswith((documentation, "data:"))] == []
    assert said == []
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


@pytest.mark.parametrize("opened_from", ["server", "disk"])
@pytest.mark.parametrize(("page", "words", "found"), [("faq.html", "paired error", "FAQ"), ("zh/faq.html", "网络层级", "术语表")])
def test_its_search_needs_no_network(
    browser: Browser, site: Path, documentation: str, page: str, words: str, found: str, opened_from: str
) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(f"{documentation if opened_from == 'server' else site.as_uri()}/{page}", wait_until="networkidle")
    tab.keyboard.press("/")
    field = tab.get_by_role("textbox").or_(tab.get_by_role("combobox")).or_(tab.get_by_role("searchbox")).first
    field.fill(words)
    expect(tab.get_by_role("option").filter(has_text=found).first).to_be_visible()
    tab.close()
