"""Recompute by operator and stage, read from MindFormers' files and written to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cost_models.shapes.canonical import canonical
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, Schedule
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorShare
from frameworks.legality import violations
from frameworks.mindformers.nearest import nearest
from frameworks.mindformers.selection import WHOLE
from frameworks.mindformers.writer import arguments
from frameworks.options import options_of
from tests.unit.frameworks.plans import workload
from tests.unit.frameworks.test_mindformers_jobs import (
    DEEPSEEK_FILE,
    LLAMA_FILE,
    QWEN_8B,
    QWEN_FILE,
    Document,
    again,
    read,
    recomputed,
    with_model,
)

SPLIT = {"use_seq_parallel": True}
SELECT, COMM = "recompute_config.select_recompute", "recompute_config.select_comm_recompute"
GATHERED, ACTIVATION, NORMS = Tensor.GATHERED_INPUT, Tensor.MLP_ACTIVATION, Tensor.NORM_OUTPUT


KEPT = (Tensor(0), 0)


def shares(*choices: tuple[Tensor, int]) -> tuple[tuple[TensorShare, ...], ...]:
    return (tuple(TensorShare(TensorChoice(tensors), layers) for tensors, layers in choices),)


# The stages of the file have 15, 15, 17 and 17 layers.
@pytest.mark.parametrize(
    ("parallel", "recompute", "stages"),
    [
        (
            SPLIT,
            {"select_comm_recompute": [15, 9, 1, 0]},
            (
                shares((GATHERED, 0)),
                shares((GATHERED, 9), KEPT),
                shares((GATHERED, 1), KEPT),
                shares(KEPT),
            ),
        ),
        (
            SPLIT,
            {"select_recompute": True, "select_comm_recompute": [15, 9, 1, 0]},
            (
                shares((GATHERED | ACTIVATION, 0)),
                shares((GATHERED | ACTIVATION, 9), (ACTIVATION, 0)),
                shares((GATHERED | ACTIVATION, 1), (ACTIVATION, 0)),
                shares((ACTIVATION, 0)),
            ),
        ),
        (SPLIT, {"select_comm_recompute": True}, (shares((GATHERED, 0)),) * 4),
        (SPLIT, {"select_comm_recompute": [r"attention_norm\.norm", r"ffn_norm\.norm"]}, (shares((GATHERED, 0)),) * 4),
        (
            SPLIT,
            {"select_comm_recompute": {r".*\.norm": [0, 0, 0, 3], r".*\.w_qkv\.reshape": [0, 0, 0, 3]}},
            (*(shares(KEPT),) * 3, shares((GATHERED, 3), KEPT)),
        ),
        (
            {},
            {"select_recompute": {r".*\.norm": [2, 0, 0, 0]}},
            (shares((NORMS, 2), KEPT), *(shares(KEPT),) * 3),
        ),
        (
            {},
            {"recompute": [1, 0, 0, 0], "select_recompute": [5, 0, 0, 17]},
            (
                shares((WHOLE, 1), (ACTIVATION, 4), KEPT),
                *(shares(KEPT),) * 2,
                shares((ACTIVATION, 0)),
            ),
        ),
    ],
)
def test_layers_of_a_stage_are_a_plan_by_tensor(parallel: dict[str, Any], recompute: dict[str, Any], stages: Any) -> None:
    job = read(recomputed(parallel, recompute))
    assert job.unread == ()
    assert job.strategy.tensor_plan == (stages,)
    assert (job.strategy.recompute, job.strategy.recompute_modules) == (Recompute.NONE, RecomputeModule(0))
    assert any("tensor by tensor" in sentence for sentence in job.not_understood) == ("recompute" in recompute)


def test_a_number_of_a_stage_is_divided_over_its_chunks() -> None:
    """As LayerSetting of release 1.8 divides 8 of stage 0 and 5 of stage 1 over chunks of 2, 3 and 4 layers."""
    interleaved = {"parallel_mode": 1, "enable_parallel_optimizer": False, "pipeline_config": {"pipeline_interleave": True}}
    parallel = {**QWEN_FILE["parallel_config"], "pipeline_stage": 2, "use_seq_parallel": True}
    document = with_model(QWEN_FILE, num_hidden_layers=18, pp_interleave_num=3, offset=[[-1, -1], [0, 0], [1, 1]])
    document = {
        **document,
        "parallel": interleaved,
        "parallel_config": parallel,
        "recompute_config": {"select_comm_recompute": [8, 5]},
    }
    plan = read(document).strategy.tensor_plan
    assert plan is not None
    first = [[sum(share.num_layers for share in stage[0] if share.choice.recompute) for stage in row] for row in plan]
    every = [[len(stage[0]) == 1 for stage in row] for row in plan]
    # three rounds of one layer each: 3, 3 and 2 of stage 0, but its first chunk has 2 alone; 2, 2 and 1 of stage 1
    assert every == [[True, True], [True, False], [False, False]]
    assert first == [[0, 0], [0, 2], [3, 1]]


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        (recomputed(SPLIT, {"select_comm_recompute": ["self_attention.linear_qkv"]}), [COMM]),
        (recomputed(SPLIT, {"select_comm_recompute": {r"ffn_norm\.norm": True}}), [COMM]),  # one of two
        (recomputed(SPLIT, {"select_comm_recompute": {r".*\.norm": True, r".*\.w_qkv\.reshape": [1, 0, 0, 0]}}), [COMM]),
        ({**DEEPSEEK_FILE, "recompute_config": {"select_comm_recompute": True}}, [COMM]),  # with experts
        ({**recomputed(SPLIT, {"select_comm_recompute": [0, 1]}), "swap_config": {"swap": True}}, [COMM]),  # layers 0 and 1
        ({**recomputed(SPLIT, {"select_recompute": {"mlp": [0, 1]}}), "swap_config": {"swap": True}}, [SELECT]),
        ({**DEEPSEEK_FILE, "recompute_config": {"select_recompute": [4] * 8 + [0] * 8}}, [SELECT]),
    ],
)
def test_operators_and_layers_without_a_plan_refuse_a_file(document: Document, keys: list[str]) -> None:
    assert [entry.name for entry in read(document).unread] == keys


PLAN = (
    (shares((WHOLE, 1), (ACTIVATION | GATHERED, 3), (ACTIVATION, 0)), shares((GATHERED, 2), KEPT)),
    (shares((ACTIVATION, 0)), shares(KEPT)),
)


def test_a_file_says_such_a_plan_and_is_read_back() -> None:
    made = replace(workload("mindformers", "dense"), model=replace(QWEN_8B, num_layers=32))
    plan = ParallelStrategy(
        tp=4,
        pp=2,
        vpp=2,
        dp=made.cluster.num_devices // 8,
        sequence_parallel=True,
        schedule=Schedule.INTERLEAVED,
        tensor_plan=PLAN,
    )
    assert violations(made, plan) == ()
    written = options_of(arguments(made, plan).arguments)
    assert written["recompute_config.recompute"] == [[1, 0], [0, 0]]
    assert written[COMM] == {r".*\.norm": [[4, 2], [0, 0]]}
    assert set(map(str, written[SELECT].values())) == {"[[8, 0], [8, 0]]"}
    job = again(made, plan)
    assert job.unread == ()
    assert canonical(made, job.strategy).tensor_plan == PLAN


@pytest.mark.parametrize(
    "stage",
    [
        shares((Tensor.QUERY_KEY_VALUE, 2), KEPT),  # no operator's name
        shares((Tensor(0), 2), (GATHERED, 0)),  # the last layers
        (*shares((GATHERED, 0)), *shares((GATHERED, 0))),  # two kinds of layers
        ((TensorShare(TensorChoice(GATHERED, ACTIVATION)),),),
    ],
)
def test_no_file_says_other_plans(stage: Any) -> None:
    made = replace(workload("mindformers", "dense"), model=replace(QWEN_8B, num_layers=32))
    plan = ParallelStrategy(tp=4, dp=made.cluster.num_devices // 4, sequence_parallel=True, tensor_plan=((stage,),))
    assert "mindformers_tensor_plan" in {violation.rule for violation in violations(made, plan)}
    assert nearest(made, plan)[0].tensor_plan is None


def test_legacy_files_have_both_norms() -> None:
    parallel = {**LLAMA_FILE["parallel_config"], "model_parallel": 2, "use_seq_parallel": True}
    document = {**LLAMA_FILE, "parallel_config": parallel, "recompute_config": {"select_comm_recompute": [r".*\.norm"]}}
    assert read(document).strategy.tensor_plan == ((shares((GATHERED, 0)),),)
    alone = {**document, "parallel_config": {**parallel, "use_seq_parallel": False}}
    assert read(alone).strategy.tensor_plan is None
