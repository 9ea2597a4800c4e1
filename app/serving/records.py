"""Published serving points with their predictions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.serving.job import ServingJob, layout_of, parse_serving_job
from app.serving.service import serving_document
from cost_models.serving.service import prefill_rate, time_per_token_s
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence


@dataclass(frozen=True)
class ServingPoint:
    """A record with a job, in SI units; devices are counted as in the profile."""

    id: str
    quantity: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def _decode_tpot_s(job: ServingJob) -> float:
    section = job.section.decode
    if section is None or job.section.concurrency is None:
        raise InputError(Sentence("serving: a record of decode has a layout and a concurrency."))
    layout = layout_of(section, job, "serving.decode")
    return float(time_per_token_s(job.workload, layout, job.shape, job.section.concurrency / section.instances))


def _decode_rate(job: ServingJob) -> float:
    assert job.section.concurrency is not None
    return job.section.concurrency / _decode_tpot_s(job) / job.workload.cluster.num_devices


def _prefill_rate(job: ServingJob) -> float:
    section = job.section.prefill
    if section is None:
        raise InputError(Sentence("serving.prefill: missing; a record of prefill has a layout."))
    layout = layout_of(section, job, "serving.prefill")
    rate = prefill_rate(job.workload, layout, job.shape, job.section.pass_tokens)
    return rate.prompts_per_s * job.shape.new_tokens / layout.num_devices


def _tpot_s(job: ServingJob) -> float:
    return serving_document(job).service.tpot_s


QUANTITIES: dict[str, Callable[[ServingJob], float]] = {
    "decode_tokens_per_s_per_device": _decode_rate,
    "decode_tpot_s": _decode_tpot_s,
    "prefill_tokens_per_s_per_device": _prefill_rate,
    "tpot_s": _tpot_s,
}


def serving_point(record: Mapping[str, Any]) -> ServingPoint:
    """The prediction of a record's job; ``InputError`` for a record without one."""
    compared = record.get("compared")
    if not isinstance(compared, Mapping) or compared.get("quantity") not in QUANTITIES:
        raise InputError(Sentence("{}: {}.", record.get("id"), record.get("not_compared") or Sentence("nothing to compare")))
    job = parse_serving_job(record["job"])
    quantity = compared["quantity"]
    return ServingPoint(record["id"], quantity, QUANTITIES[quantity](job), float(compared["value"]))


def read_serving_records(path: Path) -> list[dict[str, Any]]:
    """Records of a file, one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
