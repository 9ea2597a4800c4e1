"""A serving job's answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.answers.provenance import priced_with
from app.answers.schemas import PricedWith
from app.jobs.job import SCHEMA_VERSION
from app.serving.fields import ServingSection
from app.serving.job import ServingJob, layout_of, request_serving_job
from app.serving.schemas import (
    LayoutDocument,
    PoolMemory,
    ServiceNumbers,
    ServingDocument,
    ServingPlanDocument,
    ServingSearchDocument,
)
from cost_models.serving.engine import ServingLayout
from cost_models.serving.memory import kv_bytes_per_token, kv_capacity_tokens, serving_memory
from cost_models.serving.service import Service, mean_requests_held, prefill_rate, service, time_per_token_s
from cost_models.serving.steps import StepTimes, decode_step, prefill
from documents.errors import InfeasibleError, InputError
from documents.sentences import Sentence
from meshplan import __version__
from search.executors.executor import SERIAL, Executor
from search.serving.split import Limits, ServingPlan, most_in_flight, search_serving

if TYPE_CHECKING:
    from app.storage.session import Database

Pool = tuple[ServingLayout, int]


def serving_request(document: Mapping[str, Any], database: Database) -> ServingDocument:
    """The answer to a request body; ``InputError`` if it has none."""
    return serving_document(request_serving_job(document, database))


def limits_of(section: ServingSection) -> Limits:
    return Limits(
        ttft_s=section.ttft_limit_s or math.inf,
        tpot_s=section.tpot_limit_s or math.inf,
        utilisation=section.utilisation,
        pass_tokens=section.pass_tokens,
        in_flight=section.concurrency or math.inf,
    )


def serving_document(job: ServingJob) -> ServingDocument:
    """The service of the job's own layouts."""
    section = job.section
    if section.decode is None:
        raise InputError(
            Sentence("serving.decode (--decode): missing; give the layout of a decode instance, or use `serving search`.")
        )
    decode = (layout_of(section.decode, job, "serving.decode"), section.decode.instances)
    before = None
    if section.prefill is not None:
        before = (layout_of(section.prefill, job, "serving.prefill"), section.prefill.instances)
    used = decode[0].num_devices * decode[1] + (0 if before is None else before[0].num_devices * before[1])
    given = job.workload.cluster.num_devices
    if used > given:
        raise InputError(
            Sentence("cluster.num_devices: the instances take {:,} devices of {:,}; give fewer instances.", used, given)
        )
    for pool, where in ((decode, "decode"), (before, "prefill")):
        if pool is not None:
            _check_weights(job, pool[0], where)
    held = mean_requests_held(job.workload, decode[0], job.shape, section.utilisation)
    warnings = list(job.job.warnings)
    if used < given:
        warnings.append(Sentence("{:,} of {:,} devices stay idle; rates per device count all.", given - used, given))
    flying = _in_flight(job, decode, before, held, warnings)
    found = service(job.workload, job.shape, *decode, flying, before, section.pass_tokens)
    return _document(job, decode, before, found, warnings)


def _check_weights(job: ServingJob, layout: ServingLayout, where: str) -> None:
    memory = serving_memory(job.workload, layout, utilisation=job.section.utilisation, pass_tokens=job.section.pass_tokens)
    if memory.cache_bytes <= 0.0:
        raise InfeasibleError(
            Sentence(
                "serving.{}: weights of {:.1f} GiB and what goes with them leave nothing of "
                "{:.1f} GiB for keys and values; spread the instance over more devices.",
                where,
                memory.weights_bytes / 2**30,
                memory.limit_bytes / 2**30,
            )
        )


def _in_flight(job: ServingJob, decode: Pool, before: Pool | None, held: int, warnings: list[str]) -> float:
    """Requests of a decode instance: the number in the job, or the most within the TPOT limit."""
    if held < 1:
        length = job.shape.mean_context_tokens
        raise InfeasibleError(
            Sentence("serving.decode: memory holds no request of {:,.0f} tokens; use more devices an instance.", length)
        )
    wanted = job.section.concurrency
    if wanted is not None:
        each = wanted / decode[1]
        if each > held:
            warnings.append(
                Sentence(
                    "serving.concurrency: memory holds {:,} requests of mean length an instance, not {:,.0f}; "
                    "the others wait, or are evicted and prefilled again.",
                    held,
                    each,
                )
            )
        return min(each, float(held))
    each_s = 0.0
    if before is None:
        each_s = 1.0 / prefill_rate(job.workload, decode[0], job.shape, job.section.pass_tokens).prompts_per_s
    most = most_in_flight(job.workload, job.shape, decode[0], limits_of(job.section), each_s, held)
    if most < 1:
        alone_s = float(time_per_token_s(job.workload, decode[0], job.shape, 1, each_s))
        raise InfeasibleError(
            Sentence(
                "serving.tpot_limit_s: one request alone takes {:.1f} ms a token; raise the limit or change the layout.",
                alone_s * 1e3,
            )
        )
    return float(most)


def _document(job: ServingJob, decode: Pool, before: Pool | None, found: Service, warnings: list[str]) -> ServingDocument:
    step = decode_step(job.workload, decode[0], found.in_flight, job.shape.mean_context_tokens)
    decoding = _pool(job, decode, step, found.decode_use)
    gained = job.workload.engine.tokens_per_step
    rate = decode[1] * found.in_flight * gained / decoding["time_s"]
    decoding |= {"in_flight": found.in_flight, **_rates(rate, decode)}
    filling = None
    prompts = prefill_rate(job.workload, (before or decode)[0], job.shape, job.section.pass_tokens)
    filled = prefill(job.workload, (before or decode)[0], prompts.prompts_per_pass, job.shape.new_tokens)
    if before is not None:
        filling = _pool(job, before, filled, found.prefill_use)
        filling |= {
            "requests_per_pass": prompts.prompts_per_pass,
            **_rates(before[1] * prompts.prompts_per_s * job.shape.new_tokens, before),
        }
    slower = filled if found.bound_by == "prefill" else step
    return ServingDocument.model_validate(
        {
            **_head(job, warnings),
            "service": _numbers(job, found, slower).model_dump(),
            "prefill": filling,
            "decode": decoding,
        }
    )


def _head(job: ServingJob, warnings: list[str]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "job": job.document,
        "assumptions": job.assumptions,
        "warnings": warnings,
        "version": __version__,
        "priced_with": PricedWith(**priced_with(job.job.workload, job.own)).model_dump(),
    }


def _numbers(job: ServingJob, found: Service, slower: StepTimes) -> ServiceNumbers:
    limits = limits_of(job.section)
    tokens_per_s = found.requests_per_s * job.shape.response_tokens
    return ServiceNumbers(
        ttft_s=found.ttft_s,
        tpot_s=found.tpot_s,
        requests_per_s=found.requests_per_s,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_device=tokens_per_s / job.workload.cluster.num_devices,
        bound_by=found.bound_by,
        bottleneck=max(slower.parts_s, key=lambda part: float(slower.parts_s[part])),
        keeps_limits=limits.kept_by(found),
    )


def _pool(job: ServingJob, pool: Pool, step: StepTimes, use: float) -> dict[str, Any]:
    layout, instances = pool
    section = job.section
    memory = serving_memory(job.workload, layout, utilisation=section.utilisation, pass_tokens=section.pass_tokens)
    capacity = kv_capacity_tokens(job.workload, layout, utilisation=section.utilisation, pass_tokens=section.pass_tokens)
    return {
        "layout": _layout(layout).model_dump(),
        "instances": instances,
        "num_devices": instances * layout.num_devices,
        "time_s": float(step.total_s),
        "parts_s": {part: float(time_s) for part, time_s in step.parts_s.items() if float(time_s) > 0.0},
        "use_fraction": use,
        "kv_capacity_tokens": None if math.isinf(capacity) else capacity,
        "kv_bytes_per_token": kv_bytes_per_token(job.workload, layout),
        "requests_held": mean_requests_held(job.workload, layout, job.shape, section.utilisation),
        "memory": PoolMemory(
            limit_bytes=memory.limit_bytes,
            weights_bytes=memory.weights_bytes,
            workspace_bytes=memory.workspace_bytes,
            communicator_bytes=memory.communicator_bytes,
            cache_bytes=memory.cache_bytes,
        ).model_dump(),
    }


def _rates(tokens_per_s: float, pool: Pool) -> dict[str, float]:
    devices = pool[0].num_devices * pool[1]
    return {"tokens_per_s": tokens_per_s, "tokens_per_s_per_device": tokens_per_s / devices}


def _layout(layout: ServingLayout) -> LayoutDocument:
    return LayoutDocument(
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        ep=layout.ep,
        redundant_experts=layout.redundant_experts,
        num_devices=layout.num_devices,
    )


def serving_search_document(job: ServingJob, executor: Executor = SERIAL) -> ServingSearchDocument:
    """The best layouts and splits of the job's cluster; raises ``InfeasibleError`` if none keeps the limits."""
    section = job.section
    found = search_serving(job.workload, job.shape, limits_of(section), section.top, executor)
    if not found.plans:
        raise InfeasibleError(
            Sentence(
                "Of {:,} layouts the weights of {:,} do not fit, and of the others none keeps "
                "the limits with the lengths given; raise a limit, or give more devices.",
                found.num_layouts,
                found.num_too_large,
            )
        )
    best = found.plans[0]
    warnings = list(job.job.warnings)
    idle = job.workload.cluster.num_devices - best.num_devices
    if idle:
        warnings.append(Sentence("{:,} devices of the best plan stay idle; rates per device count all.", idle))
    before = None if best.prefill is None else (best.prefill, best.num_prefill)
    full = _document(replace(job), (best.decode, best.num_decode), before, best.result, warnings)
    return ServingSearchDocument.model_validate(
        {
            **_head(job, warnings),
            "layouts": found.num_layouts,
            "too_large": found.num_too_large,
            "too_slow": found.num_too_slow,
            "plans": [_plan(job, plan, rank).model_dump() for rank, plan in enumerate(found.plans, start=1)],
            "best": full.model_dump(exclude_unset=True),
        }
    )


def _plan(job: ServingJob, plan: ServingPlan, rank: int) -> ServingPlanDocument:
    result = plan.result
    if result.bound_by == "prefill":
        layout = plan.prefill or plan.decode
        prompts = prefill_rate(job.workload, layout, job.shape, job.section.pass_tokens).prompts_per_pass
        slower = prefill(job.workload, layout, prompts, job.shape.new_tokens)
    else:
        slower = decode_step(job.workload, plan.decode, result.in_flight, job.shape.mean_context_tokens)
    return ServingPlanDocument(
        rank=rank,
        service=_numbers(job, result, slower),
        prefill_instances=plan.num_prefill,
        prefill=None if plan.prefill is None else _layout(plan.prefill),
        decode_instances=plan.num_decode,
        decode=_layout(plan.decode),
        in_flight=result.in_flight,
        num_devices=plan.num_devices,
    )
