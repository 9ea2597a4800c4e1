"""``POST /v1/estimates``: one strategy as the command prices it, thousands as columns."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers import endpoints, service, simulation
from app.answers.parts import PARTS
from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument
from app.jobs.job import parse_job
from app.text.json_documents import plain

Refused = Callable[..., dict[str, Any]]
STRATEGIES: list[dict[str, Any]] = [
    {"tp": 8},
    {"tp": 4, "micro_batch_size": 2, "recompute": "full"},
    {"tp": 2, "pp": 2, "vpp": 2, "sequence_parallel": False},
    {"tp": 1, "pp": 8, "recompute": {"granularity": "full", "layers_per_stage": [4, 3, 2, 1, 0, 0, 0, 0]}},
    {"tp": 1, "pp": 2, "layer_layout": [17, 15], "features": ["flash_attention"]},
]


def test_one_strategy_is_answered_as_the_command_answers(api: TestClient, job: dict[str, Any]) -> None:
    response = api.post("/v1/estimates", json={**job, "strategy": STRATEGIES[0]})
    assert response.status_code == 200
    resolved = parse_job({**job, "strategy": STRATEGIES[0]})
    assert resolved.strategy is not None
    assert response.json() == plain(estimate_document(resolved, resolved.strategy, explained=PARTS))
    EstimateDocument.model_validate(response.json())


def test_an_estimate_that_was_asked_before_is_not_priced_again(
    api: TestClient, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [{**job, "strategy": strategy} for strategy in STRATEGIES[:2]]
    first = [api.post("/v1/estimates", json=body).content for body in bodies]
    priced = []
    monkeypatch.setattr(endpoints, "estimates", lambda body, database: priced.append(body))
    assert [api.post("/v1/estimates", json=body).content for body in bodies] == first
    assert priced == []
    assert first[0] != first[1]


def test_a_list_is_answered_in_order_and_as_one_by_one(api: TestClient, job: dict[str, Any]) -> None:
    document = api.post("/v1/estimates", json={**job, "strategies": STRATEGIES}).json()
    assert set(document) == {"schema_version", "job", "assumptions", "warnings", "estimates"}
    one_by_one = [api.post("/v1/estimates", json={**job, "strategy": strategy}).json()["estimate"] for strategy in STRATEGIES]
    # Pricing in a batch sums in another order: equal to the last few bits.
    for batched, alone in zip(document["estimates"], one_by_one, strict=True):
        assert set(batched) == set(alone)
        for name in ("step_time_s", "peak_memory_bytes", "tokens_per_s", "mfu_fraction", "headroom_bytes"):
            assert batched[name] == pytest.approx(alone[name], rel=1e-12), name
        assert batched["time_breakdown_s"] == pytest.approx(alone["time_breakdown_s"], rel=1e-9, abs=1e-15)
        assert batched["bottleneck"] == alone["bottleneck"]


def test_a_strategy_that_cannot_run_is_refused_in_its_place(api: TestClient, job: dict[str, Any]) -> None:
    # 8 devices / tp 3 is no integer; 64 sequences / (7 x dp 8) neither.
    strategies = [{"tp": 8}, {"tp": 3}, {"micro_batch_size": 7}, {"tp": 4}]
    fitting, arithmetic, illegal, last = api.post("/v1/estimates", json={**job, "strategies": strategies}).json()["estimates"]
    assert fitting["step_time_s"] > 0
    assert last["step_time_s"] > 0
    assert arithmetic["rule"] is None
    assert "3 does not divide the 8 devices" in arithmetic["refused"]
    assert illegal["rule"] == "global_batch"
    assert "7 x dp 8 = 56" in illegal["refused"]


def test_a_list_without_one_legal_strategy_is_an_answer_too(api: TestClient, job: dict[str, Any]) -> None:
    response = api.post("/v1/estimates", json={**job, "strategies": [{"tp": 3}]})
    assert response.status_code == 200
    assert "refused" in response.json()["estimates"][0]


@pytest.mark.parametrize(
    ("change", "pointer", "part"),
    [
        ({}, "#/strategy", "strategy: missing"),
        ({"strategy": {"tp": 3}}, "#/strategy", "does not divide the 8 devices"),
        ({"strategy": {"micro_batch_size": 7}}, "#/strategy", "micro_batch_size 7 x dp 8 = 56"),
        ({"strategy": {"tp": 8}, "strategies": [{"tp": 8}]}, "#/strategies", "give one of the two"),
        ({"strategies": []}, "#/strategies", "1 to 10,000"),
        ({"strategies": {"tp": 8}}, "#/strategies", "1 to 10,000"),
        ({"strategies": [{}] * 10_001}, "#/strategies", "a list of more than 10,000"),
        ({"strategies": [{"tp": 8}, {"pt": 8}]}, "#/strategies/1/pt", "did you mean"),
        ({"strategies": [{"tp": 8}, {"tp": 2**70}]}, "#/strategies/1/tp", "65,536"),
        ({"strategies": [5]}, "#/strategies/0", "5 is not allowed"),
    ],
)
def test_what_cannot_be_priced_is_refused(
    api: TestClient, refused: Refused, job: dict[str, Any], change: dict[str, Any], pointer: str, part: str
) -> None:
    problem = refused(api.post("/v1/estimates", json={**job, **change}), 422, "invalid-input")
    assert problem["pointer"] == pointer
    assert part in problem["detail"]


def test_too_many_pipelines_in_one_request_are_refused(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    layouts = [{"pp": 2, "layer_layout": [16 + shift, 16 - shift]} for shift in range(-15, 16)]
    plans = [
        {"pp": 2, "recompute": {"granularity": "full", "layers_per_stage": [first, second]}}
        for first in range(25)
        for second in range(25)
    ]
    assert len(layouts) + len(plans) > service.MAX_PIPELINES
    problem = refused(api.post("/v1/estimates", json={**job, "strategies": layouts + plans}), 422, "invalid-input")
    assert "656 distinct pipelines" in problem["detail"]  # 31 + 25 x 25


@pytest.mark.parametrize(
    ("strategies", "part"),
    [
        # (65,536 x 65,536)^2 squared virtual stages; 10,000 x 256 virtual stages
        ([{"pp": 65_536, "vpp": 65_536}], f"{2**64:,} squared virtual stages"),
        ([{"pp": 256, "micro_batch_size": size} for size in range(1, 10_001)], "2,560,000 virtual stages"),
    ],
)
def test_the_product_of_strategies_and_stages_is_bounded(
    api: TestClient, refused: Refused, job: dict[str, Any], strategies: list[dict[str, Any]], part: str
) -> None:
    problem = refused(api.post("/v1/estimates", json={**job, "strategies": strategies}), 422, "invalid-input")
    assert problem["pointer"] == "#/strategies"
    assert part in problem["detail"]


def test_a_pipeline_far_longer_than_the_model_is_refused_before_its_stages_are_listed(
    api: TestClient, refused: Refused, job: dict[str, Any]
) -> None:
    body = {**job, "cluster": {"hardware": "atlas-800t-a2", "num_devices": 983_040}, "strategy": {"pp": 65_536, "vpp": 65_536}}
    started_s = time.perf_counter()
    problem = refused(api.post("/v1/estimates", json=body), 422, "invalid-input")
    assert "4294967296 virtual stages" in problem["detail"]
    assert time.perf_counter() - started_s < 2


def test_a_model_of_more_layers_than_memory_allows_is_refused(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    model = api.get("/v1/models/llama-2-7b").json()["model"]
    for path in ("/v1/estimates", "/v1/studies"):
        body = {**job, "model": {**model, "num_layers": 2049}}
        assert refused(api.post(path, json=body), 422, "invalid-input")["pointer"] == "#/model/num_layers"


def test_an_absurd_job_is_refused_not_answered_with_infinity(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    cluster = {"hardware": "atlas-800t-a2", "num_devices": 16, "inter_node_bytes_per_s": 5e-324}
    problem = refused(api.post("/v1/estimates", json={**job, "cluster": cluster, "strategy": {"tp": 8}}), 422, "invalid-input")
    assert "inter_node_bytes_per_s" in problem["detail"]


def test_ten_thousand_strategies_are_one_request(api: TestClient, job: dict[str, Any]) -> None:
    strategies = [{"tp": 8, "micro_batch_size": 2 ** (index % 4)} for index in range(10_000)]
    entries = api.post("/v1/estimates", json={**job, "strategies": strategies}).json()["estimates"]
    assert len(entries) == 10_000
    assert entries[4] == entries[9_996]  # both micro_batch_size 1
    assert entries[0]["step_time_s"] != entries[1]["step_time_s"]


PIPELINED: dict[str, Any] = {"pp": 4, "layer_layout": [7, 9, 9, 7]}


def test_a_simulated_step_is_told_beside_the_closed_form(api: TestClient, job: dict[str, Any]) -> None:
    closed, simulated = (
        api.post("/v1/estimates", json={**job, "strategy": PIPELINED, "simulate": simulate}).json() for simulate in (False, True)
    )
    EstimateDocument.model_validate(simulated)
    assert "simulation" not in closed
    assert (closed["estimate"]["fidelity"], simulated["estimate"]["fidelity"]) == ("closed_form", "simulated")
    estimate, told = simulated["estimate"], simulated["simulation"]
    assert set(estimate) == set(closed["estimate"])
    assert told["closed_form_step_time_s"] == closed["estimate"]["step_time_s"] != estimate["step_time_s"]
    assert estimate["step_time_lower_bound_s"] <= estimate["step_time_s"] * (1 + 1e-12)
    assert sum(estimate["time_breakdown_s"].values()) == pytest.approx(estimate["step_time_s"], rel=1e-9)
    assert estimate["step_time_low_s"] < estimate["step_time_s"] < estimate["step_time_high_s"]
    ranks = told["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert max(rank["peak_memory_bytes"] for rank in ranks) == estimate["peak_memory_bytes"]
    assert min(rank["bubble_s"] for rank in ranks) == pytest.approx(estimate["time_breakdown_s"]["pipeline_bubble"])
    assert all(0 < rank["peak_at_s"] < estimate["step_time_s"] for rank in ranks)
    sends = told["communication"]["pipeline_p2p"]
    exposed_s, masked_s = estimate["time_breakdown_s"]["pipeline_p2p"], estimate["masked_s"]["pipeline_p2p"]
    assert sends == {"exposed_s": exposed_s, "masked_s": masked_s, "steady_masked_fraction": None}


def test_a_list_is_simulated_as_one_by_one(api: TestClient, job: dict[str, Any]) -> None:
    strategies = [*STRATEGIES, PIPELINED, {"tp": 3}]
    entries = api.post("/v1/estimates", json={**job, "strategies": strategies, "simulate": True}).json()["estimates"]
    assert "refused" in entries.pop()
    for strategy, entry in zip(strategies, entries, strict=False):
        alone = api.post("/v1/estimates", json={**job, "strategy": strategy, "simulate": True}).json()["estimate"]
        assert entry["step_time_s"] == pytest.approx(alone["step_time_s"], rel=1e-12)
        assert entry["fidelity"] == "simulated"


def test_what_simulating_may_cost_is_bounded(
    api: TestClient, refused: Refused, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "MAX_SIMULATED_TASKS", 300)
    # 4 ranks x 1 chunk x 32 micro batches of dp 2, a forward and a backward each: 256 tasks; 2 ranks x 16 of dp 4: 64.
    assert api.post("/v1/estimates", json={**job, "strategies": [{"pp": 4}] * 5, "simulate": True}).status_code == 200
    body = {**job, "strategies": [{"pp": 4}, {"pp": 2}], "simulate": True}
    problem = refused(api.post("/v1/estimates", json=body), 422, "invalid-input")
    assert problem["pointer"] == "#/strategies"
    assert "320 tasks" in problem["detail"]
    assert "more than the 300" in problem["detail"]
    assert (
        refused(api.post("/v1/estimates", json={**job, "strategy": {}, "simulate": 1}), 422, "invalid-input")["pointer"]
        == "#/simulate"
    )


def test_of_a_step_too_long_to_replay_only_the_moments_are_missing(
    api: TestClient, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "MAX_TASKS", 255)
    ranks = api.post("/v1/estimates", json={**job, "strategy": {"pp": 4}, "simulate": True}).json()["simulation"]["ranks"]
    assert [rank["peak_at_s"] for rank in ranks] == [None] * 4
    assert all(rank["peak_memory_bytes"] > 0 for rank in ranks)


@pytest.mark.parametrize(("path", "misspelt", "meant"), [("/v1/estimates", "simulat", "simulate"), ("/v1/checks", "pim", "pin")])
def test_a_misspelt_key_is_told_its_nearest(
    api: TestClient, refused: Refused, job: dict[str, Any], path: str, misspelt: str, meant: str
) -> None:
    problem = refused(api.post(path, json={**job, "strategy": {"tp": 8}, misspelt: True}), 422, "invalid-input")
    assert problem["pointer"] == f"#/{misspelt}"
    assert f"did you mean {meant!r}?" in problem["detail"]


def test_tensors_are_chosen_so_that_the_strategy_fits_and_the_plan_is_a_strategy_again(
    api: TestClient, job: dict[str, Any]
) -> None:
    whole = api.post("/v1/estimates", json={**job, "strategy": {"pp": 4, "tp": 2}}).json()["estimate"]
    tight = {**job, "search": {"min_headroom": whole["memory_limit_bytes"] - 0.9 * whole["peak_memory_bytes"]}}
    body = {**tight, "strategy": {"pp": 4, "tp": 2}, "memory_plan": True}
    answer = api.post("/v1/estimates", json=body).json()
    EstimateDocument.model_validate(answer)
    plan = answer["memory_plan"]
    kept = sum(each["kept_bytes"] for each in plan["tensors"])
    assert all(each["recompute_s"] is None or each["computed_by"] for each in plan["tensors"])
    first, *wider = plan["micro_batches"]
    assert [each["micro_batch_size"] for each in plan["micro_batches"]] == [1, 2, 4]
    assert first["estimate"]["fits"]
    assert first["estimate"]["step_time_s"] > first["whole_step_time_s"]
    assert 0.0 < first["saved_fraction"] < 1.0
    stage = first["stages"][0]
    assert stage["whole_bytes"] == pytest.approx(stage["layers"] * kept)
    assert stage["recomputed_bytes"] + stage["swapped_bytes"] <= stage["whole_bytes"]
    again = api.post("/v1/estimates", json={**tight, "strategy": first["strategy"], "simulate": True}).json()
    assert again["strategy"] == first["strategy"]
    assert again["estimate"]["step_time_s"] == first["estimate"]["step_time_s"]
    assert all(each["refused"] or each["estimate"]["fits"] for each in wider)


def test_a_tensor_plan_that_cannot_be_is_refused(api: TestClient, job: dict[str, Any]) -> None:
    choice = {"dense": {"recompute": ["norm_output"], "swap": ["block_input"]}}
    strategy = {"pp": 2, "tp": 2, "tensor_plan": [[choice, {}]]}
    drops = {"recompute": ["norm_output"]}
    assert api.post("/v1/estimates", json={**job, "strategy": strategy}).status_code == 200
    wrong = (
        ([[choice]], "pp 2"),
        ([[{"moe": {}}, {}]], "no 'moe' layers"),
        ([[{"dense": {"recompute": ["block_input"]}}, {}]], "nothing computes block_input again"),
        ([[{"dense": {"recompute": ["norm_output"], "swap": ["norm_output"]}}, {}]], "both"),
        ([[{"dense": {"recompute": ["weights"]}}, {}]], "weights"),
        (
            [[{"dense": {**drops, "layers": 2}}, {}]],
            "tensor_plan[0][0].dense.layers: give it for every choice of a list but the last",
        ),
        ([[{"dense": [drops, drops]}, {}]], "tensor_plan[0][0].dense.layers: give it for every choice of a list but the last"),
        ([[{"dense": [{**drops, "layers": 4000}, {}]}, {}]], "names 4,000 layers, and the virtual stage has "),
    )
    for plan, words in wrong:
        response = api.post("/v1/estimates", json={**job, "strategy": {**strategy, "tensor_plan": plan}})
        assert response.status_code == 422
        assert words in response.text
    lists = {**job, "strategies": [strategy], "memory_plan": True}
    assert api.post("/v1/estimates", json=lists).status_code == 422
    assert api.post("/v1/estimates", json={**job, "strategy": strategy, "memory_plan": 1}).status_code == 422


def test_layers_of_a_virtual_stage_may_choose_apart(api: TestClient, job: dict[str, Any]) -> None:
    drops = {"recompute": ["norm_output"], "swap": []}
    keeps: dict[str, list[str]] = {"recompute": [], "swap": []}
    peaks = []
    for of_stage in (keeps, [{**drops, "layers": 1}, keeps], drops):
        strategy = {"pp": 1, "tp": 2, "tensor_plan": [[{"dense": of_stage}]]}
        answer = api.post("/v1/estimates", json={**job, "strategy": strategy}).json()
        assert answer["strategy"].get("tensor_plan") == (None if of_stage == keeps else strategy["tensor_plan"])
        again = api.post("/v1/estimates", json={**job, "strategy": answer["strategy"]}).json()
        assert again["estimate"] == answer["estimate"]
        peaks.append(answer["estimate"]["memory_breakdown_bytes"]["activations_norm_output"])
    none, one, every = peaks
    layers = (none - every) / (none - one)
    assert layers == pytest.approx(32)  # of llama-2-7b


def test_a_caller_that_wants_no_advice_gets_the_same_without_it(api: TestClient) -> None:
    far = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64}, "strategy": {"tp": 8}}
    advised = api.post("/v1/estimates", json=far).json()
    assert advised.pop("next_runs")
    assert advised.pop("software")["options"]
    assert api.post("/v1/estimates", json={**far, "advise": False}).json() == advised
    refused = api.post("/v1/estimates", json={**far, "advise": 1})
    assert (refused.status_code, refused.json()["detail"]) == (422, "advise: 1 is not allowed; give true or false.")


FAR = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64}, "strategy": {"tp": 8}}
EFFECT = re.compile(r"would (make|keep|move)|not measured")


@pytest.mark.parametrize("change", [{}, {"simulate": True}], ids=["closed form", "simulated"])
def test_a_caller_gets_the_parts_of_an_answer_that_it_asks_for(api: TestClient, change: dict[str, Any]) -> None:
    body = {**FAR, **change}
    whole = api.post("/v1/estimates", json=body).json()
    assert EFFECT.search(whole["assumptions"][0])
    assert {"software", "next_runs"} <= {*whole}
    assert api.post("/v1/estimates?explain=all", json=body).json() == whole
    bare = api.post("/v1/estimates?explain=none", json=body).json()
    assert not any(map(EFFECT.search, bare["assumptions"]))
    assert {*whole} - {*bare} == {"software", "next_runs"}
    for part in ("assumptions", "software", "next_runs"):
        assert api.post(f"/v1/estimates?explain={part}", json=body).json() == {**bare, part: whole[part]}
    two = api.post("/v1/estimates?explain=software&explain=next_runs", json=body).json()
    assert two == {**whole, "assumptions": bare["assumptions"]}


def test_a_list_is_answered_without_effects_of_defaults(api: TestClient) -> None:
    body = {**FAR, "strategy": None, "strategies": [{"tp": 8}, {"tp": 4}]}
    whole, bare = (api.post(f"/v1/estimates{query}", json=body).json() for query in ("", "?explain=none"))
    assert any(map(EFFECT.search, whole["assumptions"]))
    assert not any(map(EFFECT.search, bare["assumptions"]))
    assert whole | {"assumptions": bare["assumptions"]} == bare


@pytest.mark.parametrize(
    ("query", "change", "words"),
    [
        ("explain=none&explain=software", {}, "all and none stand alone"),
        ("explain=none", {"advise": True}, "advise: given beside the parameter explain"),
        ("explain=software", {"strategy": None, "strategies": [{"tp": 8}]}, "software and next_runs belong to one strategy"),
        ("explain=everything", {}, "everything"),
    ],
)
def test_a_request_for_parts_that_contradicts_itself_is_refused(
    api: TestClient, refused: Refused, query: str, change: dict[str, Any], words: str
) -> None:
    assert words in refused(api.post(f"/v1/estimates?{query}", json={**FAR, **change}), 422, "invalid-input")["detail"]
