"""Writes configurations of the FSDP2 backend, as ``section.name=value`` with the value in JSON."""

from __future__ import annotations

import json

from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import hccl, start_note
from frameworks.framework import LaunchArguments
from frameworks.mindspeed_llm_fsdp2.families import model_id_of
from frameworks.mindspeed_llm_fsdp2.nearest import nearest
from frameworks.mindspeed_llm_fsdp2.patterns import LAYERS, range_of
from frameworks.mindspeed_llm_fsdp2.table import (
    ACCUMULATION,
    DETERMINISTIC,
    EXPERT_FSDP,
    FSDP,
    LOADER,
    MODEL_ID,
    PATH,
    RECOMPUTE,
    RECOMPUTED,
    RELEASE,
    SEQUENCE,
    STAGE,
    TABLE,
)
from frameworks.options import Options, as_given
from frameworks.rule import num_microbatches
from frameworks.table import settled

ENVIRONMENT = {"TASK_QUEUE_ENABLE": "2", "CPU_AFFINITY_CONF": "1", "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
TABLE_SWITCHES = TABLE.offered & ~TABLE.implied
_STAGES = {Task.SFT: "sft"}


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Options and notes of the nearest strategy that the backend supports."""
    s, replaced = nearest(workload, planned)
    options = {**_model(workload), **_batch(workload, s), **_parallelism(workload, s), **_recompute(workload, s)}
    options[DETERMINISTIC] = False
    written = settled(RELEASE, {**options, **TABLE.arguments_of(TABLE_SWITCHES)}, s.features, as_given)
    launch = tuple(f"{name}={json.dumps(value)}" for name, value in written.items())
    return LaunchArguments(s, launch, {**ENVIRONMENT, **hccl(workload)}, replaced + _notes(workload))


def _model(workload: Workload) -> Options:
    kind = model_id_of(workload.model)
    return {PATH: f"./model_from_hf/{workload.model.name}", **({MODEL_ID: kind} if kind else {})}


def _batch(workload: Workload, s: ParallelStrategy) -> Options:
    stage = _STAGES.get(workload.training.task.name, "pt")
    return {
        SEQUENCE: workload.training.seq_length,
        STAGE: stage,
        LOADER: "mg" if stage == "pt" else "lf",
        TABLE.columns["micro_batch_size"]: s.micro_batch_size,
        ACCUMULATION: num_microbatches(workload, s),
    }


def _parallelism(workload: Workload, s: ParallelStrategy) -> Options:
    names, devices = TABLE.columns, s.dp * s.cp
    options: Options = {FSDP: devices, names["zero_stage"]: s.zero_stage == 3}
    if s.cp > 1:
        options |= {names["cp"]: s.cp, names["cp_algo"]: TABLE.cp_algos[s.cp_algo]}
    if workload.model.moe is not None:
        options |= {names["ep"]: s.ep, EXPERT_FSDP: devices // s.ep}
    return options


def _recompute(workload: Workload, s: ParallelStrategy) -> Options:
    if s.recompute is not Recompute.FULL:
        return {RECOMPUTE: False}
    every = s.recompute_method is RecomputeMethod.UNIFORM
    return {RECOMPUTE: True, RECOMPUTED: [LAYERS if every else range_of(s.recompute_num_layers)]}


def _notes(workload: Workload) -> tuple[str, ...]:
    model = workload.model
    return (
        start_note(workload, "torchrun"),
        Sentence(
            "{} is a folder with a config.json of {} layers and hidden_size {}, and its weights.",
            PATH,
            model.num_layers,
            model.hidden_size,
        ),
    )
