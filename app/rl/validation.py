"""Predictions of measured post-training records: steps, rollouts, weight updates, inference points."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from app.calibrations.constants import constants_for
from app.rl.models import model_of
from app.rl.records import SOFTWARE_YEAR, Assumed, profile_of, step_of
from app.rl.schemas import RlErrors, RlSummary, RlValidationDocument, RlValidationRow
from calibration.records.post_training import DIES_OF_A_PACKAGE, PostTrainingRecord
from calibration.records.training import RefusedRecord
from cost_models.post_training.constants import ENGINES
from cost_models.post_training.resharding import engine_s, model_bytes
from cost_models.post_training.rollout_side import rollout_times
from cost_models.post_training.step import post_training_step
from cost_models.serving.engine import Engine, Overlap, ServingLayout, ServingWorkload, why_not_served
from cost_models.serving.steps import decode_step_s, prefill_s
from cost_models.shapes.traits import default_stack
from cost_models.shapes.workload import Cluster, Software, TrainingJob, Workload
from documents.errors import InfeasibleError, InputError
from documents.sentences import Sentence
from search.post_training.layouts import default_rollout_layout

SCHEMA_VERSION = 1
NOISE = 0.05  # two measured steps closer than this have no order: republished rows differ by up to 22 %
ACCEPTANCE = 0.7  # acceptance of a draft token [cloudmatrix384]
FIXED_POINT_STEPS = 30
QUALITY = Sentence("quality of a policy is shown beside throughput, never predicted")

Predicted = tuple[float, str, dict[str, float]]  # value, unit, parts

# Names of a kind's figure in sources, the preferred one first, and its unit.
_STEP = (
    ("step_time_s", "s"),
    ("end_to_end_tokens_per_s_per_device_as_printed", "tokens/s/device"),
    ("tokens_per_s_per_device", "tokens/s/device"),
    ("tokens_per_s_per_supernode", "tokens/s"),
    ("aggregate_tokens_per_s", "tokens/s"),
)
_ROLLOUT = (
    ("rollout_time_s", "s"),
    ("rollout_time_s_verl", "s"),
    ("output_tokens_per_s", "tokens/s"),
    ("output_tokens_per_s_per_device", "tokens/s/device"),
)
# Measured name -> its engine; None: the record's backend.
_SYNC: tuple[tuple[str, str | None], ...] = (
    ("sync_s", None),
    ("update_broadcast_s", "sharded"),
    ("update_p2p_s", "sharded"),
    ("sync_s_checkpoint_engine", "pipelined"),
    ("sync_s_per_tensor", "per-tensor"),
    ("update_s", "pipelined"),
)
_BACKENDS = {
    "nccl": "bucketed",
    "nixl": "bucketed",
    "hccl": "bucketed",
    "kimi": "pipelined",
    "checkpoint": "sharded",
    "naive": "per-tensor",
}
_INFERENCE = (
    ("output_tokens_per_s_per_npu", "tokens/s/package"),
    ("input_tokens_per_s_per_npu", "tokens/s/package"),
    ("output_tokens_per_s_per_device", "tokens/s/device"),
    ("input_tokens_per_s_per_device", "tokens/s/device"),
    ("tpot_ms", "ms"),
    ("input_tokens_per_s_per_card", "tokens/s/package"),
    ("ttft_s_dynamic_chunk_pp", "s"),
    ("ttft_s", "s"),
    ("tokens_per_s_per_card", "tokens/s/package"),
)


def validation_document(records: Sequence[PostTrainingRecord | RefusedRecord]) -> RlValidationDocument:
    """Predictions for all records, in file order, and the errors by kind."""
    rows = [_row(record) for record in records]
    named = {record.id: record for record in records if isinstance(record, PostTrainingRecord)}
    kinds: dict[str, list[RlValidationRow]] = defaultdict(list)
    for row in rows:
        kinds[row.kind or "unreadable"].append(row)
    return RlValidationDocument(
        schema_version=SCHEMA_VERSION,
        rows=rows,
        summary=RlSummary(
            num_refused=sum(row.refused is not None for row in rows),
            kinds={kind: _errors(listed, named) for kind, listed in kinds.items()},
        ),
    )


def _row(record: PostTrainingRecord | RefusedRecord) -> RlValidationRow:
    if isinstance(record, RefusedRecord):
        return _refused(record.id, None, None, None, record.reason, [])
    assumed = Assumed()
    measured, unit = _measured(record)
    try:
        with np.errstate(all="ignore"):
            value, unit, parts = _PREDICT[record.kind](record, assumed)
    except (InputError, InfeasibleError, ValueError) as error:
        return _refused(record.id, record.kind, measured, unit, str(error), assumed.sentences)
    if not np.isfinite(value) or value <= 0.0:
        return _refused(
            record.id, record.kind, measured, unit, Sentence("its numbers lead to no finite price."), assumed.sentences
        )
    return RlValidationRow(
        id=record.id,
        kind=record.kind,
        predicted=value,
        measured=measured,
        unit=unit,
        error_fraction=None if measured is None else value / measured - 1.0,
        refused=None,
        assumed=assumed.sentences,
        parts={name: part for name, part in parts.items() if np.isfinite(part)},
        suspect=record.suspect,
    )


def _refused(
    name: str, kind: str | None, measured: float | None, unit: str | None, reason: str, assumed: list[str]
) -> RlValidationRow:
    return RlValidationRow(
        id=name,
        kind=kind,
        predicted=None,
        measured=measured,
        unit=unit,
        error_fraction=None,
        refused=reason,
        assumed=assumed,
        parts={},
        suspect=None,
    )


def _measured(record: PostTrainingRecord) -> tuple[float | None, str | None]:
    wanted: Iterable[tuple[str, str]] = {
        "rl_step": _STEP,
        "rollout": _ROLLOUT,
        "weight_sync": tuple((name, "s") for name, _ in _SYNC),
    }.get(record.kind, _INFERENCE)
    return next(((record.measured[name], unit) for name, unit in wanted if name in record.measured), (None, None))


def _predict_step(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    job = step_of(record, assumed)
    found = post_training_step(job)
    parts = found.time.parts
    listed = {
        "rollout_s": parts.rollout_s,
        "steady_rollout_s": parts.steady_rollout_s,
        "old_log_prob_s": parts.old_log_prob_s,
        "reference_s": parts.reference_s,
        "critic_s": parts.critic_s,
        "update_s": parts.update_s,
        "reshard_s": parts.to_rollout_s + parts.to_train_s + parts.sync_s,
        "remainder_s": found.time.remainder_s,
        "step_s": found.step_s,
    }
    _, unit = _measured(record)
    rate = job.tokens / found.step_s
    if unit == "tokens/s/device":
        return rate / (record.devices or 1), unit, listed
    if unit == "tokens/s":
        return rate, unit, listed
    return found.step_s, "s", listed


def _predict_rollout(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    job = step_of(record, assumed)
    found = rollout_times(
        job.serving,
        job.layout,
        job.lengths,
        job.prompt_tokens,
        max_requests=job.max_requests,
        memory_fraction=job.memory_fraction,
    )
    parts = {"rollout_s": found.makespan_s, "tail_s": found.tail_s, "preemptions": float(found.preemptions)}
    _, unit = _measured(record)
    if unit == "tokens/s":
        return found.output_tokens / found.makespan_s, unit, parts
    if unit == "tokens/s/device":
        return found.output_tokens / found.makespan_s / (record.devices or 1), unit, parts
    return found.makespan_s, "s", parts


def _predict_sync(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    profile, model = profile_of(record, assumed), model_of(record.model)
    engine = next((engine for name, engine in _SYNC if name in record.measured), None)
    if engine is None:
        backend = record.rollout.backend or ""
        engine = next((own for word, own in _BACKENDS.items() if word in backend), None)
    if engine is None:
        engine = "bucketed"
        assumed.note(Sentence("engine = {}: the record names none", engine))
    weight = 1.0 if "fp8" in record.precision or "int8" in record.precision else 2.0
    tp = record.rollout.tp or 1
    whole = model_bytes(model, weight)
    wire_s = whole / tp / profile.tiers[-1].bandwidth_bytes_per_s
    parts = {"model_bytes": whole, "wire_s": wire_s, "bytes_per_s": ENGINES[engine].bytes_per_s(profile)}
    return max(engine_s(whole, 1.0, engine, profile), wire_s), "s", parts


def _serving(record: PostTrainingRecord, assumed: Assumed) -> tuple[ServingWorkload, ServingLayout, int]:
    """The workload, its layout, and devices per package if rates are per package."""
    model, profile = model_of(record.model), profile_of(record, assumed)
    if why := why_not_served(model):
        raise InputError(why)
    placement = record.placement_text.lower()
    text = Sentence("{} {} {}", record.precision, record.notes.lower(), placement)
    narrow = "int8" in text or "w8a8" in text
    precision = "int8" if narrow else "fp8" if "fp8" in text or (model.mla is not None and profile.family == "nvidia") else "bf16"
    drafts = int("mtp" in text and profile.family == "ascend")
    package = DIES_OF_A_PACKAGE if profile.name == "atlas-900-a3-superpod" else 1
    devices = record.dies or 0
    spread = record.rollout.ep or 1
    is_wide = spread > profile.devices_per_node
    engine = Engine(
        precision=precision,
        graph=profile.family != "ascend" or narrow,
        asynchronous=is_wide,
        overlap=Overlap.FASTEST if is_wide else Overlap.NONE,
        draft_tokens=drafts,
        acceptance=ACCEPTANCE if drafts else 0.0,
        balanced="perfect" in placement,
        shared_experts_apart="shared cop" in placement,
    )
    pool = Cluster(profile, devices or profile.devices_per_node)
    base = Workload(model, TrainingJob(4096, 1), pool, Software(default_stack(profile.family), year=SOFTWARE_YEAR))
    serving = ServingWorkload(model, pool, constants_for(base), engine)
    stated = _stated_instance(record, pool.num_devices, spread, placement)
    if stated is None:
        stated = default_rollout_layout(serving)
        assumed.note(
            Sentence(
                "instance = tp {}, ep {}, {} devices: the smallest with room for a cache",
                stated.tp,
                stated.ep,
                stated.num_devices,
            )
        )
    return serving, stated, package


def _stated_instance(record: PostTrainingRecord, devices: int, spread: int, placement: str) -> ServingLayout | None:
    """The instance of a record: its expert degree, its degrees, or those in its text for the measured phase."""
    copies = re.search(r"(\d+) redundant", placement)
    if spread > 1 and devices % spread == 0:
        return ServingLayout(dp=spread, ep=spread, redundant_experts=int(copies[1]) if copies else 0)
    named = re.search(r"decode dp(\d+) tp(\d+)", placement)
    if named and record.kind != "inference_prefill":
        dp, tp = int(named[1]), int(named[2])
        return ServingLayout(tp=tp, dp=dp, ep=tp * dp)
    return ServingLayout(tp=record.rollout.tp) if record.rollout.tp and record.rollout.tp <= devices else None


def _predict_decode(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    serving, layout, package = _serving(record, assumed)
    prompt, answer = record.input_length, record.output_length
    context = (prompt or 0.0) + (answer or 0.0) / 2.0
    context = record.measured.get("mean_kv_length", context)
    batch = record.measured.get("batch_per_npu")
    each = package
    if batch is None:
        if not context:
            raise InputError(Sentence("input_length: missing; the time of a step of decode depends on what lies before it."))
        users = record.measured.get("tokens_per_s_per_user")
        limit_s = (record.tpot_slo_ms or 50.0) / 1e3 if users is None else 1.0 / users
        assumed.note(Sentence("batch = the largest under {:.0f} ms a token", limit_s * 1e3))
        batch = _largest_batch(serving, layout, context, limit_s * serving.engine.tokens_per_step)
        each = 1
    total = batch * layout.num_devices / each
    step = float(decode_step_s(serving, layout, total, context))
    tpot = step / serving.engine.tokens_per_step
    _, unit = _measured(record)
    if unit == "ms":
        return tpot * 1e3, "ms", {"step_s": step}
    rate = total / tpot / layout.num_devices
    return rate * (package if unit == "tokens/s/package" else 1), unit or "tokens/s/device", {"tpot_ms": tpot * 1e3}


def _largest_batch(serving: ServingWorkload, layout: ServingLayout, context: float, limit_s: float) -> float:
    batches = np.arange(1, 513, dtype=np.float64)
    times = decode_step_s(serving, layout, batches * layout.num_devices, context)
    fitting = batches[times <= limit_s]
    return float(fitting[-1]) if len(fitting) else 1.0


def _predict_prefill(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    serving, layout, package = _serving(record, assumed)
    if "hit" in record.notes.lower():
        raise InputError(Sentence("notes: some prompts hit the prefix cache, so this rate does not measure prefill compute."))
    length = record.input_length
    if length is None:
        raise InputError(Sentence("input_length: missing; the time of a prefill depends on it."))
    batch = max((record.batch_tokens or length) / length, 1.0) * (layout.dp if record.batch_tokens else 1)
    if record.batch_tokens and record.devices_are_packages:
        batch = record.batch_tokens * layout.num_devices / package / length
    seconds = float(prefill_s(serving, layout, batch, length))
    _, unit = _measured(record)
    if unit == "s":
        return seconds, "s", {}
    rate = batch * length / seconds / layout.num_devices
    return rate * (package if unit == "tokens/s/package" else 1), unit or "tokens/s/device", {"pass_s": seconds}


def _predict_serving(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    serving, layout, package = _serving(record, assumed)
    context = (record.input_length or 0.0) + (record.output_length or 0.0) / 2.0
    if not context:
        raise InputError(Sentence("input_length: missing; the time of a step of decode depends on what lies before it."))
    tokens = serving.engine.tokens_per_step
    concurrency = float(record.concurrency or 0)
    if not concurrency:
        rate = record.measured.get("tokens_per_s_per_card", 0.0) * (record.devices or 0) / package
        concurrency = 8.0 * layout.num_devices
        for _ in range(FIXED_POINT_STEPS if rate else 0):
            concurrency = max(rate * float(decode_step_s(serving, layout, concurrency, context)) / tokens, 1.0)
        assumed.note(
            Sentence(
                "concurrency = {:.0f} requests, {}",
                concurrency,
                Sentence("by the rate that was measured") if rate else "8 a device",
            )
        )
    step = float(decode_step_s(serving, layout, concurrency, context)) / tokens
    return step * 1e3, "ms", {"concurrency": concurrency}


def _no_quality(record: PostTrainingRecord, assumed: Assumed) -> Predicted:
    raise InputError(Sentence("kind: {} is not predicted; {}.", record.kind, QUALITY))


_PREDICT: dict[str, Callable[[PostTrainingRecord, Assumed], Predicted]] = {
    "rl_step": _predict_step,
    "rollout": _predict_rollout,
    "weight_sync": _predict_sync,
    "inference_prefill": _predict_prefill,
    "inference_decode": _predict_decode,
    "inference_serving": _predict_serving,
    "staleness_quality": _no_quality,
}


def _errors(rows: Sequence[RlValidationRow], records: dict[str, PostTrainingRecord]) -> RlErrors:
    errors = np.array([row.error_fraction for row in rows if row.error_fraction is not None])
    pairs = _ordered(rows, records)
    return RlErrors(
        count=len(errors),
        median_abs_error_fraction=float(np.median(np.abs(errors))) if len(errors) else None,
        mean_abs_error_fraction=float(np.mean(np.abs(errors))) if len(errors) else None,
        bias_fraction=float(np.median(errors)) if len(errors) else None,
        num_pairs=len(pairs),
        pairs_in_order_fraction=float(np.mean(pairs)) if pairs else None,
    )


def _ordered(rows: Sequence[RlValidationRow], records: dict[str, PostTrainingRecord]) -> list[bool]:
    """Whether predictions have the measured order, for each pair of rows of one model and unit that differ by more than noise.

    Runs of one set-up with several software releases form no pair.
    """
    groups: dict[tuple[str, str, str], list[RlValidationRow]] = defaultdict(list)
    for row in rows:
        record = records.get(row.id)
        if record is not None and row.error_fraction is not None and row.kind == "rl_step":
            groups[str(record.model), record.hardware or "", row.unit or ""].append(row)
    found = []
    for listed in groups.values():
        for one, other in combinations(listed, 2):
            assert one.measured
            assert other.measured
            assert one.predicted
            assert other.predicted
            if _setup(records[one.id]) != _setup(records[other.id]) and abs(np.log(one.measured / other.measured)) > NOISE:
                found.append((one.measured > other.measured) == (one.predicted > other.predicted))
    return found


def _setup(record: PostTrainingRecord) -> tuple[object, ...]:
    """The set-up of a run, without its lengths of answers."""
    return (
        record.devices,
        record.placed,
        replace(record.train, recompute=False),
        replace(record.rollout, max_num_seqs=None),
        record.algorithm,
        record.precision,
        record.prompts,
        record.samples,
        record.max_response,
        record.max_sequence,
    )
