"""Options of a software stack beyond its release: packs of faster operators, and ways to dispatch from the host.

An option is a set of factors on named constants of the model, each with a source. The constants describe the fitted runs. An
option that those runs had (``in_runs``) costs time if it is missing. Any other option saves time if it is present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cost_models.shapes.traits import Library
from documents.late_methods import dataclass
from documents.sentences import Sentence

OPERATORS, HOST = "operators", "host"  # kinds of options, as fields of a job's ``software`` are called


@dataclass(frozen=True)
class Change:
    """A factor on a constant of ``cost_models.constants``. The result is limited by ``stop``, or by the constant's own bound."""

    constant: str
    factor: float
    stop: float | None = None


@dataclass(frozen=True)
class SoftwareOption:
    """One option. ``changes``: its factors on constants; ``in_runs``: the fitted runs had it.

    ``library``: the device software that it belongs to; ``None``: it is available on any device.
    """

    name: str
    kind: str
    meaning: str
    changes: tuple[Change, ...]
    source: str
    basis: str
    library: Library | None = None
    in_runs: bool = False


# fmt: off
SOFTWARE_OPTIONS: tuple[SoftwareOption, ...] = (
    SoftwareOption(
        "flash-attention", OPERATORS,
        Sentence("Fused attention, forward 50 % and backward 30 % faster."),
        (Change("attention_forward_fraction", 1.5), Change("attention_backward_fraction", 1.3 / 1.5)),  # fractions of forward
        "[pangu-ultra-moe-2]", "vendor", library=Library.CANN),
    SoftwareOption(
        "matmul", OPERATORS,
        Sentence("Matmuls that use 10 % more of the Cube units."),
        (Change("matmul_fraction", 1.1),),
        "[pangu-ultra-moe-2]", "vendor", library=Library.CANN),
    SoftwareOption(
        "vector", OPERATORS,
        Sentence("Vector operators 300 % faster, as far as the memory bandwidth lets them."),
        (Change("vector_fraction", 4.0, stop=1.0), Change("permute_passes", 0.25), Change("cross_entropy_bytes", 0.25)),
        "[pangu-ultra-moe-2]", "vendor", library=Library.CANN),
    # Unfused, an FP32 buffer costs 10 bytes a parameter in addition to the 2 that the matmul writes. Fused, the matmul's epilogue
    # reads 4 and writes 4 instead; none of that is assumed to hide.
    SoftwareOption(
        "accumulating-matmul", OPERATORS,
        Sentence("Matmuls, grouped ones too (GMMAdd), add weight gradients to their buffer themselves."),
        (Change("accumulation_bytes", 0.6),),
        "[mindspeed, npu_groupmatmul_add.md]", "inferred", library=Library.CANN),
    # Two threads that each do half of the work; no measurement is published.
    SoftwareOption(
        "task-queue", HOST,
        Sentence("Operators are prepared and launched on two threads (TASK_QUEUE_ENABLE=2)."),
        (Change("host_kernel_s", 0.5),),
        "[ascend-pytorch, TASK_QUEUE_ENABLE]", "assumed", library=Library.CANN, in_runs=True),
    SoftwareOption(
        "cpu-affinity", HOST,
        Sentence("Every process stays on the cores next to its device (CPU_AFFINITY_CONF)."),
        (Change("host_kernel_s", 9.90 / 11.78),),
        "[vllm-ascend-6966]", "measured", library=Library.CANN, in_runs=True),
    SoftwareOption(
        "no-synchronisation", HOST,
        Sentence("The host waits neither for the counts of experts nor around the sends of a micro batch."),
        (Change("host_moe_sync_s", 0.0), Change("host_micro_batch_s", 0.0)),
        "[pangu-ultra-moe-2]", "assumed"),
)
# fmt: on

OPTION_NAMES = {kind: tuple(option.name for option in SOFTWARE_OPTIONS if option.kind == kind) for kind in (OPERATORS, HOST)}


def options_for(library: Library | None, *, eager: bool) -> tuple[SoftwareOption, ...]:
    """The options that a stack can have on devices with ``library``; a compiled graph has no host options."""
    return tuple(o for o in SOFTWARE_OPTIONS if o.library in (None, library) and (eager or o.kind != HOST))


def has_option(option: SoftwareOption, operators: Collection[str], host: Collection[str] | None) -> bool:
    """Whether the stack has the option. ``host`` as in ``Software.host``; ``None``: the host options of the fitted runs."""
    if option.kind == HOST:
        return option.in_runs if host is None else option.name in host
    return option.name in operators


def option_changes(operators: Collection[str], host: Collection[str] | None) -> Iterator[Change]:
    """Factors of a stack with these options relative to the fitted runs, in the order of the table.

    Several factors can apply to one constant.
    """
    for option in SOFTWARE_OPTIONS:
        has = has_option(option, operators, host)
        if has and not option.in_runs:
            yield from option.changes
        elif option.in_runs and not has and host is not None:
            yield from (Change(change.constant, 1.0 / change.factor) for change in option.changes)
