"""The two releases of torchtitan as frameworks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.framework import Framework, untold_optimizer, untold_task
from frameworks.options import as_given, options_of
from frameworks.release import Given, refused_at_start
from frameworks.target import Target
from frameworks.torchtitan import job_reader, reader_main, writer, writer_main
from frameworks.torchtitan.dialect import MAIN, V0_2, Dialect
from frameworks.torchtitan.nearest import nearest
from frameworks.torchtitan.python_file import python_file
from frameworks.torchtitan.rules import NAME, OPTIMIZERS, PLACEMENTS
from frameworks.torchtitan.table import BATCH
from frameworks.torchtitan.table_main import STEP_TOKENS
from frameworks.torchtitan.toml_file import toml_file

PURPOSES = {"PYTORCH_ALLOC_CONF": Sentence("segments that grow, against fragmentation")}
CHUNKS = 8  # of the loss in main's own configurations [torchtitan-2026.08, components/loss.py]
PYTHON_FORM = "torchtitan.py"


def _untold(dialect: Dialect, workload: Workload) -> tuple[str, ...]:
    """A sentence on a model that is no flavor, on another task, and on another optimizer."""
    flavors = dialect.flavors
    model = () if flavors.of_job(workload) else (Sentence("Not the same model: {}.", flavors.none_for(workload.model)),)
    return model + untold_task(NAME, (Task.PRETRAIN,), workload) + untold_optimizer(NAME, OPTIMIZERS, workload)


def _uneven(dialect: Dialect, target: Target, workload: Workload) -> str | None:
    """A flavor that attends within documents; of a job for torchtitan, since other programs on FSDP have no flavors."""
    flavor = dialect.flavors.of_job(workload)
    if flavor is None or not flavor.within_documents or workload.software.target != target.label:
        return None
    return Sentence("torchtitan's {} {}", flavor.name, flavor.flavor)


def _refused_at_start(given: Given) -> list[str]:
    """What main refuses before it trains; values are in JSON, as in options."""
    options = options_of(f"{name}={value}" for name, (value,) in given.items())
    return refused_at_start(MAIN.release, {name: as_given(value) for name, value in options.items()})


_TARGET = Target(V0_2.release.name, V0_2.release.version, ("0.2", "v0.2.2"), ("nvidia", "amd"), stack="fsdp", torch_compile=True)
TORCHTITAN = Framework(
    target=_TARGET,
    release=V0_2.release,
    table=V0_2.table,
    rules=V0_2.rules,
    placements=PLACEMENTS,
    fixed=V0_2.fixed,
    nearest=partial(nearest, V0_2),
    write=writer.arguments,
    read=job_reader.read,
    read_job=job_reader.read_job,
    suffix="toml",
    purposes=PURPOSES,
    file=toml_file,
    untold=partial(_untold, V0_2),
    uneven=partial(_uneven, V0_2, _TARGET),
    batch_argument=BATCH,
    misstated=lambda workload: V0_2.flavors.misstated(workload.model),
)
_TARGET_MAIN = replace(_TARGET, release=MAIN.release.version, other_releases=("main",), loss_chunks=CHUNKS, newest_layers=True)
TORCHTITAN_MAIN = replace(
    TORCHTITAN,
    target=_TARGET_MAIN,
    release=MAIN.release,
    table=MAIN.table,
    rules=MAIN.rules,
    fixed=MAIN.fixed,
    nearest=partial(nearest, MAIN),
    write=writer_main.arguments,
    read=reader_main.read,
    read_job=reader_main.read_job,
    suffix="py",
    forms=(PYTHON_FORM,),
    file=python_file,
    untold=partial(_untold, MAIN),
    uneven=partial(_uneven, MAIN, _TARGET_MAIN),
    batch_argument=STEP_TOKENS,
    refused_at_start=_refused_at_start,
    misstated=lambda workload: MAIN.flavors.misstated(workload.model),
)
