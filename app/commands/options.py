"""The flags that several commands share, and the job fields that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.errors import InputError, show

Model = Annotated[str, typer.Argument(metavar="MODEL", help="a preset's name, a config.json, or a job file (YAML or JSON)")]
_JOB, _LAYOUT = "Job", "Layout"
Hardware = Annotated[str | None, typer.Option("--hardware", help="profile name or file", rich_help_panel=_JOB)]
Devices = Annotated[int | None, typer.Option("--devices", help="number of devices", rich_help_panel=_JOB)]
InterNode = Annotated[
    float | None,
    typer.Option("--inter-node-bytes-per-s", help="one device's share of the network between nodes", rich_help_panel=_JOB),
]
SeqLength = Annotated[int | None, typer.Option("--seq-length", help="tokens of a sequence", rich_help_panel=_JOB)]
GlobalBatch = Annotated[int | None, typer.Option("--global-batch-size", help="sequences in a step", rich_help_panel=_JOB)]
Precision = Annotated[str | None, typer.Option("--precision", help="bf16, fp16, fp8, ...", rich_help_panel=_JOB)]
TrainTokens = Annotated[float | None, typer.Option("--train-tokens", help="token budget, for days", rich_help_panel=_JOB)]
ExpertLoad = Annotated[
    float | None, typer.Option("--expert-load-factor", help="fullest expert rank over the mean", rich_help_panel=_JOB)
]
Stack = Annotated[str | None, typer.Option("--stack", help="framework whose efficiency applies", rich_help_panel=_JOB)]
Target = Annotated[
    str | None, typer.Option("--target", help="framework that must be able to run the plan (default any)", rich_help_panel=_JOB)
]
Calibration = Annotated[
    Path | None, typer.Option("--calibration", help="file that `meshplan calibrate` wrote, in place of the shipped constants")
]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on standard output")]

# Parameter name -> (section, field) of the job.
JOB_FIELDS = {
    "hardware": ("cluster", "hardware"),
    "devices": ("cluster", "num_devices"),
    "inter_node_bytes_per_s": ("cluster", "inter_node_bytes_per_s"),
    "seq_length": ("training", "seq_length"),
    "global_batch_size": ("training", "global_batch_size"),
    "precision": ("training", "precision"),
    "train_tokens": ("training", "train_tokens"),
    "expert_load_factor": ("training", "expert_load_factor"),
    "stack": ("software", "stack"),
    "target": ("software", "target"),
}


def flag(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


def labels(fields: Mapping[str, tuple[str, str]], given: Mapping[str, Any]) -> dict[str, str]:
    """Paths of the job's fields as the user wrote them: the flag, where there is or could be one."""
    missing = ("hardware", "devices", "seq_length", "global_batch_size")
    return {
        f"{section}.{field}": flag(name) if given.get(name) is not None else f"{section}.{field} ({flag(name)})"
        for name, (section, field) in fields.items()
        if given.get(name) is not None or name in missing
    }


def sections(fields: Mapping[str, tuple[str, str]], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The given flags as parts of a job."""
    found: dict[str, dict[str, Any]] = {}
    for name, (section, field) in fields.items():
        if given.get(name) is not None:
            found.setdefault(section, {})[field] = given[name]
    return found


def _word(text: str) -> int | bool | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def limit(text: str, parameter: str) -> Any:
    """A flag such as ``8``, ``1,2,4``, ``2..8`` or ``full,none`` as the job writes it."""
    low, dots, high = text.partition("..")
    if dots:
        ends = {name: _word(end.strip()) for name, end in (("min", low), ("max", high)) if end.strip()}
        if not ends:
            raise InputError(f"{flag(parameter)}: {show(text)} is not allowed; give a range such as 2..8, 2.. or ..8.")
        return ends
    words = [_word(word.strip()) for word in text.split(",")]
    return words[0] if len(words) == 1 else words
