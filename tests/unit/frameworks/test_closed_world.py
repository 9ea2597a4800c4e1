"""Each argument of a release changes what is read, refuses the script, or is listed as one without effect."""

from __future__ import annotations

from functools import cache

import pytest

from frameworks.framework import Framework, ReadingError
from frameworks.registry import BY_LABEL, FRAMEWORKS
from frameworks.release import Argument, Kind
from frameworks.unread import ASSUMED, UNEVEN, matters

PLAIN = (
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 128 --vocab-size 1021 --seq-length 128 "
    "--global-batch-size 32 --micro-batch-size 1 "
)
# What an argument needs beside it to have an effect: degrees, experts, latent attention, scaled positions, sharding.
JOBS = (
    f"{PLAIN} --swiglu --position-embedding-type rope --recompute-granularity full --recompute-method uniform",
    f"{PLAIN} --swiglu --position-embedding-type rope --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
    "--context-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 --use-distributed-optimizer --fp8-format hybrid",
    f"{PLAIN} --num-experts 8 --disable-bias-linear --swiglu --moe-ffn-hidden-size 32 --pipeline-model-parallel-size 2 "
    "--position-embedding-type rope --recompute-granularity selective --moe-router-num-groups 4 --first-k-dense-replace 1 "
    "--moe-layer-freq 1 --moe-grouped-gemm --n-shared-experts 2 --expert-model-parallel-size 4",
    f"{PLAIN} --multi-latent-attention --position-embedding-type rope --rotary-scaling-factor 4 --rope-scaling-type yarn "
    "--rope-scaling-original-max-position-embeddings 64",
    f"{PLAIN} --position-embedding-type rope --rope-scaling-type llama3 --low-freq-factor 3 --high-freq-factor 3 "
    "--original-max-position-embeddings 64 --use-rope-scaling --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather "
    "--use-megatron-fsdp --use-custom-fsdp --use-distributed-optimizer "
    "--context-parallel-size 8 --cp-comm-type a2a+p2p --context-parallel-algo hybrid_cp_algo",
    f"{PLAIN} --position-embedding-type yarn --experimental-attention-variant gated_delta_net --linear-attention-freq 8 "
    "--exp-avg-sq-dtype bf16 --use-distributed-optimizer --spec mindspeed_llm.tasks.models.spec.gemma2_spec layer_spec",
    f"{PLAIN} --full-attention-interval 8 --linear-key-head-dim 16 --linear-num-key-heads 2 --linear-value-head-dim 16 "
    "--linear-num-value-heads 2 --position-embedding-type rope --spec mindspeed_llm.tasks.models.spec.qwen3_next_spec layer_spec",
    f"{PLAIN} --multi-latent-attention --q-lora-rank 32 --kv-lora-rank 16 --qk-head-dim 16 --qk-pos-emb-head-dim 16 "
    "--v-head-dim 16 --enable-dsa-indexer --index-n-heads 4 --index-head-dim 16 --index-topk 64 --use-flash-attn "
    "--position-embedding-type rope --spec mindspeed_llm.tasks.models.spec.deepseek_spec layer_spec",
    f"{PLAIN} --swiglu --position-embedding-type rope --optimizer muon --use-distributed-optimizer",
    f"{PLAIN} --window-size 64,0 --exp-avg-dtype bf16 --position-embedding-type rope --swiglu "
    "--moe-router-load-balancing-type none",
)
SHELL = [framework for framework in FRAMEWORKS if framework.suffix == "sh"]


def known(framework: Framework, job: str, without: str) -> list[str]:
    """The words of a job that a release knows, but for one argument."""
    words: list[str] = []
    keeps = False
    for word in job.split():
        if word.startswith("--"):
            keeps = word[2:] in framework.release.arguments and word[2:] != without
        words += [word] if keeps else []
    return words


def tried(argument: Argument) -> list[list[str]]:
    if argument.kind is Kind.SWITCH:
        return [[]]
    if argument.choices:
        return [[choice] for choice in argument.choices if choice != str(argument.default)]
    return [["2"], ["4"]] if argument.kind is Kind.INTEGER else [["0.5"], ["8"], ["2,6"]]


def answer(framework: Framework, words: list[str]) -> object:
    """What is read; a refusal is an answer too."""
    try:
        read = framework.read_job(words, 32)
    except (ReadingError, ValueError) as error:
        return str(error)
    said = (read.not_understood, read.unread, read.router_balance, read.fp8_recipe, read.fp8_param_gather, read.optimizer)
    return (read.model, read.strategy, read.precision, read.seq_length, read.global_batch_size, *said)


@cache
def read_before(label: str, job: tuple[str, ...]) -> object:
    return answer(BY_LABEL[label], list(job))


@pytest.mark.parametrize("framework", SHELL, ids=lambda framework: framework.target.label)
def test_every_argument_is_read_or_refused_or_listed(framework: Framework) -> None:
    silent = []
    for argument in framework.release.arguments.values():
        if not matters(framework.release, argument.name) or argument.name in (*ASSUMED, *UNEVEN):
            continue
        jobs = [known(framework, job, argument.name) for job in JOBS]
        before = [read_before(framework.target.label, tuple(job)) for job in jobs]
        flag = f"--{argument.name}"
        changed = (
            answer(framework, [*job, flag, *value]) != was
            for value in tried(argument)
            for job, was in zip(jobs, before, strict=True)
        )
        if not any(changed):
            silent.append(argument.name)
    assert silent == []


@pytest.mark.parametrize("framework", SHELL, ids=lambda framework: framework.target.label)
def test_lists_name_an_argument_once(framework: Framework) -> None:
    release = framework.release
    refused = {condition for condition in release.unpriced if condition in release.without_effect}
    assert refused == set()
