"""Power and energy of a job, and the cost of energy and devices."""

from __future__ import annotations

from documents.late_methods import dataclass

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Power:
    """Watts of one device with its share of the host while it computes, while it waits or communicates, and while it is idle."""

    busy_w: float
    waiting_w: float
    idle_w: float


def device_power(power_w: float, idle_fraction: float, waiting_fraction: float, host_fraction: float, pue: float) -> Power:
    """Power of each device as the site's meter sees it.

    Parameters
    ----------
    power_w
        Of a device that computes.
    idle_fraction
        Fraction of ``power_w`` while idle.
    waiting_fraction
        Fraction of ``power_w`` while the device waits for a link or for other ranks inside a step.
    host_fraction
        Fraction of ``power_w`` that host, NICs and fans always draw.
    pue
        Power of the site over the power of its machines, 1 or more.
    """
    host_w = power_w * host_fraction
    return Power(
        busy_w=pue * (power_w + host_w),
        waiting_w=pue * (power_w * waiting_fraction + host_w),
        idle_w=pue * (power_w * idle_fraction + host_w),
    )


def mean_power_w(power: Power, busy_fraction: float, running_fraction: float) -> float:
    """Mean power of a device in the long run.

    Parameters
    ----------
    busy_fraction
        Fraction of a step in which the device computes.
    running_fraction
        Fraction of the time in which steps run, including steps that are repeated later.
    """
    in_step_w = busy_fraction * power.busy_w + (1.0 - busy_fraction) * power.waiting_w
    return running_fraction * in_step_w + (1.0 - running_fraction) * power.idle_w


def owned_device_hour_usd(price_usd: float, years: float, used_fraction: float) -> float:
    """Cost of an hour of use of a purchased device.

    Parameters
    ----------
    price_usd
        Of a device with its share of the machine.
    years
        Depreciation period.
    used_fraction
        Fraction of these years in which the device is in use.
    """
    return price_usd / (years * 365.25 * 24.0 * used_fraction)
