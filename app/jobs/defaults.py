"""Alternatives to the default of each field of a job, which an answer tries if the field was not given.

A yes-or-no field and one of names have their other values, an integer with a default its double. Fields for which that says
nothing have an entry here: other values, or why there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from app.jobs.fields import PRECISIONS, ClusterSection, SoftwareSection, StrategySection, TrainingSection
from cost_models.layer.compute import release_years
from cost_models.shapes.canonical import schedules_of
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import SWITCHES, UNPRICED_FEATURES
from cost_models.shapes.traits import STACKS, stacks_of
from cost_models.shapes.workload import Workload
from documents.checking import Section, schema_of
from documents.late_methods import dataclass
from documents.sentences import Sentence
from search.placement.layer_moves import move_text, moved

SECTIONS: Final[Mapping[str, type[Section]]] = {
    "cluster": ClusterSection,
    "training": TrainingSection,
    "software": SoftwareSection,
    "strategy": StrategySection,
}
MOVES = 3
PACKED_FRACTION = 0.5  # two samples of equal length in each sequence

Others = Callable[[Workload], Sequence[Any]]
OthersOfPlan = Callable[[Workload, ParallelStrategy], Sequence[Any]]


@dataclass(frozen=True)
class Other:
    """A value with its own description."""

    value: Any
    text: str


def _bandwidth(workload: Workload) -> float:
    """Bandwidth of a device between nodes; half of it for a fabric shared two to one."""
    return workload.cluster.profile.tiers[-1].bandwidth_bytes_per_s


def _precisions(workload: Workload) -> Sequence[str]:
    """Other precisions: a faster one, or the best of devices without it."""
    rates, own = workload.cluster.profile.matmul_flops_per_s, workload.training.precision
    return tuple(name for name, rate in rates.items() if name in PRECISIONS and name != own and rate >= rates[own])


def _recipes(workload: Workload) -> Sequence[str]:
    """Other ways to scale operands in 8 bits that the devices run."""
    training = workload.training
    return tuple(
        name for name in workload.device_traits.fp8_recipes if name != training.fp8_recipe and training.precision == "fp8"
    )


def _stacks(workload: Workload) -> Sequence[str]:
    others = (name for name in stacks_of(workload.cluster.profile.family) if name != workload.software.stack)
    return tuple(name for name in others if not STACKS[name].only_if_named)


def _attention(workload: Workload) -> Sequence[bool]:
    return () if workload.device_traits.own_fused_attention else (not workload.software.portable_attention,)


def _release(workload: Workload) -> str:
    """The default year, and the releases of the stack that it covers."""
    year, ladder = release_years(workload)[0], workload.software_traits.releases
    return f"{year:g}" if ladder is None else Sentence("{:g}, {} {}", year, workload.software.stack, ladder.rung(year).releases)


OF_WORKLOAD: Mapping[str, Others] = {
    "cluster.inter_node_bytes_per_s": lambda workload: (_bandwidth(workload) / 2,),
    # Divides the field above, whose line covers both if neither is given.
    "cluster.oversubscription": lambda workload: () if workload.cluster.inter_node_bytes_per_s is None else (2.0,),
    "training.seq_length": lambda workload: (2 * workload.training.seq_length,),
    "training.global_batch_size": lambda workload: (2 * workload.training.global_batch_size,),
    "training.precision": _precisions,
    "training.fp8_recipe": _recipes,
    "training.fp8_param_gather": lambda workload: (not workload.gathers_eight_bits,),
    "training.mean_squared_length_fraction": lambda workload: (PACKED_FRACTION,),
    "software.stack": _stacks,
    "software.year": lambda workload: release_years(workload)[1],
    "software.fp32_parameters": lambda workload: (True,) if workload.training.precision == "fp16" else (),
    "software.portable_attention": _attention,
}
# Meaning of a null in the resolved job.
SHOWN: Mapping[str, Callable[[Workload], Any]] = {
    "cluster.inter_node_bytes_per_s": _bandwidth,
    "software.year": _release,
    "training.fp8_recipe": lambda workload: Sentence("not stated"),
    "training.fp8_param_gather": lambda workload: workload.gathers_eight_bits,
}

# Other values of these change times only, so that memory need not be computed again.
KEEP_PEAK: Final = frozenset(
    {"cluster.inter_node_bytes_per_s", "cluster.oversubscription", "training.mean_squared_length_fraction"}
)


def _group_sizes(workload: Workload, strategy: ParallelStrategy) -> Sequence[int]:
    return (2 * strategy.pp,) if strategy.schedule.rules.in_groups else ()


def _moved_layers(workload: Workload, strategy: ParallelStrategy) -> Sequence[Other]:
    """Layouts with one layer moved from either end to virtual stages with room, or to the middle."""
    stages = strategy.pp * strategy.vpp
    rows = default_layout(workload.model, strategy.pp, strategy.vpp, strategy.schedule)
    layers = [held for row in rows for held in row]
    found = []
    for source in (stages - 1, 0):
        with_room = [target for target in range(stages) if layers[target] < max(layers)][-MOVES:]
        for target in {*with_room, stages // 2} - {source}:
            if layers[source]:
                after = [list(row) for row in moved(rows, source, target)]
                found.append(Other(after, move_text(source, target, stages)))
    return found


def _cp_algorithms(workload: Workload, strategy: ParallelStrategy) -> Sequence[str]:
    return () if strategy.cp == 1 else usual_others("strategy.cp_algo") or ()


def _dispatchers(workload: Workload, strategy: ParallelStrategy) -> Sequence[str]:
    return () if workload.model.moe is None else usual_others("strategy.moe_dispatcher") or ()


def _schedules(workload: Workload, strategy: ParallelStrategy) -> Sequence[str]:
    runnable = {schedule.label for schedule in schedules_of(strategy.pp, strategy.vpp)}
    return [name for name in usual_others("strategy.schedule") or () if name in runnable]


# Values that are impossible for the shape or model are left out if testing them one by one would take long.
OF_STRATEGY: Mapping[str, OthersOfPlan] = {
    "strategy.cp_algo": _cp_algorithms,
    "strategy.moe_dispatcher": _dispatchers,
    "strategy.schedule": _schedules,
    "strategy.zero_stage": lambda workload, strategy: range(4),
    "strategy.microbatch_group_size_per_vp_stage": _group_sizes,
    "strategy.optimizer_shard_size": lambda workload, strategy: (workload.cluster.profile.devices_per_node,),
    "strategy.recompute": lambda workload, strategy: ("core_attn", "full"),
    "strategy.layer_layout": _moved_layers,
    "strategy.mtp_before_head": lambda workload, strategy: (1,) if workload.model.mtp_num_layers else (),
}
WITHOUT_OTHERS: Mapping[str, str] = {
    "cluster.devices_per_node": "another node is another machine",
    "cluster.time_factor": "multiplies by what it says",
    "training.train_tokens": "decides days alone",
    "training.expert_load_factor": "takes the place of router_balance, whose line speaks for it",
    "training.expert_counts": "takes the place of router_balance, whose line speaks for it",
    "training.expert_capacity_factor": "drops tokens, which a default does not",
    "training.task": "says what is trained: another task is another job",
    "training.adapter": "belongs to task",
    "training.base_precision": "belongs to task",
    "training.reference": "belongs to task",
    "training.optimizer": "decides what is learned: another optimizer is another training",
    "training.muon_tp_mode": "belongs to optimizer",
    "training.muon_num_ns_steps": "belongs to optimizer",
    "training.main_params_dtype": "belongs to optimizer",
    "training.exp_avg_dtype": "belongs to optimizer",
    "training.exp_avg_sq_dtype": "belongs to optimizer",
    "software.target": "decides what may run and no price",
    "software.release": "another word for year",
    "software.loader_mask": "is a default of scripts alone, and files that are written switch it off",
    "software.legacy_layers": "is true for files that have such layers alone",
    "software.fp32_residual": "is stated by files, and 16 bits are usual",
    "software.torch_compile": "decides switches of the plan",
    "software.compiled_loss": "is what torch_compile is",
    "software.loss_chunks": "follows from the target, whose own configurations have it",
    "software.time_factor": "multiplies by what it says",
    "software.operators": "each option has a line of its own in `software`",
    "software.host": "each option has a line of its own in `software`",
    "software.calibration": "the constants that ship are in `priced_with`",
    "strategy.name": "is what an answer calls the strategy",
    "strategy.dp": "follows from the devices",
    "strategy.num_microbatches": "follows from the batch",
    "strategy.ulysses_degree": "belongs to cp_algo",
    "strategy.distributed_optimizer": "another word for zero_stage",
    "strategy.layer_offset": "another form of layer_layout",
    "strategy.noop_layers": "another form of layer_layout",
    "strategy.tensor_plan": "chooses tensor by tensor what recompute has a name for",
    "strategy.features": "each switch has a line of its own",
    "strategy.switches": "each switch has a line of its own",
}


@cache
def fields_with_defaults() -> tuple[str, ...]:
    """Every field that a job may leave out."""
    return tuple(
        f"{section}.{name}"
        for section, kind in SECTIONS.items()
        for name, field in kind.model_fields.items()
        if not field.is_required()
    )


@cache
def usual_others(field: str) -> tuple[Any, ...] | None:
    """Values of the field's type except its default; None if the type has no other."""
    section, _, name = field.partition(".")
    schema = schema_of(SECTIONS[section])["properties"][name]
    kinds = schema.get("anyOf", [schema])
    default = SECTIONS[section].model_fields[name].default
    for kind in kinds:
        if "enum" in kind:
            return tuple(value for value in kind["enum"] if value != default)
        if kind.get("type") == "boolean":
            return (True, False) if default is None else (not default,)
        if kind.get("type") == "integer" and isinstance(default, int):
            return (2 * default,) if default else None
    return None


def others(field: str, workload: Workload, value: Any) -> Sequence[Any]:
    """Alternatives to the ``value`` of a field outside the strategy."""
    if field in WITHOUT_OTHERS:
        return ()
    found = OF_WORKLOAD[field](workload) if field in OF_WORKLOAD else usual_others(field) or ()
    return [other for other in found if other != value]


def others_of_plan(field: str, workload: Workload, strategy: ParallelStrategy, value: Any) -> Sequence[Any]:
    """Alternatives to the ``value`` of a field of the strategy."""
    if field in WITHOUT_OTHERS:
        return ()
    found = OF_STRATEGY[field](workload, strategy) if field in OF_STRATEGY else usual_others(field) or ()
    return [other for other in found if other != value]


def priced_switches() -> Iterator[str]:
    """Names of the switches that affect a price."""
    return (str(feature.name).lower() for feature in SWITCHES if not feature & UNPRICED_FEATURES)


def silent_fields() -> Iterator[str]:
    """Fields outside the strategy whose default an answer may list."""
    return (field for field in fields_with_defaults() if field not in WITHOUT_OTHERS and not field.startswith("strategy."))
