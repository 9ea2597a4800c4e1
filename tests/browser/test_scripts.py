"""A launch script pasted into the page: yours, the best, the lines to change, and what was passed over."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from app.launch_scripts.schemas import TuneDocument
from tests.browser.conftest import DESKTOP, PHONE, SMALL, OpenView, Site

SCRIPT = "TP=8\ntorchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --our-own-flag 3\n"
CHANGED = SCRIPT.replace("TP=8", "TP=1")
DIFF = "--- launch.sh\n+++ launch.sh\n@@ -1,2 +1,2 @@\n-TP=8\n+TP=1\n torchrun --nproc_per_node 8\n"


REAL = """#!/bin/bash
TP=8
PP=2
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \\
    --sequence-parallel --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 \\
    --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 256 \\
    --tokenizer-type NullTokenizer --vocab-size 31999 --make-vocab-size-divisible-by 1 --swiglu --normalization RMSNorm \\
    --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear --use-flash-attn \\
    --use-distributed-optimizer --bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""


def _answer(site: Site) -> dict[str, Any]:
    """What the server would say of a script with the estimate and the best plan of a study that it has."""
    plan = httpx.get(f"{site.url}/v1/studies/{site.completed}/plans?limit=1", timeout=30).json()["items"][0]
    job = {**SMALL, "strategy": {"tp": 8, "recompute": "full"}, "simulate": True}
    own = httpx.post(f"{site.url}/v1/estimates", json=job, timeout=30).json()
    document = {
        **{
            name: own[name]
            for name in ("schema_version", "job", "assumptions", "warnings", "priced_with", "strategy", "estimate")
        },
        "version": own["priced_with"]["version"],
        "target": "megatron-lm@0.12",
        "violations": [],
        "best": {
            **{name: plan[name] for name in ("plan_id", "strategy", "estimate")},
            "proved_best": True,
            "stopped_by": None,
        },
        "speedup": own["estimate"]["step_time_s"] / plan["estimate"]["step_time_s"],
        "speedup_error_fraction": 0.075,
        "why": "Your plan is slower than the best: it loses time on recompute.",
        "tie": None,
        "nearest": None,
        "changes": [{"argument": "tensor-model-parallel-size", "was": "8", "now": "1", "line": 1}],
        "diff": DIFF,
        "script": CHANGED,
        "ignored": [],
        "not_understood": [{"line": 2, "text": "--our-own-flag 3", "reason": "megatron-lm@0.12 has no such argument"}],
    }
    return TuneDocument.model_validate(document).model_dump(mode="json")


def _tuned(page: Page, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Sends the script; the bodies that the page sent."""
    sent: list[dict[str, Any]] = []

    def answered(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(json=answer)

    page.route("**/v1/scripts", answered)
    page.get_by_role("textbox", name="Script").fill(SCRIPT)
    page.get_by_role("button", name="Price it and find better").click()
    page.get_by_role("heading", name="What to change").wait_for()
    return sent


def test_a_script_gets_its_price_the_best_and_the_lines_to_change(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/scripts?hardware=atlas-800t-a2&devices=8")
    answer = _answer(site)
    answer["estimate"]["evidence"]["extrapolated"] = ["no measured run above 8 devices"]
    sent = _tuned(page, answer)
    assert sent == [{"script": SCRIPT, "hardware": "atlas-800t-a2", "devices": 8}]
    own, best = answer["estimate"]["step_time_s"], answer["best"]["estimate"]["step_time_s"]
    for label, value in (("Yours", own), ("Plan to run", best)):
        tile = page.locator(".mantine-Card-root").filter(has_text=re.compile(f"^{label}"))
        expect(tile).to_contain_text(re.compile(rf"^{label}{re.escape(f'{value:#.4g}')}\s"))
    for label, of in (("Yours", answer["estimate"]), ("Plan to run", answer["best"]["estimate"])):
        tile = page.locator(".mantine-Card-root").filter(has_text=re.compile(f"^{label}"))
        expect(tile).to_contain_text(
            re.compile(r"80 %: [\d.]+\Ws to [\d.]+\Ws" + (", extrapolated" if label == "Yours" else r"\d"))
        )
        expect(tile).to_contain_text(f"fits with {of['fits_probability']:.1%}".replace("%", " %"))
    expect(page.get_by_text("no field for lengths")).to_have_count(0)
    expect(page.get_by_text(f"{answer['speedup']:.3g}×")).to_be_visible()
    expect(page.get_by_text("± 7.5 %")).to_be_visible()
    expect(page.get_by_text(answer["why"])).to_be_visible()
    diff = page.get_by_role("region", name="Diff of the script")
    assert diff.inner_text().splitlines()[:3] == ["@@ -1,2 +1,2 @@", "-TP=8", "+TP=1"]
    passed = page.get_by_role("region", name="Not understood")
    expect(passed).to_contain_text("--our-own-flag 3")
    expect(passed).to_contain_text("megatron-lm@0.12 has no such argument")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the changed script").click()
    assert download.value.suggested_filename == "launch.sh"
    assert download.value.path().read_text() == CHANGED
    for _, width in opened.looks(("light", DESKTOP), ("dark", PHONE)):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.violations() == []


def test_what_the_answer_does_not_know_is_said(view: OpenView, site: Site) -> None:
    answer = _answer(site)
    answer["speedup_error_fraction"] = None
    answer["warnings"] = ["Sample lengths are not known; --lengths states them."]
    page = view(site.url).open("/scripts?hardware=atlas-800t-a2&devices=8")
    _tuned(page, answer)
    expect(page.get_by_text("Its error is not known")).to_be_visible()
    expect(page.get_by_text("meshplan tune launch.sh --lengths MEAN:MAX")).to_be_visible()


def test_a_script_of_megatron_is_read_priced_and_changed_by_the_server(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/scripts?hardware=a100-sxm-80gb")
    page.get_by_role("textbox", name="Script").fill(REAL)
    with page.expect_response("**/v1/scripts", timeout=60_000) as answered:
        page.get_by_role("button", name="Price it and find better").click()
    assert answered.value.status == 200, answered.value.text()
    answer = TuneDocument.model_validate(answered.value.json())
    assert answer.speedup is not None
    assert answer.speedup > 1
    assert answer.diff
    diff = page.get_by_role("region", name="Diff of the script")
    expect(diff).to_contain_text("-TP=8")
    expect(page.get_by_role("region", name="Not understood")).to_contain_text("hidden-dropout 0.1 is priced as 0")
    expect(page.get_by_text("To run, proved the fastest")).to_be_visible()


def test_the_page_and_its_answer_are_chinese(view: OpenView, site: Site) -> None:
    opened = view(site.url, language="zh-CN", width=PHONE)
    page = opened.open("/scripts?hardware=atlas-800t-a2")
    page.route("**/v1/scripts", lambda route: route.fulfill(json=_answer(site)))
    page.locator("textarea").first.fill(SCRIPT)
    page.get_by_role("button", name="估算并寻找更优方案").click()
    expect(page.get_by_role("heading", name="需要修改的内容")).to_be_visible()
    expect(page.get_by_role("heading", name="未能识别")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize(
    ("address", "script", "label"),
    [("?hardware=atlas-800t-a9", SCRIPT, "Hardware"), ("?hardware=atlas-800t-a2&devices=9999999999", SCRIPT, "Devices")],
)
def test_what_the_server_refuses_stands_beside_its_field(
    view: OpenView, site: Site, address: str, script: str, label: str
) -> None:
    opened = view(site.url)
    page = opened.open(f"/scripts{address}")
    page.locator("textarea").first.fill(script)
    with page.expect_response("**/v1/scripts") as answered:
        page.get_by_role("button", name="Price it and find better").click()
    problem = answered.value.json()
    assert answered.value.status == 422
    expect(page.get_by_role("alert").first).to_contain_text(problem["detail"])
    expect(page.locator(".mantine-InputWrapper-error")).to_have_text(problem["detail"])
    assert label.lower() in problem["pointer"]
    opened.complaints = [complaint for complaint in opened.complaints if "422" not in complaint]


def test_a_text_that_is_no_launch_script_is_refused_with_the_servers_sentence(view: OpenView, site: Site) -> None:
    opened = view(site.url)
    page = opened.open("/scripts?hardware=atlas-800t-a2")
    page.locator("textarea").first.fill("echo $(rm -rf /)\n")
    with page.expect_response("**/v1/scripts") as answered:
        page.get_by_role("button", name="Price it and find better").click()
    problem = json.loads(answered.value.text())
    assert answered.value.status == 422, problem
    expect(page.get_by_role("alert").first).to_contain_text(problem["detail"])
    opened.complaints = [complaint for complaint in opened.complaints if "422" not in complaint]


def test_a_file_is_read_into_the_box_and_keeps_its_name(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/scripts?hardware=atlas-800t-a2")
    page.locator("input[type=file]").set_input_files({"name": "pretrain.sh", "mimeType": "text/x-sh", "buffer": SCRIPT.encode()})
    expect(page.locator("textarea").first).to_have_value(SCRIPT)
    page.route("**/v1/scripts", lambda route: route.fulfill(json=_answer(site)))
    page.get_by_role("button", name="Price it and find better").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the changed script").click()
    assert download.value.suggested_filename == "pretrain.sh"


def test_the_menu_and_the_keyboard_lead_to_the_page(view: OpenView, site: Site) -> None:
    page = view(site.url).open("/studies")
    page.get_by_role("link", name="Scripts").click()
    page.wait_for_url("**/scripts")
    page = view(site.url).open("/studies")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/scripts")
