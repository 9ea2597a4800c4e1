"""Megatron-LM as a framework."""

from __future__ import annotations

from functools import partial

from frameworks.environment import HARDWARE_QUEUE
from frameworks.framework import Framework
from frameworks.megatron_lm.arguments import untold
from frameworks.megatron_lm.job_reader import JobReading
from frameworks.megatron_lm.model_table import MODEL_0_12
from frameworks.megatron_lm.nearest import nearest
from frameworks.megatron_lm.reader import read
from frameworks.megatron_lm.rules import NAME, RULES
from frameworks.megatron_lm.script import script
from frameworks.megatron_lm.table import RELEASE, TABLE
from frameworks.megatron_lm.writer import arguments
from frameworks.target import Target

MEGATRON_LM = Framework(
    target=Target(
        RELEASE.name, RELEASE.version, ("0.12.0", "0.12.1", "core_r0.12.0", "core_v0.12.0", "core_v0.12.1"), ("nvidia", "amd")
    ),
    release=RELEASE,
    table=TABLE,
    rules=RULES,
    nearest=nearest,
    write=arguments,
    read=read,
    untold=partial(untold, RELEASE, MODEL_0_12, NAME),
    read_job=lambda given, num_devices: JobReading(RELEASE, TABLE, given, num_devices).job(),
    suffix="sh",
    purposes=HARDWARE_QUEUE,
    file=partial(script, tokenizer=("--tokenizer-type HuggingFaceTokenizer", '--tokenizer-model "${TOKENIZER_PATH}"')),
)
