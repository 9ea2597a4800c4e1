"""A traced run as a record that ``meshplan calibrate`` and ``meshplan validate`` read (``calibration/runs/README.md``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from app.jobs.job import Job
from app.text.files import replace_text
from app.traces.schemas import TracedStep
from calibration.records.sections import MlaSection, ModelSection, MoeSection
from calibration.records.training import RefusedRecord, parse_run_record
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape
from documents.bounds import RUNS_BYTES
from documents.errors import InputError
from documents.reading import read_text
from documents.sentences import Sentence, joined
from hardware_profiles import catalogue
from hardware_profiles.schema import HardwareProfile


def add_record(path: Path, job: Job, step: TracedStep, trace: Path) -> list[str]:
    """Add the run to the file, replacing one with the same id; return sentences on the result and on lost fields."""
    assert job.strategy is not None
    if step.source == "meshplan":
        raise InputError(Sentence("--records: the trace is one of our own, a prediction; give one that a profiler took."))
    row = record_of(job, step, trace)
    lines = read_text(path, RUNS_BYTES).splitlines() if path.exists() else []
    kept = [line for number, line in enumerate(lines, 1) if line.strip() and _id(line, f"{path}: line {number}") != row["id"]]
    replace_text(path, "".join(f"{line}\n" for line in [*kept, json.dumps(row)]), "--records")
    stack, hardware = job.workload.software.stack, job.document["cluster"]["hardware"]
    command = Sentence("meshplan calibrate {} --hardware {} --stack {}", path, hardware, stack)
    return [Sentence("The run is in {} as {}: {}", path, row["id"], command), *_lost(job, row)]


def record_of(job: Job, step: TracedStep, trace: Path) -> dict[str, Any]:
    """A line of a file of runs: the job, with the median step of the trace."""
    assert job.strategy is not None
    workload, strategy = job.workload, job.strategy
    cluster, training = workload.cluster, workload.training
    spread = training.expert_spread
    return {
        "id": f"{workload.model.name or 'model'}-{cluster.num_devices}x{cluster.profile.name}-{trace.name}",
        "tier": "A",
        "is_latest_for_config": True,
        "config_complete": True,
        "suspect": None,
        "model": _model(workload.model),
        "cluster": {
            "hardware": cluster.profile.name,
            "hardware_basis": "named",
            "num_devices": cluster.num_devices,
            "devices_per_node": cluster.profile.devices_per_node,
            "inter_node_bytes_per_s_per_device": cluster.inter_node_bytes_per_s,
        },
        "training": {
            "seq_length": training.seq_length,
            "global_batch_size": training.global_batch_size,
            "precision": training.precision,
            "router_balance": None if spread is None or spread.assumed else str(spread.balance),
        },
        "strategy": _strategy(strategy, training.global_batch_size),
        "software": {
            "framework": workload.software.stack,
            "version": None if workload.software.year is None else _month(workload.software.year),
            "raw_flags": _flags(workload.model, strategy),
        },
        "measured": {"step_time_s": step.median_step_time_s},
        "source": {"title": Sentence("{} trace", step.source), "locator": trace.name},
        "notes": {
            "text": Sentence(
                "median of {} profiled steps; a profiler slows its step down a little", max(len(step.step_times_s), 1)
            )
        },
    }


def _model(model: ModelShape) -> dict[str, Any]:
    whole = asdict(model)
    local = model.local_attention
    return {
        "name": model.name,
        **{name: whole[name] for name in ModelSection.model_fields if name in whole and name not in ("mla", "moe", "vocab_size")},
        "padded_vocab_size": model.vocab_size,
        "attention_sinks": model.constants.attention_sinks,
        "activation_clamp": model.constants.activation_clamp,
        "sliding_window": local.window if local is not None and local.window else None,
        "full_attention_every": local.full_attention_every if local is not None and local.window else 0,
        "mla": whole["mla"] and {name: whole["mla"][name] for name in MlaSection.model_fields},
        "moe": whole["moe"] and {name: whole["moe"][name] for name in MoeSection.model_fields if name in whole["moe"]},
    }


def _strategy(strategy: ParallelStrategy, global_batch_size: int) -> dict[str, Any]:
    stages = strategy.recompute_layers_per_stage
    return {
        **{name: getattr(strategy, name) for name in ("tp", "pp", "cp", "dp", "vpp", "ep", "etp", "micro_batch_size")},
        "sequence_parallel": strategy.sequence_parallel,
        "num_microbatches": global_batch_size // (strategy.micro_batch_size * strategy.dp),
        "cp_algo": None if strategy.cp_algo is CpAlgo.NONE else strategy.cp_algo.label,
        "schedule": strategy.schedule.label,
        "distributed_optimizer": strategy.zero_stage > 0,
        "zero_stage": strategy.zero_stage,
        "fsdp_shard_size": strategy.optimizer_shard_size or None,
        "moe_dispatcher": None if strategy.dispatcher is Dispatcher.NONE else strategy.dispatcher.label,
        "features": [str(feature.name).lower() for feature in Feature if feature in strategy.features],
        "recompute": {
            "granularity": strategy.recompute.label,
            "method": None if strategy.recompute_method is RecomputeMethod.NONE else strategy.recompute_method.label,
            "num_layers": list(stages) if stages else strategy.recompute_num_layers or None,
            "modules": [str(module.name).lower() for module in RecomputeModule if module in strategy.recompute_modules]
            if strategy.recompute is Recompute.SELECTIVE
            else [],
        },
    }


def _flags(model: ModelShape, strategy: ParallelStrategy) -> list[str]:
    """Values without a key in records, as flags that the reader takes."""
    ulysses = [f"ulysses-degree-in-cp={strategy.ulysses_degree}"] if strategy.cp_algo is CpAlgo.HYBRID else []
    return [*ulysses, *(["post-norm"] if model.sandwich_norm else []), *(["square-alibi-mask"] if model.alibi else [])]


def _month(year: float) -> str:
    whole = int(year)
    return f"{whole}-{min(int((year - whole) * 12) + 1, 12):02d}"


def _lost(job: Job, row: Mapping[str, Any]) -> list[str]:
    """Fields of the job that the record's reader reads differently."""

    def profile_of(name: str) -> HardwareProfile:
        own = job.workload.cluster.profile
        return own if name == own.name else catalogue.named(name)

    read = parse_run_record(row, profile_of=profile_of)
    if isinstance(read, RefusedRecord):
        return [Sentence("A record cannot say this job: {}", read.reason)]
    pairs = (
        ("model", job.workload.model, read.workload.model),
        ("training", job.workload.training, read.workload.training),
        ("cluster", job.workload.cluster, read.workload.cluster),
        ("software", job.workload.software, read.workload.software),
        ("strategy", job.strategy, read.strategy),
    )
    untold = {"model.name", "model.constants", "training.train_tokens", "software.target"}  # fields without effect on the price
    if job.workload.software.year is None:  # the reader assumes the newest release too
        untold.add("software.year")
    names = [
        Sentence("{}.{}", section, each.name)
        for section, own, other in pairs
        for each in fields(own)  # type: ignore[arg-type]
        if getattr(own, each.name) != getattr(other, each.name)
    ]
    is_moe = job.workload.model.moe is not None

    def is_used(feature: Feature) -> bool:
        return is_moe or not str(feature.name).startswith("MOE_")

    named: list[str] = [name for name in names if name not in untold and name != "strategy.features"]
    switches = job.strategy.features ^ read.strategy.features if job.strategy is not None else Feature(0)
    named += [f"strategy.switches.{feature.name}".lower() for feature in Feature if feature in switches and is_used(feature)]
    return [Sentence("A record does not say, or says otherwise: {}.", joined(", ", named))] if named else []


def _id(line: str, where: str) -> object:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InputError(Sentence("--records: {}: no record of a run; give a file of such, or a new one.", where))
    return row.get("id")
