"""Rollout of one step: its answers on the instances of a pool, priced by the serving model."""

from __future__ import annotations

import math
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from cost_models.post_training.constants import constant
from cost_models.serving.batching import TABLE_CONTEXTS, BatchedTimes, StepTable, batched_times, table_batches
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import DEFAULT_UTILISATION, kv_capacity_tokens
from cost_models.serving.steps import StepTimes, decode_step, prefill_s
from cost_models.shapes.workload import WorkloadError
from documents.late_methods import dataclass
from documents.sentences import Sentence

Floats = NDArray[np.float64]
MAX_REQUESTS = 1024  # default number in flight in an instance [vllm, max_num_seqs of RL frameworks]
PREFILL_PASS_TOKENS = 8192  # tokens in a pass, which prefills several prompts


class Scheduling(StrEnum):
    """Units and order in which answers are assigned to the replicas, one after the other."""

    GROUPS = "groups"  # one replica gets all answers to a prompt, as in frameworks
    ANSWERS = "answers"  # each answer separately
    LONGEST = "longest-groups-first"  # each separately, prompts with long answers first, known from a probe of each [seer]


@dataclass(frozen=True)
class OngoingRollout:
    """A pool whose instances never drain, and the inputs of its pace."""

    lengths: NDArray[np.int64] = field(repr=False)
    units: NDArray[np.int64] = field(repr=False)  # answers that stay together, in the order of assignment
    prompt_tokens: float
    instances: int
    replicas: int  # attention replicas of an instance, each with its own answers and cache
    most: int
    capacity_tokens: float
    steps: StepTable = field(repr=False)
    prompt_s: float

    def under_way(self, batches: float) -> float:
        """Number of answers in flight in an instance if ``batches`` batches are."""
        return min(float(self.most), max(self.lengths.size / self.instances * batches, 1.0))

    def steady_s(self, batches: float) -> float:
        """Seconds in which the pool generates the tokens of a batch."""
        total, context = float(self.lengths.sum()), self.mean_context_tokens
        in_flight = max(min(self.under_way(batches), self.capacity_tokens / max(context, 1.0)), 1.0)
        step = float(self.steps.step_s(in_flight, np.array(context)))
        made = total / self.instances / (in_flight * self.steps.tokens_per_step) * step
        return made + self.lengths.size / self.instances * self.prompt_tokens * self.prompt_s

    def longest_s(self, batches: float) -> float:
        """Seconds of the longest answer if new answers replace finished ones.

        During that time, each other answer is in flight for the share of its length in the longest one.
        """
        longest = float(self.lengths.max())
        beside = max(self.under_way(batches) * float(self.lengths.mean()) / longest, 1.0)
        step = float(self.steps.step_s(beside, np.array(self.mean_context_tokens)))
        return longest / self.steps.tokens_per_step * step

    @property
    def mean_context_tokens(self) -> float:
        """Mean number of tokens before a generated token."""
        answers = self.lengths.astype(np.float64)
        return self.prompt_tokens + float((answers**2).sum()) / (2.0 * float(answers.sum()))


@dataclass(frozen=True)
class RolloutTimes:
    """Times of one step's answers. [s]

    ``makespan_s`` is from the first prompt to the last answer. ``steady_s`` is the time for the same tokens if new prompts
    follow at once; ``longest_s`` is the time of the longest answer then. ``finish_s`` has the end of every answer and
    ``groups_s`` that of the last answer to each prompt, both ascending; advantages are computed over groups.
    ``first_instance_s`` is the time at which the first replica of an instance is idle.
    """

    makespan_s: float
    steady_s: float
    longest_s: float
    finish_s: Floats
    groups_s: Floats
    first_instance_s: float
    instances: int
    in_flight: int
    preemptions: int
    output_tokens: float
    ongoing: OngoingRollout = field(repr=False)

    def going_on(self, batches: float) -> RolloutTimes:
        """The times with the answers of ``batches`` batches in flight, if rollout does not drain between steps."""
        return replace(self, steady_s=self.ongoing.steady_s(batches), longest_s=self.ongoing.longest_s(batches))

    def complete_s(self, fraction: float) -> float:
        """Time at which a fraction of the prompts has all its answers. [s]"""
        return _quantile(self.groups_s, fraction)

    @property
    def tail_s(self) -> float:
        """Time of the last tenth of the answers. [s]"""
        return self.makespan_s - _quantile(self.finish_s, 0.9)


def rollout_times(
    workload: ServingWorkload,
    layout: ServingLayout,
    lengths: NDArray[np.int64],
    prompt_tokens: float,
    *,
    max_requests: int | None = None,
    memory_fraction: float = DEFAULT_UTILISATION,
    scheduling: Scheduling = Scheduling.GROUPS,
) -> RolloutTimes:
    """Time to roll out the answers of one step, assigned to the replicas of all instances in turn.

    More instances never make it slower: if chance puts long groups together, some instances are left out. Raises
    ``WorkloadError`` if the pool holds no instance, or if an instance's weights do not fit.

    Parameters
    ----------
    layout
        Of one instance. The pool has as many whole instances as fit.
    lengths : ``[prompts, samples]``
        Tokens of each answer.
    prompt_tokens
        Mean prompt.
    max_requests
        In flight at once in a replica of an instance.
    memory_fraction
        Of a device's memory that an instance can fill.
    """
    num_devices = workload.cluster.num_devices
    instances = num_devices // layout.num_devices
    if instances < 1:
        raise WorkloadError(
            Sentence("a rollout instance of {} devices does not fit on {} rollout devices", layout.num_devices, num_devices)
        )
    most = (max_requests or MAX_REQUESTS) * layout.dp
    turns = _assignment_order(lengths, scheduling)
    units = lengths.reshape(turns.shape[0], -1)[turns]
    slots = min(most, math.ceil(len(units) / instances) * units.shape[1])
    capacity = kv_capacity_tokens(workload, layout, utilisation=memory_fraction, requests=float(slots))
    longest = float(lengths.max()) + prompt_tokens
    if capacity < longest:
        raise WorkloadError(
            Sentence(
                "the longest sequence of {:,.0f} tokens does not fit into an instance of {} devices, "
                "whose memory holds {:,.0f} tokens beside the weights; more devices or fewer bits a weight make room",
                longest,
                layout.num_devices,
                capacity,
            )
        )
    together = max(PREFILL_PASS_TOKENS / max(prompt_tokens, 1.0), 1.0) * layout.dp
    ongoing = OngoingRollout(
        lengths=lengths,
        units=units,
        prompt_tokens=prompt_tokens,
        instances=instances,
        replicas=layout.dp,
        most=most,
        capacity_tokens=capacity,
        steps=rollout_steps(workload, layout, min(most, lengths.size), longest),
        prompt_s=float(prefill_s(workload, layout, together, prompt_tokens)) / (together * max(prompt_tokens, 1.0)),
    )
    found = _simulated(ongoing)
    used = found.makespan_s[found.makespan_s > 0.0]
    return RolloutTimes(
        makespan_s=float(found.makespan_s.max()),
        steady_s=ongoing.steady_s(1.0),
        longest_s=ongoing.longest_s(1.0),
        finish_s=np.sort(found.finish_s[found.finish_s > 0.0]),
        groups_s=_group_ends(found.finish_s, turns, lengths),
        first_instance_s=float(used.min()),
        instances=instances,
        in_flight=slots,
        preemptions=int(found.preemptions.sum()),
        output_tokens=float(lengths.sum()),
        ongoing=ongoing,
    )


def _simulated(pool: OngoingRollout) -> BatchedTimes:
    """Simulate the answers on all instances, or on fewer if that is faster.

    With twice the instances each one has a subset of its groups, and finishes no later. Between two powers of two, chance can put
    long groups together. Some instances are then left out, but the result is never faster than with the next power of two.
    Smaller numbers are simulated only if their busiest replica (most tokens, or longest answer) would finish earlier.
    """
    instances = min(pool.instances, 1 << (len(pool.units) - 1).bit_length())
    best = _batched(pool, instances)
    fewer = range(1 << (instances.bit_length() - 1), instances)
    if not fewer:
        return best
    busiest = [_busiest_replicas(_assigned(pool.units, count * pool.replicas)) for count in fewer]
    rows = np.zeros((len(busiest), 2, max(row.shape[1] for row in busiest)))
    for row, columns in zip(rows, busiest, strict=True):
        row[:, : columns.shape[1]] = columns
    least = _batched_rows(pool, rows, np.inf).makespan_s.max(axis=1)
    for index in np.argsort(least):
        if least[index] >= best.makespan_s.max():
            break
        found = _batched(pool, fewer[index])
        best = min(best, found, key=lambda one: one.makespan_s.max())
    most = _batched(pool, 2 * fewer[0])
    return max(best, most, key=lambda one: one.makespan_s.max())


def _batched(pool: OngoingRollout, instances: int) -> BatchedTimes:
    return _batched_rows(pool, _assigned(pool.units, instances * pool.replicas), pool.capacity_tokens / pool.replicas)


def _batched_rows(pool: OngoingRollout, requests: Floats, capacity_tokens: float) -> BatchedTimes:
    """Finish times of the requests of replicas, ``[..., request]``, if the other replicas have as many in flight."""
    steps = pool.steps
    return batched_times(
        pool.prompt_tokens,
        requests,
        replace(steps, batches=steps.batches / pool.replicas),
        max_in_flight=min(pool.most // pool.replicas, requests.shape[-1]),
        kv_capacity_tokens=capacity_tokens,
        prefill_s_per_token=pool.prompt_s * pool.replicas,
    )


def _assignment_order(lengths: NDArray[np.int64], scheduling: Scheduling) -> NDArray[np.int64]:
    """Order of the units, which are groups or single answers."""
    if scheduling is Scheduling.GROUPS:
        return np.arange(len(lengths))
    if scheduling is Scheduling.ANSWERS:
        return np.arange(lengths.size)
    longest = np.argsort(-lengths.mean(axis=1), kind="stable")
    turns: NDArray[np.int64] = (longest[:, None] * lengths.shape[1] + np.arange(lengths.shape[1])).ravel()
    return turns


def _assigned(units: NDArray[np.int64], replicas: int) -> Floats:
    """Units assigned in turn, ``[replica, request]``; 0 if a replica has a unit less."""
    each = math.ceil(len(units) / replicas)
    dealt = np.zeros((each * replicas, units.shape[1]), dtype=np.float64)
    dealt[: len(units)] = units
    return dealt.reshape(each, replicas, -1).transpose(1, 0, 2).reshape(replicas, -1)


def _group_ends(finish_s: Floats, turns: NDArray[np.int64], lengths: NDArray[np.int64]) -> Floats:
    """Last finish of each group, ascending, from ``[replica, request]``."""
    replicas, together = len(finish_s), lengths.size // len(turns)
    in_turn = finish_s.reshape(replicas, -1, together).transpose(1, 0, 2).reshape(-1, together)[: len(turns)]
    answers = np.empty_like(in_turn)
    answers[turns] = in_turn
    last: Floats = np.sort(answers.reshape(lengths.shape).max(axis=1))
    return last


def _quantile(ascending: Floats, fraction: float) -> float:
    return float(ascending[min(max(math.ceil(fraction * len(ascending)) - 1, 0), len(ascending) - 1)])


def _busiest_replicas(requests: Floats) -> Floats:
    return requests[[int(requests.sum(axis=1).argmax()), int(requests.max(axis=1).argmax())]]


def rollout_steps(workload: ServingWorkload, layout: ServingLayout, max_in_flight: int, max_context_tokens: float) -> StepTable:
    """Decode steps in a rollout: as in a service, with ``rollout_device_factor`` on device time.

    Dispatch that longer device time hides stays hidden.
    """
    batches, contexts = table_batches(max_in_flight), np.linspace(0.0, max(max_context_tokens, 1.0), TABLE_CONTEXTS)
    found = decode_step(workload, layout, batches[:, None], contexts[None, :])
    return StepTable(
        batches, contexts, _stretched_s(found, workload.constants.host_micro_batch_s), workload.engine.tokens_per_step
    )


def _stretched_s(step: StepTimes, preparing_s: float) -> Floats:
    host = step.parts_s["host"]
    device = step.total_s - host
    more = (constant("rollout_device_factor") - 1.0) * device
    stretched: Floats = device + more + np.maximum(host - more, np.minimum(host, preparing_s))
    return stretched
