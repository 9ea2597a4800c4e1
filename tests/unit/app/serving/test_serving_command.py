"""``meshplan serving``: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE, NOTHING_FEASIBLE
from app.serving.schemas import ServingDocument, ServingSearchDocument

ON = ("qwen3-32b", "--hardware", "atlas-800t-a2", "--devices", "8", "--prompt-tokens", "1000", "--response-tokens", "500")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:  # type: ignore[type-arg]
    assert main(["serving", *arguments, "--json"]) == DONE
    found: dict = json.loads(capsys.readouterr().out)  # type: ignore[type-arg]
    return found


def test_an_estimate_says_what_memory_holds_and_what_bounds_it(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "estimate", *ON, "--decode", "tp8", "--concurrency", "16")
    assert document["decode"]["in_flight"] == 16
    assert document["decode"]["kv_bytes_per_token"] == 64 * 2 * 128 * 2
    assert document["service"]["bound_by"] == "decode"
    assert document["service"]["keeps_limits"]
    assert document["service"]["tokens_per_s"] == pytest.approx(500 * document["service"]["requests_per_s"])
    assert main(["serving", "estimate", *ON, "--decode", "tp8", "--tpot-limit", "0.001"]) == NOTHING_FEASIBLE
    assert "one request alone takes" in capsys.readouterr().err


def test_sparse_attention_is_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "estimate", "glm-5", *ON[1:], "--decode", "tp8"]) == BAD_INPUT
    assert "inference of sparse attention is not priced; glm-5 has it" in capsys.readouterr().err


def test_a_page_names_pools_and_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "estimate", *ON, "--decode", "tp4", "--prefill", "tp4", "--tpot-limit", "0.05"]) == DONE
    page = " ".join(capsys.readouterr().out.split())
    for text in ("Prefill: 1 x TP4", "Decode: 1 x TP4", "part of a step", "TTFT", "serving.utilisation = 0.9"):
        assert text in page


def test_more_in_flight_than_memory_holds_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "estimate", *ON, "--decode", "tp8", "--concurrency", "1000000")
    assert document["decode"]["in_flight"] == document["decode"]["requests_held"]
    assert any("memory holds" in warning for warning in document["warnings"])


def test_a_search_ranks_splits_and_shows_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "search", *ON, "--tpot-limit", "0.05", "--ttft-limit", "1", "--top", "3")
    rates = [plan["service"]["tokens_per_s"] for plan in document["plans"]]
    assert rates == sorted(rates, reverse=True)
    assert document["best"]["service"] == document["plans"][0]["service"]
    assert main(["serving", "search", *ON, "--tpot-limit", "0.05"]) == DONE
    assert "bound by" in capsys.readouterr().out
    assert main(["serving", "search", *ON, "--tpot-limit", "0.0001"]) == NOTHING_FEASIBLE


def test_a_job_file_says_the_same_as_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "model: qwen3-32b\ncluster: {hardware: atlas-800t-a2, num_devices: 8}\n"
        "serving: {prompt_tokens: 1000, response_tokens: 500, concurrency: 16, decode: {tp: 8}}\n",
        encoding="utf-8",
    )
    by_file = answer(capsys, "estimate", str(job))
    by_flags = answer(capsys, "estimate", *ON, "--decode", "tp8", "--concurrency", "16")
    assert by_file["service"] == by_flags["service"]
    assert answer(capsys, "estimate", str(job), "--concurrency", "32")["decode"]["in_flight"] == 32


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((*ON, "--decode", "tp8q"), "--decode: 'tp8q' is not allowed"),
        ((*ON, "--decode", "tp8,tp4"), "--decode"),
        ((*ON,), "serving.decode (--decode): missing"),
        (ON[:-2], "--response-tokens"),
        ((*ON, "--decode", "tp3"), "serving.decode.tp: 3 does not divide 64 heads"),
        ((*ON, "--decode", "tp8", "--precision", "fp4"), "precision"),
        ((*ON, "--decode", "tp8,dp2"), "the instances take 16 devices of 8"),
        ((*ON, "--decode", "pp100"), "100 stages are more than 64 layers"),
    ],
)
def test_bad_flags_are_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str) -> None:
    assert main(["serving", "estimate", *arguments]) == BAD_INPUT
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(("name", "model"), [("serving", ServingDocument), ("serving-search", ServingSearchDocument)])
def test_schemas_describe_the_answers(capsys: pytest.CaptureFixture[str], name: str, model: type) -> None:
    assert main(["schema", name]) == DONE
    assert json.loads(capsys.readouterr().out)["title"] == model.__name__
    command = ("estimate", *ON, "--decode", "tp8") if name == "serving" else ("search", *ON, "--top", "2")
    model.model_validate(answer(capsys, *command))  # type: ignore[attr-defined]


def test_weights_that_do_not_fit_are_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "estimate", *ON, "--decode", "tp1"]) == NOTHING_FEASIBLE
    assert "weights of 61.0 GiB" in capsys.readouterr().err
