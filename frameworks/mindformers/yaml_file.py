"""YAML files for ``run_mindformer.py``, from an entry of ``launch_block``; the release's groups divide the model's section."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.launch_text import PLACEHOLDER, comment, heading, on_every_node
from frameworks.mindformers import fine_tuning
from frameworks.mindformers.table import MODEL
from frameworks.options import options_of
from frameworks.release import Release

SECTIONS = {
    "parallel_config": Sentence("Parallel degrees, and micro batches of one step"),
    "model": Sentence("Model, experts, layers of each stage, kernels"),
    "parallel": Sentence("MindSpore's own context: pipeline, sharding of the optimizer, how the data is cut"),
    "recompute_config": Sentence("Recompute: layers of each stage, and operators by name"),
    "swap_config": Sentence("Activations that wait in host memory"),
    "optimizer": Sentence("Optimizer"),
    "runner_config": Sentence("Samples of one micro batch; accumulation where there is no pipeline"),
    "context": Sentence("Device and its memory"),
}
Document = dict[str, Any]


def yaml_file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    """The file."""
    say, lines = start.say, heading(release, launch, start)
    options = options_of(launch["arguments"])
    lines += [*on_every_node(start, launch["environment"], purposes, *_commands(options, start)), ""]
    lines += _yaml_lines(release, _nested(options), [], say)
    yours = Sentence("Yours: {} marks what is missing; the other values are placeholders as well.", PLACEHOLDER)
    lines += ["", *comment(say, yours)]
    lines += _yours_in_yaml(options, say)
    return "\n".join(lines) + "\n"


def _commands(options: Mapping[str, Any], start: Start) -> tuple[str, ...]:
    def launch(arguments: str) -> str:
        return (
            f'bash scripts/msrun_launcher.sh "run_mindformer.py {arguments}" {start.num_devices} '
            f"{start.processes_per_node} MASTER-ADDRESS 8118 NODE-RANK output/msrun_log False 300"
        )

    return fine_tuning.commands(launch) if _is_fine_tune(options) else (launch("--config THIS-FILE"),)


def _is_fine_tune(options: Mapping[str, Any]) -> bool:
    return bool(options["run_mode"] == fine_tuning.MODE)


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


def _yaml_lines(release: Release, document: Document, path: list[str], say: Callable[[str], str]) -> list[str]:
    """Sections as blocks and values as JSON, which is valid YAML; in the model a comment at the start of each group."""
    lines: list[str] = []
    group = None
    indent = "  " * len(path)
    for key, value in document.items():
        here = [*path, key]
        title = release.group_of(".".join(here))
        if isinstance(value, dict) and title is None:
            if not path:
                lines += ["", f"# {say(SECTIONS[key])}"]
            lines += [f"{indent}{key}:", *_yaml_lines(release, value, here, say)]
            continue
        if title is not None and title != group and ".".join(path[:2]) == MODEL:
            lines.append(f"{indent}# {say(Sentence.whole(title))}")
            group = title
        lines.append(f"{indent}{key}: {_yaml_value(value)}")
    return lines


def _yaml_value(value: Any) -> str:
    """A JSON value with a decimal point in every float, because YAML 1.1 reads 1e-06 as text."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)}: {_yaml_value(item)}' for key, item in value.items())}}}"
    text = json.dumps(value)
    return re.sub(r"^(-?\d+)e", r"\1.0e", text) if isinstance(value, float) else text


def _yours_in_yaml(options: Mapping[str, Any], say: Callable[[str], str]) -> list[str]:
    tuned = _is_fine_tune(options)
    return [
        *(fine_tuning.data(options, say) if tuned else _pretraining_data(options, say)),
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
        *(fine_tuning.CHECKPOINTS if tuned else ()),
    ]


def _pretraining_data(options: Mapping[str, Any], say: Callable[[str], str]) -> list[str]:
    seq_length = options[f"{MODEL}.seq_length"]
    columns = '["input_ids", "labels", "loss_mask", "position_ids", "attention_mask"]'
    return [
        "output_dir: ./output",
        "train_dataset: &train_dataset",
        "  data_loader:",
        "    type: BlendedMegatronDatasetDataLoader",
        "    datasets_type: GPTDataset",
        "    sizes: [1000, 0, 0]  # " + say(Sentence("samples")),
        "    config:",
        "      seed: 1234",
        '      split: "1, 0, 0"',
        f"      seq_length: {seq_length}",
        "      create_attention_mask: true",
        "      eod: 1",
        "      pad: -1",
        f'      data_path: ["1", {PLACEHOLDER}]  # {say(Sentence("weight and prefix of the preprocessed data set"))}',
        f"  input_columns: {columns}",
        f"  construct_args_key: {columns}",
        "  drop_remainder: true",
    ]
