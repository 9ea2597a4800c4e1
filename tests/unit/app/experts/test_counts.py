"""Logs of every kind give the same counts; what is wrong in one is named by row and column."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.experts.counts import parse_counts, read_counts
from cost_models.shapes.workload import ModelShape, MoeShape
from documents.errors import InputError
from tests.search_workloads import DENSE

MODEL = replace(
    DENSE, name="tiny", num_layers=3, moe=MoeShape(num_experts=4, top_k=2, expert_ffn_hidden_size=64, num_leading_dense_layers=1)
)
COUNTS = [[[5, 0, 2, 1], [1, 2, 3, 4]], [[4, 1, 2, 1], [2, 2, 2, 2]]]  # two steps, two MoE layers, four experts


def rows(counts: list[list[list[int]]]) -> list[str]:
    return [
        f"{step},{layer},{expert},{tokens}"
        for step, layers in enumerate(counts)
        for layer, experts in enumerate(layers)
        for expert, tokens in enumerate(experts)
    ]


CSV = "step,layer,expert,tokens\n" + "\n".join(rows(COUNTS)) + "\n"


def load_log(counts: list[list[list[int]]]) -> str:
    """As MindSpeed prints it, a pipeline rank a layer, for two data-parallel ranks."""
    return "".join(
        f"[expert load statistics] iter {step}: rank {rank} dp{dp} pp{layer}, vpp0, tp0, ep0, model chunk 0, layer 0, "
        f"device expert load: min 1.00, max 5.00, std 0.50, details {experts if dp == 0 else [9] * 4}\n\n"
        for step, layers in enumerate(counts)
        for layer, experts in reversed(list(enumerate(layers)))
        for dp, rank in ((0, layer), (1, 2 + layer))
    )


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        "\ufeff".join(["", CSV])[1:],
        "tokens, expert, step, layer\n" + "\n".join(",".join(np.array(row.split(","))[[3, 2, 0, 1]]) for row in rows(COUNTS)),
        CSV.replace("0,0,1,0\n", "").replace(",1,", ",7,").replace("1,7,1,2", "1,7,1,2"),
        json.dumps(COUNTS),
        json.dumps({"weight": COUNTS}),
        json.dumps({"source": "a log", "expert_counts": COUNTS}),
        load_log(COUNTS),
    ],
    ids=["csv", "plain", "columns", "gaps", "lists", "weight", "expert_counts", "load_log"],
)
def test_logs_of_every_kind_are_read(text: str) -> None:
    if text.count(",7,"):  # layers by their number in the model, and experts without tokens left out
        text = "step,layer,expert,tokens\n" + "\n".join(
            f"{step},{3 * layer + 1},{expert},{tokens}"
            for step, layers in enumerate(COUNTS)
            for layer, experts in enumerate(layers)
            for expert, tokens in enumerate(experts)
            if tokens
        )
    np.testing.assert_array_equal(parse_counts(text, MODEL, "LOADS"), COUNTS)


def test_files_of_mindspeed_rl_are_added_up_over_ranks(tmp_path: Path) -> None:
    for rank, layers in enumerate(COUNTS):
        document = {
            str(layer): {str(expert): tokens for expert, tokens in enumerate(experts)} for layer, experts in enumerate(layers)
        }
        (tmp_path / f"eplb_token_collects_{rank}.json").write_text(json.dumps(document), encoding="utf-8")
    np.testing.assert_array_equal(read_counts(tmp_path, MODEL), [np.sum(COUNTS, axis=0)])
    np.testing.assert_array_equal(read_counts(tmp_path / "eplb_token_collects_1.json", MODEL), [COUNTS[1]])


def test_arrays_are_read_by_name_or_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", loads=np.array(COUNTS))
    np.savez(tmp_path / "two.npz", other=np.ones(3), counts=np.array(COUNTS, dtype=np.float32))
    np.savez(tmp_path / "three.npz", a=np.ones(3), b=np.ones(3))
    for name in ("one", "two"):
        np.testing.assert_array_equal(read_counts(tmp_path / f"{name}.npz", MODEL), COUNTS)
    with pytest.raises(InputError, match="name the counts 'counts'"):
        read_counts(tmp_path / "three.npz", MODEL)


def with_cell(line: int, text: str) -> str:
    lines = CSV.splitlines()
    lines[line - 1] = text
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (with_cell(4, "0,0,2,-3"), "row 4, column tokens: '-3'"),
        (with_cell(4, "0,0,2,nan"), "row 4, column tokens: 'nan'"),
        (with_cell(4, "0,0,2,inf"), "row 4, column tokens: 'inf'"),
        (with_cell(4, "0,0,2,many"), "row 4, column tokens: 'many'"),
        (with_cell(4, "0,0,2,1_0"), "row 4, column tokens: '1_0'"),
        (with_cell(4, "0,0,4,1"), "row 4, column expert: '4' is not allowed; give an integer from 0 to 3"),
        (with_cell(4, "0,-1,2,1"), "row 4, column layer: '-1'"),
        (with_cell(4, "0.5,0,2,1"), "row 4, column step: '0.5'"),
        (with_cell(4, "0,0,1,7"), "row 4: step 0, layer 0, expert 1 occurs twice"),
        (with_cell(4, "0,0,2"), "row 4: 3 columns"),
        (with_cell(4, "0,5,2,1"), "column layer: 3 MoE layers, but tiny has 2"),
        ("layer,expert\n0,1\n", "row 1: 'layer,expert'"),
        ("", "row 1"),
        (json.dumps([[[1, 2, 3, 4], [1, 2, 3]]]), "[0][1]: 3 counts, but the model has 4 routed experts"),
        (json.dumps([[1, 2, 3, 4]]), "1 MoE layers, but the model has 2"),
        (json.dumps([[1, 2, 3, -4], [1, 2, 3, 4]]), "[0][3]: -4"),
        (json.dumps([[1, 2, 3, 4], [1, "2", 3, 4]]), "[1][1]: '2'"),
        (json.dumps([[1, 2, 3, 4], [1, True, 3, 4]]), "[1][1]: true"),
        ("[[1, 2, 3, NaN], [1, 2, 3, 4]]", "NaN is not a finite number"),
        (json.dumps([[1, 2, 3, 4], [0, 0, 0, 0]]), "layer 1: all counts are 0"),
        (json.dumps([[[1, 2, 3, 4]] * 2, [[1, 2, 3, 4], [0, 0, 0, 0]]]), "step 1, layer 1: all counts are 0"),
        (json.dumps({"0": {"0": 1, "1": 1, "2": 1}, "1": {"0": 1}}), "layer 0, expert 3: missing"),
        (json.dumps({"0": {str(n): 1 for n in range(5)}}), "layer 0, expert 4: more than the 4 of tiny"),
        (json.dumps({"0": [1, 2, 3, 4]}), "layer '0': [1, 2, 3, 4]"),
        (json.dumps({"first": {}}), "'first'"),
        (load_log(COUNTS).replace("[5, 0, 2, 1]", "[5, 0]"), "row 5: loads of 2 devices"),
        (load_log(COUNTS).replace("[5, 0, 2, 1]", "[5, 0, -2, 1]"), "[0][0][2]: -2"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(text: str, place: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_counts(text, MODEL, "LOADS")
    assert str(refused.value).startswith("LOADS: ") or str(refused.value).startswith("LOADS[")
    assert place in str(refused.value)


@pytest.mark.parametrize(
    ("array", "place"),
    [
        (np.full((1, 2, 4), np.nan), "layer 0, expert 0: nan"),
        (np.array([[1.0, 2, 3, 4], [1, 2, -3, 4]]), "layer 1, expert 2: -3.0"),
        (np.ones((2, 3, 4)), "3 MoE layers, but tiny has 2"),
        (np.ones((2, 2, 5)), "5 routed experts, but tiny has 4"),
        (np.ones(8), "not numbers by layer and expert"),
        (np.array([["a"]]), "not numbers by layer and expert"),
    ],
)
def test_arrays_that_are_wrong_are_refused(tmp_path: Path, array: np.ndarray, place: str) -> None:
    np.savez(tmp_path / "loads.npz", counts=array)
    with pytest.raises(InputError) as refused:
        read_counts(tmp_path / "loads.npz", MODEL)
    assert place in str(refused.value)


def test_objects_are_not_unpickled_and_other_files_are_no_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", counts=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("step", encoding="utf-8")
    for name in ("objects.npz", "text.npz", "missing.npz", "missing.csv"):
        with pytest.raises(InputError, match=name):
            read_counts(tmp_path / name, MODEL)
    with pytest.raises(InputError, match="holds 0 files eplb_token_collects"):
        read_counts(tmp_path, MODEL)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: replace(model, moe=None), "has no experts"),
        (lambda model: replace(model, moe=replace(model.moe, capacity_factor=1.0)), "has a capacity factor"),
    ],
)
def test_models_without_loads_to_balance_are_refused(change: Callable[[ModelShape], ModelShape], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_counts(CSV, change(MODEL), "LOADS")
