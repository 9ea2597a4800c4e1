"""Time of one decode step and of one prefill pass on an instance, by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.layer import host
from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.network.collectives import send_recv_s
from cost_models.serving.engine import Overlap, ServingLayout, ServingWorkload
from cost_models.serving.layer_times import LayerTimes, layer_times, linear_s, mixed_linear_s, rates
from cost_models.shapes.workload import LayerKind
from documents.late_methods import dataclass

Floats = NDArray[np.float64]

ATTENTION_CORES = 2.0 / 3.0  # share of matmul cores if attention and experts run in parallel: 16 of 24 [cloudmatrix384]


@dataclass(frozen=True)
class StepTimes:
    """Exposed seconds of one step by part; they sum to ``total_s``. Arrays broadcast over batches.

    Parts: ``projections``, ``attention``, ``tensor_parallel``, ``mlp``, ``experts``, ``exchange``, ``pipeline``, ``head``,
    ``draft``, ``host``.
    """

    parts_s: Mapping[str, Floats]

    @property
    def total_s(self) -> Floats:
        """Seconds of the whole step; elementwise."""
        total: Floats = np.sum(np.broadcast_arrays(*self.parts_s.values()), axis=0)
        return total


def decode_step(workload: ServingWorkload, layout: ServingLayout, batch: ArrayLike, context_tokens: ArrayLike) -> StepTimes:
    """One decode step of an instance; each request gains ``Engine.tokens_per_step`` tokens. Elementwise.

    The time is from one step of a request to its next. Pipeline stages work on other requests meanwhile.

    Parameters
    ----------
    batch
        Requests in flight in the instance, evenly over its attention replicas and stages.
    context_tokens
        Mean context of a request: prompt and response so far.
    """
    if workload.engine.overlap is Overlap.FASTEST:
        return _fastest([decode_step(each, layout, batch, context_tokens) for each in _overlapping(workload)])
    requests, context = _columns(batch, context_tokens)
    together = requests / layout.pp
    engine = workload.engine
    parts = _layers(workload, layout, together, np.full_like(together, float(engine.rows_per_request)), context, decode=True)
    rows = _local(together, layout.dp) * engine.rows_per_request
    parts["head"] = _head_s(workload, layout, rows)
    parts["draft"] = _draft_s(workload, layout, together, context)
    parts["pipeline"] = _hops_s(workload, layout, rows)
    return _with_host(workload, layout, parts)


def prefill(workload: ServingWorkload, layout: ServingLayout, batch: ArrayLike, prompt_tokens: ArrayLike) -> StepTimes:
    """One prefill pass of an instance over ``batch`` prompts, through all stages. Elementwise.

    With pipeline stages, as many passes run at once.

    Parameters
    ----------
    batch
        Prompts in the pass, evenly over attention replicas.
    prompt_tokens
        Of each prompt, without cached tokens.
    """
    if workload.engine.overlap is Overlap.FASTEST:
        return _fastest([prefill(each, layout, batch, prompt_tokens) for each in _overlapping(workload)])
    prompts, length = _columns(batch, prompt_tokens)
    parts = _layers(workload, layout, prompts, length, length, decode=False)
    local = _local(prompts, layout.dp)
    parts["head"] = _head_s(workload, layout, local)  # the last token of each prompt
    parts["pipeline"] = _hops_s(workload, layout, local * length)
    return _with_host(workload, layout, parts)


def decode_step_s(workload: ServingWorkload, layout: ServingLayout, batch: ArrayLike, context_tokens: ArrayLike) -> Floats:
    """Seconds of ``decode_step`` in total; elementwise. Divided by ``Engine.tokens_per_step`` it is the time per output token."""
    return decode_step(workload, layout, batch, context_tokens).total_s


def prefill_s(workload: ServingWorkload, layout: ServingLayout, batch: ArrayLike, prompt_tokens: ArrayLike) -> Floats:
    """Seconds of ``prefill`` in total; elementwise."""
    return prefill(workload, layout, batch, prompt_tokens).total_s


def _overlapping(workload: ServingWorkload) -> list[ServingWorkload]:
    return [
        replace(workload, engine=replace(workload.engine, overlap=overlap))
        for overlap in Overlap
        if overlap is not Overlap.FASTEST
    ]


def _fastest(steps: Sequence[StepTimes]) -> StepTimes:
    """The parts of the shortest step, element by element."""
    best = np.argmin([step.total_s for step in steps], axis=0)
    return StepTimes({part: np.choose(best, [step.parts_s[part] for step in steps]) for part in steps[0].parts_s})


def _columns(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values)))


def _local(requests: Floats, dp: int) -> Floats:
    """Requests of the busiest attention replica. With fewer requests than replicas, some replicas are idle."""
    busiest: Floats = np.maximum(requests / dp, np.minimum(requests, 1.0))
    return busiest


def _layers(
    workload: ServingWorkload, layout: ServingLayout, requests: Floats, tokens: Floats, length: Floats, *, decode: bool
) -> dict[str, Floats]:
    """Exposed seconds of all layers by part."""
    summed: dict[str, Floats] = {}
    for kind, number in Counter(workload.model.kinds_of_layers()).items():
        for part, time_s in _exposed(workload, layout, kind, requests, tokens, length, decode=decode).items():
            summed[part] = summed.get(part, np.zeros_like(requests)) + number * time_s
    return summed


def _exposed(
    workload: ServingWorkload,
    layout: ServingLayout,
    kind: LayerKind,
    requests: Floats,
    tokens: Floats,
    length: Floats,
    *,
    decode: bool,
) -> dict[str, Floats]:
    """Exposed seconds of one layer of a kind by part, under the engine's overlap."""
    overlap = workload.engine.overlap if kind.moe and layout.ep > 1 else Overlap.NONE
    if overlap is Overlap.NONE:
        return _named(layer_times(workload, layout, kind, requests, tokens, length, decode=decode))
    half = requests / 2.0
    if overlap is Overlap.EXCHANGE:
        times = layer_times(workload, layout, kind, half, tokens, length, decode=decode)
        busy = times.attention_side_s + times.mlp_s + times.experts_s
        hidden = np.minimum(times.exchange_s, busy)
        exposed = times.exchange_s - hidden * (1.0 - workload.constants.hidden_stretch_fraction)
        return {part: 2.0 * time_s for part, time_s in (_named(times) | {"exchange": exposed}).items()}
    times = layer_times(
        workload,
        layout,
        kind,
        half,
        tokens,
        length,
        decode=decode,
        attention_cores=ATTENTION_CORES,
        expert_cores=1.0 - ATTENTION_CORES,
    )
    # Only the longer stream is exposed; the other hides behind it.
    attends = times.attention_side_s >= times.expert_side_s
    sides = {"projections": attends, "attention": attends, "tensor_parallel": attends}
    return {part: 2.0 * np.where(sides.get(part, ~attends), time_s, 0.0) for part, time_s in _named(times).items()}


def _named(times: LayerTimes) -> dict[str, Floats]:
    return {
        "projections": times.projections_s,
        "attention": times.attention_s,
        "tensor_parallel": times.tensor_parallel_s,
        "mlp": times.mlp_s,
        "experts": times.experts_s,
        "exchange": times.exchange_s,
    }


def _head_s(workload: ServingWorkload, layout: ServingLayout, rows: Floats) -> Floats:
    """Time of the output head in 16 bits, divided over tp."""
    device, model = rates(workload), workload.model
    weights = model.vocab_size * model.hidden_size / layout.tp
    return linear_s(rows, weights, 1, device.half_flops_per_s, ELEMENT_BYTES, device)


def _draft_s(workload: ServingWorkload, layout: ServingLayout, requests: Floats, context: Floats) -> Floats:
    """Time of the draft layers: a projection of 2 h by h, a layer of the last kind and the head for each draft token."""
    engine, model = workload.engine, workload.model
    if not engine.draft_tokens or not engine.draft_layers:
        return np.zeros_like(requests)
    rows, one = _local(requests, layout.dp), np.ones_like(requests)
    projection = mixed_linear_s(workload, rows, 2.0 * model.hidden_size**2 / layout.tp, 1, rates(workload))
    kind = model.kinds_of_layers()[-1]
    layer: Floats = sum(_exposed(workload, layout, kind, requests, one, context, decode=True).values(), np.zeros_like(requests))
    return engine.draft_tokens * engine.draft_layers * (projection + layer + _head_s(workload, layout, rows))


def _hops_s(workload: ServingWorkload, layout: ServingLayout, rows: Floats) -> Floats:
    """Time to send hidden states from stage to stage, for all hops of a pass."""
    moved = rows * workload.model.hidden_size * ELEMENT_BYTES / layout.tp
    return (layout.pp - 1) * send_recv_s(moved, layout.pp, layout.tp * layout.dp, workload.network)


def _with_host(workload: ServingWorkload, layout: ServingLayout, parts: dict[str, Floats]) -> StepTimes:
    """Add host time: dispatch beyond the device's time, and the scheduling of a step if nothing overlaps it."""
    device_s = StepTimes(parts).total_s
    dispatch_s = _dispatch_s(workload, layout)
    preparing_s = workload.constants.host_micro_batch_s
    if workload.engine.asynchronous:
        host_s = np.maximum(np.maximum(dispatch_s, preparing_s) - device_s, 0.0)
    else:
        host_s = np.maximum(dispatch_s - device_s, 0.0) + preparing_s
    return StepTimes({**parts, "host": host_s})


def _dispatch_s(workload: ServingWorkload, layout: ServingLayout) -> float:
    """Host time to launch the kernels of a pass. They are the kernels of an eager forward in training."""
    model, constants = workload.model, workload.constants
    kernels = 0
    for kind in model.kinds_of_layers():
        shared = kind.moe and model.moe is not None and model.moe.shared_expert_ffn_hidden_size
        kernels += host.ATTENTION_KERNELS + (host.LATENT_ATTENTION_KERNELS if model.mla is not None else 0)
        kernels += (host.MOE_KERNELS + (host.MLP_KERNELS if shared else 0)) if kind.moe else host.MLP_KERNELS
    each = constants.host_kernel_s * (constants.graph_dispatch_factor if workload.engine.graph else 1.0)
    return kernels * each * (1.0 + host.SLOWEST_HOST_FRACTION * float(np.log2(layout.tp)))
