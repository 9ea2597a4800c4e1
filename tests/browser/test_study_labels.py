"""Studies as people keep them: named, tagged, noted, put away, shared, found again, and when they go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import expect

from app.http import keys
from app.storage.session import Database
from tests.browser.conftest import DESKTOP, LABELS, PHONE, SMALL, OpenView, Site, View
from tests.servers import Server, running_server


@pytest.fixture
def study(site: Site) -> Iterator[str]:
    """One of its own, stopped before it began."""
    with httpx.Client(base_url=site.url) as client:
        made = str(client.post("/v1/studies", json=SMALL, params={"note": "asked by Li Wei"}).json()["id"])
        client.post(f"/v1/studies/{made}:cancel")
        yield made
        client.delete(f"/v1/studies/{made}")


def test_a_study_is_named_tagged_and_noted_in_place(view: OpenView, site: Site, study: str) -> None:
    opened = view(site.url)
    page = opened.open(f"/studies/{study}")
    expect(page.get_by_text("asked by Li Wei")).to_be_visible()
    page.get_by_role("button", name="Name, tags, note").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    for _, width in opened.looks(("dark", PHONE), ("light", DESKTOP)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []
    page.get_by_label("Name", exact=True).fill("Tender, variant B")
    page.get_by_label("Tags").fill("tender, atlas")
    page.get_by_label("Note").fill("Asked by Li Wei.\nNot before March.")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Save, without a mouse
    expect(page.get_by_role("heading", level=1)).to_have_text("Tender, variant B")
    expect(page.get_by_text("Not before March.")).to_be_visible()
    said = httpx.get(f"{site.url}/v1/studies/{study}").json()
    assert (said["name"], said["tags"], said["note"]) == (
        "Tender, variant B", ["atlas", "tender"], "Asked by Li Wei.\nNot before March."
    )  # fmt: skip
    page.get_by_role("button", name="Name, tags, note").click()
    page.get_by_label("Name", exact=True).fill("given up")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tender, variant B")
    page.get_by_role("link", name="Studies tagged tender").click()
    page.wait_for_url(re.compile(r"/studies\?tag=tender"))
    expect(page.get_by_role("link", name="Tender, variant B")).to_be_visible()
    assert page.get_by_role("row").count() == 2


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_rename_does_not_replace_another_persons(view: OpenView, site: Site, study: str, is_shown: bool) -> None:
    page = view(site.url).open(f"/studies/{study}")
    page.get_by_role("button", name="Name, tags, note").click()
    httpx.patch(f"{site.url}/v1/studies/{study}", json={"name": "by A"}, timeout=30).raise_for_status()
    if is_shown:  # the page has asked again while the form was open
        for button, language in (("Language", "中文"), ("语言", "English")):
            page.get_by_role("button", name=button).click()
            page.get_by_role("menuitem", name=language).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("by A")
    page.get_by_label("Name", exact=True).fill("by B")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Somebody else has changed this meanwhile: Name")).to_be_visible()
    assert httpx.get(f"{site.url}/v1/studies/{study}", timeout=30).json()["name"] == "by A"
    page.get_by_role("button", name="Save", exact=True).click()  # now that the reader knows
    expect(page.get_by_role("heading", level=1)).to_have_text("by B")


def test_a_label_that_is_refused_is_told_beside_its_field(view: OpenView, site: Site, study: str) -> None:
    opened = view(site.url)
    page = opened.open(f"/studies/{study}")
    page.get_by_role("button", name="Name, tags, note").click()
    page.get_by_label("Tags").fill("x" * 41)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Tags")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("at most 40 characters").first).to_be_visible()
    assert all("422" in complaint for complaint in opened.complaints)
    opened.complaints.clear()
    page.get_by_label("Tags").fill("fine")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Studies tagged fine")).to_be_visible()


def test_studies_are_found_by_tags_and_by_words_of_their_notes(view: OpenView, site: Site, study: str) -> None:
    page = view(site.url).open("/studies")
    page.get_by_role("combobox", name="Tag").or_(page.get_by_role("textbox", name="Tag")).first.click()
    page.get_by_role("option", name="samplers").click()
    expect(page).to_have_url(re.compile("tag=samplers"))
    assert page.get_by_role("row").count() == 2
    expect(page.get_by_role("row").last).to_contain_text(str(LABELS["name"])[:40])
    page.get_by_role("button", name="Clear filters").click()
    page.keyboard.press("/")
    page.keyboard.type("Li Wei")
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("row").last).to_contain_text(study)


def test_what_is_archived_leaves_the_list_and_comes_back(view: OpenView, site: Site, study: str) -> None:
    opened = view(site.url)
    page = opened.open("/studies")
    menu = page.get_by_role("button", name=f"Actions for llama-2-7b, {study}")
    menu.click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(page.get_by_role("row").filter(has_text=study)).to_have_count(0)
    page.get_by_role("checkbox", name="Archived").check()
    expect(page).to_have_url(re.compile("archived=yes"))
    expect(page.get_by_role("row")).to_have_count(2)
    assert opened.violations() == []
    page.reload()
    menu.click()
    page.get_by_role("menuitem", name="Unarchive").click()
    expect(page.get_by_role("heading", name="Nothing is archived")).to_be_visible()
    page.get_by_role("checkbox", name="Archived").uncheck()
    menu.click()
    page.get_by_role("menuitem", name="Name, tags, note").click()
    dialog = page.get_by_role("dialog", name="Name, tags and note of llama-2-7b")
    expect(dialog.get_by_label("Note")).to_have_value("asked by Li Wei")
    assert opened.violations() == []
    dialog.get_by_label("Name", exact=True).fill("renamed in the list")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("row").filter(has_text=study)).to_contain_text("renamed in the list")


def test_a_study_of_another_kind_has_them_too(view: OpenView, site: Site) -> None:
    job = {**SMALL, "sweep": {"devices": [8]}}
    made = httpx.post(f"{site.url}/v1/sweeps/studies", json=job, params={"name": "a small sweep", "tag": "sizes"}).json()["id"]
    page = view(site.url).open(f"/studies/{made}")
    expect(page.get_by_role("heading", level=1)).to_have_text("a small sweep")
    expect(page.get_by_role("link", name="Studies tagged sizes")).to_be_visible()
    page.goto(f"{site.url}/studies")
    page.get_by_role("button", name=f"Actions for a small sweep, {made}").click()
    page.get_by_role("menuitem", name="New from this").click()
    page.wait_for_url(re.compile(f"/sweep\\?from={made}|/sweep"))
    httpx.post(f"{site.url}/v1/studies/{made}:cancel")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("team")
    settings = {"MESHPLAN_KEEP_STUDIES_DAYS": "30"}
    with running_server(folder, "--workers", "0", "--require-keys", settings=settings) as server:
        yield server


@pytest.fixture
def person(team: Server, view: OpenView) -> Iterator[Callable[[str], tuple[View, httpx.Client]]]:
    clients = []

    def come(name: str) -> tuple[View, httpx.Client]:
        database = Database(f"sqlite:///{team.folder / 'meshplan.db'}")
        with database.write() as session:
            _, secret = keys.create_key(session, name, keys.USUAL_SCOPES, None)
        database.close()
        opened = view(team.url)
        opened.page.add_init_script(f"sessionStorage.setItem('meshplan-api-key', '{secret}')")
        clients.append(httpx.Client(base_url=team.url, headers={"Authorization": f"Bearer {secret}"}))
        return opened, clients[-1]

    yield come
    for client in clients:
        client.close()


def test_a_study_is_shared_by_its_link_and_withdrawn(person: Callable[[str], tuple[View, httpx.Client]]) -> None:
    (ada, hers), (bob, _) = person("ada"), person("bob")
    study = hers.post("/v1/studies", json=SMALL, params={"name": "hers"}).json()["id"]
    hers.post(f"/v1/studies/{study}:cancel")
    page = ada.open(f"/studies/{study}")
    expect(page.get_by_text("of ada · private")).to_be_visible()
    expect(page.get_by_text(re.compile("deleted after .* unless archived"))).to_be_visible()
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share this study")
    expect(dialog.get_by_role("button", name="Copy the link")).to_have_count(0)
    dialog.get_by_role("radio", name="Whoever has the link").check()
    expect(dialog).to_contain_text(f"/studies/{study}")
    assert ada.violations() == []
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog.get_by_role("button", name="Copy the link").click()
    expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url

    theirs = bob.open(f"/studies/{study}")
    expect(theirs.get_by_text("of ada · shared by link")).to_be_visible()
    expect(theirs.get_by_role("button", name="Name, tags, note")).to_have_count(0)
    theirs.get_by_role("button", name="Share").click()
    expect(theirs.get_by_role("radio", name="Its owner alone")).to_be_disabled()

    dialog.get_by_role("radio", name="Its owner alone").check()
    expect(dialog.get_by_role("button", name="Copy the link")).to_have_count(0)
    theirs.reload()
    expect(theirs.get_by_role("alert")).to_contain_text("There is no study")
    theirs.wait_for_load_state("networkidle")  # the page has asked for more of the study than its alert shows
    assert all("404" in complaint for complaint in bob.complaints)
    bob.complaints.clear()

    page.keyboard.press("Escape")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Archived · of ada · private · kept while archived")).to_be_visible()


def test_a_queued_study_says_how_many_are_taken_before_it(person: Callable[[str], tuple[View, httpx.Client]]) -> None:
    cyd, theirs = person("cyd")
    first, second, last = (theirs.post("/v1/studies", json=SMALL).json()["id"] for _ in range(3))
    page = cyd.open(f"/studies/{last}")
    expect(page.get_by_text("2 studies go first.")).to_be_visible()
    theirs.post(f"/v1/studies/{first}:cancel")
    expect(page.get_by_text("1 study goes first.")).to_be_visible()
    theirs.post(f"/v1/studies/{second}:cancel")
    expect(page.get_by_text("0 studies go first.")).to_be_visible()
    theirs.post(f"/v1/studies/{last}:cancel")
    expect(page.get_by_text("go first.")).to_have_count(0)
