"""MindSpeed-LLM as a framework."""

from __future__ import annotations

from functools import partial

from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import HARDWARE_QUEUE, HCCL
from frameworks.framework import Framework
from frameworks.megatron_lm.arguments import misstated, untold
from frameworks.megatron_lm.job_reader import BATCH
from frameworks.megatron_lm.script import script
from frameworks.mindspeed_llm.fixed_switches import FIXED
from frameworks.mindspeed_llm.job_reader import JobReading
from frameworks.mindspeed_llm.layers import forms
from frameworks.mindspeed_llm.model_table import MODEL
from frameworks.mindspeed_llm.nearest import nearest
from frameworks.mindspeed_llm.reader import read
from frameworks.mindspeed_llm.rules import CAUTIONS, MERGED_CHUNKS, NAME, PLACEMENTS, RULES
from frameworks.mindspeed_llm.table import RELEASE, TABLE
from frameworks.mindspeed_llm.tasks import STAGE_OF_TASK, unstartable
from frameworks.mindspeed_llm.writer import arguments
from frameworks.target import Target


def untold_to_start(workload: Workload) -> tuple[str, ...]:
    """Sentences about what a start of the job would leave out."""
    reason = unstartable(workload)
    task = () if reason is None else (Sentence("Not the same task: {}.", reason),)
    return untold(RELEASE, MODEL, NAME, workload, tasks=(Task.PRETRAIN, *STAGE_OF_TASK)) + task


MINDSPEED_LLM = Framework(
    target=Target(RELEASE.name, RELEASE.version, (), ("ascend",)),
    release=RELEASE,
    table=TABLE,
    rules=RULES,
    placements=PLACEMENTS,
    fixed=FIXED,
    merged_chunks=MERGED_CHUNKS,
    cautions=CAUTIONS,
    nearest=nearest,
    write=arguments,
    read=read,
    untold=untold_to_start,
    misstated=partial(misstated, RELEASE, MODEL, NAME),
    read_job=lambda given, num_devices: JobReading(RELEASE, TABLE, given, num_devices).job(),
    suffix="sh",
    batch_argument=BATCH,
    by_tensor=forms,
    purposes={
        **HARDWARE_QUEUE,
        **HCCL,
        "TASK_QUEUE_ENABLE": Sentence("operators are prepared and dispatched on two threads; the plan's host time counts on it"),
        "CPU_AFFINITY_CONF": Sentence("every process stays on the cores next to its NPU; the plan's host time counts on it"),
        "PYTORCH_NPU_ALLOC_CONF": Sentence("segments that grow, against fragmentation"),
    },
    file=partial(script, tokenizer=("--tokenizer-type PretrainedFromHF", '--tokenizer-name-or-path "${TOKENIZER_PATH}"')),
)
