"""One step of post-training: rollout, training side and changes of layout combined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.network.tiers import Network
from cost_models.post_training.constants import DEFAULT_ENGINE, constant
from cost_models.post_training.placements import PIECES, SYNCHRONOUS, Parts, PlacementKind, Staleness, StepTime, lag_of, step_time
from cost_models.post_training.resharding import Reshard, engine_s, host_copy_s, reshard
from cost_models.post_training.rollout_side import MAX_REQUESTS, RolloutTimes, Scheduling, rollout_times
from cost_models.post_training.shards import MovedShards, Pools, RankOrder, moved_shards
from cost_models.post_training.switching import USUAL, Doubtful, Switches, Switching, num_decode_graphs, switches
from cost_models.post_training.training_side import FORWARD_PART, Batching, TrainingTimes, training_times
from cost_models.serving.engine import WEIGHT_BYTES, ServingLayout, ServingWorkload
from cost_models.serving.memory import serving_memory
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

QUEUE_TOKEN_BYTES = 16.0  # ids of 8 bytes, log-probabilities of the policy and of the reference [asyncflow]
CHANGES_OVER = (PlacementKind.COLOCATED, PlacementKind.FULLY_COLOCATED)  # devices train and roll out in turn
MOST_AHEAD = 1.0  # batches that start while one still runs: engines get one batch at a time


@dataclass(frozen=True)
class Algorithm:
    """Tasks of a step in addition to rollout and update.

    ``old_log_prob``: the training engine recomputes the log-probabilities of the answers under the weights that generated them.
    ``kept_fraction``: part of the generated prompts that passes a filter (DAPO's dynamic sampling); the rest was generated for
    nothing. ``num_updates``: optimizer steps over one batch.
    """

    reference: bool = True
    old_log_prob: bool = True
    critic: bool = False
    reward_model: bool = False
    kept_fraction: float = 1.0
    num_updates: int = 1

    @property
    def forward_passes(self) -> float:
        """Passes over all answers without gradients, as a multiple of a plain forward's time."""
        return self.old_log_prob * constant("forward_factor") + self.reference + self.reward_model + self.critic


@dataclass(frozen=True)
class PostTraining:
    """Inputs of a step: the models, the pools of devices and the answers.

    ``training`` and ``serving`` each have the devices of their own pool; these are all devices if rollout shares those of
    training.
    ``idle_train_devices`` are further devices of the training pool that its layout does not use. ``lengths`` are the answers that
    are trained on, ``[prompts, samples]``, ``prompt_tokens`` the mean prompt. ``memory_fraction``: part of a device that a
    rollout
    instance can fill. ``reference_devices``: separate devices for reference and reward, if they do not share those of training.
    ``queue_bytes_per_s``: bandwidth of the storage behind a queue of samples; ``None``: no queue.
    """

    training: Workload
    strategy: ParallelStrategy
    constants: Constants
    serving: ServingWorkload
    layout: ServingLayout
    lengths: NDArray[np.int64]
    prompt_tokens: float
    placement: PlacementKind = PlacementKind.FULLY_COLOCATED
    staleness: Staleness = SYNCHRONOUS
    algorithm: Algorithm = Algorithm()
    pack_length: int = 8192
    batching: Batching = Batching.PACKED
    reshard_engine: str = DEFAULT_ENGINE
    max_requests: int | None = None
    memory_fraction: float = 0.9
    offloads: bool = True
    reference_devices: int | None = None
    queue_bytes_per_s: float | None = None
    scheduling: Scheduling = Scheduling.GROUPS
    idle_train_devices: int = 0
    switching: Switching = USUAL

    @property
    def train_devices(self) -> int:
        """Devices of the training pool, including those that its layout leaves idle."""
        return self.training.cluster.num_devices + self.idle_train_devices

    @property
    def num_devices(self) -> int:
        """Devices of all pools together."""
        apart = self.train_devices if self.placement is PlacementKind.SEPARATE else 0
        return self.serving.cluster.num_devices + (self.reference_devices or 0) + apart

    @property
    def shares_devices(self) -> bool:
        """Whether rollout runs on the training devices."""
        return self.placement in CHANGES_OVER

    @property
    def tokens(self) -> float:
        """Tokens of prompts and answers that a step trains on."""
        return float(self.lengths.sum()) + self.prompt_tokens * self.lengths.size


@dataclass(frozen=True)
class PostTrainingStep:
    """Price of a step, with its parts."""

    time: StepTime
    training: TrainingTimes
    rollout: RolloutTimes
    to_rollout: Reshard
    switches: Switches

    @property
    def step_s(self) -> float:
        """Seconds of a step in steady state."""
        return self.time.step_s


def training_cost_s(wanted: Algorithm, trained: TrainingTimes) -> float:
    """Time of a step on its training devices: the update and the passes without gradients. [s]"""
    return trained.update_s * (1 + wanted.critic) + wanted.forward_passes * trained.forward_s


def least_passes(wanted: Algorithm, *, recomputes: bool) -> float:
    """Lower bound on the forward passes over all tokens whose matmuls ``training_cost_s`` contains. [1]

    ``recomputes``: the update runs every layer forward twice.
    """
    update = 1.0 / FORWARD_PART + recomputes
    return update * (1 + wanted.critic) + wanted.forward_passes


def layout_change_s(
    serving: ServingWorkload,
    layout: ServingLayout,
    strategy: ParallelStrategy,
    trained: TrainingTimes,
    engine: str,
    *,
    offloads: bool,
) -> float:
    """Seconds in which devices that do both change to rollout and back: new shards, and states to the host and back.

    ``engine`` is a name of ``ENGINES``. ``offloads``: states are copied to the host. All layouts take the same for the rest.
    """
    copy_s = host_copy_s(trained.allocated_after_step_bytes, serving.cluster.profile) if offloads else 0.0
    return _resharded(serving, layout, strategy, engine).seconds + 2.0 * copy_s


def _resharded(serving: ServingWorkload, layout: ServingLayout, strategy: ParallelStrategy | None, engine: str) -> Reshard:
    width = float(WEIGHT_BYTES[serving.engine.precision])
    return reshard(serving.model, serving.cluster.profile, strategy, layout, engine, bytes_per_weight=width)


def layout_shards(job: PostTraining) -> MovedShards:
    """Shards of every device of a job in both layouts.

    Separate pools follow each other; the devices of a hybrid that train come first.
    """
    apart = job.train_devices if job.placement is PlacementKind.SEPARATE else 0
    order = job.switching.rank_order if job.shares_devices else RankOrder.CONSECUTIVE
    pools = Pools(job.training.cluster.num_devices, job.serving.cluster.num_devices, apart, order)
    width = float(WEIGHT_BYTES[job.serving.engine.precision])
    domains = [tier.domain_devices for tier in job.serving.network.tiers]
    return moved_shards(job.serving.model, job.strategy, job.layout, pools, domains, bytes_per_weight=width)


def layout_switches(job: PostTraining, trained: TrainingTimes, changed: Reshard, shards: MovedShards | None = None) -> Switches:
    """Both changes of layout of a job; with ``shards``, the range of the weights' seconds covers all bytes that move."""
    engine, profile = job.serving.engine, job.serving.cluster.profile
    weights = Doubtful.sure(changed.seconds)
    if shards is not None:
        of_all = engine_s(changed.model_bytes, shards.moved_fraction, job.reshard_engine, profile)
        weights = weights._replace(high_s=max(changed.seconds, of_all, shards.wire_s(Network.of(job.serving.cluster))))
    graphs = job.switching.num_graphs
    if graphs is None:
        graphs = num_decode_graphs(job.max_requests or MAX_REQUESTS, profile)
    return switches(
        job.training,
        job.strategy,
        job.layout,
        trained,
        weights,
        job.switching,
        weights_bytes=changed.device_bytes if shards is None else shards.device_bytes,
        instances=job.serving.cluster.num_devices // job.layout.num_devices,
        graphs=graphs if engine.graph else 0,
        cache_bytes=max(serving_memory(job.serving, job.layout, utilisation=job.memory_fraction).cache_bytes, 0.0),
        shares_devices=job.shares_devices,
        offloads=job.offloads,
    )


def trained_times(job: PostTraining) -> TrainingTimes:
    """The training side of a step. It does not depend on the rollout."""
    sequences = np.rint(job.lengths.ravel() + job.prompt_tokens).astype(np.int64)
    return training_times(
        job.training,
        job.strategy,
        job.constants,
        sequences,
        pack_length=job.pack_length,
        num_updates=job.algorithm.num_updates,
        batching=job.batching,
    )


def rolled_times(job: PostTraining) -> RolloutTimes:
    """The rollout of a step. It does not depend on the staleness."""
    return rollout_times(
        job.serving,
        job.layout,
        _with_dropped(job),
        job.prompt_tokens,
        max_requests=job.max_requests,
        memory_fraction=job.memory_fraction,
        scheduling=job.scheduling,
    )


def post_training_step(
    job: PostTraining, trained: TrainingTimes | None = None, rolled: RolloutTimes | None = None
) -> PostTrainingStep:
    """Price one step. A known training side or rollout can be given.

    Raises ``WorkloadError`` if an instance's ranks do not nest in the order that the job wants.
    """
    if job.switching.rank_order is not RankOrder.CONSECUTIVE:
        layout_shards(job)
    trained = trained or trained_times(job)
    rolled = (rolled or rolled_times(job)).going_on(
        1.0 + min(job.staleness.leftover_fraction or float(lag_of(job.staleness)), MOST_AHEAD)
    )
    changed = _resharded(job.serving, job.layout, job.strategy if job.shares_devices else None, job.reshard_engine)
    layouts = layout_switches(job, trained, changed)
    time = step_time(job.placement, _parts(job, trained, rolled, layouts), job.staleness)
    return PostTrainingStep(time=time, training=trained, rollout=rolled, to_rollout=changed, switches=layouts)


def _with_dropped(job: PostTraining) -> NDArray[np.int64]:
    """All generated answers. Dropped answers have the lengths of kept ones."""
    kept = job.algorithm.kept_fraction
    if kept >= 1.0:
        return job.lengths
    groups = max(round(len(job.lengths) / kept), len(job.lengths))
    return job.lengths[np.arange(groups) % len(job.lengths)]


def _parts(job: PostTraining, trained: TrainingTimes, rolled: RolloutTimes, layouts: Switches) -> Parts:
    """Seconds of every task. A critic costs as much as the actor; a reward model passes every answer once."""
    wanted = job.algorithm
    others = 1.0 if job.reference_devices is None else job.training.cluster.num_devices / job.reference_devices
    aside = trained.forward_s * others
    separate, hybrid = not job.shares_devices, job.placement is PlacementKind.HYBRID
    return Parts(
        rollout_s=rolled.makespan_s,
        longest_s=max(rolled.longest_s, rolled.makespan_s),
        steady_rollout_s=rolled.steady_s,
        old_log_prob_s=constant("forward_factor") * trained.forward_s if wanted.old_log_prob else 0.0,
        reference_s=aside if wanted.reference else 0.0,
        reward_s=aside if wanted.reward_model else 0.0,
        critic_s=trained.update_s + trained.forward_s if wanted.critic else 0.0,
        update_s=trained.update_s,
        to_rollout_s=0.0 if separate else layouts.to_rollout.each.value_s,
        to_train_s=layouts.to_train.each.value_s,
        sync_s=layouts.to_rollout.each.value_s if separate else 0.0,
        train_share=job.training.cluster.num_devices / job.serving.cluster.num_devices if hybrid else 1.0,
        queue_s=0.0 if job.queue_bytes_per_s is None else job.tokens * QUEUE_TOKEN_BYTES / job.queue_bytes_per_s,
        finish_s=tuple(rolled.complete_s((piece + 1) / PIECES) for piece in range(PIECES)),
    )
