"""The question to the framework: a plan's launch file as arguments, the ranks to run, and a step that fills the pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from documents.shell.reader import read_script
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.registry import BY_NAME, parse_target
from frameworks.target import ANY

MEGATRON, MINDSPEED = "megatron-lm", "mindspeed-llm"
MOST_PROCESSES = 4  # each needs up to 1.4 GB
FSDP2 = "transformers-fsdp2"
TRANSFORMERS = ("llama", "qwen3")
ENTRY = "pretrain_gpt.py"
GIVEN = {name: "unused" for name in ("DATA_PATH", "TOKENIZER_PATH", "CHECKPOINT_PATH", "MASTER_ADDR")}


@dataclass(frozen=True)
class Launch:
    """Arguments and environment of a launch file; ``label`` names the release."""

    framework: str
    label: str
    arguments: tuple[str, ...]
    environment: dict[str, str]


def launch_of(workload: Workload, strategy: ParallelStrategy) -> Launch:
    """Read back from the text of the file that the plan is exported as. Raises ``InputError`` if there is none."""
    if workload.software.stack == "fsdp":
        return _fully_sharded(workload, strategy)
    framework = _framework(workload)
    block = launch_block(workload, strategy)[framework]
    if not block["launchable"] or block["arguments"] is None:
        raise InputError(
            Sentence("{} cannot run this plan as it is: {}", block["target"], Sentence.whole(" ".join(block["notes"])))
        )
    profile = workload.cluster.profile
    start = Start(Sentence("The plan"), workload.cluster.num_devices, profile.devices_per_node)
    suffix, text = launch_file(framework, block, start)
    script = read_script(text, name="launch file", given={**GIVEN, "NODE_RANK": "0"}, files={}) if suffix == "sh" else None
    for command in script.commands if script else ():
        words = [word.text for word in command.words]
        entry = next((index for index, word in enumerate(words) if word.rpartition("/")[2] == ENTRY), None)
        if entry is not None:
            return Launch(framework, block["target"], tuple(words[entry + 1 :]), dict(block["environment"]))
    task = workload.training.task.name
    raise InputError(
        Sentence("training.task {}: its launch file starts another program than {}, which verify runs.", task, ENTRY)
    )


def _framework(workload: Workload) -> str:
    """That of the job's target, else the one that runs on the devices."""
    name = parse_target(workload.software.target).name
    if name == ANY.name:
        return MINDSPEED if workload.cluster.profile.family in BY_NAME[MINDSPEED].target.families else MEGATRON
    if name not in (MEGATRON, MINDSPEED):
        raise InputError(
            Sentence("{} does not run without data; verify a plan for {} or {} (--target).", name, MEGATRON, MINDSPEED)
        )
    return name


def _fully_sharded(workload: Workload, strategy: ParallelStrategy) -> Launch:
    """FSDP2 has no launch file: the model is built by its numbers."""
    model = workload.model
    alone = strategy.tp * strategy.pp * strategy.cp * strategy.ep == 1 and strategy.zero_stage == 3
    plain = model.moe is None and model.mla is None and model.local_attention is None and not model.mtp_num_layers
    if not (alone and plain and model.constants.model_type in TRANSFORMERS):
        raise InputError(
            Sentence(
                "FSDP2 is verified for dense models of transformers ({}) with ZeRO-3 alone, and this plan is another.",
                joined(", ", TRANSFORMERS),
            )
        )
    if strategy.recompute is Recompute.SELECTIVE:
        raise InputError(Sentence("FSDP2 is verified without recompute or with full recompute."))
    return Launch(FSDP2, FSDP2, (), {})


def _transformers_model(workload: Workload) -> dict[str, Any]:
    """The model in the words of transformers."""
    model = workload.model
    return {
        "model_type": model.constants.model_type,
        "num_hidden_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_key_value_heads": model.num_query_groups,
        "head_dim": model.kv_channels,
        "intermediate_size": model.ffn_hidden_size,
        "vocab_size": model.vocab_size,
        "tie_word_embeddings": model.tied_embeddings,
        "max_position_embeddings": workload.training.seq_length,
    }


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
    if launch.framework == FSDP2:
        batch = strategy.dp * strategy.micro_batch_size
        return {
            "framework": FSDP2,
            "folders": list(folders),
            "num_processes": devices,
            "processes": 1,
            "model": _transformers_model(workload),
            "checkpoints": strategy.recompute is Recompute.FULL,
            "seq_length": workload.training.seq_length,
            "micro_batch_size": strategy.micro_batch_size,
            "num_microbatches": workload.training.global_batch_size // batch,
            "ranks": [0],
        }
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
