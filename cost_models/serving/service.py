"""Steady state of a service: pools of prefill and decode instances with a continuous stream of requests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.network.collectives import send_recv_s
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import DEFAULT_PASS_TOKENS, DEFAULT_UTILISATION, kv_bytes_per_token, kv_capacity_tokens
from cost_models.serving.steps import decode_step_s, prefill_s
from documents.late_methods import dataclass

Floats = NDArray[np.float64]

MAX_IN_FLIGHT = 2**20  # requests of an instance; no engine schedules more
PASSES_TO_SETTLE = 6  # iterations: after a longer pass more prompts wait
SETTLING = 64  # numbers in flight that are tried, to find the one that prefill keeps up with


@dataclass(frozen=True)
class RequestShape:
    """Requests of a service, all alike: the means stand for varying lengths."""

    prompt_tokens: float
    response_tokens: float
    cached_fraction: float = 0.0  # fraction of the prompt whose keys and values are already cached

    @property
    def new_tokens(self) -> float:
        """Tokens of a prompt that prefill computes."""
        return max(self.prompt_tokens * (1.0 - self.cached_fraction), 1.0)

    @property
    def mean_context_tokens(self) -> float:
        """Mean context of a request over its decode steps."""
        return self.prompt_tokens + (self.response_tokens + 1.0) / 2.0


@dataclass(frozen=True)
class PrefillRate:
    """One prefill instance: seconds of a pass, prompts in it, prompts a second."""

    pass_s: float
    prompts_per_pass: float
    prompts_per_s: float


@dataclass(frozen=True)
class Service:
    """Performance of a service. ``requests_per_s`` is the rate of its slower pool.

    ``in_flight`` are the requests of a decode instance at that rate. Uses are fractions of each pool's maximum rate.
    """

    requests_per_s: float
    ttft_s: float
    tpot_s: float
    in_flight: float
    prefill_use: float
    decode_use: float

    @property
    def bound_by(self) -> str:
        """The slower pool; if one pool does both, the part that takes longer."""
        return "prefill" if self.prefill_use > self.decode_use else "decode"


def mean_requests_held(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, utilisation: float = DEFAULT_UTILISATION
) -> int:
    """Requests of mean length whose keys and values fit in an instance; 0 if the weights do not fit.

    The mean length is enough, because some requests are young while others are old.
    """
    tokens = kv_capacity_tokens(workload, layout, utilisation=utilisation)
    return MAX_IN_FLIGHT if math.isinf(tokens) else min(int(tokens // shape.mean_context_tokens), MAX_IN_FLIGHT)


def time_per_token_s(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, in_flight: ArrayLike, prefill_each_s: float = 0.0
) -> Floats:
    """Mean seconds between two output tokens of a request; elementwise over ``in_flight``.

    Parameters
    ----------
    prefill_each_s
        Time that the instance spends on each request's prefill. While a request decodes, as many others enter as are in flight.
    """
    flying = np.asarray(in_flight, dtype=np.float64)
    step_s = decode_step_s(workload, layout, flying, shape.mean_context_tokens) / workload.engine.tokens_per_step
    return step_s + flying * prefill_each_s / shape.response_tokens


def prefill_rate(
    workload: ServingWorkload, layout: ServingLayout, shape: RequestShape, pass_tokens: float = DEFAULT_PASS_TOKENS
) -> PrefillRate:
    """Prefill rate of one instance, in passes of as many prompts as fit in ``pass_tokens`` a replica, at least one.

    With pipeline stages, as many passes run at once.
    """
    prompts = layout.dp * max(math.floor(pass_tokens / shape.new_tokens), 1)
    pass_s = float(prefill_s(workload, layout, prompts, shape.new_tokens))
    return PrefillRate(pass_s, prompts, prompts * layout.pp / pass_s)


def cache_transfer_s(workload: ServingWorkload, layout: ServingLayout, shape: RequestShape) -> float:
    """Time to send a prompt's keys and values from a prefill instance to a decode instance, device to device. [s]

    ``layout`` is that of the prefill instance. The transfer crosses the outermost tier between instances of this size.
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
    """A service whose decode instances keep ``in_flight`` requests each, as far as prefill can keep up.

    Parameters
    ----------
    decode
        Layout of each of ``num_decode`` decode instances.
    prefill
        Layout and number of the prefill instances. ``None``: decode instances also prefill, and all requests in flight wait for
        it.
    pass_tokens
        Tokens of a replica in one prefill pass.

    Notes
    -----
    TTFT is the wait for a running pass, a pass over the prompts that arrived meanwhile, the transfer of keys and values, and one
    decode step, for evenly spaced arrivals. It excludes the queue before an overloaded pool.
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
    # If prefill limits the rate, fewer requests are in flight.
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
    """Wait for a running pass, and a pass over the prompts that arrive during one. [s]

    Parameters
    ----------
    rate
        Of full passes.
    arrivals_per_s
        Requests of one instance.
    """
    prompts, pass_s = rate.prompts_per_pass, rate.pass_s
    for _ in range(PASSES_TO_SETTLE):
        prompts = min(max(arrivals_per_s / layout.pp * pass_s, 1.0), rate.prompts_per_pass)
        pass_s = float(prefill_s(workload, layout, prompts, shape.new_tokens))
    use = min(arrivals_per_s / layout.pp * pass_s / prompts, 1.0)
    return (1.0 + use / 2.0) * pass_s
