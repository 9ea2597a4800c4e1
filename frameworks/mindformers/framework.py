"""MindFormers as a framework."""

from __future__ import annotations

from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.environment import HCCL
from frameworks.framework import Framework, untold_optimizer, untold_task
from frameworks.mindformers import adapters, fine_tuning
from frameworks.mindformers.job_reader import read_job
from frameworks.mindformers.models import unsaid_layers
from frameworks.mindformers.nearest import nearest
from frameworks.mindformers.reader import read
from frameworks.mindformers.rules import FIXED, NAME, OPTIMIZERS, PLACEMENTS, RULES
from frameworks.mindformers.table import RELEASE, TABLE
from frameworks.mindformers.writer import arguments
from frameworks.mindformers.yaml_file import yaml_file
from frameworks.target import Target


def untold(workload: Workload) -> tuple[str, ...]:
    """Sentences on layers that no file says, legacy ones (read, not written), another task or optimizer, and packed samples."""
    legacy = Sentence("The layers are those of use_legacy: True, and files for them are changed (`meshplan tune`), not written.")
    unsaid = list(unsaid_layers(workload.model))
    return (
        *((Sentence("Not the same model: {} cannot be told {}.", NAME, joined("; ", unsaid)),) if unsaid else ()),
        *((legacy,) if workload.software.legacy_layers else ()),
        *untold_task(NAME, fine_tuning.TASKS, workload),
        *untold_optimizer(NAME, OPTIMIZERS, workload),
        *fine_tuning.mispacked(workload),
    )


MINDFORMERS = Framework(
    target=Target(RELEASE.name, RELEASE.version, ("1.5", "1.6", "1.7", "r1.5.0", "r1.6.0", "r1.7.0", "r1.8.0"), ("ascend",)),
    release=RELEASE,
    table=TABLE,
    rules=RULES,
    placements=PLACEMENTS,
    fixed=FIXED,
    nearest=nearest,
    write=arguments,
    read=read,
    suffix="yaml",
    purposes={
        **HCCL,
        "ENABLE_LAZY_INLINE_NO_PIPELINE": Sentence("one graph for all layers, which swap needs where no pipeline makes one"),
    },
    file=yaml_file,
    read_job=read_job,
    untold=untold,
    mispacked=fine_tuning.mispacked,
    unpriced=adapters.unpriced,
)
