"""Documents on a post-training step and on the best placement."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from app.rl.export import launches
from app.rl.job import RlJob, request_rl_job
from app.rl.layout_changes import switches_document
from app.rl.schemas import (
    RlBar,
    RlDocument,
    RlFound,
    RlPlan,
    RlReshard,
    RlRollout,
    RlSearchDocument,
    RlVariant,
    RolloutLayout,
    TrainLayout,
)
from app.settings import load_settings
from cost_models.post_training.constants import step_log_error
from cost_models.post_training.placements import PlacementKind, Staleness
from cost_models.post_training.step import PostTraining, PostTrainingStep, post_training_step
from cost_models.post_training.switching import Switch
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.shapes.strategy import Recompute
from documents.errors import InfeasibleError, InputError
from documents.sentences import Sentence, word
from search.executors.executor import SERIAL, Executor
from search.post_training.layouts import rollout_layouts
from search.post_training.search import Candidate, Choice, PlacementProgress, PlacementSearch, Split, SplitPrices, splits
from search.session.runner import run_to_end

if TYPE_CHECKING:
    from app.storage.session import Database

DEFINITION = Sentence("prompt and answer tokens that are trained on, of a whole step, over all devices")
MAX_SERVED_S = 60.0  # the caller waits for the answer; a longer search must be a study
TOO_LARGE = Sentence("The training layout does not fit; its step is that of states kept on the hosts.")
LENGTHS_UNKNOWN = Sentence(
    "The range of the step is wide: nobody has published an RL step on such devices with the lengths of its answers. Of the "
    "ten throughputs without them, eight lie within three times of their prediction."
)
QUALITY = Sentence(
    "Staleness changes what is learned, which is not predicted. Published: AReaL's decoupled PPO keeps AIME24 from 42.1 to "
    "41.0 up to 8 versions and falls to 38.7 at 16 [areal]; verl's best accuracies are .354, .347 and .352 at thresholds 0.1, "
    "0.3 and 0.5, against .357 synchronous [verl-docs]."
)


def rl_request(document: Mapping[str, Any], database: Database) -> RlDocument:
    """The answer to a request body; ``InputError`` if it has none."""
    return rl_document(request_rl_job(document, database))


def rl_search_request(document: Mapping[str, Any], database: Database) -> RlSearchDocument:
    """The search of a request body, within the time limit of a request."""
    return rl_search_document(request_rl_job(document, database), time_limit_s=MAX_SERVED_S)


def rl_document(job: RlJob) -> RlDocument:
    """The step of the job's placement."""
    split = _split(job)
    step = replace(
        job.step(split.kind, split.rollout_devices, split.train_devices, _staleness(job, split.kind)),
        reference_devices=split.reference_devices,
    )
    return _document(job, step, _priced(step))


def rl_search_document(
    job: RlJob,
    on_progress: Callable[[PlacementProgress], bool | None] | None = None,
    *,
    time_limit_s: float | None = None,
    executor: Executor = SERIAL,
) -> RlSearchDocument:
    """Search the placements of the job, or only the one that it names; ``InfeasibleError`` if there is none.

    ``time_limit_s`` applies in addition to the job's own limit. Without either, that of the environment does. ``executor`` takes
    splits.
    """
    search, settings = placement_search(job, executor=executor), load_settings()
    limits = [limit for limit in (time_limit_s, job.section.time_limit_s) if limit is not None]
    limit_s = min(limits, default=settings.search_s)
    stopped_by = run_to_end(search, limit_s, on_progress, memory_limit_bytes=settings.search_bytes, executor=executor)
    return RlSearchDocument(**dict(found_so_far(job, search, stopped_by)), best=best_of(job, search, stopped_by))


def placement_search(job: RlJob, checkpoint: Mapping[str, Any] | None = None, executor: Executor = SERIAL) -> PlacementSearch:
    """The search over splits, instances and staleness, new or continued."""
    cluster = job.job.workload.cluster
    kinds = list(PlacementKind) if job.section.placement is None else [PlacementKind(job.section.placement)]
    pools = list(
        splits(cluster.num_devices, cluster.profile.devices_per_node, has_reference=job.algorithm.reference, kinds=kinds)
    )
    named = job.rollout.tp is not None or job.rollout.ep is not None

    def layouts_of(serving: ServingWorkload, kind: PlacementKind) -> list[ServingLayout]:
        if named:
            return [job.instance(serving.cluster.num_devices, kind)]
        found = rollout_layouts(serving, memory_fraction=job.memory_fraction(kind))
        return sorted(found, key=lambda layout: (layout.num_devices, layout.tp))

    return PlacementSearch(
        lambda kind, rollout, train: job.step(kind, rollout, train, Staleness(streams=job.section.queue)),
        layouts_of,
        pools,
        max_staleness=job.section.max_staleness,
        is_queued=job.section.queue,
        clock=time.perf_counter,
        checkpoint=checkpoint,
        executor=executor,
        elsewhere=partial(split_prices, pickle.dumps(replace(job, pools={}))),
    )


def split_prices(job: bytes, place: int) -> SplitPrices:
    """``PlacementSearch.split_prices`` of a pickled job, in another process, which keeps the search for further splits."""
    return _search_of(job).split_prices(place)


@lru_cache(maxsize=1)
def _search_of(job: bytes) -> PlacementSearch:
    return placement_search(pickle.loads(job))  # noqa: S301  # our own


def found_so_far(job: RlJob, search: PlacementSearch, stopped_by: str | None) -> RlFound:
    """The results of the search so far, without its best step."""
    shown = _shown(search.ranked(), job.section.top) if search.priced else []
    front = search.pareto() if search.priced else []
    best = search.choice(search.ranked()[0]) if search.priced else None
    return RlFound(
        schema_version=1,
        job=job.document,
        assumptions=job.assumptions,
        warnings=[] if best is None else _warnings(best.job, best.step),
        priced=len(search.priced),
        num_splits=len(search.pools),
        num_done=search.progress.num_done,
        stopped_by=None if search.is_done else stopped_by,
        plans=[_plan(rank, search.choice(one)) for rank, one in enumerate(shown, start=1)],
        pareto=[_plan(rank, search.choice(one)) for rank, one in enumerate(front, start=1)],
        refused=[
            Sentence("{}, {} devices train: {}", split.kind, split.train_devices, reason) for split, reason in search.refused
        ],
    )


def best_of(job: RlJob, search: PlacementSearch, stopped_by: str | None) -> RlDocument:
    """The step of the best placement; ``InfeasibleError`` if there is none."""
    if stopped_by is not None and not search.priced:
        raise InfeasibleError(Sentence("The search was stopped by {} before a placement was priced.", word(stopped_by)))
    best = search.choice(search.ranked()[0])
    return _document(job, best.job, best.step)


def _shown(candidates: Sequence[Candidate], top: int) -> list[Candidate]:
    """The best of every placement, then of every split, the fastest first; ties go to the least stale."""
    by_kind: dict[object, Candidate] = {}
    by_split: dict[object, Candidate] = {}
    for one in candidates:
        by_kind.setdefault(one.kind, one)
        by_split.setdefault((one.kind, one.train_devices), one)
    chosen = list(dict.fromkeys((*by_kind.values(), *by_split.values())))[: max(top, len(by_kind))]
    return sorted(chosen, key=lambda one: (not one.fits, one.step_s, one.staleness_steps))


def _priced(step: PostTraining) -> PostTrainingStep:
    try:
        return post_training_step(step)
    except ValueError as error:
        raise InfeasibleError(Sentence("The job cannot be laid out: {}.", str(error).rstrip("."))) from None


def _split(job: RlJob) -> Split:
    """The pools that the job names; by default half of the devices each."""
    section, devices = job.section, job.job.workload.cluster.num_devices
    kind = PlacementKind(section.placement or PlacementKind.FULLY_COLOCATED)
    if kind is PlacementKind.SEPARATE:
        rollout = section.rollout_devices or (devices - section.train_devices if section.train_devices else devices // 2)
        train = section.train_devices or devices - rollout
        if rollout < 1 or train < 1 or rollout + train > devices:
            raise InputError(
                Sentence(
                    "post_training.rollout_devices: {} that roll out and {} that train do not make two pools of {} devices.",
                    rollout,
                    train,
                    devices,
                )
            )
        return Split(kind, rollout, train)
    if kind is PlacementKind.HYBRID:
        train = section.train_devices or devices // 2
        if not 0 < train < devices:
            raise InputError(
                Sentence("post_training.train_devices: {} must leave some of {} devices that only roll out.", train, devices)
            )
        return Split(kind, devices, train)
    if kind is PlacementKind.COLOCATED:
        node = job.job.workload.cluster.profile.devices_per_node
        side = devices - section.train_devices if section.train_devices else max(round(devices / 16 / node) * node, node)
        if not 0 < side < devices:
            raise InputError(_no_reference(section.train_devices, node, devices))
        return Split(kind, devices - side, devices - side, side)
    return Split(kind, devices, devices)


def _no_reference(train_devices: int | None, node: int, devices: int) -> Sentence:
    """Why no devices are left for the reference, or none beside it."""
    if train_devices:
        return Sentence("post_training.train_devices: {} of {} devices leave none for the reference.", train_devices, devices)
    return Sentence(
        "post_training.train_devices: by default the reference takes a whole node of {} devices, and of {} none is left to "
        "train; state how many train, or take more devices.",
        node,
        devices,
    )


def _staleness(job: RlJob, kind: PlacementKind) -> Staleness:
    """The given staleness for separate pools; on shared devices rollout cannot run ahead."""
    if kind in (PlacementKind.SEPARATE, PlacementKind.HYBRID):
        return job.staleness
    return Staleness(streams=job.section.queue)


def _document(job: RlJob, step: PostTraining, found: PostTrainingStep) -> RlDocument:
    rate = step.tokens / found.step_s
    error = step_log_error(step.serving.cluster.profile).value
    shorter_s, longer_s = found.switches.doubt
    bars = found.time.program.bars
    first = min((bar.start_s for bar in bars), default=0.0)
    return RlDocument(
        schema_version=1,
        job=job.document,
        assumptions=job.assumptions,
        warnings=_warnings(step, found),
        step_time_s=found.step_s,
        step_time_low_s=(found.step_s - shorter_s) * math.exp(-error),
        step_time_high_s=(found.step_s + longer_s) * math.exp(error),
        tokens_per_s=rate,
        tokens_per_s_definition=DEFINITION,
        tokens_per_s_per_device=rate / step.num_devices,
        output_tokens_per_s_per_device=float(step.lengths.sum()) / found.step_s / step.num_devices,
        placement=step.placement.value,
        num_devices=step.num_devices,
        rollout_devices=step.serving.cluster.num_devices,
        train_devices=step.train_devices,
        reference_devices=step.reference_devices,
        staleness_steps=step.staleness.steps,
        strategy=_train_layout(step),
        rollout_layout=_rollout_layout(step),
        parts_s=_parts(found),
        utilisation=dict(found.time.program.busy_fraction),
        rollout=_rollout(step, found, job.section.lengths.cap),
        reshard=RlReshard(
            engine=step.reshard_engine,
            model_bytes=found.to_rollout.model_bytes,
            device_bytes=found.to_rollout.device_bytes,
            seconds=found.to_rollout.seconds,
            wire_s=found.to_rollout.wire_s,
            offload_s=_copies_s(found.switches.to_rollout),
            onload_s=_copies_s(found.switches.to_train),
            residual_bytes=found.switches.training_communicator_bytes if step.shares_devices else 0.0,
        ),
        switches=switches_document(step, found),
        training_peak_memory_bytes=found.training.peak_memory_bytes,
        training_fits=found.training.fits,
        timeline=[
            RlBar(
                task=bar.name,
                step=bar.step,
                pools=list(bar.pools),
                start_s=bar.start_s - first,
                end_s=bar.end_s - first,
                made_s=bar.made_s - first,
                waits_for=bar.waits_for,
            )
            for bar in bars
        ],
        blocked_by={bar.name: bar.waits_for for bar in bars},
        variants=_variants(step, found),
        launches=launches(job, step),
    )


def _copies_s(change: Switch) -> float:
    """Seconds of the copies to the host, or back."""
    return sum(part.each.value_s for part in change.parts if part.name.startswith(("offload_", "load_")))


def _parts(found: PostTrainingStep) -> dict[str, float]:
    parts = found.time.parts
    named = {
        "to_rollout": parts.to_rollout_s,
        "rollout": parts.rollout_s,
        "to_train": parts.to_train_s,
        "reward": parts.reward_s,
        "reference": parts.reference_s,
        "old_log_prob": parts.old_log_prob_s,
        "critic": parts.critic_s,
        "update": parts.update_s,
        "sync": parts.sync_s,
        "remainder": found.time.remainder_s,
    }
    return {name: seconds for name, seconds in named.items() if seconds > 0.0}


def _rollout(step: PostTraining, found: PostTrainingStep, cap: int) -> RlRollout:
    rolled = found.rollout
    return RlRollout(
        makespan_s=rolled.makespan_s,
        steady_s=rolled.steady_s,
        tail_s=rolled.tail_s,
        first_instance_s=rolled.first_instance_s,
        in_flight=rolled.in_flight,
        preemptions=rolled.preemptions,
        output_tokens_per_s=rolled.output_tokens / rolled.makespan_s,
        mean_length=float(step.lengths.mean()),
        longest_length=int(step.lengths.max()),
        truncated_fraction=float((step.lengths >= cap).mean()),
    )


def _variants(step: PostTraining, found: PostTrainingStep) -> list[RlVariant]:
    """Effects of staleness and a queue, as differences of two priced steps."""
    changes: dict[str, PostTraining] = {}
    if step.placement in (PlacementKind.SEPARATE, PlacementKind.HYBRID):
        for steps in (0, 1, 2, 4):
            changes[Sentence("staleness {}", steps) if steps else Sentence("synchronous")] = replace(
                step, staleness=Staleness(steps, partial=steps > 0, streams=step.staleness.streams)
            )
        changes[Sentence("any staleness")] = replace(
            step, staleness=Staleness(None, partial=True, streams=step.staleness.streams)
        )
    if step.placement is not PlacementKind.FULLY_COLOCATED:
        other = replace(step.staleness, streams=not step.staleness.streams)
        changes[Sentence("without a queue") if step.staleness.streams else Sentence("with a queue")] = replace(
            step, staleness=other
        )
    trained, rolled = found.training, found.rollout
    rows = []
    for change, job in changes.items():
        if job.staleness == step.staleness:
            continue
        priced = post_training_step(job, trained, rolled)
        rows.append(
            RlVariant(
                change=change,
                step_time_s=priced.step_s,
                tokens_per_s=job.tokens / priced.step_s,
                gain_fraction=found.step_s / priced.step_s - 1.0,
            )
        )
    return rows


def _plan(rank: int, one: Choice) -> RlPlan:
    return RlPlan(
        rank=rank,
        placement=one.job.placement.value,
        rollout_devices=one.job.serving.cluster.num_devices,
        train_devices=one.job.train_devices,
        reference_devices=one.job.reference_devices,
        staleness_steps=one.staleness_steps,
        strategy=_train_layout(one.job),
        rollout=_rollout_layout(one.job),
        step_time_s=one.step.step_s,
        tokens_per_s=one.tokens_per_s,
        tokens_per_s_per_device=one.tokens_per_s / one.job.num_devices,
        fits=one.step.training.fits,
        switch_s=one.step.switches.to_rollout.each.value_s + one.step.switches.to_train.each.value_s,
    )


def _train_layout(step: PostTraining) -> TrainLayout:
    chosen = step.strategy
    return TrainLayout(
        **{name: getattr(chosen, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp", "micro_batch_size", "zero_stage")},
        recompute=chosen.recompute is Recompute.FULL,
        num_devices=step.training.cluster.num_devices,
    )


def _rollout_layout(step: PostTraining) -> RolloutLayout:
    layout, devices = step.layout, step.serving.cluster.num_devices
    return RolloutLayout(
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        ep=layout.ep,
        instance_devices=layout.num_devices,
        instances=devices // layout.num_devices,
        num_devices=devices,
    )


def _warnings(step: PostTraining, found: PostTrainingStep) -> list[str]:
    told: list[str] = []
    if not found.training.fits:
        told.append(TOO_LARGE)
    if step.idle_train_devices:
        told.append(Sentence("{} training devices are left idle: no layout that uses them is faster.", step.idle_train_devices))
    idle = step.serving.cluster.num_devices % step.layout.num_devices
    if idle:
        told.append(Sentence("{} rollout devices are left over by instances of {}.", idle, step.layout.num_devices))
    if step_log_error(step.serving.cluster.profile).basis != "measured":
        told.append(LENGTHS_UNKNOWN)
    if (step.staleness.steps or 0) > 0 or step.staleness.steps is None or step.staleness.leftover_fraction:
        told.append(QUALITY)
    return told
