"""The question to the framework: a plan's launch file as arguments, the ranks to run, and a step that fills the pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.jobs.job import Job
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from documents.sentences import Sentence
from documents.shell.reader import read_script
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file

MEGATRON = "megatron-lm"
MOST_PROCESSES = 4  # each needs up to 1.4 GB
ENTRY = "pretrain_gpt.py"
GIVEN = {name: "unused" for name in ("DATA_PATH", "TOKENIZER_PATH", "CHECKPOINT_PATH", "MASTER_ADDR")}


@dataclass(frozen=True)
class Launch:
    """Arguments and environment of a launch file; ``label`` names the release."""

    framework: str
    label: str
    arguments: tuple[str, ...]
    environment: dict[str, str]


def launch_of(job: Job, strategy: ParallelStrategy) -> Launch:
    """Read back from the text of the file that the plan is exported as. Raises ``InputError`` if there is none."""
    block = launch_block(job.workload, strategy)[MEGATRON]
    if not block["launchable"] or block["arguments"] is None:
        raise InputError(
            Sentence("{} cannot run this plan as it is: {}", block["target"], Sentence.whole(" ".join(block["notes"])))
        )
    profile = job.workload.cluster.profile
    start = Start(Sentence("The plan"), job.workload.cluster.num_devices, profile.devices_per_node)
    _, text = launch_file(MEGATRON, block, start)
    script = read_script(text, name="launch file", given={**GIVEN, "NODE_RANK": "0"}, files={})
    for command in script.commands:
        words = [word.text for word in command.words]
        entry = next((index for index, word in enumerate(words) if word.rpartition("/")[2] == ENTRY), None)
        if entry is not None:
            return Launch(MEGATRON, block["target"], tuple(words[entry + 1 :]), dict(block["environment"]))
    raise AssertionError("a launch file starts its program")


def filling_step(workload: Workload, strategy: ParallelStrategy) -> Workload:
    """The job with as few micro batches as fill its pipeline, and with even shares of the experts.

    Memory and the bytes of a micro batch do not change from there on.
    """
    in_plan = workload.training.global_batch_size // (strategy.dp * strategy.micro_batch_size)
    group = strategy.microbatch_group_size_per_vp_stage or strategy.pp
    wanted = 2 * group if strategy.vpp > 1 else strategy.pp + 1
    micro_batches = max(1, min(in_plan, wanted if strategy.pp > 1 else 2))
    training = replace(
        workload.training,
        global_batch_size=micro_batches * strategy.dp * strategy.micro_batch_size,
        expert_load_factor=1.0,
        expert_counts=None,
        expert_spread=None,
    )
    return replace(workload, training=training)


def ranks_to_run(contents: Sequence[tuple[int, ...]]) -> list[int]:
    """The first pipeline rank, the last, and the first one of each composition between them.

    Of ranks that hold the same, the first has the most micro batches in flight.
    """
    chosen = {0, len(contents) - 1}
    seen = {contents[0]}
    for rank, holds in enumerate(contents):
        if holds not in seen:
            seen.add(holds)
            chosen.add(rank)
    return sorted(chosen)


def question(
    launch: Launch, workload: Workload, strategy: ParallelStrategy, ranks: Sequence[int], folders: Sequence[str]
) -> dict[str, Any]:
    """What the framework's process reads."""
    devices = workload.cluster.num_devices
    return {
        "framework": launch.framework,
        "folders": list(folders),
        "num_processes": devices,
        "arguments": list(launch.arguments),
        "environment": launch.environment,
        "global_batch_size": workload.training.global_batch_size,
        "processes": min(len(ranks), MOST_PROCESSES, os.cpu_count() or 1),
        "ranks": [rank * (devices // strategy.pp) for rank in ranks],
    }
