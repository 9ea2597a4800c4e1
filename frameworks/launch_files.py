"""Launch files as text: a Bash script for the Megatron family, YAML for MindFormers.

A file is written from an entry of ``launch_block`` and the release's table, whose groups give its blocks. What a plan does not
decide (data, tokenizer, learning rate, checkpoints) is a marked placeholder outside ``ARGUMENTS``.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frameworks.environment import PURPOSES
from frameworks.release import Release
from frameworks.releases import RELEASES

ENTRY_POINTS = {"megatron-lm": "pretrain_gpt.py", "mindspeed-llm": "pretrain_gpt.py", "mindformers": "run_mindformer.py"}
PLACEHOLDER = "SET-ME"
PLACEHOLDERS = {
    "DATA_PATH": "prefix of the preprocessed data set",
    "TOKENIZER_PATH": "tokenizer of the model",
    "CHECKPOINT_PATH": "folder for checkpoints",
}
SECTIONS = {
    "parallel_config": "Parallel degrees, and micro batches of one step",
    "model": "Model, experts, layers of each stage, kernels",
    "parallel": "MindSpore's own context: pipeline, sharding of the optimizer, how the data is cut",
    "recompute_config": "Recompute: layers of each stage, and operators by name",
    "swap_config": "Activations that wait in host memory",
    "optimizer": "Optimizer",
    "runner_config": "Samples of one micro batch; accumulation where there is no pipeline",
    "context": "Device and its memory",
}
WIDTH = 118
Document = dict[str, Any]


@dataclass(frozen=True)
class Start:
    """What the launcher must know: the plan's name and the processes it starts."""

    title: str
    num_devices: int
    devices_per_node: int

    @property
    def processes_per_node(self) -> int:
        """Processes that one node runs."""
        return min(self.devices_per_node, self.num_devices)

    @property
    def num_nodes(self) -> int:
        """Nodes that hold all processes."""
        return -(-self.num_devices // self.devices_per_node)


def launch_file(framework: str, launch: Mapping[str, Any], start: Start) -> tuple[str, str]:
    """Suffix and text of the launch file of one entry of ``launch_block`` that has arguments."""
    release = RELEASES[framework]
    if framework == "mindformers":
        return "yaml", _yaml_file(release, launch, start)
    return "sh", _script(release, launch, start)


def _heading(release: Release, launch: Mapping[str, Any], start: Start) -> list[str]:
    commits = ", ".join(f"{repository} {commit}" for repository, commit in release.commits.items())
    lines = _comment(f"{start.title} for {release.name} {release.version} ({commits}).")
    lines += _comment(
        "The framework runs this plan as it is." if launch["launchable"] else "The nearest that the framework takes:"
    )
    for note in launch["notes"]:
        lines += _comment(note, "- ")
    return lines


def _comment(text: str, lead: str = "") -> list[str]:
    """A sentence as comment lines."""
    lines, line = [], f"# {lead}"
    for word in " ".join(text.split()).split(" "):
        if len(line) + len(word) > WIDTH and line.strip("# -"):
            lines.append(line.rstrip())
            line = "#   " if lead else "# "
        line += f"{word} "
    return [*lines, line.rstrip()]


def _environment(launch: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in launch["environment"].items():
        lines += [*_comment(f"{name}: {PURPOSES[name]}"), f"export {name}={shlex.quote(str(value))}"]
    return lines


def _script(release: Release, launch: Mapping[str, Any], start: Start) -> str:
    lines = ["#!/usr/bin/env bash", *_heading(release, launch, start)]
    lines += ["", *_comment("Run it on every node; sourced, it only sets ARGUMENTS.")]
    if launch["environment"]:
        lines += ["", "# Environment", *_environment(launch)]
    lines += ["", f"# Yours: {PLACEHOLDER} marks what is missing; edit it, or set the variable before."]
    for name, purpose in PLACEHOLDERS.items():
        lines += [f'{name}="${{{name}:-{PLACEHOLDER}}}"  # {purpose}']
    lines += ["", "ARGUMENTS=(", *_grouped(release, launch["arguments"]), ")", ""]
    lines += ["# Yours as well: data, tokenizer, schedule; the values are placeholders.", "YOURS=("]
    lines += [f"  {line}" for line in _yours(release)] + [")", ""]
    lines += _torchrun(release, start)
    return "\n".join(lines) + "\n"


def _grouped(release: Release, arguments: list[str]) -> list[str]:
    """The arguments in their order, a comment where the group changes."""
    lines: list[str] = []
    group = None
    for argument in arguments:
        if not argument.startswith("--"):
            lines[-1] += f" {shlex.quote(argument)}"
            continue
        title = release.group_of(argument.removeprefix("--"))
        if title is not None and title != group:
            lines.append(f"  # {title}")
            group = title
        lines.append(f"  {shlex.quote(argument)}")
    return lines


def _yours(release: Release) -> list[str]:
    tokenizer = (
        ["--tokenizer-type PretrainedFromHF", '--tokenizer-name-or-path "${TOKENIZER_PATH}"']
        if release.name == "mindspeed-llm"
        else ["--tokenizer-type HuggingFaceTokenizer", '--tokenizer-model "${TOKENIZER_PATH}"']
    )
    return [
        '--data-path "${DATA_PATH}"',
        "--split 100,0,0",
        *tokenizer,
        '--save "${CHECKPOINT_PATH}"',
        "--save-interval 1000",
        "--train-iters 1000",
        "--lr 1.0e-5",
        "--min-lr 1.0e-6",
        "--lr-decay-style cosine",
        "--lr-warmup-fraction 0.01",
        "--log-interval 1",
        "--eval-iters 0",
    ]


def _torchrun(release: Release, start: Start) -> list[str]:
    missing = " ".join(f'"${{{name}}}"' for name in PLACEHOLDERS)
    return [
        'if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then',
        "  set -euo pipefail",
        f"  for given in {missing}; do",
        f'    if [[ "${{given}}" == "{PLACEHOLDER}" ]]; then',
        f'      echo "Set {", ".join(PLACEHOLDERS)} first." >&2',
        "      exit 2",
        "    fi",
        "  done",
        "  torchrun \\",
        f'    --nproc-per-node {start.processes_per_node} --nnodes {start.num_nodes} --node-rank "${{NODE_RANK:-0}}" \\',
        '    --master-addr "${MASTER_ADDR:-localhost}" --master-port "${MASTER_PORT:-6000}" \\',
        f'    {ENTRY_POINTS[release.name]} "${{ARGUMENTS[@]}}" "${{YOURS[@]}}"',
        "fi",
    ]


def _yaml_file(release: Release, launch: Mapping[str, Any], start: Start) -> str:
    lines = _heading(release, launch, start)
    command = (
        f'bash scripts/msrun_launcher.sh "run_mindformer.py --config THIS-FILE" {start.num_devices} '
        f"{start.processes_per_node} MASTER-ADDRESS 8118 NODE-RANK output/msrun_log False 300"
    )
    lines += ["#", "# On every node:"]
    for name, value in launch["environment"].items():
        lines.append(f"#   export {name}={shlex.quote(str(value))}  # {PURPOSES[name]}")
    lines += [f"#   {command}", ""]
    options = dict(_option(argument) for argument in launch["arguments"])
    lines += _yaml_lines(release, _nested(options), [])
    lines += ["", f"# Yours: {PLACEHOLDER} marks what is missing; the other values are placeholders as well."]
    lines += _yours_in_yaml(options)
    return "\n".join(lines) + "\n"


def _option(argument: str) -> tuple[str, Any]:
    name, _, value = argument.partition("=")
    return name, json.loads(value)


def _nested(options: Mapping[str, Any]) -> Document:
    """``a.b=1`` as ``{a: {b: 1}}``."""
    document: Document = {}
    for name, value in options.items():
        *sections, key = name.split(".")
        place = document
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    return document


def _yaml_lines(release: Release, document: Document, path: list[str]) -> list[str]:
    """Sections as blocks, values as JSON, which is YAML; inside the model a comment where the table's group changes."""
    lines: list[str] = []
    group = None
    indent = "  " * len(path)
    for key, value in document.items():
        here = [*path, key]
        title = release.group_of(".".join(here))
        if isinstance(value, dict) and title is None:
            if not path:
                lines += ["", f"# {SECTIONS[key]}"]
            lines += [f"{indent}{key}:", *_yaml_lines(release, value, here)]
            continue
        if title is not None and title != group and path[:2] == ["model", "model_config"]:
            lines.append(f"{indent}# {title}")
            group = title
        lines.append(f"{indent}{key}: {json.dumps(value)}")
    return lines


def _yours_in_yaml(options: Mapping[str, Any]) -> list[str]:
    seq_length = options["model.model_config.seq_length"]
    columns = '["input_ids", "labels", "loss_mask", "position_ids", "attention_mask"]'
    return [
        f"pretrained_model_dir: {PLACEHOLDER}  # folder of the model's Hugging Face configuration",
        "output_dir: ./output",
        "train_dataset: &train_dataset",
        "  data_loader:",
        "    type: BlendedMegatronDatasetDataLoader",
        "    datasets_type: GPTDataset",
        "    sizes: [1000, 0, 0]  # samples",
        "    config:",
        "      seed: 1234",
        '      split: "1, 0, 0"',
        f"      seq_length: {seq_length}",
        "      create_attention_mask: true",
        "      eod: 1",
        "      pad: -1",
        f'      data_path: ["1", {PLACEHOLDER}]  # weight and prefix of the preprocessed data set',
        f"  input_columns: {columns}",
        f"  construct_args_key: {columns}",
        "  drop_remainder: true",
        "train_dataset_task:",
        "  type: CausalLanguageModelDataset",
        "  dataset_config: *train_dataset",
        "lr_schedule:",
        "  type: CosineWithWarmUpLR",
        "  learning_rate: 1.0e-5",
        "  lr_end: 1.0e-6",
        "  warmup_ratio: 0.01",
        "  total_steps: -1",
        "trainer:",
        "  type: CausalLanguageModelingTrainer",
        "  model_name: llm",
        "runner_wrapper:",
        "  type: MFTrainOneStepCell",
        "  scale_sense: 1.0",
        "  use_clip_grad: true",
        "callbacks:",
        "  - type: MFLossMonitor",
    ]
