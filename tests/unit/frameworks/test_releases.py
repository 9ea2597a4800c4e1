"""Tables of releases: consistent in themselves, and able to refuse what the release refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents.errors import InputError
from frameworks.framework import Framework
from frameworks.registry import BY_NAME, FRAMEWORKS
from frameworks.release import Kind, Release, holds, problems, read_release, read_tokens, values_of

ROOT = Path(__file__).parents[3]
RELEASES = {framework.target.label: framework.release for framework in FRAMEWORKS}
MEGATRON, MINDSPEED, MINDFORMERS = (BY_NAME[name].release for name in ("megatron-lm", "mindspeed-llm", "mindformers"))


def given(release: Release, text: str) -> dict[str, tuple[str, ...]]:
    read, stray = read_tokens(release, text.split())
    assert stray == []
    return read


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_rules_name_arguments_of_the_table(release: Release) -> None:
    conditions = [c for exclusion in release.exclusions for c in exclusion.conditions]
    conditions += [c for rule in release.requirements for c in (*rule.when, *rule.needs)]
    assert conditions
    for condition in conditions:
        holds(release, {}, condition)  # raises KeyError for a name that the table lacks
    assert all(name in release.arguments for name in release.former.values())
    assert all(re.fullmatch(r"\[.+\]", item.source) for item in (*release.exclusions, *release.requirements))


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_tables_name_arguments_of_the_release_and_values_that_it_takes(framework: Framework) -> None:
    table, release = framework.table, framework.release
    values = {table.columns[field]: names.values() for field, names in (("dispatcher", table.dispatchers),)}
    for switch in table.switches:
        values[switch.argument] = [str(value) for value in switch.on if isinstance(value, str)]
        for condition in switch.only:
            holds(release, {}, condition)  # raises KeyError for a name that the release lacks
        assert all(name in release.arguments for name in (*switch.beside, *filter(None, [switch.former])))
    for name in (*table.columns.values(), *table.module_switches.values(), *values):
        assert name in release.arguments, name
    for name, named in values.items():
        assert not release.arguments[name].choices or set(named) <= set(release.arguments[name].choices), name


def test_every_folder_with_a_framework_is_registered() -> None:
    folders = {path.parent.name for path in (ROOT / "frameworks").glob("*/framework.py")}
    assert folders == {framework.name.replace("-", "_") for framework in FRAMEWORKS}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_defaults_have_the_type_and_a_choice_of_their_argument(release: Release) -> None:
    types = {Kind.SWITCH: bool, Kind.INTEGER: int, Kind.NUMBER: (int, float), Kind.TEXT: str}
    for group in release.groups.values():
        for argument in group:
            if argument.default is not None:
                assert isinstance(argument.default, types[argument.kind]), argument
                assert not argument.choices or argument.default in argument.choices, argument


def test_a_later_definition_replaces_megatrons() -> None:
    # MindSpeed-LLM adds a choice of --position-embedding-type and widens that of the router.
    assert values_of(MINDSPEED, {}, "position-embedding-type") == values_of(MEGATRON, {}, "position-embedding-type")
    for name, value in (("position-embedding-type", "alibi"), ("moe-router-score-function", "sqrtsoftplus")):
        assert problems(MEGATRON, {name: (value,)})
        assert not problems(MINDSPEED, {name: (value,)})


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
    assert MINDSPEED.former["use-mc2"] == "use-ascend-mc2"


def test_every_environment_variable_has_a_purpose_in_one_line() -> None:
    for framework in BY_NAME.values():
        assert framework.purposes
        assert all(purpose and "\n" not in purpose for purpose in framework.purposes.values())


@pytest.mark.parametrize(
    ("whole", "half", "sentence"),
    [
        ('"switch": [', '"switches": [', "0.12.json: groups[0].arguments[1].switches: unknown key; did you mean 'switch'?"),
        ('{"num-query-groups": 1,', '{"num-query-groups": "1",', "0.12.json: groups[0].arguments[2].integer"),
        ('"conditions": ["fp16",', '"conditions": ["fp16 >",', "exclusions[5].conditions[0]: 'fp16 >' is no condition"),
        ('"needs": ["bf16"],', "", "requirements[19].needs: missing"),
        ('{"switch": ["sequence-parallel"]}', '{"group": "Modle"}', "0.12.json: group: 'Modle' is no known group of the base"),
        ('{"switch": ["sequence-parallel"]}', "{}", "groups[2].arguments[1]: give one of group, switch, integer, number, text."),
        ('"version"', "version", "0.12.json: line "),
    ],
)
def test_a_malformed_file_is_refused_with_its_name_and_the_field(tmp_path: Path, whole: str, half: str, sentence: str) -> None:
    text = (ROOT / "frameworks" / "megatron_lm" / "0.12.json").read_text(encoding="utf-8")
    assert whole in text
    path = tmp_path / "0.12.json"
    path.write_text(text.replace(whole, half, 1), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_release(path)


@pytest.mark.parametrize("command", [["--help"], ["hardware", "list"]])
def test_commands_that_need_no_framework_read_no_release(command: list[str]) -> None:
    code = "import sys; from meshplan.__main__ import main\ntry: main()\nfinally: print(*sorted(sys.modules), file=sys.stderr)"
    asked = subprocess.run([sys.executable, "-c", code, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "app.cli.main" in asked.stderr.split()
    assert "frameworks.release" not in asked.stderr.split()
