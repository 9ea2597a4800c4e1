"""Runs that would reduce a job's uncertainty most at the least cost: cut from it to fewer layers and devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.calibrations.next_run import NextRun
from app.catalogue.models.shape import model_to_mapping
from app.jobs.job import Job
from calibration.files.calibrations import Calibration, calibration_for
from calibration.procedure.next_runs import lessons, log_gradient, moved_constants, site_uncertainty
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.workload import Cluster, ModelShape, TrainingJob, Workload
from cost_models.step.composition import estimate
from documents.hashing import fingerprint
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.legality import legal_mask
from search.plans.plan import strategy_to_mapping

NUM_RUNS = 3
NUM_STEPS = 20  # steps of a run: the first half is warm-up, the rest agrees to a per cent on a quiet machine
START_S = 120.0  # assumed seconds to start processes and communicators, load and compile
LARGEST_SHARE = 0.1  # largest share of the device-seconds of as many steps of the job
MICRO_BATCHES_A_STAGE = 4  # fill and drain then have the same weight as in short steps of real jobs
SHORT_LAYERS = 4  # layers of a rank in a short run


@dataclass(frozen=True)
class _Candidate:
    workload: Workload
    batch: StrategyBatch
    strategy: ParallelStrategy


@dataclass(frozen=True)
class _Question:
    """A question; equal keys are equal questions, so that a server answers a repeated one without pricing."""

    key: str
    job: Job = field(compare=False)
    strategy: ParallelStrategy = field(compare=False)
    calibration: Calibration = field(compare=False)


def next_runs(job: Job, strategy: ParallelStrategy, own: Sequence[Calibration] = ()) -> list[NextRun]:
    """Up to ``NUM_RUNS`` runs on the job's hardware and software, the most useful first; empty if none is legal.

    Candidates are priced in closed form with the constants of the job's calibration, and with each constant moved by a step.
    """
    calibration = calibration_for(job.workload, own)
    key = fingerprint((job.document, job.workload.cluster.profile, strategy, calibration.fingerprint))
    return list(_answer(_Question(key, job, strategy, calibration)))


@np.errstate(all="ignore")  # as in an answer
def has_next_run(job: Job, strategy: ParallelStrategy, own: Sequence[Calibration] = ()) -> bool:
    """Whether ``next_runs`` finds any; this takes two prices or three, not one for each constant of each run."""
    workload = job.workload
    constants = calibration_for(workload, own).constants_of(workload)
    (job_s,) = _times(workload, StrategyBatch.of([strategy]), [constants])
    return next(_affordable(workload, strategy, constants, _device_s(workload, job_s)), None) is not None


@lru_cache(maxsize=64)
@np.errstate(all="ignore")  # the price of a run of an extreme job may not be finite; then no comparison is true
def _answer(question: _Question) -> tuple[NextRun, ...]:
    job, strategy, calibration = question.job, question.strategy, question.calibration
    workload = job.workload
    uncertainty = site_uncertainty(calibration, workload.software.stack)
    constants = moved_constants(calibration.constants_of(workload), uncertainty.names)
    job_times = _times(workload, StrategyBatch.of([strategy]), constants)
    job_device_s = _device_s(workload, job_times[0])
    affordable = list(_affordable(workload, strategy, constants[0], job_device_s))
    if not affordable:
        return ()
    found = [run for run, _ in affordable]
    times = [np.array([first_s, *_times(run.workload, run.batch, constants[1:])]) for run, first_s in affordable]
    step_times = np.concatenate(times, axis=1)
    devices = np.array([run.workload.cluster.num_devices for run in found])
    device_s = devices * (START_S + NUM_STEPS * step_times[0])
    of_job = log_gradient(constants, uncertainty.names, job_times)[0]
    of_runs = log_gradient(constants, uncertainty.names, step_times)
    return tuple(
        NextRun(
            job=_document(job, found[lesson.index]),
            record=_record(job, found[lesson.index]),
            title=_title(found[lesson.index]),
            num_devices=int(devices[lesson.index]),
            num_steps=NUM_STEPS,
            step_time_s=float(step_times[0, lesson.index]),
            device_s=float(device_s[lesson.index]),
            share_of_job=float(device_s[lesson.index]) / (job_device_s + START_S * workload.cluster.num_devices),
            spread_before=lesson.variance_before**0.5,
            spread_after=lesson.variance_after**0.5,
        )
        for lesson in lessons(uncertainty, of_job, of_runs, device_s, NUM_RUNS)
    )


def _affordable(
    workload: Workload, strategy: ParallelStrategy, constants: Constants, job_device_s: float
) -> Iterator[tuple[_Candidate, NDArray[np.float64]]]:
    """Candidates that fit and take a small share of the job's device-seconds, each with its step time ``[1]``."""
    for run in _candidates(workload, strategy):
        first = estimate(run.workload, run.batch, constants)
        if first.fits[0] and _device_s(run.workload, first.step_time_s) <= LARGEST_SHARE * job_device_s:
            yield run, first.step_time_s


def _device_s(workload: Workload, step_time_s: NDArray[np.float64]) -> float:
    """Device-seconds of as many steps as a run has; ``step_time_s`` is ``[1]``."""
    return NUM_STEPS * workload.cluster.num_devices * float(step_time_s[0])


def _times(workload: Workload, batch: StrategyBatch, constants: Sequence[Constants]) -> NDArray[np.float64]:
    """Step times under each of the constants, ``[constants, n]``."""
    return np.array([estimate(workload, batch, each, memory=False).step_time_s for each in constants])


def _candidates(workload: Workload, strategy: ParallelStrategy) -> Iterator[_Candidate]:
    """Legal short runs: fewer devices and layers, then one degree changed at a time, which keeps their number small."""
    layers_a_rank = -(-workload.model.num_layers // strategy.pp)
    period = _period(workload.model)
    short = -(-SHORT_LAYERS // period) * period
    widths = sorted({strategy.tp, max(1, strategy.tp // 2), 2 * strategy.tp})
    depths = sorted({min(pp, strategy.pp) for pp in (2, 4)} - {1})
    shapes = [(tp, 1, short) for tp in widths] + [(strategy.tp, 1, layers_a_rank)] + [(strategy.tp, pp, short) for pp in depths]
    for num_devices in _device_counts(workload.cluster):
        for tp, pp, layers in dict.fromkeys(shapes):
            vpp = strategy.vpp if pp > 1 else 1
            num_layers = min(pp * vpp * max(1, layers // vpp), workload.model.num_layers)
            replicas, left = divmod(num_devices, tp * strategy.cp * pp)
            is_shorter = num_layers < workload.model.num_layers or num_devices < workload.cluster.num_devices
            if not left and replicas and is_shorter and num_layers % period == 0:
                yield from _legal(workload, _with_degrees(strategy, tp, pp, vpp, replicas), num_layers, num_devices)


def _legal(workload: Workload, strategy: ParallelStrategy, num_layers: int, num_devices: int) -> Iterator[_Candidate]:
    model = _cut(workload.model, num_layers)
    batch_size = strategy.dp * strategy.micro_batch_size * MICRO_BATCHES_A_STAGE * strategy.pp
    run = replace(
        workload,
        model=model,
        cluster=replace(workload.cluster, num_devices=num_devices),
        training=_training(workload, model, batch_size),
    )
    batch = StrategyBatch.of([strategy])
    if legal_mask(run, batch)[0]:
        yield _Candidate(run, batch, strategy)


def _training(workload: Workload, model: ModelShape, batch_size: int) -> TrainingJob:
    """The job's training with fewer sequences; expert counts by layer are replaced by the usual load, since layers differ."""
    training = replace(workload.training, global_batch_size=batch_size)
    return (
        training if training.expert_counts is None else replace(training, expert_counts=None, expert_spread=model.expert_spread())
    )


def _device_counts(cluster: Cluster) -> list[int]:
    """Devices of one node, of two, and of two domains of the tier below the outermost, if the job has as many."""
    node, outermost = cluster.profile.devices_per_node, [t.domain_devices for t in cluster.profile.tiers if t.domain_devices][-1:]
    counts = {node, 2 * node, *(2 * domain for domain in outermost if domain)}
    return sorted(count for count in counts if node <= count <= cluster.num_devices) or [cluster.num_devices]


def _expert_ranks(strategy: ParallelStrategy, tp: int, dp: int) -> int:
    """The largest half, quarter, ... of the job's expert-parallel degree that these ranks can hold."""
    ep = strategy.ep
    while ep > 1 and (tp * strategy.cp * dp) % ep:
        ep //= 2
    return ep


def _period(model: ModelShape) -> int:
    """Number of layers after which the kinds of layers repeat; a run of whole periods has the job's mixture."""
    if pattern := model.hybrid_layer_pattern:
        return next(n for n in range(1, len(pattern) + 1) if pattern == (pattern[:n] * len(pattern))[: len(pattern)])
    every = 1 if model.local_attention is None else max(model.local_attention.full_attention_every, 1)
    return every if model.moe is None else math.lcm(every, max(model.moe.moe_layer_freq, 1))


def _cut(model: ModelShape, num_layers: int) -> ModelShape:
    """The model with fewer layers, the same share of dense ones, and no prediction layers."""
    moe = model.moe
    if moe is not None:
        dense = min(round(moe.num_leading_dense_layers * num_layers / model.num_layers), num_layers - 1)
        moe = replace(moe, num_leading_dense_layers=dense)
    return replace(
        model,
        name=f"{model.name}-{num_layers}-layers",
        num_layers=num_layers,
        hybrid_layer_pattern=model.hybrid_layer_pattern[:num_layers],
        mtp_num_layers=0,
        moe=moe,
    )


def _with_degrees(strategy: ParallelStrategy, tp: int, pp: int, vpp: int, dp: int) -> ParallelStrategy:
    is_by_stage = strategy.recompute_layers_per_stage is not None
    return replace(
        strategy,
        tp=tp,
        pp=pp,
        vpp=vpp,
        dp=dp,
        ep=_expert_ranks(strategy, tp, dp),
        etp=min(strategy.etp, tp),
        sequence_parallel=strategy.sequence_parallel and tp > 1 if strategy.tp > 1 else tp > 1,
        schedule=strategy.schedule if pp > 1 else Schedule.NONE,
        microbatch_group_size_per_vp_stage=pp if strategy.microbatch_group_size_per_vp_stage and pp > 1 else 0,
        mtp_before_head=0,
        optimizer_shard_size=0,
        layer_layout=None,
        tensor_plan=None,
        recompute_layers_per_stage=None,
        recompute_method=RecomputeMethod.UNIFORM if is_by_stage else strategy.recompute_method,
        recompute_num_layers=1 if is_by_stage else strategy.recompute_num_layers,
    )


def _document(job: Job, run: _Candidate) -> dict[str, Any]:
    """The job file of a run: the job's file with the cuts."""
    workload = run.workload
    kept = {name: value for name, value in job.document.items() if name in ("schema_version", "software")}
    training = {**job.document["training"], "global_batch_size": workload.training.global_batch_size, "train_tokens": None}
    if workload.training.expert_counts != job.workload.training.expert_counts:
        training["expert_counts"] = None
    return {
        "model": model_to_mapping(workload.model),
        "cluster": {**job.document["cluster"], "num_devices": workload.cluster.num_devices},
        "training": training,
        **kept,
        "strategy": strategy_to_mapping(workload, run.strategy),
    }


def _record(job: Job, run: _Candidate) -> dict[str, Any]:
    """The run record of a run, without measurements; the release is given by its date."""
    document, software = _document(job, run), run.workload.software
    parts = {name: document[name] for name in ("model", "cluster", "training", "strategy")}
    year = software.year
    version = None if year is None else f"{int(year)}-{min(12, int(year % 1.0 * 12) + 1):02d}"
    return {
        "id": run.workload.model.name + f"-{run.workload.cluster.num_devices}-tp{run.strategy.tp}-pp{run.strategy.pp}",
        **parts,
        "software": {"framework": software.stack, "version": version},
        "measured": {"step_time_s": None},
    }


def _title(run: _Candidate) -> str:
    workload, strategy = run.workload, run.strategy
    degrees = ((name, getattr(strategy, name)) for name in ("tp", "pp", "vpp", "cp", "ep", "etp"))
    shown = " ".join([f"{name.upper()}{size}" for name, size in degrees if size > 1] + [f"DP{strategy.dp}"])
    return Sentence(
        "{} layers on {:,} devices, {} MBS{}, batch {:,}",
        workload.model.num_layers,
        workload.cluster.num_devices,
        shown,
        strategy.micro_batch_size,
        workload.training.global_batch_size,
    )
