"""The rollout of a step: its answers on the instances of a pool, by the serving model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.post_training.constants import constant
from cost_models.serving.batching import TABLE_BATCHES, TABLE_CONTEXTS, StepTable, batched_times
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import DEFAULT_UTILISATION, kv_capacity_tokens
from cost_models.serving.steps import StepTimes, decode_step, prefill_s
from cost_models.shapes.workload import WorkloadError

Floats = NDArray[np.float64]
MAX_REQUESTS = 1024  # of an instance in flight where an engine is not told otherwise [vllm, max_num_seqs of RL frameworks]
PREFILL_PASS_TOKENS = 8192  # of a pass: prompts are prefilled together


@dataclass(frozen=True)
class RolloutTimes:
    """Of one step's answers. [s]

    ``makespan_s`` from the first prompt to the last answer, ``steady_s`` what the same tokens take where new prompts follow at
    once, ``longest_s`` what the longest answer takes there, beside others to its end; ``finish_s`` ascending, of every
    answer. ``first_instance_s``: when the first instance is idle.
    """

    makespan_s: float
    steady_s: float
    longest_s: float
    finish_s: Floats
    first_instance_s: float
    instances: int
    in_flight: int
    preemptions: int
    output_tokens: float

    def finished_s(self, fraction: float) -> float:
        """When that part of the answers is there. [s]"""
        index = min(math.ceil(fraction * len(self.finish_s)) - 1, len(self.finish_s) - 1)
        return float(self.finish_s[max(index, 0)])

    @property
    def tail_s(self) -> float:
        """How long the last tenth of the answers takes alone. [s]"""
        return self.makespan_s - self.finished_s(0.9)


def rollout_times(
    workload: ServingWorkload,
    layout: ServingLayout,
    lengths: NDArray[np.int64],
    prompt_tokens: float,
    *,
    max_requests: int | None = None,
    memory_fraction: float = DEFAULT_UTILISATION,
    batches_under_way: float = 1.0,
) -> RolloutTimes:
    """Rolls out the answers of one step; groups go to the instances in turn, as frameworks send them.

    Parameters
    ----------
    workload : ServingWorkload
        Model, the rollout pool and the engine.
    layout : ServingLayout
        Of one instance; as many instances as the pool holds whole.
    lengths : int64, ``[prompts, samples]``, tokens
        Answers.
    prompt_tokens : float
        Mean prompt.
    max_requests : int or None
        In flight in an instance's replica at once.
    memory_fraction : float
        Of a device's memory that an instance may fill.
    batches_under_way : float
        Of which answers are in flight together where rollout does not drain between steps.

    Returns
    -------
    RolloutTimes
        Raises ``WorkloadError`` where the pool holds no instance, or an instance's weights do not fit.
    """
    instances = workload.cluster.num_devices // layout.num_devices
    if instances < 1:
        raise WorkloadError(
            f"a rollout instance of {layout.num_devices} devices does not fit on {workload.cluster.num_devices} rollout devices"
        )
    groups = len(lengths)
    each = math.ceil(groups / instances)
    dealt = np.zeros((each * instances, lengths.shape[1]), dtype=np.float64)
    dealt[:groups] = lengths
    requests = dealt.reshape(each, instances, -1).transpose(1, 0, 2).reshape(instances, -1)
    most = (max_requests or MAX_REQUESTS) * layout.dp
    slots = min(most, requests.shape[1])
    under_way = min(float(most), max(lengths.size / instances * batches_under_way, 1.0))
    capacity = kv_capacity_tokens(workload, layout, utilisation=memory_fraction, requests=float(slots))
    longest = float(lengths.max()) + prompt_tokens
    if capacity < longest:
        raise WorkloadError(
            f"the longest sequence of {longest:,.0f} tokens does not fit into an instance of {layout.num_devices} devices, "
            f"whose memory holds {capacity:,.0f} tokens beside the weights"
        )
    steps = rollout_steps(workload, layout, math.ceil(max(under_way, slots)), longest)
    together = max(PREFILL_PASS_TOKENS / max(prompt_tokens, 1.0), 1.0) * layout.dp
    prompt_s = float(prefill_s(workload, layout, together, prompt_tokens)) / (together * max(prompt_tokens, 1.0))
    found = batched_times(
        prompt_tokens,
        requests,
        steps,
        max_in_flight=slots,
        kv_capacity_tokens=capacity,
        prefill_s_per_token=prompt_s,
    )
    finish = np.sort(found.finish_s[requests > 0.0])
    used = found.makespan_s[found.makespan_s > 0.0]
    return RolloutTimes(
        makespan_s=float(found.makespan_s.max()),
        steady_s=_steady_s(lengths, prompt_tokens, instances, under_way, capacity, steps, prompt_s),
        longest_s=_longest_s(lengths, prompt_tokens, under_way, steps),
        finish_s=finish,
        first_instance_s=float(used.min()),
        instances=instances,
        in_flight=slots,
        preemptions=int(found.preemptions.sum()),
        output_tokens=float(lengths.sum()),
    )


def rollout_steps(workload: ServingWorkload, layout: ServingLayout, max_in_flight: int, max_context_tokens: float) -> StepTable:
    """Decode steps inside a rollout: those of a service with ``rollout_device_factor`` on what devices do.

    Dispatch that a longer device time hides stays hidden.

    Parameters
    ----------
    workload : ServingWorkload
        Model, the rollout pool and the engine.
    layout : ServingLayout
        Of one instance.
    max_in_flight : int
        Requests of the instance.
    max_context_tokens : float
        Longest mean context.

    Returns
    -------
    StepTable
    """
    batches = np.unique(np.rint(np.geomspace(1.0, max(max_in_flight, 1), min(max_in_flight, TABLE_BATCHES))))
    contexts = np.linspace(0.0, max(max_context_tokens, 1.0), TABLE_CONTEXTS)
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


def _longest_s(lengths: NDArray[np.int64], prompt_tokens: float, under_way: float, steps: StepTable) -> float:
    """Seconds of the longest answer where others take the place of those that are done.

    While it is made each of the others is in flight for the share of the time that its own length is of the longest.
    """
    beside = max(under_way * float(lengths.mean()) / float(lengths.max()), 1.0)
    step = float(steps.step_s(beside, np.array(_mean_context(lengths, prompt_tokens))))
    return float(lengths.max()) / steps.tokens_per_step * step


def _mean_context(lengths: NDArray[np.int64], prompt_tokens: float) -> float:
    """What lies before a token that is made, in the mean. [tokens]"""
    answers = lengths.astype(np.float64)
    return prompt_tokens + float((answers**2).sum()) / (2.0 * float(answers.sum()))


def _steady_s(
    lengths: NDArray[np.int64],
    prompt_tokens: float,
    instances: int,
    under_way: float,
    capacity: float,
    steps: StepTable,
    prompt_s: float,
) -> float:
    """Seconds in which a pool that never drains makes the tokens of the batch."""
    total, context = float(lengths.sum()), _mean_context(lengths, prompt_tokens)
    in_flight = max(min(under_way, capacity / max(context, 1.0)), 1.0)
    step = float(steps.step_s(in_flight, np.array(context)))
    made = total / instances / (in_flight * steps.tokens_per_step) * step
    return made + lengths.size / instances * prompt_tokens * prompt_s
