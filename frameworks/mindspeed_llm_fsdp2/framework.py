"""MindSpeed-LLM's FSDP2 backend as a framework."""

from __future__ import annotations

from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import HCCL
from frameworks.framework import Framework, NamedReader, uneven_fine_tune, untold_optimizer, untold_task
from frameworks.mindspeed_llm_fsdp2.families import is_trained, why_not_trained
from frameworks.mindspeed_llm_fsdp2.job_reader import named_model, no_model, read_job
from frameworks.mindspeed_llm_fsdp2.nearest import nearest, unwritable
from frameworks.mindspeed_llm_fsdp2.reader import read
from frameworks.mindspeed_llm_fsdp2.rules import FIXED, NAME, OPTIMIZERS, PLACEMENTS, RULES
from frameworks.mindspeed_llm_fsdp2.table import RELEASE, STACK, TABLE
from frameworks.mindspeed_llm_fsdp2.writer import arguments
from frameworks.mindspeed_llm_fsdp2.yaml_file import yaml_file
from frameworks.target import Target

YEAR = 2026.64  # of the commit: 21 August 2026


def untold(workload: Workload) -> tuple[str, ...]:
    """Sentences on a model whose layers are not known here, on another task, and on another optimizer."""
    model = () if is_trained(workload.model) else (Sentence("Not the same model: {}.", why_not_trained(workload.model)),)
    task = untold_task(NAME, (Task.PRETRAIN, Task.SFT), workload)
    return model + task + untold_optimizer(NAME, OPTIMIZERS, workload)


MINDSPEED_FSDP2 = Framework(
    target=Target(RELEASE.name, RELEASE.version, (), ("ascend",), year=YEAR, stack=STACK),
    release=RELEASE,
    table=TABLE,
    rules=RULES,
    placements=PLACEMENTS,
    fixed=FIXED,
    nearest=nearest,
    write=arguments,
    read=read,
    read_job=no_model,
    named=NamedReader(named_model, read_job),
    suffix="yaml",
    forms=("fsdp2.yaml", "fsdp2.sh"),
    purposes={
        **HCCL,
        "TASK_QUEUE_ENABLE": Sentence("operators are prepared and dispatched on two threads; the plan's host time counts on it"),
        "CPU_AFFINITY_CONF": Sentence("every process stays on the cores next to its NPU; the plan's host time counts on it"),
        "PYTORCH_NPU_ALLOC_CONF": Sentence("segments that grow, against fragmentation"),
    },
    file=yaml_file,
    untold=untold,
    uneven=uneven_fine_tune,
    unwritable=unwritable,
)
