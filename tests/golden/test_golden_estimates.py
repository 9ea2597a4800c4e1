"""Estimates of representative jobs, pinned: a change of the model shows its effect as a diff."""

import json
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from app.catalogue.models.presets import model_preset
from cost_models.constants import prior_constants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Cluster, Software, TrainingJob, Workload
from cost_models.step.composition import estimate
from hardware_profiles.catalogue import named
from tests.search_workloads import RECURRENT, WINDOWED

JOBS = yaml.safe_load((Path(__file__).parent / "jobs.yaml").read_text(encoding="utf-8"))
SMALL = {model.name: model for model in (WINDOWED, RECURRENT)}  # no preset has such layers
ENUMS: dict[str, type[IntEnum]] = {
    "schedule": Schedule,
    "cp_algo": CpAlgo,
    "dispatcher": Dispatcher,
    "recompute": Recompute,
    "recompute_method": RecomputeMethod,
}


def strategy_of(columns: dict[str, Any], num_devices: int) -> ParallelStrategy:
    columns = dict(columns)
    features = DEFAULT_FEATURES
    for name in columns.pop("with", []):
        features |= Feature[name.upper()]
    for name in columns.pop("without", []):
        features &= ~Feature[name.upper()]
    modules = RecomputeModule(0)
    for name in columns.pop("recompute_modules", []):
        modules |= RecomputeModule[name.upper()]
    for name, kind in ENUMS.items():
        if name in columns:
            columns[name] = next(member for member in kind if member.label == columns[name])  # type: ignore[attr-defined]
    if "recompute_layers_per_stage" in columns:
        columns["recompute_layers_per_stage"] = tuple(columns["recompute_layers_per_stage"])
    if columns.get("pp", 1) > 1:
        columns.setdefault("schedule", Schedule.ONE_F_ONE_B)
    model_parallel = columns.get("tp", 1) * columns.get("pp", 1) * columns.get("cp", 1)
    return ParallelStrategy(**columns, dp=num_devices // model_parallel, features=features, recompute_modules=modules)


def pinned(job: dict[str, Any], columns: dict[str, Any]) -> dict[str, float | bool]:
    """Six significant digits: what another machine's arithmetic may differ by never shows."""
    profile = named(job["hardware"])
    model = SMALL.get(job["model"]) or model_preset(job["model"]).model
    workload = Workload(
        model,
        TrainingJob(job["seq_length"], job["global_batch_size"], expert_spread=model.expert_spread()),
        Cluster(profile, job["num_devices"]),
        Software(job["stack"], execution="graph" if job["stack"] == "mindformers" else "eager"),
    )
    batch = StrategyBatch.of([strategy_of(columns, job["num_devices"])])
    result = estimate(workload, batch, prior_constants(profile.family), breakdown=True)
    assert result.breakdown is not None
    largest = sorted(result.breakdown.time_s.items(), key=lambda part: -float(part[1][0]))[:4]
    return {
        "step_time_s": six(result.step_time_s),
        "step_time_lower_bound_s": six(result.step_time_lower_bound_s),
        "peak_memory_bytes": six(result.peak_memory_bytes),
        "allocated_first_iteration_bytes": six(result.allocated_first_iteration_bytes),
        **{f"time_s.{name}": six(value) for name, value in largest},
        "fits": bool(result.fits[0]),
    }


def six(value: np.ndarray) -> float:
    return float(f"{float(value[0]):.6g}")


def test_estimates_are_those_pinned(check_golden: Callable[[str, str], None]) -> None:
    estimates = {name: pinned(entry["job"], entry["strategy"]) for name, entry in JOBS.items()}
    check_golden("estimates.json", json.dumps(estimates, indent=1) + "\n")
