"""Writes configurations of torchtitan 0.2.2, as ``path=value`` with the value in JSON [torchtitan-0.2, job_config.py]."""

from __future__ import annotations

import json

from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import start_note
from frameworks.framework import LaunchArguments
from frameworks.fully_sharded import checkpoints
from frameworks.options import Options, as_given
from frameworks.rule import layout_of, num_microbatches
from frameworks.table import Table, settled
from frameworks.torchtitan.checkpoints import BY_OPERATORS, mode_of
from frameworks.torchtitan.dialect import V0_2
from frameworks.torchtitan.flavors import FLAVORS, Flavors
from frameworks.torchtitan.nearest import nearest
from frameworks.torchtitan.stages import modules_of
from frameworks.torchtitan.table import (
    BATCH,
    COMPILE,
    COMPILED,
    OPTION,
    PARALLELISM,
    PARTS,
    RELEASE,
    REPLICAS,
    RESHARD,
    SHARDS,
    STAGES,
    TABLE,
)

ENVIRONMENT = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}  # as in its run_train.sh
POLICIES = {3: "always", 2: "never"}
TABLE_SWITCHES = TABLE.offered & ~TABLE.implied


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Options and notes of the nearest strategy that torchtitan supports."""
    s, replaced = nearest(V0_2, workload, planned)
    options = {**_model(workload), **_batch(workload, s), **_parallelism(workload, s), **_recompute(workload, s)}
    options |= compilation(workload)
    written = settled(RELEASE, {**options, **TABLE.arguments_of(TABLE_SWITCHES)}, s.features, as_given)
    launch = tuple(f"{name}={json.dumps(value)}" for name, value in written.items())
    return LaunchArguments(s, launch, ENVIRONMENT, replaced + notes(FLAVORS, workload, s))


def _model(workload: Workload) -> Options:
    flavor = FLAVORS.of_job(workload)
    return {} if flavor is None else {"model.name": flavor.name, "model.flavor": flavor.flavor}


def _batch(workload: Workload, s: ParallelStrategy) -> Options:
    """Samples of a data-parallel rank at once, which a pipeline cuts in micro batches; what is left is accumulated."""
    at_once = s.micro_batch_size * (num_microbatches(workload, s) if s.pp > 1 else 1)
    return {
        TABLE.columns["micro_batch_size"]: at_once,
        BATCH: workload.training.global_batch_size,
        "training.seq_len": workload.training.seq_length,
    }


def degrees(table: Table, s: ParallelStrategy) -> Options:
    """Degrees, replicas and shards."""
    shards = (s.optimizer_shard_size or s.dp * s.cp) // s.cp
    return {
        REPLICAS: s.dp // max(shards, 1),
        SHARDS: shards,
        RESHARD: POLICIES.get(s.zero_stage, "default"),
        **{table.columns[name]: getattr(s, name) for name in ("tp", "cp", "pp")},
    }


def _parallelism(workload: Workload, s: ParallelStrategy) -> Options:
    names, options = TABLE.columns, degrees(TABLE, s)
    if s.pp > 1:
        options |= {
            names["schedule"]: TABLE.schedules.get(s.schedule, "1F1B"),
            f"{PARALLELISM}.pipeline_parallel_microbatch_size": s.micro_batch_size,
            STAGES: modules_of(layout_of(workload, s), V0_2.head),
        }
    if workload.model.moe is not None:
        options |= {names["ep"]: s.ep, names["etp"]: s.etp if s.ep > 1 else 1}
    return options


def _recompute(workload: Workload, s: ParallelStrategy) -> Options:
    mode = BY_OPERATORS if s.recompute is Recompute.SELECTIVE else mode_of(checkpoints(s), layout_of(workload, s))
    assert mode is not None  # of the nearest strategy
    options: Options = {TABLE.columns["recompute"]: mode.mode}
    if mode.option:
        options[OPTION] = mode.option
    if mode.mode != "none":
        options["activation_checkpoint.early_stop"] = True  # as PyTorch's own checkpoints, and the price
    return options


def compilation(workload: Workload) -> Options:
    """What is compiled."""
    compiled = dict(zip(PARTS, (workload.software.torch_compile, workload.software.compiled_loss), strict=True))
    if all(compiled.values()) or not any(compiled.values()):
        return {COMPILE: any(compiled.values())}
    return {COMPILE: True, COMPILED: [part for part in PARTS if compiled[part]]}


def notes(flavors: Flavors, workload: Workload, s: ParallelStrategy) -> tuple[str, ...]:
    """Sentences on the start, on replicas of shards, and on attention."""
    said = [start_note(workload, "torchrun")]
    if 0 < s.optimizer_shard_size < s.dp * s.cp:
        said.append(
            Sentence(
                "HSDP: {} replicas of weights over {} shards; the shards of a replica are neighbours.",
                s.dp * s.cp // s.optimizer_shard_size,
                s.optimizer_shard_size,
            )
        )
    flavor = flavors.of_job(workload)
    if flavor is not None and flavor.within_documents and workload.training.mean_squared_length_fraction == 1.0:
        said.append(
            Sentence(
                "torchtitan's {} {} attends within documents, and its price counts attention over whole sequences.",
                flavor.name,
                flavor.flavor,
            )
        )
    return tuple(said)
