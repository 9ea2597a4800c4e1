"""The parts of the conformance check that need no framework: what files say, what they start, what differs, what is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from documents.errors import InputError
from scripts.conformance import model_facts
from scripts.conformance.accelerators import OF_MINDSPORE
from scripts.conformance.asking import Answer
from scripts.conformance.checkouts import Checkouts, UncheckedError, repository_of
from scripts.conformance.comparison import compared, differences
from scripts.conformance.launch_files import Header, header, run_script, smallest_start, yaml_processes
from scripts.conformance.report import BEGIN, END, Row, reason, section, summaries, text_report, written_into
from scripts.conformance.stand_ins import Finder
from tests.unit.frameworks.legality_workloads import DENSE, MIXTURE

HEADER = """#!/usr/bin/env bash
# Plan 1 (abc) for mindspeed-llm master (Ascend/MindSpeed 028de58c, Ascend/MindSpeed-LLM c77308a1,
# NVIDIA/Megatron-LM 5cb6dbb3).
# The framework runs this plan as it is.
# launch: mindspeed-llm@master Ascend/MindSpeed@028de58c Ascend/MindSpeed-LLM@c77308a1 NVIDIA/Megatron-LM@5cb6dbb3 exact
# - The model's norm epsilon is not stated; the
#   framework takes its own.
# - Data is yours.

DATA_PATH="${DATA_PATH:-SET-ME}"
"""
START = (
    HEADER
    + """export KEPT=1
if [[ "$DATA_PATH" == SET-ME ]]; then exit 2; fi
ARGUMENTS=(--num-layers 4 --tensor-model-parallel-size 8 --data-path "$DATA_PATH")
torchrun --nproc-per-node 8 --nnodes=2 pretrain_gpt.py "${ARGUMENTS[@]}"
"""
)
ARGUMENTS = {
    "num_layers": 33, "noop_layers": "32,", "hidden_size": 4096, "num_attention_heads": 32, "group_query_attention": True,
    "num_query_groups": 8, "kv_channels": 128, "ffn_hidden_size": 14336, "padded_vocab_size": 128256, "norm_epsilon": 1e-5,
    "untie_embeddings_and_output_weights": True, "position_embedding_type": "rope", "rotary_base": 10000,
    "rotary_percent": 1.0, "normalization": "RMSNorm", "swiglu": True,
}  # fmt: skip
LLAMA = replace(
    DENSE,
    constants=ModelConstants(
        normalization="rmsnorm", norm_epsilon=1e-5, rotary_base=5e5, rope_scaling=RopeScaling("llama3", 8.0)
    ),
)  # fmt: skip


def script(folder: Path, text: str) -> Path:
    path = folder / "plan-1.mindspeed-llm.sh"
    path.write_text(text, encoding="utf-8")
    return path


def answer(verdict: str, text: str = "", notes: tuple[str, ...] = (), **found: object) -> Answer:
    said = Header("mindspeed-llm", "master", {}, True, notes)
    return Answer(
        Path("/a/b/plan-1.sh"), verdict, said, ("Ascend/MindSpeed-LLM c77308a1",), "validate", "ValueError", text, found=found
    )


def test_a_header_names_target_commits_and_notes(tmp_path: Path) -> None:
    said = header(script(tmp_path, HEADER))
    assert (said.target, said.release, said.as_it_is) == ("mindspeed-llm", "master", True)
    assert said.commits == {
        "Ascend/MindSpeed": "028de58c", "Ascend/MindSpeed-LLM": "c77308a1", "NVIDIA/Megatron-LM": "5cb6dbb3"
    }  # fmt: skip
    assert said.notes == ("The model's norm epsilon is not stated; the framework takes its own.", "Data is yours.")


def test_a_header_is_read_in_any_language(tmp_path: Path) -> None:
    chinese = """#!/usr/bin/env bash
# 方案 1 (abc)，用于 mindspeed-llm master。
# 框架能够接受的最接近方案：
# launch: mindspeed-llm@master Ascend/MindSpeed@028de58c Ascend/MindSpeed-LLM@c77308a1 NVIDIA/Megatron-LM@5cb6dbb3 nearest
# - 与方案不同 (mindspeed_coc)：
#   不使用 coc。
"""
    said = header(script(tmp_path, chinese))
    assert (said.target, said.release, said.as_it_is) == ("mindspeed-llm", "master", False)
    assert said.commits == header(script(tmp_path, HEADER)).commits
    assert said.notes == ("与方案不同 (mindspeed_coc)： 不使用 coc。",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo nothing\n", "name no target"),
        ("# launch: nemo@2 NVIDIA/NeMo@1 exact\n", "name no target"),
        (HEADER.replace(" NVIDIA/Megatron-LM@5cb6dbb3 ", " "), "no commit of NVIDIA/Megatron-LM"),
    ],
)
def test_a_file_without_its_commits_is_not_asked_about(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UncheckedError, match=sentence):
        header(script(tmp_path, text))


def test_a_script_is_run_for_what_it_starts(tmp_path: Path) -> None:
    started = run_script(script(tmp_path, START), tmp_path / "run")
    assert started.arguments[:3] == ["pretrain_gpt.py", "--num-layers", "4"]
    assert started.arguments[-1].endswith("given/data_path/corpus")
    assert started.environment["KEPT"] == "1"
    assert (started.num_processes, smallest_start(started)) == (16, 16)
    assert smallest_start(replace(started, num_processes=4)) == 8  # tp
    with_experts = [*started.arguments, "--expert-model-parallel-size", "8", "--pipeline-model-parallel-size", "2", "--lr", "1"]
    assert smallest_start(replace(started, num_processes=4, arguments=with_experts)) == 16  # the experts' ranks are those of tp


def test_mindspores_launcher_states_all_processes(tmp_path: Path) -> None:
    text = START.replace("torchrun --nproc-per-node 8 --nnodes=2", "msrun --local_worker_num 8 --worker_num 32")
    assert run_script(script(tmp_path, text), tmp_path / "run").num_processes == 32


@pytest.mark.parametrize("package", ["PIL", "urllib3", "requests", "yaml"])
def test_mindformers_starts_without_packages_that_nobody_installed_for_it(package: str) -> None:
    """Pillow and urllib3 came with the developers' tools; YAML is read, and real."""
    assert (Finder(OF_MINDSPORE, {}).find_spec(f"{package}.any") is not None) == (package != "yaml")


def test_a_single_module_of_a_framework_can_be_replaced() -> None:
    finder = Finder(["framework.removed"], {})
    assert finder.find_spec("framework.removed") is not None
    assert finder.find_spec("framework.kept") is None


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("pretrain_gpt.py", "train.py", "starts train.py, not pretrain_gpt.py or posttrain_gpt.py"),
        ("torchrun", "exit 3; torchrun", "ends with 3 and starts nothing"),
        ('pretrain_gpt.py "${ARGUMENTS[@]}"', "", "without a training script"),
    ],
)
def test_a_script_that_starts_something_else_is_not_asked_about(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(UncheckedError, match=sentence):
        run_script(script(tmp_path, START.replace(old, new)), tmp_path / "run")


def test_processes_of_a_yaml_file_come_from_its_command_or_its_degrees(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text('#   bash scripts/msrun_launcher.sh "run_mindformer.py --config X" 64 8 HOST 8118 0\n')
    assert yaml_processes(path) == 64
    path.write_text("parallel_config:\n  data_parallel: &dp 4\n  model_parallel: 2\n  pipeline_stage: 2\n")
    assert yaml_processes(path) == 16


def test_a_checkout_is_known_by_its_folders(tmp_path: Path) -> None:
    (tmp_path / "mindspeed_llm").mkdir()
    assert repository_of(tmp_path) == "Ascend/MindSpeed-LLM"
    taken = Checkouts({"Ascend/MindSpeed-LLM": tmp_path}, tmp_path).tree("Ascend/MindSpeed-LLM", "c77308a1")
    assert (taken.path, taken.label) == (tmp_path, "Ascend/MindSpeed-LLM")  # no git: as it is
    with pytest.raises(UncheckedError, match="holds none of"):
        repository_of(tmp_path / "mindspeed_llm")


def test_constants_that_differ_are_told_apart_by_whether_the_file_names_them() -> None:
    found = {"arguments": ARGUMENTS, "config": {"activation_func": "torch.nn.functional.silu"}}
    (base, scaling) = differences(answer("accept", notes=("Rope scaling llama3 cannot be told.",), **found), LLAMA)
    assert (base.fact, base.found, base.expected, base.named) == ("rotary_base", 10000, 5e5, False)
    assert (scaling.fact, scaling.found, scaling.expected, scaling.named) == ("rope_scaling", [], ["llama3", 8.0], True)
    assert str(base) == "rotary_base: 10000, the model has 500000.0"
    assert differences(answer("refuse"), LLAMA) == []  # it came to no configuration


def test_what_the_model_does_not_state_is_not_compared() -> None:
    facts = model_facts.expected(DENSE)
    assert not {"rotary_base", "norm_epsilon", "rope_scaling", "score_function"} & facts.keys()
    assert compared({"a": 1.0, "b": [1, 2]}, {"a": 1.0 + 1e-9, "b": (1, 2), "c": 3}, ()) == []


def test_layers_with_experts_are_counted_without_no_op_layers() -> None:
    experts = {"num_experts": 64, "moe_router_topk": 6, "moe_ffn_hidden_size": 1408, "n_shared_experts": 2}
    router = {"moe_router_score_function": "softmax", "moe_router_pre_softmax": True, "moe_router_topk_scaling_factor": None}
    args = {**ARGUMENTS, "num_layers": 6, "noop_layers": "1,5", "first_k_dense_replace": 2, **experts, **router}
    have = model_facts.of_megatron({"arguments": args}, mindspeed=True)
    assert (have["num_layers"], have["moe_layers"], have["shared_expert_size"]) == (4, [0, 1, 1, 1], 2816)
    assert (have["normalize_topk"], have["topk_scale"], have["router_groups"]) == (False, 1.0, [])
    assert model_facts.of_megatron({"arguments": {**args, "norm_topk_prob": True}}, mindspeed=True)["normalize_topk"]
    stated = replace(MIXTURE, constants=ModelConstants(router=RouterConstants("sigmoid", True, 2.5, True)))
    want = model_facts.expected(stated)
    assert (want["score_function"], want["topk_scale"], want["expert_bias"]) == ("sigmoid", 2.5, True)


def test_reasons_are_the_same_where_only_numbers_and_folders_differ() -> None:
    first, second = (answer("refuse", f"batch {n} of /tmp/{n}/x is not divisible by {n * 1.5}") for n in (3, 64))
    assert reason(first) == reason(second) == "validate: ValueError batch N of PATH is not divisible by N"


def rows() -> list[Row]:
    differing = differences(answer("accept", arguments=ARGUMENTS, config={}), LLAMA)
    return [
        Row("llama", "a2", 8, "first", True, answer("accept"), tuple(differing), frozenset({"num-layers"})),
        Row(
            "llama", "a2", 16, "drawn", True, answer("refuse", "no | such 3"), (), frozenset({"bf16"}), "costs 2 s, its plan 1 s"
        ),
        Row("gemma", "a2", 8, "first", False, answer("refuse", "cannot be told")),
    ]


def test_only_files_that_are_announced_to_run_count() -> None:
    (summary,) = summaries(rows(), {"mindspeed-llm master": frozenset({"bf16", "mc2"})})
    assert (summary.files, summary.verdicts, summary.others) == (2, {"accept": 1, "refuse": 1}, {"refuse": 1})
    assert (summary.origins, summary.models, summary.unwritten) == ({"first": 1, "drawn": 1}, {"llama"}, ["mc2"])
    assert sorted(summary.unnamed) == [
        "rope_scaling: [], the model has ['llama3', 8.0] (llama)", "rotary_base: 10000, the model has 500000.0 (llama)"
    ]  # fmt: skip
    mapping = summary.to_mapping()
    assert (mapping["files"], mapping["accept"], mapping["refuse"], mapping["crash"]) == (2, 1, 1, 0)
    text = text_report([summary], ["case: nothing fits"])
    assert "no | such N" in text
    assert "read back costs N s, its plan N s; first llama /a/b/plan-1.sh: costs 2 s" in text
    assert "1 models or cases without a file" in text


def test_the_section_replaces_what_is_between_its_markers(tmp_path: Path) -> None:
    text = section(summaries(rows(), {}), [])
    assert (
        "| `mindspeed-llm master` | Ascend/MindSpeed-LLM c77308a1 | 2 | 1 | 1 | 1 | 0 | 2 | 1 | 2 | 1, 0 of them accepted |"
        in text
    )
    assert "no \\| such N" in text
    document = tmp_path / "launch.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    written_into(document, text)
    written_into(document, text)
    assert document.read_text() == f"before\n{text}\nafter\n"
    document.write_text("no markers")
    with pytest.raises(InputError, match="has no markers"):
        written_into(document, text)
