"""Power and cost of a running job, from its plan's step and its site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.site import assumed_sentences, failing_site, nodes_of
from app.jobs.assumed import field_of
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from cost_models.delivery.energy import JOULES_PER_KWH, device_power, mean_power_w, owned_device_hour_usd
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, word

# Parts of a step in which a device waits: for a link, its host or other ranks.
WAITING = (
    "tp_comm",
    "cp_comm",
    "ep_comm",
    "dp_comm",
    "weight_gather",
    "activation_swap",
    "pipeline_p2p",
    "pipeline_bubble",
    "host",
    "size_synchronisation",
)


@dataclass(frozen=True)
class Draw:
    """Mean power of a device with its share of hosts and site, and of all devices and spares; energy of a day."""

    device_w: float
    site_w: float
    kwh_per_day: float


@dataclass(frozen=True)
class Price:
    """Cost of an hour of a device, and of a day of all devices and spares, with energy if it has a price."""

    device_hour_usd: float
    usd_per_day: float
    basis: str


def busy_fraction(estimate: Mapping[str, Any]) -> float:
    """Part of the step in which the critical rank computes."""
    times: Mapping[str, float] = estimate["time_breakdown_s"]
    return 1.0 - sum(times.get(name, 0.0) for name in WAITING) / float(estimate["step_time_s"])


def draw_of(
    workload: Workload, section: DeliverySection, estimate: Mapping[str, Any], *, running: float = 1.0, num_spares: int = 0
) -> Draw | None:
    """Power of the site while steps run for that part of the time; None if the power of a device is unknown."""
    profile = workload.cluster.profile
    power_w = section.power_w or profile.power_w
    if power_w is None:
        return None
    power = device_power(
        power_w, section.idle_power_fraction, section.waiting_power_fraction, section.host_power_fraction, section.pue
    )
    each_w = mean_power_w(power, busy_fraction(estimate), running)
    site_w = each_w * workload.cluster.num_devices + power.idle_w * num_spares * profile.devices_per_node
    return Draw(each_w, site_w, site_w * DAY_S / JOULES_PER_KWH)


def price_of(workload: Workload, section: DeliverySection, draw: Draw | None, *, num_spares: int = 0) -> Price | None:
    """Cost of a day; None without a price of the user or of the profile."""
    profile, hour = workload.cluster.profile, section.price_per_device_hour_usd
    basis = Sentence("delivery.price_per_device_hour_usd, as given")
    if hour is None:
        if profile.price_usd is None:
            return None
        hour = owned_device_hour_usd(profile.price_usd, section.years, section.used_fraction)
        stated = profile.provenance["price_usd"]
        basis = Sentence(
            "{:,.0f} USD a device of {} ({}, {}) over {:g} years, {:.0%} used",
            profile.price_usd,
            profile.name,
            word(stated.basis),
            stated.source,
            section.years,
            section.used_fraction,
        )
    per_day = (workload.cluster.num_devices + num_spares * profile.devices_per_node) * hour * 24.0
    if section.price_per_kwh_usd is not None and draw is not None:
        per_day += draw.kwh_per_day * section.price_per_kwh_usd
        basis += Sentence(", and {:g} USD a kWh", section.price_per_kwh_usd)
    return Price(hour, per_day, basis)


_WITHOUT_SITE = ("idle_power_fraction", "waiting_power_fraction", "host_power_fraction", "pue", "years", "used_fraction")


def basis_sentences(jobs: Sequence[Job]) -> list[str]:
    """Sources of power and price of each hardware, and the site's defaults behind them."""
    sentences: list[str] = []
    with_power = with_price = False
    for job in {job.workload.cluster.profile.name: job for job in jobs}.values():
        section, profile = job.delivery or DeliverySection(), job.workload.cluster.profile
        draw = draw_of(job.workload, section, {"step_time_s": 1.0, "time_breakdown_s": {}})
        price = price_of(job.workload, section, draw)
        if draw is not None and section.power_w is None:
            stated = profile.provenance["power_w"]
            sentences.append(
                Sentence(
                    "delivery.power_w = {:g} of {} ({}, {})", profile.power_w, profile.name, word(stated.basis), stated.source
                )
            )
        if price is not None:
            sentences.append(Sentence("cost: {:.4g} USD an hour of a device: {}", price.device_hour_usd, price.basis))
        with_power, with_price = with_power or draw is not None, with_price or price is not None
    first = jobs[0]
    section, num_nodes = first.delivery or DeliverySection(), nodes_of(first.workload)
    counts_failures = failing_site(first) is not None
    assumed = assumed_sentences(section, num_nodes, with_power=with_power, with_price=with_price)
    if not counts_failures:
        assumed = [sentence for sentence in assumed if field_of(sentence).removeprefix("delivery.") in _WITHOUT_SITE]
    elif len({nodes_of(job.workload) for job in jobs}) > 1:  # a share of the nodes
        assumed = [sentence for sentence in assumed if field_of(sentence) != "delivery.spares"]
    return [*sentences, *assumed]
