"""Megatron-FSDP of core 0.19: its arguments written from plans, read back, and refused by name where they have no price."""

from __future__ import annotations

from typing import Any

import pytest

from app.jobs.job import parse_job
from cost_models.shapes.switches import Feature
from frameworks.framework import ReadingError, ReadJob
from frameworks.legality import violations
from frameworks.megatron_lm.table import RELEASE_0_19
from frameworks.registry import BY_LABEL
from frameworks.release import problems, read_tokens
from search.space.limits import SearchLimits
from search.space.search_space import search_space

CORE = BY_LABEL["megatron-lm@0.19"]
SHARDED = {"dp": 16, "zero_stage": 3}
MODEL = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64".split()
STRATEGY, GRADIENTS = "--data-parallel-sharding-strategy", "--megatron-fsdp-main-grads-dtype"


def job(**strategy: Any) -> dict[str, Any]:
    return {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
        "training": {"seq_length": 8192, "global_batch_size": 64},
        "software": {"target": "megatron-lm@0.19"},
        "strategy": {**SHARDED, **strategy},
    }


def written(**strategy: Any) -> list[str]:
    made = parse_job(job(**strategy))
    assert made.strategy is not None
    assert not violations(made.workload, made.strategy)
    return list(CORE.write(made.workload, made.strategy).arguments)


def value(arguments: list[str], name: str) -> str | None:
    return arguments[arguments.index(name) + 1] if name in arguments else None


def changed(*more: str, without: tuple[str, ...] = (), **strategy: Any) -> ReadJob:
    """A written script without some arguments that have a value, and with others, read again."""
    arguments = written(**strategy)
    for name in without:
        index = arguments.index(name)
        del arguments[index : index + 2]
    return CORE.read_job([*arguments, *more], 16)


@pytest.mark.parametrize(("stage", "strategy"), [(3, "optim_grads_params"), (2, "optim_grads")])
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("size", [0, 8])
def test_a_plan_is_written_and_read_back(stage: int, strategy: str, bf16: bool, size: int) -> None:
    plan = {"zero_stage": stage, "switches": {"grad_reduce_in_bf16": bf16}, "optimizer_shard_size": size}
    arguments = written(**plan)
    assert {"--use-megatron-fsdp", "--init-model-with-meta-device", "--no-gradient-accumulation-fusion"} <= set(arguments)
    assert value(arguments, STRATEGY) == strategy
    assert value(arguments, "--ckpt-format") == "fsdp_dtensor"
    assert value(arguments, GRADIENTS) == ("bf16" if bf16 else "fp32")
    assert value(arguments, "--num-distributed-optimizer-instances") == ("2" if size else None)
    made, read = parse_job(job(**plan)), CORE.read_job(arguments, 16)
    assert (read.strategy, read.unread) == (made.strategy, ())


def test_gradients_have_the_type_that_megatron_fsdp_gives_them_and_not_that_of_its_own_switch() -> None:
    by_default = changed(without=(GRADIENTS,))
    assert Feature.GRAD_REDUCE_IN_BF16 in by_default.strategy.features  # as the weights
    assert Feature.GRAD_REDUCE_IN_BF16 not in changed("--grad-reduce-in-bf16").strategy.features
    assert Feature.GRAD_REDUCE_IN_BF16 in changed(GRADIENTS, "bf16", without=(GRADIENTS,)).strategy.features


@pytest.mark.parametrize(
    ("more", "without", "named"),
    [
        ((STRATEGY, "no_shard"), (STRATEGY,), STRATEGY),
        ((STRATEGY, "optim"), (STRATEGY,), STRATEGY),
        (("--megatron-fsdp-grad-comm-dtype", "bf16"), (), "--megatron-fsdp-grad-comm-dtype"),
        ((GRADIENTS, "fp16"), (GRADIENTS,), GRADIENTS),
        (("--megatron-fsdp-main-params-dtype", "bf16"), (), "--megatron-fsdp-main-params-dtype"),
        (("--suggested-communication-unit-size", "500000000"), (), "--suggested-communication-unit-size"),
        (("--fsdp-double-buffer",), (), "--fsdp-double-buffer"),
        (("--use-nccl-ub",), (), "--use-nccl-ub"),
        (("--outer-dp-sharding-strategy", "optim"), (), "--outer-dp-sharding-strategy"),
    ],
)
def test_what_has_no_price_is_named(more: tuple[str, ...], without: tuple[str, ...], named: str) -> None:
    assert [name for name, _ in changed(*more, without=without).unread] == [named[2:]]


@pytest.mark.parametrize("release", ["0.12", "0.19"])
def test_shards_of_pytorch_are_named(release: str) -> None:
    arguments = ["--use-torch-fsdp2", "--bf16"]
    assert [name for name, _ in BY_LABEL[f"megatron-lm@{release}"].read_job([*MODEL, *arguments], 16).unread] == [
        "use-torch-fsdp2"
    ]


def test_instances_that_do_not_divide_the_replicas_are_named() -> None:
    with pytest.raises(ReadingError, match="--num-distributed-optimizer-instances 3 does not divide the 16 replicas"):
        changed("--num-distributed-optimizer-instances", "3")


def test_hashes_of_weights_are_compared_only_where_each_replica_has_them() -> None:
    """Megatron asserts so if it frees weights [arguments.py, line 1139]."""
    for stage, refused in ((3, True), (2, False)):
        arguments = [*written(zero_stage=stage), "--check-weight-hash-across-dp-replicas-interval", "10"]
        found = problems(RELEASE_0_19, read_tokens(RELEASE_0_19, arguments)[0])
        assert [("check-weight-hash" in each) for each in found] == [True] * refused


def test_gradients_that_are_sent_as_they_are_kept_are_priced() -> None:
    both = (GRADIENTS, "bf16", "--megatron-fsdp-grad-comm-dtype", "bf16")
    assert changed(*both, without=(GRADIENTS,)).unread == ()


def test_experts_have_as_many_shards_as_other_weights() -> None:
    document = job(optimizer_shard_size=8) | {"model": "qwen3-30b-a3b"}
    for ep, tp, legal in ((1, 1, True), (2, 2, True), (2, 1, False)):
        document["strategy"] = {"dp": 16 // tp, "tp": tp, "ep": ep, "zero_stage": 3, "optimizer_shard_size": 8}
        made = parse_job(document)
        assert made.strategy is not None
        found = [each.rule for each in violations(made.workload, made.strategy)]
        assert ("megatron_zero_shard" not in found) is legal, (ep, tp, found)


def test_a_search_repeats_shards_of_a_node_where_it_may_shard_weights() -> None:
    workload = parse_job({name: part for name, part in job().items() if name != "strategy"}).workload
    assert (search_space(workload).zero_stage, search_space(workload).optimizer_shard_size) == ((1,), (0,))
    asked = search_space(workload, SearchLimits(zero_stage=(1, 3)))
    assert (asked.zero_stage, asked.optimizer_shard_size) == ((1, 3), (0, 8))
