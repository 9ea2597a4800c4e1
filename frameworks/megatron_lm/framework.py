"""The two releases of Megatron-LM as frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from frameworks.environment import HARDWARE_QUEUE, HYBRID_EP
from frameworks.framework import Framework
from frameworks.megatron_lm.arguments import misstated, untold
from frameworks.megatron_lm.dialect import CORE_0_12, CORE_0_19, Dialect
from frameworks.megatron_lm.job_reader import read, read_job
from frameworks.megatron_lm.nearest import nearest
from frameworks.megatron_lm.script import script
from frameworks.megatron_lm.writer import arguments
from frameworks.target import Target


def _framework(
    dialect: Dialect, year: float, *other_releases: str, earlier: Mapping[str, float] = MappingProxyType({})
) -> Framework:
    release = dialect.release
    return Framework(
        target=Target(release.name, release.version, other_releases, ("nvidia", "amd"), year, earlier),
        release=release,
        table=dialect.table,
        rules=dialect.rules,
        placements=dialect.placements,
        fixed=dialect.fixed,
        nearest=partial(nearest, dialect),
        write=partial(arguments, dialect),
        read=partial(read, dialect),
        suffix="sh",
        purposes=HARDWARE_QUEUE | HYBRID_EP,
        file=partial(script, tokenizer=("--tokenizer-type HuggingFaceTokenizer", '--tokenizer-model "${TOKENIZER_PATH}"')),
        untold=partial(untold, release, dialect.models, dialect.name, tasks=dialect.tasks),
        misstated=partial(misstated, release, dialect.models, dialect.name),
        read_job=partial(read_job, dialect),
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
