"""Beyond loopback the pages ask for an API key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from app.http import keys
from app.storage.session import Database
from tests.browser.conftest import OpenView
from tests.servers import Server, running_server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("guarded"), "--workers", "0", "--require-keys") as server:
        yield server


def test_a_key_is_asked_for_and_kept_in_the_tab(view: OpenView, guarded: Server) -> None:
    database = Database(f"sqlite:///{guarded.folder / 'meshplan.db'}")
    with database.write() as session:
        _, secret = keys.create_key(session, "browser", ("read",), None)
    database.close()
    opened = view(guarded.url)
    opened.page.goto(guarded.url)
    dialog = opened.page.get_by_role("dialog", name="This server asks for an API key")
    dialog.get_by_label("API key").fill("wrong")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_contain_text("The server does not accept this key.")
    assert opened.violations() == []
    dialog.get_by_label("API key").fill("ｋｅｙ 中文")
    expect(dialog).to_contain_text("an input method has written another character")
    expect(dialog.get_by_role("button", name="Use this key")).to_be_disabled()
    dialog.get_by_label("API key").fill(secret)
    dialog.get_by_role("button", name="Use this key").click()
    expect(opened.page.get_by_role("heading", name="No studies yet")).to_be_visible()
    assert all("401" in complaint for complaint in opened.complaints)
    opened.complaints.clear()
    opened.page.reload()
    expect(opened.page.get_by_role("heading", name="No studies yet")).to_be_visible()
    opened.page.get_by_role("button", name="Change the API key").click()
    dialog = opened.page.get_by_role("dialog", name="Change the API key")
    expect(dialog.get_by_label("API key")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
