"""The best layouts of prefill and decode, and the devices of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import DEFAULT_PASS_TOKENS, DEFAULT_UTILISATION, serving_memory
from cost_models.serving.service import (
    RequestShape,
    Service,
    mean_requests_held,
    prefill_rate,
    service,
    time_per_token_s,
)
from search.executors.executor import SERIAL, Executor, Piece, work_off
from search.heartbeat import beat
from search.serving.layouts import instance_sizes, layouts

POINTS = 12  # numbers of requests in flight that are tried for a layout


@dataclass(frozen=True)
class Limits:
    """Latency limits of a plan; ``math.inf`` for no limit."""

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    utilisation: float = DEFAULT_UTILISATION
    pass_tokens: float = DEFAULT_PASS_TOKENS
    in_flight: float = math.inf  # requests in flight in the whole service

    def kept_by(self, result: Service) -> bool:
        """Whether a service keeps both.

        Parameters
        ----------
        result : Service
            Its times.

        Returns
        -------
        bool
        """
        slack = 1.0 + 1e-9
        return result.ttft_s <= self.ttft_s * slack and result.tpot_s <= self.tpot_s * slack


@dataclass(frozen=True)
class ServingPlan:
    """One way to serve on the cluster."""

    decode: ServingLayout
    num_decode: int
    prefill: ServingLayout | None
    num_prefill: int
    result: Service

    @property
    def num_devices(self) -> int:
        """Devices of all instances."""
        prefill = 0 if self.prefill is None else self.num_prefill * self.prefill.num_devices
        return prefill + self.num_decode * self.decode.num_devices


@dataclass(frozen=True)
class ServingSearch:
    """The plans, best first, and the counts: layouts, and layouts whose weights do not fit."""

    plans: Sequence[ServingPlan]
    num_layouts: int
    num_too_large: int
    num_too_slow: int  # layouts that fit and break a limit at any number of requests


@dataclass(frozen=True)
class _Pool:
    """An instance with its rate in requests per second."""

    layout: ServingLayout
    rate: float
    in_flight: int = 0


_Split = tuple[_Pool, int, _Pool | None, int]  # instances that decode and their number, those of prefill alone and theirs


class _Size(NamedTuple):
    """Instances of one size: numbers of layouts, as in ``ServingSearch``, and the best pool of each kind."""

    tried: int
    too_large: int
    too_slow: int
    best: dict[str, _Pool]


def search_serving(
    workload: ServingWorkload, shape: RequestShape, limits: Limits, top: int, executor: Executor = SERIAL
) -> ServingSearch:
    """Every layout of every size for either pool, and every split of the cluster between the best of each size.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster, engine and constants.
    shape : RequestShape
        Lengths.
    limits : Limits
        What a plan must keep.
    top : int
        Plans to return.
    executor : Executor
        Takes sizes and plans; the result is the same.

    Returns
    -------
    ServingSearch
        By tokens a second of all devices of the cluster, those that stay idle included; fewer devices first among equals.
    """
    num_devices = workload.cluster.num_devices
    asked = [Piece(_of_size, workload, shape, limits, size) for size in instance_sizes(num_devices)]
    work_off(executor, reversed(asked), beat)  # larger instances have more layouts
    sizes = [piece.result() for piece in asked]
    decoding, prefilling, mixed = (
        [size.best[kind] for size in sizes if kind in size.best] for kind in ("decode", "prefill", "mixed")
    )
    splits: list[_Split] = [(pool, num_devices // pool.layout.num_devices, None, 0) for pool in mixed]
    splits += _splits(decoding, prefilling, num_devices, top)
    priced = [Piece(_plan, workload, shape, limits, *split) for split in splits]
    work_off(executor, priced, beat)
    plans = [plan for plan in (piece.result() for piece in priced) if limits.kept_by(plan.result)]
    plans.sort(key=lambda plan: (-plan.result.requests_per_s, plan.num_devices))
    tried, too_large, too_slow = (sum(getattr(size, name) for size in sizes) for name in ("tried", "too_large", "too_slow"))
    return ServingSearch(plans[:top], tried, too_large, too_slow)


def _of_size(workload: ServingWorkload, shape: RequestShape, limits: Limits, size: int) -> _Size:
    """The best pools of instances of one size."""
    tried = too_large = too_slow = 0
    best: dict[str, _Pool] = {}
    for layout in layouts(workload.model, size):
        tried += 1
        if serving_memory(workload, layout, utilisation=limits.utilisation, pass_tokens=limits.pass_tokens).cache_bytes <= 0:
            too_large += 1
            continue
        pools = _pools(workload, shape, limits, layout)
        too_slow += not pools
        for name, pool in pools.items():
            if name not in best or pool.rate > best[name].rate:
                best[name] = pool
    return _Size(tried, too_large, too_slow, best)


def _pools(workload: ServingWorkload, shape: RequestShape, limits: Limits, layout: ServingLayout) -> dict[str, _Pool]:
    """The pools that an instance of this layout can be."""
    pools: dict[str, _Pool] = {}
    rate = prefill_rate(workload, layout, shape, limits.pass_tokens)
    quick = rate.pass_s <= limits.ttft_s
    if quick:
        pools["prefill"] = _Pool(layout, rate.prompts_per_s)
    held = mean_requests_held(workload, layout, shape, limits.utilisation)
    if held < 1:
        return pools
    for name, each_s in (("decode", 0.0), ("mixed", 1.0 / rate.prompts_per_s)):
        if name == "mixed" and not quick:
            continue
        most = most_in_flight(workload, shape, layout, limits, each_s, held)
        if most:
            beyond_s = rate.pass_s if name == "mixed" else 0.0
            tpot_s = float(time_per_token_s(workload, layout, shape, most, each_s))
            pools[name] = _Pool(layout, most / (tpot_s * shape.response_tokens + beyond_s), most)
    return pools


def most_in_flight(
    workload: ServingWorkload, shape: RequestShape, layout: ServingLayout, limits: Limits, each_s: float, held: int
) -> int:
    """The most requests that an instance decodes at once within the limit of a token.

    Parameters
    ----------
    workload : ServingWorkload
        Model, cluster, engine and constants.
    shape : RequestShape
        Lengths.
    layout : ServingLayout
        Of the instance.
    limits : Limits
        What a plan must keep.
    each_s : float
        That the instance gives each request's prefill.
    held : int
        Requests that its memory holds.

    Returns
    -------
    int
        0 where one alone is too slow. Found on a grid, twice finer around where the limit falls: at most some percent too few.
    """
    if math.isinf(limits.tpot_s):
        return held
    flying, most = np.unique(np.rint(np.geomspace(1, held, POINTS))), 0
    for _ in range(2):
        kept = np.flatnonzero(time_per_token_s(workload, layout, shape, flying, each_s) <= limits.tpot_s)
        if not len(kept):
            return most
        most = int(flying[kept[-1]])
        beyond = flying[min(int(kept[-1]) + 1, len(flying) - 1)]
        flying = np.unique(np.rint(np.linspace(most, beyond, POINTS)))
    return most


def _splits(decoding: Sequence[_Pool], prefilling: Sequence[_Pool], num_devices: int, top: int) -> list[_Split]:
    """Best of all pairs of instances, each pair with the numbers that serve most requests."""
    found: list[tuple[float, int, _Split]] = []
    for decode in decoding:
        for prefill in prefilling:
            numbers = np.arange(1, (num_devices - decode.layout.num_devices) // prefill.layout.num_devices + 1)
            if not len(numbers):
                continue
            others = (num_devices - numbers * prefill.layout.num_devices) // decode.layout.num_devices
            rates = np.minimum(numbers * prefill.rate, others * decode.rate)
            best = int(np.argmax(rates))
            used = int(numbers[best]) * prefill.layout.num_devices + int(others[best]) * decode.layout.num_devices
            found.append((-float(rates[best]), used, (decode, int(others[best]), prefill, int(numbers[best]))))
    found.sort(key=lambda row: row[:2])
    return [row[2] for row in found[: 4 * top]]


def _plan(
    workload: ServingWorkload,
    shape: RequestShape,
    limits: Limits,
    decode: _Pool,
    num_decode: int,
    prefill: _Pool | None,
    num_prefill: int,
) -> ServingPlan:
    """The plan, with no more requests in flight than prefill keeps busy or the job has."""
    pools = None if prefill is None else (prefill.layout, num_prefill)
    flying = min(float(decode.in_flight), limits.in_flight / num_decode)
    result = service(workload, shape, decode.layout, num_decode, flying, pools, limits.pass_tokens)
    return ServingPlan(decode.layout, num_decode, None if prefill is None else prefill.layout, num_prefill, result)
