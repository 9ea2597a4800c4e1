"""A service in its steady state: pools of prefill and decode, requests that follow each other without end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.network.collectives import send_recv_s
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import DEFAULT_PASS_TOKENS, DEFAULT_UTILISATION, kv_bytes_per_token, kv_capacity_tokens
from cost_models.serving.steps import decode_step_s, prefill_s

Floats = NDArray[np.float64]

MAX_IN_FLIGHT = 2**20  # requests of an instance; no engine schedules more
PASSES_TO_SETTLE = 6  # a pass that is longer finds more prompts that waited
SETTLING = 64  # numbers in flight among which the one is found that prefill keeps up with


@dataclass(frozen=True)
class RequestShape:
    """Requests of a service, all alike: means stand for lengths that differ."""

    prompt_tokens: float
    response_tokens: float
    cached_fraction: float = 0.0  # of the prompt, whose keys and values are at hand

    @property
    def new_tokens(self) -> float:
        """Of a prompt, that prefill computes."""
        return max(self.prompt_tokens * (1.0 - self.cached_fraction), 1.0)

    @property
    def mean_context_tokens(self) -> float:
        """That a step of decode sees of a request, over its life."""
        return self.prompt_tokens + (self.response_tokens + 1.0) / 2.0


@dataclass(frozen=True)
class PrefillRate:
    """One instance of prefill: seconds of a pass, prompts in it, prompts a second."""

    pass_s: float
    prompts_per_pass: float
    prompts_per_s: float


@dataclass(frozen=True)
class Service:
    """What a service gives. ``requests_per_s`` is what its slower pool lets through.

    ``in_flight`` are the requests of a decode instance at that rate. Uses are shares of what a pool could let through.
    """

    requests_per_s: float
    ttft_s: float
    tpot_s: float
    in_flight: float
    prefill_use: float
    decode_use: float

    @property
    def bound_by(self) -> str:
        """The slower pool; of one pool that does both, the part that takes longer."""
        return "prefill" if self.prefill_use > self.decode_use else "decode"


def mean_requests_held(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, utilisation: float = DEFAULT_UTILISATION
) -> int:
    """Requests whose keys and values an instance holds, at their mean length: some are young while others are old.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster and engine.
    layout : ServingLayout
        Degrees of the instance.
    shape : RequestShape
        Lengths.
    utilisation : float
        Share of usable memory that the engine may fill.

    Returns
    -------
    int
        0 where the weights do not fit.
    """
    tokens = kv_capacity_tokens(workload, layout, utilisation=utilisation)
    return MAX_IN_FLIGHT if math.isinf(tokens) else min(int(tokens // shape.mean_context_tokens), MAX_IN_FLIGHT)


def time_per_token_s(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, in_flight: ArrayLike, prefill_each_s: float = 0.0
) -> Floats:
    """Seconds from one output token of a request to its next, in the mean.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster, engine and constants.
    layout : ServingLayout
        Degrees of the instance.
    shape : RequestShape
        Lengths.
    in_flight : array
        Requests of the instance.
    prefill_each_s : float
        That the instance gives each request's prefill: while a request decodes, as many others enter as are in flight.

    Returns
    -------
    Floats, seconds
    """
    flying = np.asarray(in_flight, dtype=np.float64)
    step_s = decode_step_s(workload, layout, flying, shape.mean_context_tokens) / workload.engine.tokens_per_step
    return step_s + flying * prefill_each_s / shape.response_tokens


def prefill_rate(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, pass_tokens: float = DEFAULT_PASS_TOKENS
) -> PrefillRate:
    """What one instance prefills: passes of as many prompts as fit in ``pass_tokens`` a replica, one at least.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster, engine and constants.
    layout : ServingLayout
        Degrees of the instance.
    shape : RequestShape
        Lengths.
    pass_tokens : float
        Tokens of a replica in a pass.

    Returns
    -------
    PrefillRate
        With stages, as many passes are under way.
    """
    prompts = layout.dp * max(math.floor(pass_tokens / shape.new_tokens), 1)
    pass_s = float(prefill_s(workload, layout, prompts, shape.new_tokens))
    return PrefillRate(pass_s, prompts, prompts * layout.pp / pass_s)


def cache_transfer_s(workload: ServingWorkload, layout: ServingLayout, shape: RequestShape) -> float:
    """A prompt's keys and values from a prefill instance to a decode instance, every device to its peer.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster and engine.
    layout : ServingLayout
        Of the prefill instance.
    shape : RequestShape
        Lengths.

    Returns
    -------
    float, seconds
        Across the outermost tier that instances of this size lie behind.
    """
    moved = shape.prompt_tokens * kv_bytes_per_token(workload, layout)
    return float(send_recv_s(moved, 2, layout.num_devices, workload.network))


def service(
    workload: ServingWorkload,
    shape: RequestShape,
    decode: ServingLayout,
    num_decode: int,
    in_flight: float,
    prefill: tuple[ServingLayout, int] | None = None,
    pass_tokens: float = DEFAULT_PASS_TOKENS,
) -> Service:
    """A service whose decode instances are kept at ``in_flight`` requests each, as far as prefill can follow.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster, engine and constants.
    shape : RequestShape
        Lengths.
    decode : ServingLayout
        Of each decode instance.
    num_decode : int
        Decode instances.
    in_flight : float
        Requests of each.
    prefill : tuple of ServingLayout and int, or None
        Prefill instances; None: decode instances prefill too, and all in flight wait for it.
    pass_tokens : float
        Tokens of a replica in a pass of prefill.

    Returns
    -------
    Service

    Notes
    -----
    TTFT is the wait for a pass under way, a pass of what arrived meanwhile, the way of keys and values, and a step of decode:
    requests that arrive evenly. A queue before an overloaded pool is not in it.
    """
    rate = prefill_rate(workload, decode if prefill is None else prefill[0], shape, pass_tokens)
    if prefill is None:
        each_s = 1.0 / rate.prompts_per_s
        tpot_s = float(time_per_token_s(workload, decode, shape, in_flight, each_s))
        requests_per_s = num_decode * in_flight / (tpot_s * shape.response_tokens + rate.pass_s)
        use = requests_per_s / num_decode * each_s
        waits_s = _first_pass_s(workload, decode, shape, rate, requests_per_s / num_decode)
        alone_s = float(time_per_token_s(workload, decode, shape, in_flight))
        return Service(requests_per_s, waits_s + alone_s, tpot_s, in_flight, use, 1.0 - use)
    layout, num_prefill = prefill
    flying = np.linspace(in_flight / SETTLING, in_flight, SETTLING)
    tpots = time_per_token_s(workload, decode, shape, flying)
    rates = num_decode * flying / (tpots * shape.response_tokens)
    decoded, prefilled = float(rates[-1]), num_prefill * rate.prompts_per_s
    requests_per_s = min(decoded, prefilled)
    # Where prefill sets the rate, fewer are in flight.
    settled = float(np.interp(requests_per_s, np.maximum.accumulate(rates), flying))
    tpot_s = float(np.interp(settled, flying, tpots))
    use = requests_per_s / prefilled
    step_s = tpot_s * workload.engine.tokens_per_step
    waits_s = _first_pass_s(workload, layout, shape, rate, requests_per_s / num_prefill)
    ttft_s = waits_s + cache_transfer_s(workload, layout, shape) + step_s
    return Service(requests_per_s, ttft_s, tpot_s, settled, use, requests_per_s / decoded)


def _first_pass_s(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, rate: PrefillRate, arrivals_per_s: float
) -> float:
    """Half a pass in the share of time that one is under way, and a pass of the prompts that arrive during one.

    Parameters
    ----------
    rate : PrefillRate
        Of full passes.
    arrivals_per_s : float
        Requests of one instance.
    """
    prompts, pass_s = rate.prompts_per_pass, rate.pass_s
    for _ in range(PASSES_TO_SETTLE):
        prompts = min(max(arrivals_per_s / layout.pp * pass_s, 1.0), rate.prompts_per_pass)
        pass_s = float(prefill_s(workload, layout, prompts, shape.new_tokens))
    use = min(arrivals_per_s / layout.pp * pass_s / prompts, 1.0)
    return (1.0 + use / 2.0) * pass_s
