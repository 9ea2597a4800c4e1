"""TOML files for torchtitan's ``run_train.sh`` and ``torchtitan.train``, from an entry of ``launch_block``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.launch_text import PLACEHOLDER, comment, heading, on_every_node
from frameworks.options import options_of
from frameworks.release import Release
from frameworks.torchtitan.table import STAGES

TABLES = {
    "model": Sentence("Model"),
    "training": Sentence("Batch and sequence; samples of one data-parallel rank, and of all of them in a step"),
    "parallelism": Sentence("Degrees, shards, pipeline"),
    "activation_checkpoint": Sentence("Recompute"),
    "compile": Sentence("Compilation of layers and loss"),
}
_YOURS = {
    "model": (("hf_assets_path", PLACEHOLDER, Sentence("folder of the tokenizer")),),
    "training": (
        ("dataset", "c4", Sentence("a name of torchtitan's data sets")),
        ("steps", 1000, ""),
    ),
}
_OWN_TABLES: Mapping[str, Mapping[str, Any]] = {
    "optimizer": {"lr": 3e-4},
    "lr_scheduler": {"warmup_steps": 200},
    "checkpoint": {"enable": False},
}


def toml_file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    """The file."""
    say, lines = start.say, heading(release, launch, start)
    command = (
        f"torchrun --nnodes {start.num_nodes} --nproc_per_node {start.processes_per_node} --rdzv_backend c10d "
        "--rdzv_endpoint MASTER-ADDRESS:29500 -m torchtitan.train --job.config_file THIS-FILE"
    )
    lines += [*on_every_node(start, launch["environment"], purposes, command), ""]
    yours = Sentence("Yours: {} marks what is missing; the other values are placeholders as well.", PLACEHOLDER)
    tables: dict[str, dict[str, Any]] = {}
    for name, value in options_of(launch["arguments"]).items():
        table, _, key = name.rpartition(".")
        tables.setdefault(table, {})[key] = value
    for table, values in tables.items():
        lines += [f"# {say(TABLES[table])}", f"[{table}]"]
        for key, value in values.items():
            lines += _entry(key, value, indent=f"{table}.{key}" == STAGES)
        if table in _YOURS:
            lines += comment(say, yours)
            lines += _own(table, say)
        lines.append("")
    lines += comment(say, yours)
    for table, own in _OWN_TABLES.items():
        lines += [f"[{table}]", *(line for key, value in own.items() for line in _entry(key, value)), ""]
    return "\n".join(lines[:-1]) + "\n"


def _own(table: str, say: Callable[[str], str]) -> Iterator[str]:
    for key, value, words in _YOURS[table]:
        (line,) = _entry(key, value)
        yield f"{line}  # {say(words)}" if words else line


def _entry(key: str, value: Any, *, indent: bool = False) -> list[str]:
    """A key and its value, in JSON, which is TOML for texts, numbers, booleans and lists; one line for each stage."""
    if indent:
        return [f"{key} = [", *(f"  {json.dumps(part)}," for part in value), "]"]
    return [f"{key} = {json.dumps(value)}"]
