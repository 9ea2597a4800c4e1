"""Tables of releases: consistent in themselves, and able to refuse what the release refuses."""

from __future__ import annotations

import re

import pytest

from frameworks.mindspeed_llm.release import FORMER
from frameworks.registry import BY_NAME, FRAMEWORKS
from frameworks.release import Kind, Release, holds, problems, read_tokens, values_of

RELEASES = {framework.name: framework.release for framework in FRAMEWORKS}
MEGATRON, MINDSPEED, MINDFORMERS = (RELEASES[name] for name in ("megatron-lm", "mindspeed-llm", "mindformers"))


def given(release: Release, text: str) -> dict[str, tuple[str, ...]]:
    read, stray = read_tokens(release, text.split())
    assert stray == []
    return read


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
def test_rules_name_arguments_of_the_table(release: Release) -> None:
    conditions = [c for exclusion in release.exclusions for c in exclusion.conditions]
    conditions += [c for rule in release.requirements for c in (*rule.when, *rule.needs)]
    assert conditions
    for condition in conditions:
        holds(release, {}, condition)  # raises KeyError for a name that the table lacks
    assert all(name in release.arguments for name in release.former.values())
    assert all(re.fullmatch(r"\[.+\]", item.source) for item in (*release.exclusions, *release.requirements))


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
def test_defaults_have_the_type_and_a_choice_of_their_argument(release: Release) -> None:
    types = {Kind.SWITCH: bool, Kind.INTEGER: int, Kind.NUMBER: (int, float), Kind.TEXT: str}
    for group in release.groups.values():
        for argument in group:
            if argument.default is not None:
                assert isinstance(argument.default, types[argument.kind]), argument
                assert not argument.choices or argument.default in argument.choices, argument


def test_a_later_definition_replaces_megatrons() -> None:
    # MindSpeed-LLM registers --ckpt-format again, without torch_dcp and with torch as its default.
    assert values_of(MEGATRON, {}, "ckpt-format") == ["torch_dist"]
    assert values_of(MINDSPEED, {}, "ckpt-format") == ["torch"]
    assert problems(MINDSPEED, {"ckpt-format": ("torch_dcp",)})
    assert not problems(MEGATRON, {"ckpt-format": ("torch_dcp",)})


@pytest.mark.parametrize(
    ("release", "text", "sentence"),
    [
        (MEGATRON, "--tensor-model-parallel-sise 2", "the nearest is tensor-model-parallel-size"),
        (MEGATRON, "--use-fused-rmsnorm", "is no argument of megatron-lm 0.12"),
        (MEGATRON, "--use-megatron-fsdp", "is no argument"),  # of 0.13
        (MEGATRON, "--tensor-model-parallel-size two", "'two' is no integer"),
        (MEGATRON, "--tensor-model-parallel-size", "needs a value"),
        (MEGATRON, "--num-layers 3 4", "takes 1 value, and has 2"),
        (MEGATRON, "--bf16 yes", "takes no value"),
        (MEGATRON, "--recompute-method blocks", "use one of uniform, block"),
        (MEGATRON, "--recompute-modules core_attn mlp_act", "'mlp_act' is not allowed"),
        (MINDSPEED, "--moe-zero-memory level2", "use one of disable, level0, level1"),
    ],
)
def test_an_unknown_argument_or_value_is_refused(release: Release, text: str, sentence: str) -> None:
    (found,) = problems(release, given(release, text))
    assert sentence in found


@pytest.mark.parametrize(
    ("release", "text", "names"),
    [
        (
            MEGATRON,
            "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 --num-virtual-stages-per-pipeline-rank 2",
            ("num-virtual-stages-per-pipeline-rank",),
        ),
        (MEGATRON, "--fp16 --bf16", ("fp16", "bf16")),
        (MEGATRON, "--overlap-param-gather --overlap-grad-reduce", ("needs use-distributed-optimizer",)),
        (MEGATRON, "--recompute-granularity full --recompute-num-layers 2", ("needs recompute-method",)),
        (MEGATRON, "--num-experts 8 --disable-bias-linear --moe-router-topk 1", ("moe-router-topk=1", "moe-router-pre-softmax")),
        (MINDSPEED, "--recompute-norm --recompute-granularity selective", ("recompute-norm",)),
        (
            MINDSPEED,
            "--swap-optimizer --reuse-fp32-param --bf16 --use-distributed-optimizer",
            ("swap-optimizer", "reuse-fp32-param"),
        ),
        (MINDSPEED, "--moe-zero-memory level0", ("moe-alltoall-overlap-comm or moe-fb-overlap",)),
        (MINDSPEED, "--use-ascend-mc2", ("needs sequence-parallel",)),
    ],
)
def test_a_broken_exclusion_or_need_is_refused(release: Release, text: str, names: tuple[str, ...]) -> None:
    (found,) = problems(release, given(release, text))
    assert all(name in found for name in names)


def test_mindformers_refuses_sequence_parallelism_without_tensor_parallelism() -> None:
    (found,) = problems(MINDFORMERS, {"parallel_config.use_seq_parallel": ("True",)})
    assert "parallel_config.model_parallel=1" in found
    assert not problems(MINDFORMERS, {"parallel_config.use_seq_parallel": ("True",), "parallel_config.model_parallel": ("2",)})


def test_tokens_are_read_as_argparse_reads_them() -> None:
    read, stray = read_tokens(MINDSPEED, ["x", "--use-mc2", "--tp-x=2", "--cp-comm-type", "p2p", "a2a", "--tp-x", "4"])
    assert read == {"use-ascend-mc2": (), "tp-x": ("4",), "cp-comm-type": ("p2p", "a2a")}
    assert stray == ["'x' belongs to no argument.", "--tp-x is given twice."]
    assert FORMER["use-mc2"] == "use-ascend-mc2"


def test_every_environment_variable_has_a_purpose_in_one_line() -> None:
    for framework in BY_NAME.values():
        assert framework.purposes
        assert all(purpose and "\n" not in purpose for purpose in framework.purposes.values())
