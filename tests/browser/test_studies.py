"""Studies from the form to the list: created, watched, found again, compared, deleted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import DESKTOP, FAILURE, LONG_NAME, SMALL, TABLET, OpenView, Site, searched

CONFIG = Path(__file__).parents[1] / "fixtures/huggingface/qwen3-8b.json"


def _choose(page: Page, label: str, typed: str, option: str) -> None:
    field = page.get_by_role("textbox", name=label).or_(page.get_by_role("combobox", name=label)).first
    field.click()
    field.fill(typed)
    page.get_by_role("option", name=option).first.click()


def test_a_study_is_created_with_the_form_and_watched_to_its_end(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    page.keyboard.press("n")
    page.wait_for_url("**/studies/new")
    _choose(page, "Preset", "Llama 2 7B", "Llama 2 7B")
    _choose(page, "Hardware", "800T A2", "Atlas 800T A2, 8 x Ascend 910B3")
    page.get_by_role("textbox", name="Devices").fill("16")
    page.get_by_label("Global batch size").fill("128")
    expect(page.get_by_role("img", name="16 devices 910B3")).to_contain_text("RoCE")
    expect(page.get_by_role("region", name="The same search from a terminal")).to_contain_text("--global-batch-size 128")
    expect(page).to_have_url(re.compile("devices=16"))
    page.reload()
    expect(page.get_by_role("textbox", name="Devices")).to_have_value("16")
    page.get_by_role("button", name="Start the search").click()
    page.wait_for_url(re.compile(r"/studies/[0-9a-f]{16}$"))
    study = page.url.rpartition("/")[2]
    page.goto(f"{site.url}/studies?selected={study}")
    row = page.get_by_role("row").filter(has_text=study)
    expect(row).to_contain_text("Completed", timeout=30_000)
    expect(row).to_contain_text("Proved")
    job = httpx.get(f"{site.url}/v1/studies/{study}").json()["job"]
    assert (job["model"]["name"], job["cluster"]["num_devices"], job["training"]["global_batch_size"]) == ("llama-2-7b", 16, 128)


def test_a_fine_tune_is_asked_for_with_its_own_batch_and_the_rank_of_its_adapters(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=8")
    length, batch = page.get_by_label("Sequence length"), page.get_by_label("Global batch size")
    expect(length).to_have_attribute("placeholder", "4,096")
    expect(page.get_by_label("Adapter rank")).to_have_count(0)
    page.get_by_label("Training task").first.click()
    page.get_by_role("option", name="LoRA: adapters beside weights in 16 bits").click()
    expect(length).not_to_have_attribute("placeholder", "4,096")  # the preset's is that of its pre-training
    start = page.get_by_role("button", name="Start the search")
    start.click()
    for words in ("how long a sequence is", "how many sequences a step takes", "how many channels an adapter has"):
        expect(page.get_by_text(f"Say {words}").first).to_be_visible()
    for field, text in ((length, "4k"), (batch, "32"), (page.get_by_label("Adapter rank"), "16")):
        field.fill(text)
    command = page.get_by_role("region", name="The same search from a terminal")
    expect(command).to_contain_text("--task lora")
    expect(command).to_contain_text("--adapter-rank 16")
    start.click()
    page.wait_for_url(re.compile(r"/studies/[0-9a-f]{16}$"))
    job = httpx.get(f"{site.url}/v1/studies/{page.url.rpartition('/')[2]}").json()["job"]
    assert (job["training"]["task"], job["training"]["adapter"]["rank"], job["training"]["seq_length"]) == ("lora", 16, 4096)


def test_the_forms_network_is_a_picture_to_save(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=64&inter_node=12.5")
    menu = page.get_by_role("button", name="Network, one device in one direction: Save the chart")
    for item, ending, part in [("SVG", "svg", "<rect"), ("CSV", "csv", "roce,,12500000000")]:
        menu.click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=re.compile(item)).click()
        assert download.value.suggested_filename == f"network-one-device-in-one-direction.{ending}"
        assert part in download.value.path().read_text()


def test_presets_and_profiles_are_found_by_their_ids(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies/new")
    _choose(page, "Preset", "llama-2-7b", "Llama 2 7B")
    _choose(page, "Hardware", "atlas-800t-a2", "Atlas 800T A2, 8 x Ascend 910B3")
    expect(page).to_have_url(re.compile("model=llama-2-7b&hardware=atlas-800t-a2"))
    page.get_by_role("combobox", name="Preset").or_(page.get_by_role("textbox", name="Preset")).first.fill("no-such-model")
    expect(page.get_by_text("None of this name")).to_be_visible()


def test_what_is_wrong_stands_beside_its_field(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=16&global_batch_size=0")
    page.get_by_role("button", name="Start the search").click()
    field = page.get_by_label("Global batch size")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(page.get_by_text("0 is not allowed; give an integer from 1").first).to_be_visible()
    assert opened.violations() == []
    field.fill("64")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    assert all("422" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_forms_say_all_that_is_missing_at_once(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies/new")
    page.get_by_role("button", name="Start the search").click()
    for words in ("Choose a preset, or read a config.json", "Choose the hardware", "Say how many devices"):
        expect(page.get_by_text(words, exact=True)).to_be_visible()
    opened = view(site.url, scheme="dark", language="zh-CN")
    page = opened.open("/scripts")
    page.get_by_role("button", name="估算并寻找更优方案").click()
    for words in ("请粘贴脚本或打开文件", "请选择硬件"):
        expect(page.get_by_text(words, exact=True)).to_be_visible()
    assert opened.violations() == []


def test_numbers_are_kept_as_typed_and_read_as_the_command_line_reads_them(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2")
    devices, sequence = page.get_by_role("textbox", name="Devices"), page.get_by_label("Sequence length")
    devices.press_sequentially("16x16")
    expect(devices).to_have_value("16x16")
    expect(page.get_by_text("“16x16” is not allowed; give a whole number, as in 1024, 1,024 or 1Ki")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method) if request.method == "POST" else None)
    page.get_by_role("button", name="Start the search").click()
    expect(devices).to_be_focused()
    assert (asked, opened.violations()) == ([], [])
    devices.fill("1Ki")
    sequence.press_sequentially("4k")
    page.get_by_label("Training tokens").press_sequentially("1T")
    expect(page.get_by_text("= 4,096")).to_be_visible()
    expect(page.get_by_text("is not allowed")).to_have_count(0)
    command = page.get_by_role("region", name="The same search from a terminal")
    expect(command).to_contain_text("--devices 1Ki")
    page.get_by_role("tab", name="REST").click()
    request = page.get_by_role("region", name="The request that this form sends")
    for part in ('"num_devices": 1024', '"seq_length": 4096', '"train_tokens": 1000000000000'):
        expect(request).to_contain_text(part)


def test_devices_that_fill_no_whole_nodes_are_remarked_before_the_search(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=60")
    expect(page.get_by_text("60 devices do not fill nodes of 8: 56 or 64 would")).to_be_visible()
    page.get_by_role("textbox", name="Devices").fill("64")
    expect(page.get_by_text("8 nodes of 8")).to_be_visible()
    expect(page.get_by_text("do not fill")).to_have_count(0)


def test_what_is_needed_is_said_beside_empty_fields_in_the_colour_of_an_example(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/rl")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("Needed", exact=True)).to_have_count(7)
    colour = "(field) => getComputedStyle(field, '::placeholder').color"
    assert page.get_by_label("Devices", exact=False).first.evaluate(colour) == page.get_by_label(
        "Optimizer steps"
    ).first.evaluate(colour)
    assert opened.violations() == []
    page = opened.open("/sweep")
    page.get_by_role("button", name="Sweep", exact=True).click()
    expect(page.get_by_text("Needed", exact=True)).to_be_visible()


@pytest.mark.parametrize("width", [TABLET, DESKTOP])
def test_the_name_of_the_hardware_is_whole(view: OpenView, site: Site, width: int) -> None:
    page = view(site.url, width=width).open("/studies/new?model=llama-2-7b&hardware=atlas-800t-a2")
    field = page.get_by_role("textbox", name="Hardware").or_(page.get_by_role("combobox", name="Hardware")).first
    expect(field).to_have_value(re.compile("Atlas 800T A2"))
    overflow = "(field) => field.scrollWidth - field.clientWidth"
    assert field.evaluate(overflow) == 0


def test_active_parameters_are_those_of_mixtures(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies/new?model=qwen3-32b")
    section = page.get_by_role("region", name="Model", exact=True)
    expect(section).to_contain_text("32.8B")
    expect(section).not_to_contain_text("active")
    page = view(site.url).open("/studies/new?model=qwen3-30b-a3b")
    expect(page.get_by_role("region", name="Model", exact=True)).to_contain_text("active")


MANY = 10_000


def test_a_list_of_many_studies_is_paged_and_filtered_by_kind(view: OpenView, site: Site) -> None:
    one = httpx.get(f"{site.url}/v1/studies?limit=1", timeout=30).json()["items"][0]

    def listed(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        first, limit = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
        some = range(first, min(MANY, first + limit))
        items = [{**one, "id": f"{number:016x}", "kind": "rl" if number == MANY - 1 else "search"} for number in some]
        route.fulfill(json={"items": items, "next_cursor": str(some.stop) if some.stop < MANY else None})

    opened = view(site.url)
    opened.page.route(re.compile(r"/v1/studies\?"), listed)
    page = opened.open("/studies")
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(page.get_by_text("10,000").first).to_be_visible()
    page.goto(f"{site.url}/studies?kind=rl")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text(f"{MANY - 1:016x}")


def test_the_total_is_that_of_all_studies_before_they_are_loaded(view: OpenView, site: Site) -> None:
    """The server counts what the filters leave; the answers for older pages never come."""
    one = httpx.get(f"{site.url}/v1/studies?limit=1", timeout=30).json()["items"][0]
    asked: list[dict[str, list[str]]] = []

    def listed(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        if "counts" in query:
            asked.append(query)
            counts = {"completed": 700, "failed": 12} if "kind" in query else {"completed": 9000, "failed": 4321}
            route.fulfill(json={"items": [one], "next_cursor": None, "counts": counts})
        elif "cursor" not in query and "text" not in query:
            items = [
                {**one, "id": f"{number:016x}", "owner": "alice", "kind": "rl", "state": "completed"} for number in range(200)
            ]
            route.fulfill(json={"items": items, "next_cursor": "older", "counts": None})

    opened = view(site.url)
    page = opened.page
    page.route(re.compile(r"/v1/studies\?"), listed)
    page.goto(f"{site.url}/studies")
    expect(page.get_by_text("1 – 50 of 13,321")).to_be_visible()
    expect(page.get_by_role("group", name="State")).to_have_text(re.compile(r"Completed 9,000\s*Failed 4,321"))
    expect(page.get_by_role("combobox", name="Owner").or_(page.get_by_role("textbox", name="Owner"))).to_have_count(0)
    page.goto(f"{site.url}/studies?kind=rl&model={one['model']}&q={one['model']}")
    expect(page.get_by_text("1 – 50 of 712")).to_be_visible()
    assert {name: asked[-1].get(name) for name in ("kind", "model", "text", "archived")} == {
        "kind": ["rl"],
        "model": [one["model"]],
        "text": [one["model"]],
        "archived": ["false"],
    }


def test_owners_are_a_filter_where_there_are_several(view: OpenView, site: Site) -> None:
    one = httpx.get(f"{site.url}/v1/studies?limit=1", timeout=30).json()["items"][0]
    owners = ["alice", "bob", "alice"]
    items = [{**one, "id": f"{number:016x}", "owner": owner} for number, owner in enumerate(owners)]
    opened = view(site.url)
    opened.page.route(re.compile(r"/v1/studies\?"), lambda route: route.fulfill(json={"items": items, "next_cursor": None}))
    page = opened.open("/studies")
    _choose(page, "Owner", "bob", "bob")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("owner=bob"))


def test_a_config_becomes_a_study_of_its_model(view: OpenView, site: Site) -> None:
    page = view(site.url).open(
        "/studies/new?hardware=atlas-800t-a2&devices=8&global_batch_size=64&seq_length=4096&source=config&tp=4&pp=1"
    )
    page.get_by_label("Name of the model").fill("ours")
    page.locator("input[type=file]").set_input_files(CONFIG)
    expect(page.get_by_text("8.19B")).to_be_visible()
    page.get_by_role("tab", name="REST").click()
    expect(page.get_by_role("region", name="The request that this form sends")).to_contain_text('"name": "ours"')
    page.get_by_role("button", name="Start the search").click()
    page.wait_for_url(re.compile(r"/studies/[0-9a-f]{16}$"))
    study = httpx.get(f"{site.url}/v1/studies/{page.url.rpartition('/')[2]}").json()
    assert study["model"] == "ours"
    assert study["job"]["model"]["hidden_size"] == json.loads(CONFIG.read_text())["hidden_size"]


def test_a_study_fills_in_the_form_for_the_next(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/studies/new?from={site.completed}")
    expect(page).to_have_url(re.compile("model=llama-2-7b&hardware=atlas-800t-a2&devices=8"))
    expect(page.get_by_label("Global batch size")).to_have_value("64")
    expect(page.get_by_label("Tensor parallel (tp)")).to_have_value("1,2,4,8")
    long_name = view(site.url).open(f"/studies/new?from={site.long_name}")
    expect(long_name.get_by_text(LONG_NAME).first).to_be_visible()


TYPE_AS_SOON_AS_FILLED = """
new MutationObserver((_, observer) => {
  const size = document.querySelector("[name=global_batch_size]");
  if (size?.value !== "64") return;
  observer.disconnect();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(size, "128");
  size.dispatchEvent(new Event("input", { bubbles: true }));
}).observe(document, { subtree: true, childList: true, attributes: true })
"""


def test_what_is_typed_while_the_form_is_being_filled_in_stays(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    opened.page.add_init_script(TYPE_AS_SOON_AS_FILLED)
    page = opened.open(f"/studies/new?from={site.completed}")
    expect(page).to_have_url(re.compile("global_batch_size=128"))
    expect(page.get_by_label("Global batch size")).to_have_value("128")
    expect(page.get_by_label("Tensor parallel (tp)")).to_have_value("1,2,4,8")


def test_a_study_is_named_where_it_begins_and_the_next_counts_on(view: OpenView, site: Site) -> None:
    form = "/studies/new?model=llama-2-7b&hardware=atlas-800t-a2&devices=8&global_batch_size=64&tp=8&pp=1&cp=1"
    opened = view(site.url)
    page = opened.open(form)
    section = page.get_by_role("region", name="Name, tags, note")
    section.get_by_label("Name", exact=True).fill("tender A")
    section.get_by_label("Tags", exact=True).fill("b, a,b")
    section.get_by_label("Note", exact=True).fill("Who asked: the board.\nBy Friday.")
    expect(page.get_by_role("region", name="The same search from a terminal")).to_contain_text("--name 'tender A'")
    expect(page).to_have_url(re.compile("name=tender"))
    assert opened.violations() == []
    page.get_by_role("button", name="Start the search").click()
    page.wait_for_url(re.compile(r"/studies/[0-9a-f]{16}$"))
    expect(page.get_by_role("heading", name="tender A", level=1)).to_be_visible()
    study = httpx.get(f"{site.url}/v1/studies/{page.url.rpartition('/')[2]}").json()
    assert (study["name"], study["tags"], study["note"]) == ("tender A", ["a", "b"], "Who asked: the board.\nBy Friday.")
    page.get_by_role("link", name="New from this").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("tender A (2)")
    expect(page.get_by_label("Tags", exact=True)).to_have_value("a, b")
    expect(page.get_by_label("Note", exact=True)).to_have_value("")
    page.get_by_label("Tags", exact=True).fill("x" * 41)
    page.get_by_role("button", name="Start the search").click()
    expect(page.get_by_label("Tags", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Tags", exact=True)).to_be_focused()
    assert all("422" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_every_state_shows_in_the_list(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    for study, said in [
        (site.completed, "Proved"),
        (site.sampled, "Not proved"),
        (site.without_plan, "No plan fits"),
        (site.failed, FAILURE),
        (site.cancelled, "Cancelled"),
        (site.long_name, LONG_NAME),
    ]:
        expect(page.get_by_role("row").filter(has_text=study)).to_contain_text(said)


def test_filters_columns_and_order_are_in_the_address(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    page.keyboard.press("/")
    page.keyboard.type("llama-2-7b")
    expect(page).to_have_url(re.compile("q=llama-2-7b"))
    page.get_by_text("Completed", exact=False).first.click()
    page.get_by_role("button", name="Choose columns").click()
    page.get_by_role("menuitemcheckbox", name="Sampler").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Best step time").click()
    page.get_by_role("checkbox", name=f"Select llama-2-7b, {site.completed}").check()
    expect(page).to_have_url(re.compile(f"selected={site.completed}"))
    assert set(re.findall(r"[?&](\w+)=", page.url)) == {"q", "state", "columns", "sort", "selected"}
    rows = page.get_by_role("row").all_inner_texts()
    fresh = view(site.url).open(page.url.removeprefix(site.url))
    expect(fresh.get_by_role("columnheader", name="Best step time")).to_have_attribute("aria-sort", "ascending")
    expect(fresh.get_by_text("1 study selected")).to_be_visible()
    assert [re.sub(r"\d+ \S+ ago", "", row) for row in fresh.get_by_role("row").all_inner_texts()] == [
        re.sub(r"\d+ \S+ ago", "", row) for row in rows
    ]


def test_rows_are_reached_chosen_and_opened_by_keyboard(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies?sort=devices")
    rows = page.locator("tbody tr")
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Space")
    expect(rows.nth(1).get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/studies/[0-9a-f]{16}$"))


def test_selected_studies_are_compared(view: OpenView, site: Site) -> None:
    page = view(site.url).open(f"/studies?selected={site.completed},{site.long_name},{site.without_plan}")
    page.get_by_role("region", name="Selected studies").get_by_role("link", name="Compare").click()
    page.wait_for_url(re.compile("/compare"))
    assert {site.completed, site.long_name} <= set(re.findall(r"[0-9a-f]{16}", page.url))
    assert site.without_plan not in page.url


def test_a_study_is_deleted_after_a_question(view: OpenView, site: Site) -> None:
    doomed = searched(site.url, SMALL)
    opened = view(site.url)
    page = opened.open("/studies")
    page.get_by_role("button", name=f"Actions for llama-2-7b, {doomed}").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete this study?")
    expect(dialog).to_contain_text("8 devices")
    assert opened.violations() == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert httpx.get(f"{site.url}/v1/studies/{doomed}").status_code == 200
    page.get_by_role("button", name=f"Actions for llama-2-7b, {doomed}").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("row").filter(has_text=doomed)).to_have_count(0)
    assert httpx.get(f"{site.url}/v1/studies/{doomed}").status_code == 404


def test_a_running_study_is_stopped_before_it_is_deleted(view: OpenView, site: Site) -> None:
    large = {"model": "pangu-ultra-moe-718b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144}}
    doomed = httpx.post(f"{site.url}/v1/studies", json=large).json()["id"]
    page = view(site.url).open("/studies")
    expect(page.get_by_role("row").filter(has_text=doomed)).to_contain_text("Running", timeout=30_000)
    page.get_by_role("checkbox", name=f"Select pangu-ultra-moe-718b, {doomed}").check()
    page.get_by_role("region", name="Selected studies").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("row").filter(has_text=doomed)).to_have_count(0, timeout=30_000)
    assert httpx.get(f"{site.url}/v1/studies/{doomed}").status_code == 404


def test_language_and_theme_are_switched_and_kept(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    page.get_by_role("button", name="Language").click()
    page.get_by_role("menuitem", name="中文").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("搜索任务")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.get_by_role("button", name="主题").click()
    page.get_by_role("menuitem", name="深色").click()
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("搜索任务")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


def test_keyboard_shortcuts_lead_to_every_page_and_are_listed(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    for key, path in [
        ("w", "sweep"),
        ("r", "rl"),
        ("h", "hardware"),
        ("m", "models"),
        ("a", "accuracy"),
        ("c", "compare"),
        ("s", "studies"),
    ]:
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**/{path}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Search on this page")
