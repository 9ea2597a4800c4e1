"""torchtitan as a framework."""

from __future__ import annotations

from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.framework import Framework, untold_optimizer, untold_task
from frameworks.target import Target
from frameworks.torchtitan.flavors import flavor_for, misstated, no_flavor
from frameworks.torchtitan.job_reader import read_job
from frameworks.torchtitan.nearest import nearest
from frameworks.torchtitan.reader import read
from frameworks.torchtitan.rules import FIXED, NAME, OPTIMIZERS, PLACEMENTS, RULES
from frameworks.torchtitan.table import BATCH, RELEASE, TABLE
from frameworks.torchtitan.toml_file import toml_file
from frameworks.torchtitan.writer import arguments


def untold(workload: Workload) -> tuple[str, ...]:
    """A sentence on a model that is no flavor, on another task, and on another optimizer."""
    model = () if flavor_for(workload) else (Sentence("Not the same model: {}.", no_flavor(workload.model)),)
    return model + untold_task(NAME, (Task.PRETRAIN,), workload) + untold_optimizer(NAME, OPTIMIZERS, workload)


def uneven(workload: Workload) -> str | None:
    """A flavor that attends within documents; of a job for torchtitan, since other programs on FSDP have no flavors."""
    flavor = flavor_for(workload)
    if flavor is None or not flavor.within_documents or workload.software.target != TARGET.label:
        return None
    return Sentence("torchtitan's {} {}", flavor.name, flavor.flavor)


TARGET = Target(RELEASE.name, RELEASE.version, ("0.2", "v0.2.2"), ("nvidia", "amd"), stack="fsdp", torch_compile=True)
TORCHTITAN = Framework(
    target=TARGET,
    release=RELEASE,
    table=TABLE,
    rules=RULES,
    placements=PLACEMENTS,
    fixed=FIXED,
    nearest=nearest,
    write=arguments,
    read=read,
    read_job=read_job,
    suffix="toml",
    purposes={"PYTORCH_ALLOC_CONF": Sentence("segments that grow, against fragmentation")},
    file=toml_file,
    untold=untold,
    uneven=uneven,
    batch_argument=BATCH,
    misstated=lambda workload: misstated(workload.model),
)
