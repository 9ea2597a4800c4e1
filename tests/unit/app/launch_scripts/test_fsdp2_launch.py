"""Scripts and YAML files of MindSpeed-LLM's FSDP2 backend: what is read of both, what is refused, and edits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.file_kinds import kind_of, with_kind
from app.launch_scripts.files import load_script
from app.launch_scripts.forms import form_of, is_launch_script
from app.launch_scripts.fsdp2_launch import Fsdp2Launch
from app.launch_scripts.launch import Given
from app.launch_scripts.reading import ReadScript, read_launch, read_script_job
from app.launch_scripts.service import tune_document
from cost_models.shapes.strategy import Recompute
from documents.errors import InputError
from frameworks.mindspeed_llm_fsdp2.values import typed
from frameworks.options import options_of
from frameworks.registry import BY_NAME
from hardware_profiles import catalogue

RELEASE = BY_NAME["mindspeed-llm-fsdp2"].release
STARTS = json.loads((Path(__file__).parents[3] / "oracle" / "fsdp2_starts.json").read_text(encoding="utf-8"))
COMMANDS = [row for row in STARTS if "command" in row]
HUGGING_FACE = Path(__file__).parents[3] / "fixtures" / "huggingface"
HARDWARE = "atlas-900-a3-superpod"
SCRIPT = """source examples/fsdp2/env_config.sh
NPUS_PER_NODE=16
NNODES={nodes}
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \\
    --nnodes $NNODES \\
    --master_port 6499
"
torchrun $DISTRIBUTED_ARGS train_fsdp2.py examples/fsdp2/plan.yaml \\
    --data.dataset '{{"file_name": "x: y.parquet"}}' \\
    {words} \\
    --training.output_dir ./output | tee logs/run.log
"""
FILE: dict[str, dict[str, Any]] = {
    "data": {"template": "qwen3", "cutoff_len": 4096, "data_manager_type": "mg"},
    "parallel": {
        "fsdp_modules": ["model.layers.{*}", "model.embed_tokens", "lm_head"],
        "ep_modules": ["model.layers.{*}.mlp.experts"],
        "ep_fsdp_modules": ["model.layers.{*}.mlp.experts"],
        "recompute": True,
        "recompute_modules": ["model.layers.{*}"],
    },
    "training": {"stage": "pt", "lr": "1e-05", "max_steps": 2000, "deterministic": False},
}
QWEN3 = {"attention_bias": False, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 1000000}


def text_of(**sections: Mapping[str, Any]) -> str:
    document = {name: {**FILE.get(name, {}), **sections.get(name, {})} for name in {**FILE, **sections}}
    return yaml.safe_dump(document, sort_keys=False)


def script_of(words: str, nodes: int = 1) -> str:
    return SCRIPT.format(words=words, nodes=nodes)


def read(words: str, text: str, nodes: int = 1, **files: str) -> ReadScript:
    given = Given("run.sh", files={"plan.yaml": text, **{name.replace("_json", ".json"): each for name, each in files.items()}})
    return read_script_job(script_of(words, nodes), given, catalogue.profile(HARDWARE), HARDWARE)


# The examples of the backend at its commit, by what a price depends on: model and arguments of the command, those of the file.
# A text is the reason for which it is refused; a tuple is devices, ep, samples of a step, length and recompute.
EXAMPLES: list[tuple[str, str, int, dict[str, dict[str, Any]], Any]] = [
    ("qwen3/pretrain_8b_A3", "--model.model_name_or_path /d/Qwen3-8B/ --parallel.fsdp_size 16", 1,
     {"parallel": {"recompute": False}}, (16, 1, 16, 4096, Recompute.NONE)),
    ("qwen3/pretrain_8b_A2", "--model.model_name_or_path /d/Qwen3-8B/ --parallel.fsdp_size 16", 1, {},
     (16, 1, 16, 4096, Recompute.FULL)),
    ("qwen3/tune_8b_A2", "--model.model_name_or_path /d/Qwen3-8B/ --parallel.fsdp_size 16", 1,
     {"data": {"data_manager_type": "lf"}, "training": {"stage": "sft"}}, (16, 1, 16, 4096, Recompute.FULL)),
    ("qwen3/pretrain_32b_A3", "--model.model_name_or_path /d/Qwen3-32B/ --parallel.fsdp_size 16", 1,
     {"model": {"model_id": "qwen3"}}, (16, 1, 16, 4096, Recompute.FULL)),
    ("qwen3/pretrain_14b", "--model.model_name_or_path /d/Qwen3-14B/ --parallel.fsdp_size 16", 1, {},
     (16, 1, 16, 4096, Recompute.FULL)),
    ("qwen3/tune_1point7b", "--model.model_name_or_path ./model_from_hf/qwen3_hf --parallel.fsdp_size 16", 1, {},
     "no preset has its name"),
    ("qwen3_moe/pretrain_30b_A3",
     "--model.model_name_or_path ./w/Qwen3-30B-A3B/ --parallel.fsdp_size 16 --optimization.moe_grouped_gemm True", 1,
     {"model": {"model_id": "qwen3_moe"}, "parallel": {"reduce_dtype": "bf16"}}, (16, 1, 16, 4096, Recompute.FULL)),
    ("qwen3_moe/pretrain_30b_quant_A5",
     "--model.model_name_or_path ./w/Qwen3-30B-A3B/ --parallel.fsdp_size 16 --model.quant_recipe_name mxfp8 "
     "--model.quant_converters quantize.linear.mx quantize.moe.mx", 1, {"model": {"model_id": "qwen3_moe"}},
     "line 11: 'model.quant_recipe_name': it changes step time and memory"),
    ("qwen3_moe/pretrain_235b_A3", "--model.model_name_or_path ./w/qwen3-235b/ --parallel.fsdp_size 256", 16,
     {"model": {"model_id": "qwen3_moe"}}, "no preset has its name"),
    ("qwen3_moe/pretrain_235b_A3 of a known name",
     "--model.model_name_or_path ./w/Qwen3-235B-A22B/ --parallel.fsdp_size 256 --parallel.ep_size 2 --parallel.ep_fsdp_size 128 "
     "--training.per_device_train_batch_size 4 --optimization.chunk_loss_size 1024", 16, {"model": {"model_id": "qwen3_moe"}},
     (256, 2, 1024, 4096, Recompute.FULL)),
    ("qwen3_moe/pretrain_235b_A3 in larger chunks",
     "--model.model_name_or_path ./w/Qwen3-235B-A22B/ --parallel.fsdp_size 256 --optimization.chunk_loss_size 2048", 16,
     {"model": {"model_id": "qwen3_moe"}}, "'optimization.chunk_loss_size': it changes the memory"),
    *((f"{name}/pretrain", "--model.model_name_or_path /d/x/ --parallel.fsdp_size 16", 1, {"model": {"model_id": kind}}, why)
      for name, kind, why in (
          ("deepseek4", "deepseek_v4", "its sparse attention"), ("glm52", "glm52", "its sparse attention"),
          ("gpt_oss", "gpt_oss", "of its own modules"), ("longcat_flash_lite", "longcat_flash_ngram", "n-grams"),
          ("mamba3", "mamba3", "no attention"), ("minimax_m27", "minimax_m27", "of its own modules"),
          ("qwen3_next", "qwen3_next", "linear attention"), ("step35", "step35", "no known shape"))),
]  # fmt: skip


@pytest.mark.parametrize(("words", "nodes", "sections", "expected"), [row[1:] for row in EXAMPLES], ids=[e[0] for e in EXAMPLES])
def test_each_example_is_read_or_refused_with_the_reason(
    words: str, nodes: int, sections: dict[str, dict[str, Any]], expected: Any
) -> None:
    text, batch = text_of(**sections), "" if "batch_size" in words else " --training.per_device_train_batch_size 1"
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected.replace("'", ".").replace(".", r".")):
            read(words + batch, text, nodes)
        return
    found = read(words + batch, text, nodes)
    training, strategy = found.job.workload.training, found.job.strategy
    assert strategy is not None
    assert (
        found.job.workload.cluster.num_devices,
        strategy.ep,
        training.global_batch_size,
        training.seq_length,
        strategy.recompute,
    ) == expected
    assert found.framework.name == "mindspeed-llm-fsdp2"
    assert found.job.workload.software.stack == "mindspeed-llm-fsdp2"


def test_the_model_is_that_of_a_config_beside_the_script(tmp_path: Path) -> None:
    shape = {"num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8}
    config = {**QWEN3, **shape, "model_type": "qwen3", "intermediate_size": 17408, "vocab_size": 151936}
    words = "--model.model_name_or_path {} --parallel.fsdp_size 16 --training.per_device_train_batch_size 1"
    found = read(words.format("/d/Qwen3-14B/"), text_of(), config_json=json.dumps(config))
    assert (found.job.workload.model.num_layers, found.job.workload.model.ffn_hidden_size) == (40, 17408)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    script = tmp_path / "run.sh"
    script.write_text(script_of(words.format(tmp_path / "weights")), encoding="utf-8")
    (tmp_path / "plan.yaml").write_text(text_of(), encoding="utf-8")  # beside the script, not where its path leads
    assert load_script(script, HARDWARE).job.workload.model.num_layers == 40
    with pytest.raises(InputError, match=r"is of type qwen3; with model\.model_id qwen3_moe models of qwen3_moe are priced"):
        read(words.format("/d/Qwen3-14B/"), text_of(model={"model_id": "qwen3_moe"}), config_json=json.dumps(config))
    with pytest.raises(InputError, match="not valid JSON"):
        read(words.format("/d/Qwen3-14B/"), text_of(), config_json="{")


def test_a_script_without_its_file_asks_for_it() -> None:
    given = Given("run.sh")
    with pytest.raises(InputError, match=r"line 9: its arguments are in 'examples/fsdp2/plan.yaml'.*--with plan.yaml"):
        read_script_job(script_of("--parallel.fsdp_size 16"), given, catalogue.profile(HARDWARE), HARDWARE)


def test_a_file_alone_is_read_with_its_own_devices() -> None:
    text = text_of(model={"model_name_or_path": "./w/Qwen3-8B"}, parallel={"fsdp_size": 8, "reshard_after_forward": False})
    found = read_script_job(text, Given("plan.yaml"), catalogue.profile(HARDWARE), HARDWARE)
    assert found.job.strategy is not None
    assert (found.job.workload.cluster.num_devices, found.job.strategy.zero_stage) == (8, 2)
    with pytest.raises(InputError, match="give the script that starts the file"):
        read_script_job(text_of(), Given("plan.yaml"), catalogue.profile(HARDWARE), HARDWARE)


RECORDED = """model: {model_name_or_path: here, model_id: qwen3_moe}
data: {cutoff_len: 4096, packing: False, dataset: {file_name: x.parquet}}
parallel: {fsdp_size: 16, ep_size: 1, recompute: True, recompute_modules: ['model.layers.{*}'], reshard_after_forward: 1}
training: {output_dir: out, lr: 1e-05, disable_shuffling: 1, per_device_train_batch_size: 1, save_total_limit: null}
"""  # as in scripts/conformance/fsdp2_record.py


@pytest.mark.parametrize("row", COMMANDS, ids=[row["command"] for row in COMMANDS])
def test_arguments_above_a_file_are_read_as_the_backend_reads_them(row: dict[str, Any]) -> None:
    launch = Fsdp2Launch(f"train_fsdp2.py f.yaml {row['command']}\n", Given("x", files={"f.yaml": RECORDED}), RELEASE)
    theirs = row["said"]["values"]
    ours = {name: typed(RELEASE.arguments.get(name), name, value) for name, value in options_of(launch.arguments).items()}
    compared = {name for name in ours if name in RELEASE.arguments} - {"data.dataset", "data.cutoff_len"}  # packing takes a token
    assert {"parallel.fsdp_size", "parallel.recompute", "data.packing"} <= compared
    assert {name: ours[name] for name in compared} == {name: theirs[name] for name in compared}


def test_forms_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text_of(), encoding="utf-8")
    assert is_launch_script(str(path))
    assert form_of(text_of()) == "fsdp2.yaml"
    assert form_of(script_of("")) == "fsdp2.sh"
    assert form_of("torchrun pretrain_gpt.py --num-layers 2  # not train_fsdp2.py\n") == "sh"
    assert form_of("model: x\ntraining: {seq_length: 1}\n") != "fsdp2.yaml"  # a job without its cluster
    assert form_of("parallel_config: {data_parallel: 1}\nparallel: {}\nmodel: {}\n") == "yaml"
    for text in (text_of(), script_of("")):
        with pytest.raises(
            InputError, match="mindspeed-llm@master does not start from such a file; give mindspeed-llm-fsdp2@master"
        ):
            read_launch(text, Given("x"), "ascend", "mindspeed-llm@master")
    with pytest.raises(InputError, match="mindspeed-llm-fsdp2@master does not start from such a file; give megatron-lm"):
        read_launch("torchrun pretrain_gpt.py --num-layers 2\n", Given("x"), "ascend", "mindspeed-llm-fsdp2")
    assert "FSDP2 backend" in (kind_of(path) or "")
    message = with_kind(InputError(f"{path}: cluster: missing."), ["search", str(path)])
    assert "It is a file of MindSpeed-LLM's FSDP2 backend" in message


def test_a_script_on_gpus_is_priced_by_physics_alone() -> None:
    words, gpus = "--model.model_name_or_path /d/Qwen3-8B/ --parallel.fsdp_size 16", "h100-sxm-80gb"
    given = Given("run.sh", files={"plan.yaml": text_of()})
    assert read_script_job(script_of(words), given, catalogue.profile(gpus), gpus).job.workload.software.target == "any"


def test_a_changed_script_says_the_better_plan_and_its_file_stays() -> None:
    words = "--model.model_name_or_path /d/Qwen3-8B/ --parallel.fsdp_size 16 --training.per_device_train_batch_size 1"
    given = Given("run.sh", files={"plan.yaml": text_of()})
    sections = {"search": {"time_limit_s": 20}}
    found = read_script_job(script_of(words), given, catalogue.profile(HARDWARE), HARDWARE, sections=sections)
    document = tune_document(found)
    assert document.best is not None
    assert document.script != script_of(words)
    changed = {change.argument for change in document.changes}
    assert changed
    assert all(name.startswith(("parallel.", "training.", "data.")) for name in changed)
    again = read_script_job(document.script, given, catalogue.profile(HARDWARE), HARDWARE)
    assert again.job.strategy is not None
    assert again.job.strategy != found.job.strategy
    assert again.job.workload.training.global_batch_size == found.job.workload.training.global_batch_size
