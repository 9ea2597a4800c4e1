"""Continuous batching: finish time of each request of a batch, on instances with a bounded number of requests in flight.

A request gains tokens at every step while it is in flight, so the order of events does not depend on the duration of steps. On
the clock of steps, a request that starts at n ends at n + its length, and the k-th waiting request starts when the k-th request
ends. Step durations are applied afterwards, once for each interval between two ends.
"""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.steps import decode_step_s
from documents.late_methods import dataclass

Floats = NDArray[np.float64]

TABLE_EXACT = 32  # up to this many requests in flight every number has an entry; above, 16 an octave are interpolated
TABLE_CONTEXTS = 24
COLUMNS_AT_ONCE = 2**21  # requests whose events fit in the processor's caches together
WATERMARK_FRACTION = 0.01  # fraction of the cache that an admission leaves free [vllm-ascend]


@dataclass(frozen=True)
class StepTable:
    """Time of a decode step by requests in flight and mean context, linear between points and beyond the last.

    ``time_s`` is ``[batch, context]``. ``tokens_per_step`` are the tokens that a request gains in a step.
    """

    batches: Floats
    contexts: Floats
    time_s: Floats
    tokens_per_step: float = 1.0

    def row(self, batch: float) -> Floats:
        """Seconds of a step with ``batch`` requests in flight, by context: ``[context]``."""
        high = int(np.clip(np.searchsorted(self.batches, batch), 1, len(self.batches) - 1)) if len(self.batches) > 1 else 0
        if high == 0:
            only: Floats = self.time_s[0]
            return only
        below, above = self.batches[high - 1], self.batches[high]
        share = (batch - below) / (above - below)
        row: Floats = self.time_s[high - 1] + share * (self.time_s[high] - self.time_s[high - 1])
        return row

    def step_s(self, batch: float, context_tokens: Floats) -> Floats:
        """Seconds of a step with ``batch`` requests in flight, for each mean context; elementwise."""
        found: Floats = np.interp(context_tokens, self.contexts, self.row(batch))
        return found


@dataclass(frozen=True)
class BatchedTimes:
    """Finish times and evictions, in seconds from the start of the phase."""

    finish_s: Floats  # [..., request]
    makespan_s: Floats  # [...]
    preemptions: NDArray[np.int64]  # [...]
    prefilled_tokens: Floats  # [...], repeated prefill included


def step_table(workload: ServingWorkload, layout: ServingLayout, max_in_flight: int, max_context_tokens: float) -> StepTable:
    """Decode steps of an instance, up to ``max_in_flight`` requests and ``max_context_tokens`` of mean context."""
    batches = table_batches(max_in_flight)
    contexts = np.linspace(0.0, max(max_context_tokens, 1.0), TABLE_CONTEXTS)
    times = decode_step_s(workload, layout, batches[:, None], contexts[None, :])
    return StepTable(batches, contexts, times, workload.engine.tokens_per_step)


def table_batches(max_in_flight: int) -> Floats:
    """Numbers of requests in flight in a table, ``[batch]``; the last is at least ``max_in_flight``.

    A shorter table has the first numbers of a longer one.
    """
    found = list(range(1, TABLE_EXACT + 1))
    while found[-1] < max_in_flight:
        found.append(found[-1] + max((1 << found[-1].bit_length() - 1) * 2 // TABLE_EXACT, 1))
    return np.array(found, dtype=np.float64)


def batched_times(
    prompt_tokens: ArrayLike,
    response_tokens: ArrayLike,
    steps: StepTable,
    *,
    max_in_flight: int,
    kv_capacity_tokens: float = np.inf,
    prefill_s_per_token: float = 0.0,
) -> BatchedTimes:
    """Finish times of requests that all wait at the start, first come first served, on each instance separately.

    Parameters
    ----------
    prompt_tokens : ``[..., request]``
        In the order of admission; leading axes are simulations and instances.
    response_tokens : ``[..., request]``
        0 marks no request.
    max_in_flight
        Requests that an instance decodes at once.
    kv_capacity_tokens
        Tokens that fit in its memory. If decoding would exceed it, the request admitted last goes back to the front of the queue,
        and later prefills all its tokens again.
    prefill_s_per_token
        All requests in flight wait for this; 0 if prefill runs elsewhere.

    Notes
    -----
    Two approximations: all steps of an interval between two ends take the time of its middle step, and the table of steps is
    interpolated. Instances whose memory never overflows are vectorised; the others are simulated one by one.
    """
    prompts, responses = (np.asarray(column, dtype=np.float64) for column in np.broadcast_arrays(prompt_tokens, response_tokens))
    shape, num_requests = prompts.shape[:-1], prompts.shape[-1]
    prompts, responses = prompts.reshape(-1, num_requests), responses.reshape(-1, num_requests)
    columns = len(prompts)
    finish, fitting = np.empty_like(prompts), np.ones(columns, dtype=np.bool_)
    preemptions, prefilled = np.zeros(columns, dtype=np.int64), np.where(responses > 0.0, prompts, 0.0).sum(axis=1)
    at_once = max(COLUMNS_AT_ONCE // max(num_requests, 1), 1)
    for first in range(0, columns, at_once):
        rows = slice(first, first + at_once)
        finish[rows], fitting[rows] = _with_unbounded_memory(
            prompts[rows], responses[rows], steps, max_in_flight, kv_capacity_tokens, prefill_s_per_token
        )
    for column in np.flatnonzero(~fitting):
        finish[column], preemptions[column], prefilled[column] = _with_evictions(
            prompts[column], responses[column], steps, max_in_flight, kv_capacity_tokens, prefill_s_per_token
        )
    return BatchedTimes(
        finish_s=finish.reshape(*shape, num_requests),
        makespan_s=finish.max(axis=-1, initial=0.0).reshape(shape),
        preemptions=preemptions.reshape(shape),
        prefilled_tokens=prefilled.reshape(shape),
    )


def _starts(responses: Floats, slots: int) -> Floats:
    """Start of each request on the clock of steps: the k-th waiting request starts with the k-th end. ``[column, request]``

    Ends that are too early at first are corrected from the front. Each round settles at least all requests that start before the
    earliest corrected end.
    """
    starts = np.zeros_like(responses)
    waiting = responses.shape[1] - slots
    if waiting <= 0:
        return starts
    while True:
        ends = np.sort(starts + responses, axis=1)[:, :waiting]
        if np.array_equal(ends, starts[:, slots:]):
            return starts
        starts[:, slots:] = ends


def _with_unbounded_memory(
    prompts: Floats,
    responses: Floats,
    steps: StepTable,
    slots: int,
    capacity: float,
    prefill_s_per_token: float,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Finish of each request with unbounded memory, and whether each instance stays within its memory.

    Returns
    -------
    tuple
        Seconds ``[column, request]``; bool ``[column]``.
    """
    num_columns, num_requests = responses.shape
    slots = min(slots, num_requests)
    starts = _starts(responses, slots)
    ends = starts + responses
    order = np.argsort(ends, axis=1)
    ended = np.ascontiguousarray(np.take_along_axis(ends, order, axis=1).T)  # [event, column]
    kept = np.where(responses > 0.0, prompts - starts, -starts)  # tokens that a request holds at step n, minus n
    left = np.ascontiguousarray(np.take_along_axis(kept, order, axis=1).T)
    entered = np.ascontiguousarray(kept[:, slots:].T)
    entering = np.where(responses > 0.0, prompts, 0.0) * prefill_s_per_token
    elapsed = entering[:, :slots].sum(axis=1)
    waits = np.ascontiguousarray(entering[:, slots:].T)
    held, clock = kept[:, :slots].sum(axis=1), np.zeros(num_columns)
    peak, times = np.zeros(num_columns), np.empty((num_requests, num_columns))
    for event in range(num_requests):
        batch = min(slots, num_requests - event)
        now = ended[event]
        middle = held / batch + (clock + now + 1.0) / 2.0  # an interval from n to m has the steps n + 1 to m
        elapsed = elapsed + (now - clock) / steps.tokens_per_step * steps.step_s(batch, middle)
        # Requests that end in the same step finish together, before others enter.
        times[event] = elapsed if event == 0 else np.where(now > clock, elapsed, times[event - 1])
        clock = now
        peak = np.maximum(peak, held + batch * now)
        held = held - left[event]
        if event < num_requests - slots:
            held, elapsed = held + entered[event], elapsed + waits[event]
    finish = np.empty_like(responses)
    np.put_along_axis(finish, order, times.T, axis=1)
    return np.where(responses > 0.0, finish, 0.0), peak <= capacity


def _with_evictions(
    prompts: Floats,
    responses: Floats,
    steps: StepTable,
    slots: int,
    capacity: float,
    prefill_s_per_token: float,
) -> tuple[Floats, int, float]:
    """Simulate one instance whose memory overflows, event by event.

    Returns
    -------
    tuple
        Finish of each request in seconds, number of evictions, tokens of prefill.
    """
    need, left = prompts.tolist(), responses.tolist()  # tokens to prefill at an admission, tokens still to come
    finish = [0.0] * len(need)
    waiting = deque(index for index, tokens in enumerate(left) if tokens > 0.0)
    flying: dict[int, float] = {}  # clock of admission, in the order of admission
    ends: list[tuple[float, int, float]] = []
    rows: dict[int, Floats] = {}
    clock = elapsed = held = prefilled = 0.0
    evictions, admits = 0, True
    while waiting or flying:
        while admits and waiting and len(flying) < slots:
            index = waiting[0]
            if flying and held + need[index] > (1.0 - WATERMARK_FRACTION) * capacity:
                break
            waiting.popleft()
            flying[index] = clock
            heapq.heappush(ends, (clock + left[index], index, clock))
            held += need[index]
            prefilled += need[index]
            elapsed += need[index] * prefill_s_per_token
        admits = False  # until the next request ends: an evicted one would only be evicted again
        while flying.get(ends[0][1]) != ends[0][2]:
            heapq.heappop(ends)
        batch = len(flying)
        room = np.floor((capacity - held) / batch) if batch > 1 else np.inf  # alone, a request may go on
        now = min(ends[0][0], clock + max(room, 0.0))
        if batch not in rows:
            rows[batch] = steps.row(batch)
        middle = held / batch + (now - clock + 1.0) / 2.0
        each = float(np.interp(middle, steps.contexts, rows[batch]))
        elapsed += (now - clock) / steps.tokens_per_step * each
        held += batch * (now - clock)
        clock = now
        if ends[0][0] <= clock:
            while ends and ends[0][0] <= clock:
                _, index, admitted = heapq.heappop(ends)
                if flying.get(index) == admitted:
                    held -= need[index] + clock - flying.pop(index)
                    finish[index], admits = elapsed, True
        else:
            index, admitted = flying.popitem()
            held -= need[index] + clock - admitted
            left[index] -= clock - admitted
            need[index] += clock - admitted
            waiting.appendleft(index)
            evictions += 1
    return np.array(finish), evictions, prefilled
