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
from cost_models.shapes.workload import Workload
from tests.workloads import DENSE, batch, device, keys, network, workload

# Written by scripts/oracle/chunked_loss.py, which ran MindSpeed-LLM's function on PyTorch 2.13.
LINES = (Path(__file__).parents[3] / "oracle" / "chunked_loss.json").read_text(encoding="utf-8").splitlines()
LINES_OF_FSDP = (Path(__file__).parents[3] / "oracle" / "chunked_loss_of_fsdp.json").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
# Written by scripts/oracle/chunked_loss_of_fsdp.py, which ran torchtitan's class under FSDP2 on PyTorch 2.13.
OF_FSDP = [case for line in LINES_OF_FSDP if "compiled" not in (case := json.loads(line))]
COMPILED = [case for line in LINES_OF_FSDP if "compiled" in (case := json.loads(line))]
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


def of_fsdp(case: dict[str, int]) -> Workload:
    model = replace(DENSE, hidden_size=case["hidden"], vocab_size=case["vocabulary"])
    job = workload(model, stack="fsdp", seq_length=case["tokens"], global_batch_size=64)
    compiled = "compiled" in case
    made = replace(job.software, plain_cross_entropy=not compiled, compiled_loss=compiled, loss_chunks=case["chunks"])
    return replace(job, software=made)


@pytest.mark.parametrize("case", OF_FSDP, ids=lambda case: "-".join(map(str, case.values())))
def test_torchtitans_loss_holds_what_pytorch_held(case: dict[str, int]) -> None:
    """Beside the head's gathered weights and labels of 8 bytes. A gradient of the input in 16 bits comes when logits are gone."""
    job, rows, none = of_fsdp(case), batch(tp=case["shards"], micro_batch_size=1, zero_stage=2), np.zeros(1)
    held = logits_bytes(job, rows, none) - before_head_bytes(job, rows, none)
    gathered = 2 * case["hidden"] * case["vocabulary"] / case["shards"]
    assert held[0] + gathered + 8 * case["tokens"] == pytest.approx(case["peak"], rel=0.01)
    assert case["flops"] == 3 * 2 * case["tokens"] * case["hidden"] * case["vocabulary"] // case["shards"]


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: "-".join(map(str, case.values())))
def test_torchtitans_compiled_loss_holds_what_pytorch_held(case: dict[str, int]) -> None:
    """Beside the input, the head's gathered weights and labels; a processor's matmuls allocate up to 4 % more."""
    job, rows, none = of_fsdp(case), batch(tp=case["shards"], micro_batch_size=1, zero_stage=2), np.zeros(1)
    held = logits_bytes(job, rows, none) - before_head_bytes(job, rows, none)
    gathered = 2 * case["hidden"] * case["vocabulary"] / case["shards"]
    assert held[0] + gathered - 2 * case["hidden"] * case["tokens"] == pytest.approx(case["peak"], rel=0.04)


def test_the_record_has_compiled_losses_whole_and_over_shards() -> None:
    assert {case["shards"] for case in COMPILED} == {1, 2}
    assert len({case["chunks"] for case in COMPILED}) > 1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("tp", [1, 2])
def test_more_chunks_never_hold_more_where_logits_dominate(compiled: bool, tp: int) -> None:
    """Llama 3 8B's head and 32,768 tokens: the whole loss, then 8 and 16 chunks."""
    model = replace(DENSE, hidden_size=4096, vocab_size=128256)
    job, none = workload(model, stack="fsdp", seq_length=32768, global_batch_size=64), np.zeros(1)
    software = replace(job.software, plain_cross_entropy=not compiled, compiled_loss=compiled)
    rows = batch(tp=tp, micro_batch_size=1, zero_stage=2)
    jobs = [replace(job, software=replace(software, loss_chunks=chunks)) for chunks in (0, 8, 16)]
    held = [logits_bytes(each, rows, none)[0] for each in jobs]
    assert held == sorted(held, reverse=True)


def test_torchtitans_chunks_are_a_number_and_not_a_length() -> None:
    case = OF_FSDP[0]
    rows, none = batch(micro_batch_size=4, zero_stage=2), np.zeros(1)
    held = [logits_bytes(of_fsdp({**case, "chunks": chunks}), rows, none)[0] for chunks in (8, 16)]
    assert held[0] - held[1] == pytest.approx(14 * 4 * case["tokens"] * case["vocabulary"] / 16)


def test_the_forward_takes_the_time_of_both_passes_and_of_the_sums() -> None:
    job = workload(DENSE, stack="mindspeed-llm-fsdp2")
    rows = {chunked: keys(micro_batch_size=2, features=CHUNKED if chunked else DEFAULT_FEATURES) for chunked in (False, True)}
    plain, parts = (edge_costs(job, rows[chunked], device(job), network(job)) for chunked in (False, True))
    assert parts.head_backward_s[0] == parts.head_weight_gradient_s[0] == 0.0
    both = plain.head_forward_s + plain.head_backward_s
    assert parts.head_forward_s[0] > both[0]
    assert parts.head_forward_s[0] < 1.5 * both[0]
