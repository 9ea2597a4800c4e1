"""Answers in Chinese: every sentence is translated where it leaves the server, and nothing else in an answer changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.test_rl_requests import JOB as RL_JOB
from tests.api.test_serving import JOB as SERVING_JOB
from tests.language import CHINESE, english_in, latin_in
from tests.unit.app.cli.test_sequences_command import JOB as SEQUENCES_JOB
from tests.unit.app.cli.test_sequences_command import LENGTHS
from tests.unit.app.launch_scripts.test_tuning import HARDWARE, SCRIPT

ZH = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}
# Names, citations, generated text and what the request gave: these stay.
KEPT = set(
    """
    arguments assumed basis command config diff environment features file_name hardware_profile job mechanisms name
    memory_mechanisms now path priced_with provenance record rule script source strategy switches text title wanted was
    """.split()
)
GIVEN = {"assumed", "config", "hardware_profile", "job", "priced_with", "record", "script", "strategy"}  # stay below them, too
TIMED = {"elapsed_s", "enumerate_s", "explain_s", "price_s", "simulate_s", "total_s"}
MOE: dict[str, Any] = {
    "model": "deepseek-v2-lite",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
    "training": {"seq_length": 4096, "global_batch_size": 512},
    "strategy": {"ep": 16, "recompute": "full"},
}
TOO_FEW = {"model": "llama-2-70b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 1}, "search": {}}


def check_translation(english: Any, chinese: Any, name: str = "") -> int:
    """How many texts are in Chinese. Nothing but texts differs, and no English of ours is left in them."""
    if isinstance(english, dict):
        assert list(english) == list(chinese)
        if name in GIVEN:
            told = check_translation(english["name"], chinese["name"], "name") if name == "strategy" and "name" in english else 0
            assert {**english, "name": 0} == {**chinese, "name": 0}
            return told
        return sum(check_translation(english[key], chinese[key], key) for key in english)
    if isinstance(english, list):
        assert len(english) == len(chinese)
        return sum(check_translation(one, other, name) for one, other in zip(english, chinese, strict=True))
    if english != chinese and name not in TIMED:
        assert isinstance(english, str)
        assert re.search("[\u4e00-\u9fff、（；：，]", chinese), (name, english, chinese)
    if isinstance(chinese, str) and name not in KEPT:
        assert english_in(chinese) == [], (name, chinese)
        assert not CHINESE.search(chinese) or latin_in(chinese) == [], (name, chinese)
    return english != chinese and name not in TIMED


def both(api: TestClient, method: str, path: str, **body: Any) -> tuple[Any, Any]:
    english = api.request(method, path, **body)
    chinese = api.request(method, path, headers=ZH, **body)
    assert english.status_code == chinese.status_code
    assert chinese.headers["content-language"] == "zh"
    assert "content-language" not in english.headers
    for answer in (english, chinese):
        assert "Accept-Language" in answer.headers["vary"]
    return english.json(), chinese.json()


ESTIMATE = {"strategy": {"tp": 8, "recompute": "full"}}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "estimate": ("/v1/estimates", {**ESTIMATE, "advise": True}),
    "explanation": ("/v1/explanations", ESTIMATE),
    "check": ("/v1/checks", {**ESTIMATE, "budget": {"step_time_s": {"max": 1}, "headroom_bytes": {"min": 1e9}}}),
    "goodput": ("/v1/goodput", {**ESTIMATE, "delivery": {}}),
    "rule": ("/v1/checks", {"strategy": {"tp": 64, "pp": 1}, "budget": {"step_time_s": {"max": 60}}}),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_sentence_of_an_answer_is_translated(api: TestClient, job: dict[str, Any], name: str) -> None:
    path, more = ASKED[name]
    assert check_translation(*both(api, "POST", path, json={**job, **more})) > 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/estimates", MOE),
        ("/v1/scripts", {"script": SCRIPT, "hardware": HARDWARE}),
        ("/v1/serving/estimates", SERVING_JOB),
        ("/v1/sequences/plans", {**SEQUENCES_JOB, "lengths": LENGTHS}),
        ("/v1/rl/estimates", RL_JOB),
        ("/v1/sweeps", {**TOO_FEW, "sweep": {"devices": [1, 2]}}),
    ],
)
def test_so_are_those_of_other_questions(api: TestClient, path: str, body: dict[str, Any]) -> None:
    check_translation(*both(api, "POST", path, json=body))


def test_a_search_its_plans_and_their_launch(api: TestClient, job: dict[str, Any], finish: Callable[[str], None]) -> None:
    study = api.post("/v1/studies", json=job).json()["id"]
    finish(study)
    assert check_translation(*both(api, "GET", f"/v1/studies/{study}")) > 0
    english, chinese = both(api, "GET", f"/v1/studies/{study}/plans")
    assert check_translation(english, chinese) > 0
    plan = english["items"][0]["plan_id"]
    assert plan == chinese["items"][0]["plan_id"]
    for part in ("launch", "analysis"):
        check_translation(*both(api, "GET", f"/v1/studies/{study}/plans/{plan}/{part}"))
    check_translation(*both(api, "GET", f"/v1/studies/{study}/rejections"))


def test_remarks_of_the_data_are_translated_and_its_names_are_not(api: TestClient) -> None:
    english, chinese = both(api, "GET", "/v1/hardware/atlas-800t-a2")
    assert check_translation(english, chinese) > 20
    assert chinese["provenance"]["hbm_bytes_per_s"]["note"].startswith("910B2 上读带宽可达")
    for name in ("source", "basis", "unit", "value"):
        assert chinese["provenance"]["hbm_bytes_per_s"][name] == english["provenance"]["hbm_bytes_per_s"][name]
    _, model = both(api, "GET", "/v1/models/deepseek-v3")
    assert "激活参数量含输出层" in str(model)


def test_what_stands_in_the_way_of_a_job(api: TestClient, finish: Callable[[str], None]) -> None:
    study = api.post("/v1/studies", json=TOO_FEW).json()["id"]
    finish(study)
    english, chinese = both(api, "GET", f"/v1/studies/{study}")
    assert check_translation(english, chinese) > 0
    assert "没有既合法又显存足够的策略" in chinese["result"]["nearest"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/studies", {"modle": "llama-2-7b"}),
        ("POST", "/v1/studies", {"model": "llama-2-7"}),
        ("POST", "/v1/studies", {"model": "llama-2-7b", "cluster": {"hardware": "910b", "num_devices": 8}}),
        ("POST", "/v1/studies", {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": "8"}}),
        ("POST", "/v1/estimates", {**MOE, "strategy": {"tp": 3}}),
        ("POST", "/v1/estimates", {**MOE, "strategy": {"ep": 3}}),
        ("POST", "/v1/estimates", {**MOE, "strategy": {"recompute": "half"}}),
        ("POST", "/v1/estimates", {**MOE, "search": {"headroom": "many"}}),
        ("POST", "/v1/estimates", MOE | {"strategy": None}),
        ("POST", "/v1/explanations", TOO_FEW),
        ("POST", "/v1/checks", MOE),
        ("POST", "/v1/scripts", {"script": 'A="', "hardware": HARDWARE}),
        ("GET", "/v1/nothing", None),
        ("GET", "/v1/models/nothing", None),
        ("GET", "/v1/studies/0123456789abcdef", None),
        ("GET", "/v1/studies?limit=x", None),
        ("PUT", "/v1/estimates", None),
    ],
)
def test_every_problem_is_told_in_chinese(api: TestClient, method: str, path: str, body: Any) -> None:
    english, chinese = both(api, method, path, json=body)
    for name in ("title", "detail", "hint"):
        assert CHINESE.search(chinese[name]), chinese[name]
        assert english_in(chinese[name]) == [], chinese[name]
    for name in ("type", "status", "pointer", "parameter"):
        assert chinese[name] == english[name]


def test_a_hint_is_the_end_of_its_detail(api: TestClient) -> None:
    problem = api.post("/v1/estimates", json={**MOE, "strategy": {"tp": "x"}}, headers=ZH).json()
    assert problem["detail"] == "strategy.tp：不允许 'x'；请给出 1 至 65,536 的整数。"
    assert problem["hint"] == "请给出 1 至 65,536 的整数。"


def test_problems_made_outside_of_the_application_are_translated_too(api: TestClient) -> None:
    problem = api.post("/v1/studies", content=b" " * (3 << 20), headers={**ZH, "Content-Type": "application/json"}).json()
    assert problem["title"] == "请求体过大"


@pytest.mark.parametrize("accepted", [None, "en", "en-GB,zh;q=0.5", "fr", "zh;q=0", "*", "x" * 5000, "zh;q=never"])
def test_without_a_reader_of_chinese_the_bytes_are_the_same(api: TestClient, job: dict[str, Any], accepted: str | None) -> None:
    body = {**job, **ESTIMATE}
    plain = api.post("/v1/estimates", json=body)
    headers = {} if accepted is None else {"Accept-Language": accepted}
    assert api.post("/v1/estimates", json=body, headers=headers).content == plain.content
    assert CHINESE.search(plain.text) is None


def test_a_translation_has_a_tag_of_its_own(api: TestClient) -> None:
    path = "/v1/models/llama-2-7b"
    english = api.get(path, headers={"Accept-Language": "en"})
    chinese = api.get(path, headers=ZH)
    assert chinese.headers["etag"] == english.headers["etag"][:-1] + '-zh"'
    known = api.get(path, headers={**ZH, "If-None-Match": chinese.headers["etag"]})
    assert (known.status_code, known.headers["etag"]) == (304, chinese.headers["etag"])
    assert "Accept-Language" in known.headers["vary"]
    # Who has the one in the other language has not this one.
    assert api.get(path, headers={**ZH, "If-None-Match": english.headers["etag"]}).status_code == 200
    assert api.get(path, headers={"If-None-Match": chinese.headers["etag"]}).status_code == 200
    assert api.get(path, headers={**ZH, "If-None-Match": "*"}).status_code == 304


def test_what_was_read_in_chinese_can_be_changed(api: TestClient, job: dict[str, Any]) -> None:
    study = api.post("/v1/studies", json=job).json()["id"]
    tag = api.get(f"/v1/studies/{study}", headers=ZH).headers["etag"]
    assert api.delete(f"/v1/studies/{study}", headers={**ZH, "If-Match": '"99-zh"'}).status_code == 412
    assert api.delete(f"/v1/studies/{study}", headers={**ZH, "If-Match": tag}).status_code == 204


def test_heads_say_what_gets_would(api: TestClient) -> None:
    head, get = (api.request(method, "/v1/models/llama-2-7b", headers=ZH) for method in ("HEAD", "GET"))
    assert head.content == b""
    for name in ("etag", "content-language", "content-type"):
        assert head.headers[name] == get.headers[name]
