"""Hardware and models: found, read to the source of a number, and taken into a new study."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import OpenView, Site

CONFIG = Path(__file__).parents[1] / "fixtures/huggingface/qwen3-8b.json"


def test_hardware_is_found_by_words_family_and_status(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/hardware")
    every = httpx.get(f"{site.url}/v1/hardware").json()["items"]
    expect(page.locator("tbody tr")).to_have_count(len(every))
    page.keyboard.press("/")
    page.keyboard.type("roce 910b3")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=roce"))
    page.goto(f"{site.url}/hardware?family=ascend&status=roadmap")
    rows = [item for item in every if item["family"] == "ascend" and item["status"] == "roadmap"]
    expect(page.locator("tbody tr")).to_have_count(len(rows))
    expect(page.locator("tbody tr").first).to_contain_text("Announced")
    page.locator("tbody tr").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/hardware/{rows[0]['name']}")


def test_every_number_of_a_profile_has_its_basis_and_source(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/hardware/atlas-900-a3-superpod")
    provenance = httpx.get(f"{site.url}/v1/hardware/atlas-900-a3-superpod").json()["provenance"]
    numbers = {path: stated for path, stated in provenance.items() if ".curves." not in path}
    table = page.get_by_role("region", name=re.compile("atlas-900-a3-superpod, All numbers"))
    expect(table.locator("tbody tr")).to_have_count(len(numbers))
    row = table.get_by_role("row").filter(has_text="tiers.2.bandwidth_bytes_per_s")
    expect(row).to_contain_text(f"{numbers['tiers.2.bandwidth_bytes_per_s']['value']:g} GB/s")
    expect(row.get_by_role("link", name="cloudmatrix384")).to_have_attribute("href", re.compile("^https://"))
    page.goto(f"{site.url}/hardware/atlas-900-a3-superpod?basis=measured")
    measured = [path for path, stated in numbers.items() if stated["basis"] == "measured"]
    expect(table.locator("tbody tr")).to_have_count(len(measured))


def test_the_drawing_follows_the_size_that_is_chosen(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/hardware/atlas-900-a3-superpod?devices=16")
    drawing = page.get_by_role("img", name=re.compile("^16 devices 910C die"))
    expect(drawing).to_contain_text("not needed for this many devices")
    page.get_by_role("slider", name="Devices in the drawing").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("img", name=re.compile("RoCE: 8,192 devices"))).to_be_visible()
    expect(page).to_have_url(re.compile("devices=8192"))


def test_measured_runs_behind_a_profile_lead_to_their_errors(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/hardware/atlas-900-a2-podc")
    page.get_by_role("link", name="See each with its error").click()
    page.wait_for_url("**/accuracy?hardware=atlas-900-a2-podc")
    expect(page.get_by_role("region", name="Runs").locator("tbody tr").first).to_contain_text("atlas-900-a2-podc")
    unmeasured = view(site.url).open("/hardware/atlas-950-superpod")
    expect(unmeasured.get_by_text("No published training run on this product is at hand")).to_be_visible()


def test_hardware_and_models_are_taken_into_a_new_study(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/hardware/atlas-800t-a2")
    page.get_by_role("link", name="Use in a new study").click()
    page.wait_for_url("**/studies/new?hardware=atlas-800t-a2")
    page.goto(f"{site.url}/models?kind=moe&q=deepseek-v3")
    page.get_by_role("link", name="DeepSeek-V3 671B").click()
    expect(page.get_by_role("region", name="Mixture of experts")).to_contain_text("256")
    expect(page.get_by_role("region", name="Default training and sources")).to_contain_text("arXiv 2412.19437")
    page.get_by_role("link", name="Use in a new study").click()
    page.wait_for_url("**/studies/new?model=deepseek-v3")


def test_a_config_shows_its_shape_and_becomes_a_study(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/models")
    page.get_by_role("button", name="Import a config.json").click()
    page.get_by_label("Name of the model").fill("ours")
    page.locator("input[type=file]").set_input_files(CONFIG)
    shape = page.get_by_role("region", name="Import a model")
    expect(shape).to_contain_text("8.191B")
    expect(shape.get_by_role("region", name="Attention")).to_contain_text("32")
    assert opened.violations() == []
    page.get_by_role("link", name="Use in a new study").click()
    page.wait_for_url("**/studies/new?source=config")
    expect(page.get_by_text("ours").first).to_be_visible()


def test_a_config_that_is_no_model_is_refused_beside_the_field(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/models?import=yes")
    page.get_by_label("Hugging Face config.json").fill(json.dumps({"model_type": "llamma"}))
    page.get_by_role("button", name="Read the config").click()
    expect(page.get_by_text("llama", exact=False).last).to_be_visible()
    expect(page.get_by_label("Hugging Face config.json")).to_have_attribute("aria-invalid", "true")
    assert all("422" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_an_unknown_profile_is_told_with_the_nearest(view: OpenView, site: Site) -> None:
    for path, near in [("/hardware/atlas-800t", "atlas-800t-a3"), ("/models/llama-2-7", "llama-2-7b")]:
        opened = view(site.url)
        opened.page.goto(site.url + path)
        expect(opened.page.get_by_role("alert")).to_contain_text(near)
        assert all("404" in complaint for complaint in opened.complaints)
        opened.complaints.clear()


def test_what_an_import_did_not_read_is_named(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/models?import=yes")
    page.get_by_label("Hugging Face config.json").fill(json.dumps({**json.loads(CONFIG.read_text()), "our_own_key": 3}))
    page.get_by_role("button", name="Read the config").click()
    notes = page.get_by_role("alert", name="Not read of this config")
    expect(notes).to_contain_text("our_own_key")
    assert opened.violations() == []
