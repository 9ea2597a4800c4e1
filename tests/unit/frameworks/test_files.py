"""Launch files as a user meets them: a shell that accepts them, placeholders that stop them, YAML that loads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import pytest
import yaml

from app.language.choice import said
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.launch_text import PLACEHOLDER, LaunchFacts
from frameworks.megatron_lm.nearest import evenest
from frameworks.megatron_lm.rules_0_12 import PLACEMENTS
from tests.unit.frameworks.legality_workloads import DENSE, DENSE_PLAN, MIXTURE, MIXTURE_PLAN, PANGU_JOB, PANGU_PLAN, job
from tests.unit.frameworks.plans import MODELS, legal_plans, workload

BASH = shutil.which("bash") or "bash"


def written(
    made: Workload, plan: ParallelStrategy, framework: str, say: Callable[[str], str] = str, title: str = "Plan 1"
) -> tuple[str, str]:
    start = Start(title, made.cluster.num_devices, made.cluster.profile.devices_per_node, say)
    return launch_file(framework, launch_block(made, plan)[framework], start)


def bash(*arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BASH, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], **environment},
    )


@pytest.mark.parametrize("framework", ["megatron-lm", "mindspeed-llm"])
def test_bash_accepts_every_script(framework: str, tmp_path: Path) -> None:
    for model in MODELS:
        plans = legal_plans(framework, model)
        for index, plan in enumerate(plans[:: len(plans) // 3]):
            suffix, text = written(workload(framework, model), plan, framework)
            assert suffix == "sh"
            (tmp_path / f"{model}-{index}.sh").write_text(text, encoding="utf-8")
    for script in tmp_path.iterdir():
        checked = bash("-n", str(script))
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(("family", "framework"), [("ascend", "mindspeed-llm"), ("nvidia", "megatron-lm")])
def test_a_sourced_script_sets_the_arguments_of_the_block_and_starts_nothing(family: str, framework: str, tmp_path: Path) -> None:
    made = job(MIXTURE, family=family)
    script = tmp_path / "plan.sh"
    script.write_text(written(made, MIXTURE_PLAN, framework)[1], encoding="utf-8")
    sourced = bash("-c", f'set -eu; source "{script}"; printf "%s\\n" "${{ARGUMENTS[@]}}"; env')
    block = launch_block(made, MIXTURE_PLAN)[framework]
    lines = sourced.stdout.splitlines()
    assert sourced.returncode == 0, sourced.stderr
    assert lines[: len(block["arguments"])] == block["arguments"]
    assert {f"{name}={value}" for name, value in block["environment"].items()} <= set(lines)


def test_a_script_refuses_to_start_before_its_placeholders_are_set(tmp_path: Path) -> None:
    script = tmp_path / "plan.sh"
    script.write_text(written(job(), DENSE_PLAN, "mindspeed-llm")[1], encoding="utf-8")
    refused = bash(str(script))
    assert refused.returncode == 2
    assert refused.stderr == "Set DATA_PATH, TOKENIZER_PATH, CHECKPOINT_PATH first.\n"


def test_a_script_starts_the_processes_of_its_cluster(tmp_path: Path) -> None:
    script, torchrun = tmp_path / "plan.sh", tmp_path / "torchrun"
    script.write_text(written(job(), DENSE_PLAN, "mindspeed-llm")[1], encoding="utf-8")
    torchrun.write_text(f'#!{BASH}\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    torchrun.chmod(0o755)
    paths = {"DATA_PATH": "d", "TOKENIZER_PATH": "t", "CHECKPOINT_PATH": "c", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    alone = subprocess.run([BASH, str(script)], capture_output=True, text=True, check=False, env={**paths, "NODE_RANK": "3"})
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "Set MASTER_ADDR" in alone.stderr
    paths |= {"MASTER_ADDR": "node-0", "NODE_RANK": "3"}
    started = subprocess.run([BASH, str(script)], capture_output=True, text=True, check=True, env=paths).stdout.splitlines()
    # 64 devices, eight a node
    assert started[:4] == ["--nproc-per-node", "8", "--nnodes", "8"]
    assert "pretrain_gpt.py" in started
    assert started[4:8] == ["--node-rank", "3", "--master-addr", "node-0"]
    assert started[started.index("--data-path") + 1] == "d"
    assert started[started.index("--load") + 1] == "c"
    assert started[started.index("--tensor-model-parallel-size") + 1] == "4"


def test_the_loss_of_a_router_has_a_weight() -> None:
    assert "--moe-aux-loss-coeff 1.0e-3" in written(job(MIXTURE), MIXTURE_PLAN, "mindspeed-llm")[1]
    assert "--moe-aux-loss-coeff" not in written(job(), DENSE_PLAN, "mindspeed-llm")[1]


def test_the_loader_builds_no_mask() -> None:
    without = job(family="nvidia")
    masked = replace(without, software=replace(without.software, loader_mask=True))  # priced with a mask, and written so
    assert "--no-create-attention-mask-in-dataloader" in written(without, DENSE_PLAN, "megatron-lm")[1]
    assert "--no-create-attention-mask-in-dataloader" not in written(masked, DENSE_PLAN, "megatron-lm")[1]
    assert "attention-mask-in-dataloader" not in written(job(), DENSE_PLAN, "mindspeed-llm")[1]  # it never builds one


def test_mindformers_yaml_holds_the_options_as_sections() -> None:
    suffix, text = written(job(), DENSE_PLAN, "mindformers")
    document: dict[str, Any] = yaml.safe_load(text)
    assert suffix == "yaml"
    # tp 4, pp 4, dp 4: global batch 256 / (1 x 4) = 64 micro batches
    degrees = {"data_parallel": 4, "model_parallel": 4, "pipeline_stage": 4, "micro_batch_num": 64, "context_parallel": 1}
    assert document["parallel_config"] == degrees | {"use_seq_parallel": True, "vocab_emb_dp": False}
    assert document["model"]["model_config"]["pp_interleave_num"] == 2
    assert document["model"]["model_config"]["offset"] == [[0, 0, 0, 0], [0, 0, 0, 0]]
    assert document["parallel"]["pipeline_config"] == {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}
    assert document["parallel"]["dataset_strategy"] == [[4, 1], [4, 1], [4, 1], [4, 1], [4, 1, 1, 1]]
    assert document["runner_config"] == {"batch_size": 1, "gradient_accumulation_steps": 1}
    assert document["model"]["model_config"]["model_type"] == PLACEHOLDER  # without a class for the model it must not start
    assert "pretrained_model_dir" not in document  # everything is here
    assert document["train_dataset"]["data_loader"]["config"]["seq_length"] == 4096
    assert "msrun_launcher.sh" in text


def test_mindformers_counts_samples_and_accumulates_without_a_pipeline() -> None:
    halved = ParallelStrategy(tp=8, dp=8, micro_batch_size=4, sequence_parallel=True)
    halved = replace(halved, features=DEFAULT_FEATURES | Feature.FINE_GRAIN_INTERLEAVE | Feature.SWAP_ATTENTION)
    document = yaml.safe_load(written(job(), halved, "mindformers")[1])
    # 256 = 2 samples x 2 halves x dp 8 x 8 accumulated
    assert document["runner_config"] == {"batch_size": 2, "gradient_accumulation_steps": 8}
    assert document["micro_batch_interleave_num"] == 2
    assert document["swap_config"]["swap"] is True


def test_what_a_framework_cannot_express_is_named_with_what_stands_in_its_place() -> None:
    text = " ".join(written(PANGU_JOB, PANGU_PLAN, "mindspeed-llm")[1].replace("\n#", "").split())
    assert "The nearest that the framework takes:" in text
    assert "moe_dispatcher hierarchical is written as alltoall" in text
    notes = launch_block(PANGU_JOB, replace(PANGU_PLAN, zero_stage=3))["mindformers"]["notes"]
    assert any("zero_stage 3 is written as 2" in note for note in notes)
    assert launch_block(job(), DENSE_PLAN)["mindspeed-llm"]["launchable"] is True
    assert "The framework runs this plan as it is." in written(job(), DENSE_PLAN, "mindspeed-llm")[1]


def test_megatron_gets_the_most_even_layout_that_it_can_build() -> None:
    assert evenest(PLACEMENTS, 30, 4, 1) == (
        (7, 8, 8, 7),
    )  # of the layouts whose longest rank has 8 layers, the first has light ends
    # 61 on 8 ranks: six middle ranks of 8 leave 13 for the two ends
    assert evenest(PLACEMENTS, 61, 8, 1) == ((7, 8, 8, 8, 8, 8, 8, 6),)
    assert evenest(PLACEMENTS, 32, 4, 2) == ((4, 4, 4, 4), (4, 4, 4, 4))
    assert evenest(PLACEMENTS, 31, 4, 2) == ((4, 4, 4, 4), (4, 4, 4, 3))  # the loss counts as a layer
    assert evenest(PLACEMENTS, 29, 4, 2) is None  # nor do 30 or 31 layers make 8 equal stages
    made = job(replace(DENSE, num_layers=30), family="nvidia")
    made = replace(made, software=replace(made.software, target="megatron-lm@0.12"))
    block = launch_block(made, replace(DENSE_PLAN, layer_layout=((5, 4, 3, 3), (4, 4, 4, 3))))["megatron-lm"]
    assert block["launchable"] is False
    assert any("layer_layout of the plan is written as" in note for note in block["notes"])


def test_switches_that_exclude_each_other_are_never_written_together() -> None:
    plan = replace(
        MIXTURE_PLAN,
        recompute=Recompute.SELECTIVE,
        recompute_modules=RecomputeModule.MOE | RecomputeModule.LAYERNORM,
        features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER | Feature.REUSE_FP32_PARAM,
    )
    block = launch_block(job(MIXTURE), plan)["mindspeed-llm"]
    assert block["launchable"] is False
    assert {"--recompute-norm", "--reuse-fp32-param"}.isdisjoint(block["arguments"])
    assert {"--recompute-modules", "moe", "--swap-optimizer"} <= set(block["arguments"])
    joined = " ".join(block["notes"])
    assert "recompute of layernorm is left out, which takes more memory than planned" in joined
    assert "reuse_fp32_param is left out: it excludes swap_optimizer" in joined


# What stays in English within a Chinese comment: names, and the framework's own terms.
IN_ENGLISH = re.compile(r"\b(the|is|are|of|and|or|as|it|its|with|needs|layers?|plan|every|what|before|set|run)\b")


@pytest.mark.parametrize("framework", ["megatron-lm", "mindspeed-llm", "mindformers"])
@pytest.mark.parametrize(("model", "plan"), [(DENSE, DENSE_PLAN), (MIXTURE, MIXTURE_PLAN)])
def test_comments_are_told_in_the_language_that_is_asked_for_and_nothing_else_changes(
    framework: str, model: Any, plan: ParallelStrategy
) -> None:
    made = job(model, family="nvidia" if framework == "megatron-lm" else "ascend")
    english = written(made, plan, framework)[1]
    chinese = written(made, plan, framework, partial(said, language="zh"), Sentence("Plan {} ({})", 1, "abc"))[1]
    comments = [line.partition("#")[2] for line in chinese.splitlines() if line.lstrip().startswith("#")]
    assert len(comments) > 10
    for line in comments:
        told = re.sub(r"`[^`]*`|--[-\w]+|\S*[_/.]\S*", "", line)
        assert not IN_ENGLISH.search(told), line
    assert not IN_ENGLISH.search(" ".join(re.findall(r'echo "(.*)"', chinese)))
    wrapped = [line for line in chinese.splitlines() if re.match(r"# \S", line)]
    assert max(sum(2 if east_asian_width(each) in "WF" else 1 for each in line) for line in wrapped) <= 120
    commands = [
        [line.partition("  #")[0] for line in text.splitlines() if not line.lstrip().startswith(("#", "echo"))]
        for text in (english, chinese)
    ]
    assert commands[0] == commands[1]
    facts = [[line for line in text.splitlines() if LaunchFacts.read(line.removeprefix("# "))] for text in (english, chinese)]
    assert facts[0] == facts[1]
    assert len(facts[0]) == 1
