"""YAML files for ``train_fsdp2.py``, from an entry of ``launch_block``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.launch_text import PLACEHOLDER, comment, heading, on_every_node
from frameworks.options import options_of
from frameworks.release import Release

SECTIONS = {
    "model": Sentence("Model"),
    "data": Sentence("Data; every sample is a whole sequence"),
    "parallel": Sentence("Degrees, shards, recompute, number formats"),
    "training": Sentence("Batch: samples of a rank at once, and how often before a step"),
    "optimization": Sentence("Kernels"),
}
_YOURS: Mapping[str, Mapping[str, Any]] = {
    "model": {"train_from_scratch": False, "init_model_with_meta_device": True},
    "data": {"dataset": {"file_name": PLACEHOLDER}},
    "training": {"output_dir": "./output", "lr": 1e-05, "max_steps": 2000},
}


def yaml_file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    """The file."""
    say, lines = start.say, heading(release, launch, start)
    command = (
        f"torchrun --nproc_per_node {start.processes_per_node} --nnodes {start.num_nodes} --node_rank NODE-RANK "
        "--master_addr MASTER-ADDRESS --master_port 6499 train_fsdp2.py THIS-FILE"
    )
    lines += [*on_every_node(start, launch["environment"], purposes, command), ""]
    yours = Sentence("Yours: {} marks what is missing; the other values are placeholders as well.", PLACEHOLDER)
    sections: dict[str, dict[str, Any]] = {}
    for name, value in options_of(launch["arguments"]).items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    for section, values in sections.items():
        lines += [f"# {say(SECTIONS[section])}", f"{section}:"]
        lines += [f"  {key}: {_text(value)}" for key, value in values.items()]
        if section in _YOURS:
            lines += [f"  {line}" for line in comment(say, yours)]
            lines += [f"  {key}: {_text(value)}" for key, value in _YOURS[section].items()]
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _text(value: Any) -> str:
    """A value in JSON, which is YAML, but a number with an exponent: YAML 1.1 takes one without a point for a text."""
    return f"{value:.10f}".rstrip("0") if isinstance(value, float) else json.dumps(value)
