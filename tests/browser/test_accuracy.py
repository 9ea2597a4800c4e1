"""Accuracy: published runs with their errors and sources, own runs on the plot, calibrations fitted to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from calibration.files.calibrations import shipped_calibration
from tests.api.run_records import HARDWARE, STACK, usable_records
from tests.browser.conftest import OpenView
from tests.servers import Server, running_server

UNSEEN = "publication_left_out_error_fraction"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own: runs of one test are on the plots of the next."""
    with running_server(tmp_path_factory.mktemp("accuracy"), "--workers", "0") as running:
        yield running


@pytest.fixture(scope="module")
def runs(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{server.url}/v1/accuracy", timeout=60).json()["runs"]
    return found


def _figures(errors: list[float]) -> list[str]:
    sizes = np.abs(errors)
    bias = float(np.median(errors))
    texts = [f"{100 * figure:.1f} %" for figure in (np.median(sizes), sizes.mean(), np.quantile(sizes, 0.9))]
    return [str(len(errors)), *texts, f"{'−' if bias < 0 else '+'}{100 * abs(bias):.1f} %"]


@pytest.mark.parametrize(
    ("query", "family", "error"), [("", "ascend", UNSEEN), ("?family=gpu&view=shipped", "gpu", "error_fraction")]
)
def test_errors_by_category_are_those_of_the_runs(
    view: OpenView, server: Server, runs: list[dict[str, Any]], query: str, family: str, error: str
) -> None:
    page = view(server.url).open(f"/accuracy{query}")
    table = page.get_by_role("region", name="Errors by category")
    for category, name in [("dense_single", "Dense, one node"), ("moe", "MoE")]:
        errors = [
            run[error]
            for run in runs
            if (run["family"], run["category"]) == (family, category)
            and run[error] is not None
            and run["is_latest"]
            and run["suspect"] is None
        ]
        cells = table.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True)).get_by_role("cell")
        assert cells.all_inner_texts()[1:6] == _figures(errors)


def test_a_run_is_chosen_filtered_and_traced_to_its_source(view: OpenView, server: Server, runs: list[dict[str, Any]]) -> None:
    run = next(run for run in runs if run["family"] == "ascend" and run["category"] == "moe" and run[UNSEEN] is not None)
    page = view(server.url).open("/accuracy?category=moe")
    listed = page.get_by_role("region", name="Runs", exact=True)
    listed.get_by_role("row").filter(has_text=run["id"]).get_by_role("button").click()
    expect(page).to_have_url(re.compile(f"run={run['id']}"))
    card = page.get_by_role("region", name=f"Run {run['id']}")
    expect(card).to_contain_text(run["source"]["locator"])
    expect(card.get_by_role("link", name=run["source"]["title"])).to_have_attribute("href", run["source"]["url"].split(" ")[0])
    page.keyboard.press("/")
    page.keyboard.type("no such run")
    expect(page.get_by_text("No run matches")).to_be_visible()


def _choose(page: Page, label: str, option: re.Pattern[str]) -> None:
    page.get_by_role("combobox", name=label).or_(page.get_by_role("textbox", name=label)).first.click()
    page.get_by_role("option", name=option).click()


def test_own_runs_are_sent_predicted_drawn_and_teach_a_calibration(view: OpenView, server: Server, tmp_path: Path) -> None:
    records = usable_records(3)
    wrong = {**records[0], "id": "elsewhere", "cluster": {**records[0]["cluster"], "hardware": "atlas-9000"}}
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in [*records, wrong]), encoding="utf-8")
    opened = view(server.url)
    page = opened.open("/accuracy?tab=own")
    expect(page.get_by_role("heading", name="No runs of your own yet")).to_be_visible()
    page.locator("input[type=file]").set_input_files(file)
    told = page.get_by_role("status").filter(has_text="3 of 4 runs predicted")
    expect(told).to_contain_text("3 are new on this server")
    expect(told.get_by_role("listitem")).to_contain_text("atlas-9000")
    answer = httpx.get(f"{server.url}/v1/runs?predicted=true", timeout=60).json()["items"]
    error = answer[0]["prediction"]["error_fraction"]
    row = page.get_by_role("region", name="Your runs").get_by_role("row").filter(has_text=answer[0]["id"])
    expect(row).to_contain_text(f"{100 * abs(error):.1f} %")
    expect(page.get_by_role("img", name="Predicted against measured step time of 3 runs")).to_be_visible()
    assert opened.violations() == []

    page.get_by_role("button", name="Fit", exact=True).click()
    card = page.get_by_role("region", name=re.compile("^Calibration [0-9a-f]{12}$"))
    expect(card).to_contain_text(f"Fitted to 3 runs of {STACK} on {HARDWARE}", timeout=120_000)
    assert opened.violations() == []
    page.get_by_role("tab", name="Calibrations").click()
    (stored,) = httpx.get(f"{server.url}/v1/calibrations").json()["items"]
    page.get_by_role("button", name=f"Show calibration {stored['id']}").click()
    expect(card).to_contain_text(f'"calibration": "{stored["id"]}"')
    with page.expect_download() as download:
        card.get_by_role("button", name="Download the file").click()
    kept = json.loads(download.value.path().read_text("utf-8"))
    assert kept == httpx.get(f"{server.url}/v1/calibrations/{stored['id']}").json()["calibration"]

    page = view(server.url).open("/accuracy?tab=own")
    _choose(page, "Predicted by", re.compile(f"^{stored['id']}"))
    expect(page).to_have_url(re.compile(f"by={stored['id']}"))
    own = httpx.get(f"{server.url}/v1/runs?predicted=true&calibration={stored['id']}", timeout=60).json()["items"][0]
    row = page.get_by_role("region", name="Your runs").get_by_role("row").filter(has_text=own["id"])
    expect(row).to_contain_text(f"{100 * abs(own['prediction']['error_fraction']):.1f} %")
    page.goto(f"{server.url}/studies/new?hardware={HARDWARE}")
    _choose(page, "Calibration", re.compile(f"^{stored['id']}"))
    expect(page.get_by_role("region", name="The same search from a terminal")).to_contain_text(f"--calibration {stored['id']}")
    expect(page).to_have_url(re.compile(f"stack={STACK}&calibration={stored['id']}"))
    taught = shipped_calibration("ascend").num_runs
    published = view(server.url).open("/accuracy")
    expect(published.get_by_role("img", name=re.compile(f"of {taught + 3} runs"))).to_be_visible()


def test_text_that_is_no_run_is_refused_with_its_line(view: OpenView, server: Server) -> None:
    page = view(server.url).open("/accuracy?tab=own")
    page.get_by_label("Run records").fill('{"id": "a"}\nstep,time\n')
    page.get_by_role("button", name="Send the text").click()
    expect(page.get_by_text("Line 2 is not a JSON object.")).to_be_visible()


def test_shipped_calibrations_say_what_they_rest_on(view: OpenView, server: Server) -> None:
    page = view(server.url).open("/accuracy?tab=calibrations")
    for shipped in httpx.get(f"{server.url}/v1/accuracy", timeout=60).json()["calibrations"]:
        name = {"ascend": "Shipped for Ascend", "gpu": "Shipped for GPUs"}[shipped["family"]]
        card = page.get_by_role("region", name=name)
        expect(card).to_contain_text(shipped["id"])
        first = shipped["coverage"][0]
        row = card.get_by_role("row").filter(has_text=first["hardware"]).filter(has_text=first["stack"]).first
        expect(row).to_contain_text(f"{first['num_runs']}")
