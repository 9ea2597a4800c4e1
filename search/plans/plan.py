"""A ranked plan, and the JSON form of strategies and estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.canonical import group_size
from cost_models.shapes.effective_switches import unusual_switches
from cost_models.shapes.flops import MFU_CONVENTION, model_flops_per_step
from cost_models.shapes.layout import default_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import KEEP_ALL, LayerChoices, TensorPlan, tensor_names
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate, FloatColumn
from documents.hashing import text_fingerprint, written
from documents.sentences import Sentence

PRICED_PARTS = ("model", "training", "cluster", "software")  # parts that change prices: the headroom does not


@dataclass(frozen=True)
class DeploymentPlan:
    """One plan of a result. ``strategy``, ``estimate``, ``explanation``, ``launch`` and ``variants`` are plain JSON.

    ``rank`` is its place in the list. Plans of one ``rank_group`` tie. ``why_recommended`` is set for the plan to run alone.
    """

    rank: int
    rank_group: int
    fastest: bool
    plan_id: str
    parallel: ParallelStrategy
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]
    explanation: Mapping[str, Any]
    launchable_on: tuple[str, ...] = ()
    launch: Mapping[str, Any] = field(default_factory=dict)
    variants: tuple[Mapping[str, Any], ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)  # values by objective, unless the step time is the only objective
    why_recommended: str | None = None
    ordered_by: Mapping[str, float] = field(default_factory=dict)  # the same values, converted so that smaller is better

    def to_mapping(self) -> dict[str, Any]:
        """The plan as JSON."""
        left_out = {"parallel", "ordered_by", "why_recommended"} | (set() if self.values else {"values"})
        document = {name: copy(value) for name, value in vars(self).items() if name not in left_out}
        return {**document, "launchable_on": list(self.launchable_on), "variants": [dict(variant) for variant in self.variants]}


def recommended_of(plans: Iterable[DeploymentPlan]) -> DeploymentPlan | None:
    """The plan to run; ``None`` without plans."""
    return next((plan for plan in plans if plan.why_recommended is not None), None)


def strategy_to_mapping(workload: Workload, strategy: ParallelStrategy) -> dict[str, Any]:
    """The strategy under the names of the run records, with every default resolved.

    ``layer_layout`` lists layers by chunk, then stage. ``noop_layers`` counts the slots without a layer. ``switches`` has those
    of ``features`` that are not as usual, if there are any (``unusual_switches``).
    """
    unusual = {str(feature.name).lower(): on for feature, on in unusual_switches(workload, strategy).items()}
    layout = strategy.layer_layout or default_layout(workload.model, strategy.pp, strategy.vpp, strategy.schedule)
    slots = max(map(max, layout)) * strategy.pp * strategy.vpp
    batch, per_replica = workload.training.global_batch_size, strategy.micro_batch_size * strategy.dp
    plan = strategy.recompute_layers_per_stage
    return {
        "tp": strategy.tp,
        "sequence_parallel": strategy.sequence_parallel,
        "cp": strategy.cp,
        "cp_algo": strategy.cp_algo.label if strategy.cp_algo is not CpAlgo.NONE else None,
        "ulysses_degree": strategy.ulysses_degree,
        "pp": strategy.pp,
        "vpp": strategy.vpp,
        "ep": strategy.ep,
        "etp": strategy.etp,
        "dp": strategy.dp,
        "micro_batch_size": strategy.micro_batch_size,
        "num_microbatches": batch // per_replica if per_replica and batch % per_replica == 0 else None,
        "schedule": strategy.schedule.label,
        "microbatch_group_size_per_vp_stage": group_size(strategy) if strategy.schedule.rules.in_groups else None,
        "zero_stage": strategy.zero_stage,
        "distributed_optimizer": strategy.zero_stage >= 1,
        "optimizer_shard_size": strategy.optimizer_shard_size or None,
        "moe_dispatcher": strategy.dispatcher.label if strategy.dispatcher is not Dispatcher.NONE else None,
        "recompute": {
            "granularity": strategy.recompute.label,
            "method": strategy.recompute_method.label if strategy.recompute_method is not RecomputeMethod.NONE else None,
            "num_layers": strategy.recompute_num_layers if strategy.recompute is Recompute.FULL and plan is None else None,
            "modules": _names(RecomputeModule, strategy.recompute_modules),
            "layers_per_stage": list(plan) if plan is not None else None,
        },
        "layer_layout": [list(row) for row in layout],
        "noop_layers": slots - workload.model.num_layers,
        "mtp_before_head": strategy.mtp_before_head,
        "features": _names(Feature, strategy.features),
        **({"switches": unusual} if unusual else {}),
        **({} if strategy.tensor_plan is None else {"tensor_plan": tensor_plan_to_mapping(workload, strategy.tensor_plan)}),
    }


def tensor_plan_to_mapping(workload: Workload, plan: TensorPlan) -> list[list[dict[str, Any]]]:
    """The tensor plan by chunk, stage and kind of layer. A kind that keeps everything is left out."""
    kinds = workload.model.layer_kinds()
    return [
        [
            {kind.label: _choices(choices) for kind, choices in zip(kinds, stage, strict=True) if choices != KEEP_ALL}
            for stage in row
        ]
        for row in plan
    ]


def _choices(choices: LayerChoices) -> Any:
    """One choice as a mapping; several as a list, in the order of the layers that take them."""
    shares = [
        {
            "recompute": tensor_names(choice.recompute),
            "swap": tensor_names(choice.swap),
            **({"layers": num_layers} if num_layers else {}),
        }
        for choice, num_layers in choices
    ]
    return shares if len(shares) > 1 else shares[0]


def estimates_to_mappings(workload: Workload, estimate: Estimate) -> list[dict[str, Any]]:
    """The rows of an estimate that was made with ``breakdown=True``, as JSON, in their order.

    The interval is null until a calibration provides one. Raises ``ValueError`` without a breakdown.
    """
    if estimate.breakdown is None:
        raise ValueError(Sentence("an estimate is printed with its breakdown: call estimate(..., breakdown=True)"))
    training, cluster = workload.training, workload.cluster
    step_time_s, peak_memory_bytes = estimate.step_time_s, estimate.peak_memory_bytes
    lowest_bytes, highest_bytes = estimate.fit_rule.ends_bytes(peak_memory_bytes)
    tokens_per_s = training.step_tokens / step_time_s
    time_names = list(estimate.breakdown.time_s)
    longest = np.argmax([part for part in estimate.breakdown.time_s.values()], axis=0)
    columns: dict[str, Iterable[Any]] = {
        "step_time_s": step_time_s.tolist(),
        "step_time_lower_bound_s": estimate.step_time_lower_bound_s.tolist(),
        "step_time_low_s": repeat(None),
        "step_time_high_s": repeat(None),
        "evidence": ({"num_runs": 0, "max_devices": None, "extrapolated": []} for _ in step_time_s),
        "uneven_experts_s": (
            np.zeros_like(step_time_s) if estimate.uneven_experts_s is None else estimate.uneven_experts_s
        ).tolist(),
        "tokens_per_s": tokens_per_s.tolist(),
        "tokens_per_s_per_device": (tokens_per_s / cluster.num_devices).tolist(),
        "mfu_fraction": _mfu_fractions(workload, step_time_s),
        "mfu_convention": repeat(MFU_CONVENTION),
        "peak_memory_bytes": peak_memory_bytes.tolist(),
        "peak_memory_low_bytes": lowest_bytes.tolist(),
        "peak_memory_high_bytes": highest_bytes.tolist(),
        "memory_evidence": ({"num_runs": 0, "max_devices": None, "extrapolated": []} for _ in step_time_s),
        "allocated_peak_bytes": estimate.allocated_peak_bytes.tolist(),
        "allocated_first_iteration_bytes": estimate.allocated_first_iteration_bytes.tolist(),
        "allocated_after_step_bytes": estimate.allocated_after_step_bytes.tolist(),
        "reserved_peak_bytes": estimate.reserved_peak_bytes.tolist(),
        "pooled_peak_bytes": estimate.pooled_peak_bytes.tolist(),
        "memory_limit_bytes": repeat(float(estimate.memory_limit_bytes)),
        "headroom_bytes": (float(estimate.memory_limit_bytes) - peak_memory_bytes).tolist(),
        "fit_limit_bytes": repeat(float(estimate.fit_rule.fit_limit_bytes)),
        "fits_probability": estimate.fits_probability.tolist(),
        "fits": estimate.fits.tolist(),
        "time_breakdown_s": rows_of(estimate.breakdown.time_s),
        "masked_s": rows_of(estimate.breakdown.masked_s),
        "memory_breakdown_bytes": rows_of(estimate.breakdown.memory_bytes),
        "bottleneck": (time_names[index] for index in longest),
        "fidelity": repeat(estimate.fidelity),
    }
    names = tuple(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=False)]  # constants that never end


class PlanIds:
    """Identifiers of strategies for one workload: twelve hex characters, the same in every run."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._written = written({part: getattr(workload, part) for part in PRICED_PARTS})  # once for all plans

    def of(self, strategy: ParallelStrategy) -> str:
        """The identifier of a strategy: ``fingerprint`` of a document of strategy and workload."""
        mapping = strategy_to_mapping(self._workload, strategy)
        strategy_written = written({name: value for name, value in mapping.items() if name != "switches"})  # follow from features
        return text_fingerprint(f'{{"strategy":{strategy_written},"workload":{self._written}}}')


def plan_id(workload: Workload, strategy: ParallelStrategy) -> str:
    """The identifier of one strategy for a workload."""
    return PlanIds(workload).of(strategy)


def _mfu_fractions(workload: Workload, step_time_s: FloatColumn) -> Iterable[float | None]:
    peak = workload.cluster.profile.matmul_flops_per_s.get(workload.linear_precision)
    if peak is None:
        return repeat(None)
    fractions: list[float] = (model_flops_per_step(workload) / (step_time_s * workload.cluster.num_devices * peak)).tolist()
    return fractions


def rows_of(parts: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """The columns as one mapping a row."""
    columns = [part.tolist() for part in parts.values()]
    return [dict(zip(parts, row, strict=True)) for row in zip(*columns, strict=True)]


def _names(kind: type[Feature] | type[RecomputeModule], flags: Feature | RecomputeModule) -> list[str]:
    return list(_names_of(kind, flags))


@lru_cache(maxsize=4096)  # plans of a job share most of theirs
def _names_of(kind: type[Feature] | type[RecomputeModule], flags: Feature | RecomputeModule) -> tuple[str, ...]:
    return tuple(flag.name.lower() for flag in kind if flag.name and flag & flags)
