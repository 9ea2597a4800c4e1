"""The matrix: which models, on how many devices, for which frameworks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.catalogue.models.presets import names as preset_names
from app.catalogue.models.presets import resolve_model
from app.jobs.job import Job, parse_job
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InputError
from frameworks.framework import Framework
from frameworks.legality import violations
from frameworks.mindformers.adapters import modules_of
from frameworks.mindformers.framework import MINDFORMERS
from frameworks.registry import FRAMEWORKS
from scripts.conformance.drawing import some_plan_is_legal

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = ROOT / "tests" / "fixtures" / "huggingface"
NUM_SIZES = 4
SEQ_LENGTH = 4096
CONSIDERED = 4  # searched plans for each plan that is taken, so that layouts differ
SECONDS_A_SEARCH = 60.0
NARROWER = {"micro_batch_size": [1, 2], "vpp": {"max": 4}, "tp": {"max": 8}}  # a search tries more by default
# Bytes of weights, gradients and optimizer per parameter, and the share of a device's memory that they may fill, so that the
# smallest size is realistic.
BYTES_PER_PARAMETER, BYTES_PER_DEVICE = 18, 34e9
SMALLEST, SEQUENCES_PER_DEVICE, FEWEST_SEQUENCES = 8, 2, 64
TASKS: dict[str, dict[str, Any]] = {
    "pretrain": {},
    "sft": {"task": "sft"},
    "lora": {"task": "lora", "adapter": {"rank": 16}},
    "dpo": {"task": "dpo"},
}
# Devices for each framework, used in turn over the sizes.
HARDWARE = {
    "megatron-lm": ("h100-sxm-80gb",),
    "mindspeed-llm": ("atlas-800t-a2", "atlas-900-a3-superpod"),
    "mindformers": ("atlas-800t-a2",),
}


@dataclass(frozen=True)
class Model:
    """A preset, or an imported config.json."""

    name: str
    source: str

    @property
    def is_imported(self) -> bool:
        return self.source != self.name


@dataclass(frozen=True)
class Case:
    """A job of the matrix, for one release of one framework."""

    model: Model
    target: str  # name@release
    hardware: str
    num_devices: int
    global_batch_size: int
    num_first: int = 1  # number of plans that a search returns first
    num_drawn: int = 0  # number of other plans, drawn at random
    task: str = "pretrain"

    @property
    def folder(self) -> str:
        return f"{self.model.name}-{self.target.replace('@', '-')}-{self.hardware}-{self.num_devices}"


def job_of(case: Case) -> Job:
    """The case as a user's job."""
    document = {
        "model": case.model.source,
        "cluster": {"hardware": case.hardware, "num_devices": case.num_devices},
        "training": {"seq_length": SEQ_LENGTH, "global_batch_size": case.global_batch_size, **_task(case)},
        "software": {"target": case.target},
        "search": {"top": CONSIDERED * case.num_first, "time_limit_s": SECONDS_A_SEARCH, **NARROWER},
    }
    return parse_job(document, folder=ROOT)


def _task(case: Case) -> dict[str, Any]:
    """The task as in a job. On MindFormers adapters are of the layers that can have one."""
    task = TASKS[case.task]
    if case.task != "lora" or not case.target.startswith(MINDFORMERS.name):
        return task
    shape, _ = resolve_model(case.model.source, folder=ROOT)
    return {**task, "adapter": {**task["adapter"], "target_modules": list(modules_of(shape))}}


def framework_of(case: Case) -> Framework:
    """The record of the release."""
    return next(framework for framework in FRAMEWORKS if framework.target.label == case.target)


def with_files(matrix: Sequence[Case], num_files: int) -> tuple[list[Case], list[str]]:
    """Cases with their numbers of files for each target, three of five from a search; and the reasons of untrainable models."""
    smallest = {(case.model, case.target): case for case in reversed(matrix)}
    refused = {of: why for of, case in smallest.items() if (why := _why_not(case))}
    shared = []
    for case in matrix:
        if (case.model, case.target) not in refused:
            rivals = sum(other.target == case.target and (other.model, other.target) not in refused for other in matrix)
            share = -(-num_files // rivals)
            first = -(-3 * share // 5)
            shared.append(replace(case, num_first=first, num_drawn=share - first))
    return shared, [f"{model.name} for {target}: {why}" for (model, target), why in refused.items()]


def _why_not(case: Case) -> str:
    """Why the release cannot train the model: a fact that it cannot express, or the rule that the plainest plan breaks."""
    framework = framework_of(case)
    try:
        workload = job_of(case).workload
    except InputError as error:
        return str(error)
    untold = framework.untold(workload)
    broken = violations(workload, ParallelStrategy(dp=case.num_devices), framework.target)
    if untold or not broken or some_plan_is_legal(workload, framework):
        return " ".join(untold)
    return " ".join(f"{violation.sentence.rstrip('.')}." for violation in broken)


def targets(task: str = "pretrain") -> list[str]:
    """Every release that plans are made for, as ``name@release``.

    torchtitan has a start of its own (``torchtitan_record``), and so have adapters of Megatron-LM (``bridge_record``).
    """
    apart = {"megatron-lm"} if task == "lora" else set()
    return list(dict.fromkeys(each.target.label for each in FRAMEWORKS if each.name in HARDWARE and each.name not in apart))


def models(chosen: Sequence[str] | None = None) -> list[Model]:
    """All presets, and a config.json of each other model type; or the named ones (``import:NAME``: a config.json)."""
    presets = [Model(name, name) for name in preset_names()]
    imported = {f"import-{path.stem}": path for path in sorted(IMPORTED.glob("*.json"))}
    if chosen is None:
        types = {name: json.loads(path.read_text(encoding="utf-8"))["model_type"] for name, path in imported.items()}
        of_presets = {types.get(f"import-{preset.name}") for preset in presets}
        first = {kind: name for name, kind in reversed(types.items()) if kind not in of_presets}
        return [*presets, *(Model(name, str(imported[name])) for name in sorted(first.values()))]
    known = [*presets, *(Model(name, str(path)) for name, path in imported.items())]
    by_name = {model.name: model for model in known}
    names = [name.replace(":", "-") for name in chosen]
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise SystemExit(f"--models: {', '.join(unknown)} unknown; give some of {', '.join(by_name)}.")
    return [by_name[name] for name in names]


def cases(
    chosen: Sequence[Model], of_targets: Sequence[str], num_sizes: int = NUM_SIZES, task: str = "pretrain"
) -> Iterator[Case]:
    """Each model for each target on several cluster sizes, each twice the one before."""
    for model in chosen:
        smallest = SMALLEST
        while smallest * BYTES_PER_DEVICE < _num_parameters(model) * BYTES_PER_PARAMETER:
            smallest *= 2
        for target in of_targets:
            hardware = HARDWARE[target.partition("@")[0]]
            for size in range(num_sizes):
                devices = smallest << size
                batch = max(FEWEST_SEQUENCES, SEQUENCES_PER_DEVICE * devices)
                yield Case(model, target, hardware[size % len(hardware)], devices, batch, task=task)


def _num_parameters(model: Model) -> float:
    """Number of parameters; zero for a refused config.json, which ``with_files`` reports."""
    try:
        return num_parameters(resolve_model(model.source, folder=ROOT)[0]).total
    except InputError:
        return 0.0
