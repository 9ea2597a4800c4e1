"""The documentation site: built from the pages of the checkout, it leads nowhere wrong and loads nothing from elsewhere."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scripts.packaging.build_site import CONFIG, DECISIONS, ROOT, SiteError, build, pages, site_text

LINK = re.compile(r"\]\(([^)\s]+)\)")
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Loads(HTMLParser):
    """Addresses that a browser fetches for a page by itself: links are followed by readers alone."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs).get(LOADED.get(tag, ""))
        if found and dict(attrs).get("rel") not in ("canonical", "prev", "next", "edit"):
            self.found.append(found)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    build(folder)
    return folder


def test_every_page_of_the_checkout_is_in_the_site(site: Path) -> None:
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert built == {page.removesuffix(".md") + ".html" for page in pages().values()}


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r'= "([^"]+\.md)"', CONFIG.read_text(encoding="utf-8")))
    assert {page for page in pages().values() if page != DECISIONS and not page.startswith("adr/")} == listed - {DECISIONS}


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = Loads(page.read_text(encoding="utf-8")).found
        assert [each for each in loads if each.endswith(".css")], page
        for each in loads:
            assert not re.match(r"[a-z]+:|//", each.removeprefix("data:image")), (page, each)
            if not each.startswith("data:"):
                assert (page.parent / each.split("#")[0]).is_file(), (page, each)


def test_no_style_loads_anything_from_another_host(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"@import|url\(['\"]?(?:https?:)?//[^)]*", text) == [], style


def test_its_search_holds_every_page_in_both_languages(site: Path) -> None:
    index = (site / "search.js").read_text(encoding="utf-8")
    items = json.loads(index.removeprefix("var __index = ").rstrip().removesuffix(";"))["items"]
    found = {each["location"].split("#")[0] for each in items}
    assert found >= {page.removesuffix(".md") + ".html" for page in pages().values() if not page.endswith("index.md")}
    assert any("流水线" in each["text"] for each in items)
    assert any("dualpipev" in each["text"] for each in items)


@pytest.mark.parametrize("name", [name for name in pages() if name.endswith(".md")])
def test_every_link_of_a_page_leads_to_a_file_of_the_checkout(name: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link.partition("#")[0] for link in LINK.findall(text) if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in links if not ((ROOT / name).parent / link).exists()] == []


def test_links_are_those_of_the_site_and_code_stays_as_it_is() -> None:
    named = {"README.md": "index.md", "docs/cli.md": "cli.md", "docs/zh/a.md": "zh/a.md"}
    code = "```\n[d](docs/cli.md)\n```\n"
    text = f"[a](docs/cli.md#x) [b](https://h/i) [`c`](app/x.py)\n{code}[![e](docs/images/f.webp)](docs/cli.md)\n"
    rewritten = f"[a](cli.md#x) [b](https://h/i) `c`\n{code}[![e](images/f.webp)](cli.md)\n"
    assert site_text("README.md", text, named) == rewritten
    assert site_text("docs/zh/a.md", "[a](../../README.md)", named) == "[a](../index.md)"


def test_an_anchor_that_is_nowhere_stops_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.packaging.build_site.site_text", lambda name, text, named: "# A\n\n[b](#nowhere)\n")
    with pytest.raises(SiteError, match="anchor does not exist"):
        build(tmp_path / "site")
    assert not (tmp_path / "site").exists()
