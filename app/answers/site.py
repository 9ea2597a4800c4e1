"""A job and its delivery section, as inputs of the cost model."""

from __future__ import annotations

import math
from dataclasses import replace

from app.jobs.delivery import SOURCES, DeliverySection
from app.jobs.job import Job
from app.jobs.written_numbers import quantity
from cost_models.constants import Constants
from cost_models.delivery.delivered import RunningPlan, Site
from cost_models.delivery.failures import DAY_S
from cost_models.delivery.recovery import RECOVERY_MODES
from cost_models.delivery.state import saved_state
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, word
from hardware_profiles.schema import HardwareProfile
from search.objectives.objective import Need
from search.objectives.table import OBJECTIVES

SPARE_FRACTION = 0.02  # share of a job's nodes that vendors advise as spares


def failing_site(job: Job) -> DeliverySection | None:
    """The site whose failures count in days and costs: the job's, unless it has prices only, or the requested one."""
    if any(Need.FAILURES in OBJECTIVES[name].needs for name in job.settings.objectives):
        return job.delivery or DeliverySection()
    return None if job.delivery is None or job.delivery.is_of_prices_alone else job.delivery


def running_plan(workload: Workload, strategy: ParallelStrategy, step_time_s: float, constants: Constants) -> RunningPlan:
    """The parts of a plan that failures affect. Experts spread over replicas tie these together."""
    profile, num_devices = workload.cluster.profile, workload.cluster.num_devices
    experts = strategy.ep * strategy.etp if workload.model.moe else 1
    replica = strategy.pp * math.lcm(strategy.tp * strategy.cp, experts)
    return RunningPlan(
        num_nodes=nodes_of(workload),
        num_supernodes=math.ceil(num_devices / size) if (size := supernode_devices(profile)) else 0,
        num_replicas=max(num_devices // replica, 1),
        replicas_per_node=profile.devices_per_node / replica,
        step_time_s=step_time_s,
        state=saved_state(workload, strategy, constants),
        host_link_bytes_per_s=profile.host_link_bytes_per_s,
        tokens_per_step=float(workload.training.step_tokens),
        peer_bytes_per_s=workload.cluster.inter_node_bytes_per_s or profile.tiers[-1].bandwidth_bytes_per_s,
    )


def nodes_of(workload: Workload) -> int:
    return math.ceil(workload.cluster.num_devices / workload.cluster.profile.devices_per_node)


def supernode_devices(profile: HardwareProfile) -> int | None:
    """Devices of the largest domain that shares more than a node and less than the cluster."""
    sizes = [tier.domain_devices for tier in profile.tiers if (tier.domain_devices or 0) > profile.devices_per_node]
    return max((size for size in sizes if size is not None), default=None)


def site_of(section: DeliverySection, num_nodes: int) -> Site:
    rate = section.failures_per_node_day if section.mtbf_s is None else DAY_S / (section.mtbf_s * num_nodes)
    return Site(
        failures_per_node_day=rate,
        mode=RECOVERY_MODES[section.recovery],
        detection_s=section.detection_s,
        write_bytes_per_s=section.storage_write_bytes_per_s,
        read_bytes_per_s=section.storage_read_bytes_per_s,
        replaced_fraction=section.replaced_fraction,
        supernode_failures_per_day=section.supernode_failures_per_day,
        cluster_failures_per_day=section.cluster_failures_per_day,
        asynchronous=section.checkpoint_asynchronous,
        checkpoint_fixed_s=section.checkpoint_fixed_s,
        interval_s=section.checkpoint_interval_s,
        in_memory_interval_s=section.in_memory_interval_s,
        dying_gasp=section.dying_gasp,
        num_spares=spares_of(section, num_nodes),
        repair_s=section.repair_s,
        elastic=section.elastic,
        slowdowns_per_node_day=section.slowdowns_per_node_day,
        slowdown_fraction=section.slowdown_fraction,
        noticed_after_s=section.noticed_after_s,
        loss_spikes_per_token=section.loss_spikes_per_trillion_tokens / 1e12,
        rollback_steps=section.rollback_steps,
    )


def spares_of(section: DeliverySection, num_nodes: int) -> int:
    return max(math.ceil(SPARE_FRACTION * num_nodes), 1) if section.spares is None else section.spares


def resolved(section: DeliverySection, num_nodes: int) -> DeliverySection:
    return section.model_copy(update={"spares": spares_of(section, num_nodes)})


def assumed_sentences(section: DeliverySection, num_nodes: int, *, with_power: bool, with_price: bool) -> list[str]:
    """A line for each default that affects this answer."""
    unused = set(section.model_fields_set)
    unused |= {"failures_per_node_day"} if section.mtbf_s is not None else set()
    unused |= set() if with_power else {"idle_power_fraction", "waiting_power_fraction", "host_power_fraction", "pue"}
    unused |= set() if with_price and section.price_per_device_hour_usd is None else {"years", "used_fraction"}
    unused |= set() if section.loss_spikes_per_trillion_tokens else {"rollback_steps", "skipped_batches"}
    values = resolved(section, num_nodes)
    return [
        Sentence("delivery.{} = {} {}", name, quantity(name, getattr(values, name)), why)
        for name, why in SOURCES.items()
        if name not in unused
    ]


def changed_sites(site: Site, *, has_replicas: bool) -> dict[str, Site]:
    """Alternative sites, each with one change, by description."""
    spares = math.ceil(1.5 * site.num_spares) + 1
    changes = {
        Sentence("detection in 10 s"): replace(site, detection_s=min(site.detection_s, 10.0)),
        Sentence("failures half as often"): replace(site, failures_per_node_day=site.failures_per_node_day / 2.0),
        Sentence("storage twice as fast"): replace(
            site, write_bytes_per_s=2.0 * site.write_bytes_per_s, read_bytes_per_s=2.0 * site.read_bytes_per_s
        ),
        Sentence("{} spare nodes", spares): replace(site, num_spares=spares),
        Sentence("repairs twice as fast"): replace(site, repair_s=site.repair_s / 2.0),
        Sentence("the best checkpoint interval"): replace(site, interval_s=None),
        Sentence("asynchronous checkpoints"): replace(site, asynchronous=True),
        Sentence("half as many loss spikes"): replace(site, loss_spikes_per_token=site.loss_spikes_per_token / 2.0),
        Sentence("slow nodes noticed in 10 min"): replace(site, noticed_after_s=min(site.noticed_after_s, 600.0)),
    }
    levels = list(RECOVERY_MODES)
    for name in levels[levels.index(site.mode.name) + 1 :]:
        changes[Sentence("recovery at the level of the {}", word(name))] = replace(site, mode=RECOVERY_MODES[name])
    if has_replicas:
        changes[Sentence("a checkpoint after each fault (dying gasp)")] = replace(site, dying_gasp=True)
        changes[Sentence("copies in other nodes' memory every 10 min")] = replace(site, in_memory_interval_s=600.0)
        changes[Sentence("going on with fewer replicas (elastic)")] = replace(site, elastic=True)
    return {change: changed for change, changed in changes.items() if changed != site}
