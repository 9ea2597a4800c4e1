"""Delivered rate of a plan on a site: its step time with all interruptions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cost_models.delivery.checkpoints import CheckpointCost, best_interval_s, checkpoint_cost
from cost_models.delivery.failures import DAY_S, FailureClass
from cost_models.delivery.monte_carlo import Campaign
from cost_models.delivery.recovery import RECOVERY_MODES, REPLACED_FRACTION, RecoveryMode
from cost_models.delivery.renewal import NO_SPIKES, Effective, LossSpikes, effective, interruptions
from cost_models.delivery.repairs import Supply, supply
from cost_models.delivery.slow_nodes import rate_left
from cost_models.delivery.state import SavedState
from documents.late_methods import dataclass

LONGEST_INTERVAL_S = DAY_S  # between checkpoints, whatever the failures


@dataclass(frozen=True)
class RunningPlan:
    """The parts of a plan that failures affect.

    ``tokens_per_step`` counts where loss spikes do. ``replicas_per_node`` is below 1 if a data-parallel replica spans nodes.
    ``peer_bytes_per_s`` is the bandwidth from a peer device in another node.
    """

    num_nodes: int
    num_supernodes: int
    num_replicas: int
    replicas_per_node: float
    step_time_s: float
    state: SavedState
    host_link_bytes_per_s: float
    peer_bytes_per_s: float
    tokens_per_step: float = 0.0


@dataclass(frozen=True)
class Site:
    """Interruptions of jobs on a cluster, and the cluster's response to them.

    ``interval_s`` is useful time between checkpoints; ``None``: the best interval. ``in_memory_interval_s`` is the time between
    copies of the state into the memory of other nodes; ``None``: no copies. ``dying_gasp``: after a fault that leaves a replica
    whole, a checkpoint is written before the job ends. ``loss_spikes_per_token``: after each, the job returns to a checkpoint
    ``rollback_steps`` before the decision.
    """

    failures_per_node_day: float
    mode: RecoveryMode
    detection_s: float
    write_bytes_per_s: float
    read_bytes_per_s: float
    replaced_fraction: float = REPLACED_FRACTION
    supernode_failures_per_day: float = 0.0
    cluster_failures_per_day: float = 0.0
    asynchronous: bool = True
    checkpoint_fixed_s: float = 0.0  # seconds that a checkpoint blocks, whatever its size
    interval_s: float | None = None
    in_memory_interval_s: float | None = None
    dying_gasp: bool = False
    num_spares: int = 0
    repair_s: float = 0.0
    elastic: bool = False
    slowdowns_per_node_day: float = 0.0
    slowdown_fraction: float = 0.0
    noticed_after_s: float = 0.0
    loss_spikes_per_token: float = 0.0
    rollback_steps: float = 0.0


@dataclass(frozen=True)
class Delivered:
    """Fraction of the step's rate that is delivered, and the losses. ``rate`` is useful time at full rate over wall time."""

    classes: Sequence[FailureClass]
    checkpoint: CheckpointCost
    interval_s: float
    mtbf_s: float
    lossy_mtbf_s: float
    effective: Effective
    supply: Supply
    slow_rate: float
    rate: float
    campaign: Campaign


def failure_classes(plan: RunningPlan, site: Site, checkpoint: CheckpointCost) -> list[FailureClass]:
    """Classes of failures that can interrupt the plan on the site. ``checkpoint`` saves the plan's state."""
    of_nodes = plan.num_nodes * site.failures_per_node_day / DAY_S
    recovery_s, keeps = _recovery(plan, site, checkpoint)
    in_place = min(site.mode.in_place_fraction, site.replaced_fraction) if plan.num_replicas > 1 else 0.0
    whole_job_s = site.detection_s + RECOVERY_MODES["job"].restart_s + checkpoint.load_s + plan.step_time_s
    found = [
        FailureClass("node", of_nodes * (site.replaced_fraction - in_place), recovery_s, keeps, replaces_node=True),
        FailureClass("repaired_in_place", of_nodes * in_place, site.detection_s + plan.step_time_s, keeps_state=True),
        FailureClass("software", of_nodes * (1.0 - site.replaced_fraction), recovery_s, keeps),
        FailureClass("supernode", plan.num_supernodes * site.supernode_failures_per_day / DAY_S, whole_job_s),
        FailureClass("cluster", site.cluster_failures_per_day / DAY_S, whole_job_s),
    ]
    return [each for each in found if each.rate_per_s > 0.0]


def loss_spikes(plan: RunningPlan, site: Site, checkpoint: CheckpointCost) -> LossSpikes:
    """Loss spikes of the plan: the job starts again from storage, as after a fault that is known at once."""
    if not site.loss_spikes_per_token:
        return NO_SPIKES
    return LossSpikes(
        rate_per_s=site.loss_spikes_per_token * plan.tokens_per_step / plan.step_time_s,
        rollback_s=site.rollback_steps * plan.step_time_s,
        recovery_s=site.mode.restart_s + checkpoint.load_s + plan.step_time_s,
    )


def _recovery(plan: RunningPlan, site: Site, checkpoint: CheckpointCost) -> tuple[float, bool]:
    """Seconds from a node's fault to the next useful step, and whether the work since the last checkpoint survives.

    Without a second replica only storage has a copy of the state.
    """
    start_s = site.detection_s + site.mode.restart_s
    peers_s = plan.state.device_bytes / plan.peer_bytes_per_s
    if plan.num_replicas > 1:
        if site.mode.from_peers:
            return start_s + peers_s + plan.step_time_s, True
        if site.in_memory_interval_s is not None:
            return start_s + peers_s + site.in_memory_interval_s / 2.0 + plan.step_time_s, True
        if site.dying_gasp:
            saving_s = plan.state.total_bytes / site.write_bytes_per_s
            return start_s + saving_s + checkpoint.load_s + plan.step_time_s, True
    return start_s + checkpoint.load_s + plan.step_time_s, False


def delivered(plan: RunningPlan, site: Site) -> Delivered:
    """Delivered rate of the plan on the site in the long run.

    Waiting for nodes, slow nodes and failures multiply: each applies to the time that the others leave.
    """
    checkpoint = checkpoint_cost(
        plan.state.total_bytes,
        plan.state.device_bytes,
        plan.host_link_bytes_per_s,
        site.write_bytes_per_s,
        site.read_bytes_per_s,
        asynchronous=site.asynchronous,
        fixed_s=site.checkpoint_fixed_s,
    )
    classes = failure_classes(plan, site, checkpoint)
    met, spikes = interruptions(classes), loss_spikes(plan, site, checkpoint)
    interval_s = site.interval_s
    if interval_s is None:
        lossy_per_s = (0.0 if math.isinf(met.lossy_mtbf_s) else 1.0 / met.lossy_mtbf_s) + spikes.rate_per_s
        between_s = 1.0 / lossy_per_s if lossy_per_s else math.inf
        interval_s = min(best_interval_s(checkpoint.blocking_s, between_s), LONGEST_INTERVAL_S)
    interval_s = max(interval_s, checkpoint.least_interval_s, plan.step_time_s)
    share = effective(classes, interval_s, checkpoint.blocking_s, checkpoint.drain_s, spikes)
    leaving = math.fsum(each.rate_per_s for each in classes if each.replaces_node)
    nodes = supply(
        site.num_spares,
        leaving,
        site.repair_s,
        num_replicas=plan.num_replicas,
        replicas_per_node=plan.replicas_per_node,
        elastic=site.elastic,
    )
    slowdowns_per_s = plan.num_nodes * site.slowdowns_per_node_day / DAY_S
    slow_rate = rate_left(slowdowns_per_s, site.noticed_after_s, site.slowdown_fraction)
    return Delivered(
        classes=classes,
        checkpoint=checkpoint,
        interval_s=interval_s,
        mtbf_s=met.mtbf_s,
        lossy_mtbf_s=met.lossy_mtbf_s,
        effective=share,
        supply=nodes,
        slow_rate=slow_rate,
        rate=share.useful * nodes.rate * slow_rate,
        campaign=Campaign(
            classes=classes,
            interval_s=interval_s,
            blocking_s=checkpoint.blocking_s,
            num_spares=site.num_spares,
            repair_s=site.repair_s,
            num_replicas=plan.num_replicas,
            replicas_per_node=plan.replicas_per_node,
            elastic=site.elastic,
            slowdowns_per_s=slowdowns_per_s,
            noticed_after_s=site.noticed_after_s,
            slowdown_fraction=site.slowdown_fraction,
            drain_s=checkpoint.drain_s,
            spikes=spikes,
        ),
    )
