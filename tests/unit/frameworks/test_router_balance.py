"""What balances the router, as launch arguments: written where a job asks for another than usual, read back, or said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES
from cost_models.shapes.workload import Workload
from frameworks.registry import BY_LABEL
from tests.unit.frameworks.plans import workload

MEGATRON, MINDSPEED, MINDFORMERS = "megatron-lm@0.19", "mindspeed-llm@master", "mindformers@1.8"
PLAN = ParallelStrategy(tp=1, pp=1, dp=32, ep=8, features=DEFAULT_FEATURES)
LOSS = "moe-router-load-balancing-type"
MF_LOSS, MF_WEIGHT = "model.model_config.moe_router_load_balancing_type", "model.model_config.moe_aux_loss_coeff"


def balanced(label: str, balance: RouterBalance | None) -> Workload:
    made = workload(label, "mixture")
    return replace(made, training=replace(made.training, expert_spread=made.model.expert_spread(balance)))


def written(label: str, balance: RouterBalance | None) -> tuple[tuple[str, ...], tuple[str, ...], Workload]:
    made = balanced(label, balance)
    plan = PLAN
    told = BY_LABEL[label].write(made, plan)
    return told.arguments, told.notes, made


def value_of(arguments: tuple[str, ...], name: str) -> str | None:
    if f"--{name}" in arguments:
        after = arguments[arguments.index(f"--{name}") + 1 :][:1]
        return after[0] if after and not after[0].startswith("--") else ""
    return next((one.partition("=")[2].strip('"') for one in arguments if one.startswith(f"{name}=")), None)


@pytest.mark.parametrize(
    ("label", "balance", "argument", "value"),
    [
        (MEGATRON, RouterBalance.SEQUENCE, LOSS, "seq_aux_loss"),
        (MEGATRON, RouterBalance.MICRO_BATCH, LOSS, "aux_loss"),
        (MEGATRON, RouterBalance.LOSS_FREE, LOSS, "global_aux_loss"),
        (MEGATRON, RouterBalance.FORCED, "moe-router-force-load-balancing", ""),
        ("megatron-lm@0.12", RouterBalance.SEQUENCE, LOSS, "seq_aux_loss"),
        (MINDSPEED, RouterBalance.SEQUENCE, LOSS, "seq_aux_loss"),
        (MINDFORMERS, RouterBalance.SEQUENCE, MF_LOSS, "seq_aux_loss"),
        (MINDFORMERS, RouterBalance.LOSS_FREE, MF_LOSS, "gbs_aux_loss"),
    ],
)
def test_a_balance_is_written_and_read_back(label: str, balance: RouterBalance, argument: str, value: str) -> None:
    arguments, notes, made = written(label, balance)
    assert value_of(arguments, argument) == value
    if label == MINDFORMERS:
        arguments = (*arguments, f"{MF_WEIGHT}=0.001")
        assert any(MF_WEIGHT in note for note in notes)
    read = BY_LABEL[label].read_job(arguments, made.cluster.num_devices)
    assert read.router_balance == balance


@pytest.mark.parametrize(
    ("label", "balance"),
    [
        ("megatron-lm@0.12", RouterBalance.FORCED),
        ("megatron-lm@0.12", RouterBalance.LOSS_FREE),
        (MEGATRON, RouterBalance.EP_GROUP),
        (MINDSPEED, RouterBalance.EP_GROUP),
        (MINDFORMERS, RouterBalance.MICRO_BATCH),
    ],
)
def test_a_balance_without_an_argument_is_said(label: str, balance: RouterBalance) -> None:
    arguments, notes, _ = written(label, balance)
    assert value_of(arguments, LOSS) is None
    assert any(f"has no argument for router_balance {balance}" in note for note in notes)


@pytest.mark.parametrize("label", [MEGATRON, MINDSPEED, MINDFORMERS])
def test_the_usual_balance_needs_no_word(label: str) -> None:
    arguments, notes, made = written(label, None)
    assert value_of(arguments, LOSS) is None
    assert value_of(arguments, MF_LOSS) is None
    assert not any("balance" in note for note in notes)
    assert BY_LABEL[label].read_job(arguments, made.cluster.num_devices).router_balance is None


def test_a_bias_on_the_choice_says_more_than_a_loss_beside_it() -> None:
    arguments, _, made = written(MEGATRON, RouterBalance.SEQUENCE)
    biased = (*arguments, "--moe-router-enable-expert-bias", "--moe-router-score-function", "sigmoid")
    assert BY_LABEL[MEGATRON].read_job(biased, made.cluster.num_devices).router_balance is None
