"""A loss by chunks: what PyTorch held and multiplied, and what is priced."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cost_models.layer import edges
from cost_models.layer.edges import edge_costs
from cost_models.memory.losses import before_head_bytes, logits_bytes
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from tests.workloads import DENSE, batch, device, keys, network, workload

# Written by scripts/oracle/chunked_loss.py, which ran MindSpeed-LLM's function on PyTorch 2.13.
LINES = (Path(__file__).parents[3] / "oracle" / "chunked_loss.json").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
CHUNKED = DEFAULT_FEATURES | Feature.CHUNKED_LOSS


def test_the_record_has_chunks_of_one_and_of_several_samples() -> None:
    assert {case["samples"] for case in CASES} == {1, 2}
    assert len(CASES) >= 6


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_the_loss_holds_what_pytorch_held(case: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "LOSS_CHUNK_TOKENS", case["chunk"])
    model = replace(DENSE, hidden_size=case["hidden"], vocab_size=case["vocabulary"])
    job = workload(model, stack="mindspeed-llm-fsdp2", seq_length=case["tokens"], global_batch_size=64)
    rows = batch(micro_batch_size=case["samples"], zero_stage=2, features=CHUNKED)
    none = np.zeros(1)
    hidden = 2 * case["samples"] * case["tokens"] * case["hidden"]
    held = logits_bytes(job, rows, none) - before_head_bytes(job, rows, none) - hidden
    assert held[0] == pytest.approx(case["peak"], rel=0.01)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_all_matmuls_run_in_the_forward(case: dict[str, int]) -> None:
    """Logits, and the gradients of the input and of the weights: three matmuls of 2 x tokens x hidden x vocabulary."""
    tokens = case["samples"] * case["tokens"]
    assert case["flops"] == 3 * 2 * tokens * case["hidden"] * case["vocabulary"]
    assert case["kept"] == pytest.approx(2 * case["hidden"] * (tokens + case["vocabulary"]), rel=0.01)  # both gradients


def test_the_forward_takes_the_time_of_both_passes_and_of_the_sums() -> None:
    job = workload(DENSE, stack="mindspeed-llm-fsdp2")
    rows = {chunked: keys(micro_batch_size=2, features=CHUNKED if chunked else DEFAULT_FEATURES) for chunked in (False, True)}
    plain, parts = (edge_costs(job, rows[chunked], device(job), network(job)) for chunked in (False, True))
    assert parts.head_backward_s[0] == parts.head_weight_gradient_s[0] == 0.0
    both = plain.head_forward_s + plain.head_backward_s
    assert parts.head_forward_s[0] > both[0]
    assert parts.head_forward_s[0] < 1.5 * both[0]
