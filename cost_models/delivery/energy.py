"""Power and energy of a job, and what energy and devices cost."""

from __future__ import annotations

from dataclasses import dataclass

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Power:
    """Watts of one device with its share of the host: while it computes, while it waits or communicates, and while it idles."""

    busy_w: float
    waiting_w: float
    idle_w: float


def device_power(power_w: float, idle_fraction: float, waiting_fraction: float, host_fraction: float, pue: float) -> Power:
    """What the meter of the site sees for each device.

    Parameters
    ----------
    power_w : float, watts
        Of a device that computes.
    idle_fraction : float
        Of that, while it does nothing.
    waiting_fraction : float
        Of that, while it waits for a link or for other ranks inside a step.
    host_fraction : float
        Of ``power_w``, that host, NICs and fans draw always.
    pue : float
        Power of the site over that of its machines, 1 or more.

    Returns
    -------
    Power
    """
    host_w = power_w * host_fraction
    return Power(
        busy_w=pue * (power_w + host_w),
        waiting_w=pue * (power_w * waiting_fraction + host_w),
        idle_w=pue * (power_w * idle_fraction + host_w),
    )


def mean_power_w(power: Power, busy_fraction: float, running_fraction: float) -> float:
    """Of a device in the long run.

    Parameters
    ----------
    power : Power
        By what the device does.
    busy_fraction : float
        Of a step, in which the device computes.
    running_fraction : float
        Of the time, in which steps run, those that are repeated later too.

    Returns
    -------
    float, watts
    """
    in_step_w = busy_fraction * power.busy_w + (1.0 - busy_fraction) * power.waiting_w
    return running_fraction * in_step_w + (1.0 - running_fraction) * power.idle_w


def owned_device_hour_usd(price_usd: float, years: float, used_fraction: float) -> float:
    """What an hour of a device costs that was bought, over the hours in which it is used.

    Parameters
    ----------
    price_usd : float, USD
        Of a device with its share of the machine.
    years : float
        Over which it is written off.
    used_fraction : float
        Of these, in which it works for somebody.

    Returns
    -------
    float, USD an hour
    """
    return price_usd / (years * 365.25 * 24.0 * used_fraction)
