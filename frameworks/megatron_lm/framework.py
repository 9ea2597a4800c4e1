"""The two releases of Megatron-LM as frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import HARDWARE_QUEUE, HYBRID_EP, OFFLOAD
from frameworks.framework import Framework, ReadJob, Start, nothing_by_tensor, uneven_fine_tune, untold_optimizer, untold_task
from frameworks.megatron_lm import bridge_rules, connections, host_optimizer, offload
from frameworks.megatron_lm.arguments import misstated, untold
from frameworks.megatron_lm.bridge import PACKING, are_fields, read_fields
from frameworks.megatron_lm.bridge_file import SUFFIX, python_file
from frameworks.megatron_lm.dialect import CORE_0_12, CORE_0_19, Dialect
from frameworks.megatron_lm.job_reader import BATCH, read, read_job
from frameworks.megatron_lm.nearest import nearest
from frameworks.megatron_lm.reader import as_run
from frameworks.megatron_lm.script import script
from frameworks.megatron_lm.writer import arguments
from frameworks.release import Given, Release, no_numbers, refused_at_start, values_of
from frameworks.target import Target

POSITIONS, SEQUENCE = "max-position-embeddings", "seq-length"
SINGLE_BLOCKS = Sentence("a model with layers of one block")
RECIPE = "delayed"  # of --fp8-recipe [megatron-0.12, arguments.py; megatron-0.19, transformer_config.py]
TOKENIZER = ("--tokenizer-type HuggingFaceTokenizer", '--tokenizer-model "${TOKENIZER_PATH}"')


def _file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    if are_fields(launch["arguments"]):
        return python_file(release, purposes, launch, start)
    return script(release, purposes, launch, start, tokenizer=TOKENIZER)


def _read(dialect: Dialect, arguments: Sequence[str], num_devices: int | None) -> ParallelStrategy:
    if are_fields(arguments):
        arguments = read_fields(dialect.release, arguments).arguments
    return read(dialect, arguments, num_devices)


def _read_job(dialect: Dialect, arguments: Sequence[str], num_devices: int | None) -> ReadJob:
    if not are_fields(arguments):
        return read_job(dialect, arguments, num_devices)
    fields = read_fields(dialect.release, arguments)
    return replace(read_job(dialect, fields.arguments, num_devices), task=fields.task, uneven=(PACKING,) if fields.packs else ())


def _untold(dialect: Dialect, workload: Workload) -> tuple[str, ...]:
    """A model with adapters is told by its Hugging Face files."""
    if workload.training.task.adapters is not None:
        return untold_task(dialect.name, dialect.tasks, workload)
    optimizer = untold_optimizer(dialect.name, dialect.optimizers, workload, types=dialect.types_states)
    single = untold_task(SINGLE_BLOCKS, (Task.PRETRAIN,), workload) if workload.model.hybrid_layer_pattern else ()
    return single or untold(dialect.release, dialect.models, dialect.name, workload, tasks=dialect.tasks) + optimizer


def _misstated(dialect: Dialect, workload: Workload) -> tuple[str, ...]:
    if workload.training.task.adapters is not None:
        return ()
    return misstated(dialect.release, dialect.models, dialect.name, workload)


def _unwritable(workload: Workload, strategy: ParallelStrategy) -> tuple[str, ...]:
    """Adapters that Megatron-Bridge would not train as planned."""
    batch = StrategyBatch.of([strategy])
    broken = any(rule.violates(workload, batch)[0] for rule in bridge_rules.RULES if rule not in bridge_rules.SWITCHES)
    return (Sentence("Its adapters would not be trained as planned."),) if broken else ()


def _refused_at_start(release: Release, given: Given) -> list[str]:
    """What ``validate_args`` and ``TransformerConfig`` refuse [megatron-0.12, arguments.py, transformer_config.py]."""
    given = as_run(given)
    if broken := no_numbers(release, given):  # what only the shell knows is asked for later
        kinds = {name: release.arguments[name].kind.value for name, _ in broken}
        return [
            Sentence("{}: {!r} is no {}.", name, value[:80], kinds[name]) for name, value in broken if not {"$", "`"} & {*value}
        ]
    sentences = refused_at_start(release, given)
    if {POSITIONS, SEQUENCE} <= given.keys():
        (positions, *_), (length, *_) = (values_of(release, given, name) for name in (POSITIONS, SEQUENCE))
        if isinstance(positions, int) and isinstance(length, int) and positions < length:
            sentences.append(Sentence("{} {} is less than {} {}.", POSITIONS, positions, SEQUENCE, length))
    return sentences


def _framework(
    dialect: Dialect, year: float, *other_releases: str, earlier: Mapping[str, float] = MappingProxyType({})
) -> Framework:
    release = dialect.release
    return Framework(
        target=Target(release.name, release.version, other_releases, ("nvidia", "amd"), year, earlier, fp8_recipe=RECIPE),
        release=release,
        table=dialect.table,
        rules=dialect.rules,
        placements=dialect.placements,
        fixed=dialect.fixed,
        nearest=partial(nearest, dialect),
        write=partial(arguments, dialect),
        read=partial(_read, dialect),
        suffix="sh",
        suffix_of=lambda arguments: SUFFIX if are_fields(arguments) else "sh",
        purposes=HARDWARE_QUEUE | HYBRID_EP | OFFLOAD | host_optimizer.PURPOSES,
        file=_file,
        untold=partial(_untold, dialect),
        misstated=partial(_misstated, dialect),
        uneven=uneven_fine_tune,
        batch_argument=BATCH,
        read_job=partial(_read_job, dialect),
        refused_at_start=partial(_refused_at_start, release),
        environment_faults=partial(connections.faults, release),
        unwritable=_unwritable,
        by_tensor=offload.forms if offload.SWITCH in release.arguments else nothing_by_tensor,
    )


MEGATRON_LM = (
    _framework(
        CORE_0_12,
        2025.4,
        *("0.12.0", "0.12.1", "0.12.3", "core_r0.12.0", "core_v0.12.0", "core_v0.12.1", "core_v0.12.3"),
        earlier={"0.12.0": 2025.35, "core_v0.12.0": 2025.35},
    ),
    _framework(CORE_0_19, 2026.63, "0.19.0", "core_v0.19.0"),
)
