"""A resolved serving job; sections shared with other jobs are read in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.calibrations.constants import constants_for, own_calibrations
from app.calibrations.stored import stored_calibrations
from app.jobs.job import Job, job_document, parse_job
from app.jobs.requests import parse_request
from app.serving.fields import InstanceSection, ServingJobDocument, ServingSection
from calibration.files.calibrations import Calibration
from cost_models.serving.engine import Engine, Overlap, ServingLayout, ServingWorkload, why_not_served
from cost_models.serving.memory import DEFAULT_PASS_TOKENS, DEFAULT_UTILISATION
from cost_models.serving.service import RequestShape
from cost_models.shapes.workload import WorkloadError
from documents.checking import check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

if TYPE_CHECKING:
    from app.storage.session import Database

MAX_CONTEXT_TOKENS = 10_000_000
# Fields whose defaults affect the answer, with their sources.
SOURCES = {
    "utilisation": Sentence("{:g} of usable memory [vllm-ascend]", DEFAULT_UTILISATION),
    "pass_tokens": Sentence("{:,} tokens of prefill pass a replica at once [vllm-ascend]", DEFAULT_PASS_TOKENS),
    "execution": Sentence("graph: steps are replayed"),
    "asynchronous": Sentence("false: the engine schedules between steps"),
    "overlap": "none",
}


@dataclass(frozen=True)
class ServingJob:
    """``job`` has model, cluster, software and warnings; its training is an unused placeholder."""

    job: Job
    section: ServingSection
    workload: ServingWorkload
    shape: RequestShape
    own: Sequence[Calibration]

    @property
    def document(self) -> dict[str, Any]:
        """The job with every default filled in."""
        resolved = self.job.document
        return {
            "schema_version": resolved["schema_version"],
            "model": resolved["model"],
            "cluster": resolved["cluster"],
            "software": resolved["software"],
            "serving": self.section.model_dump(exclude_none=True),
        }

    @property
    def assumptions(self) -> list[str]:
        """Defaults that the job did not give."""
        given = self.section.model_fields_set
        found = [Sentence("serving.{} = {} (default)", name, text) for name, text in SOURCES.items() if name not in given]
        if self.section.draft_tokens and "acceptance" not in given:
            found.append(Sentence("serving.acceptance = {:g} (default) [cloudmatrix384]", self.section.acceptance))
        spread = self.workload.spread
        if spread is not None:
            found.append(Sentence("expert loads as of a router balanced by {} ({})", spread.balance.value, spread.source))
        return [*(sentence for sentence in self.job.assumptions if not sentence.startswith("training.")), *found]


def load_serving_job(source: str, flags: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]) -> ServingJob:
    """The job of a preset, ``config.json`` or job file, with flags by section."""
    document, folder = job_document(source, flags, ServingJobDocument)
    plain, section = _parts(document, labels)
    job = parse_job(plain, folder=folder, labels=labels)
    return _resolved(job, section, own_calibrations(job))


def parse_serving_job(document: Mapping[str, Any]) -> ServingJob:
    """The job in a document that names no files."""
    plain, section = _parts(document, {})
    return _resolved(parse_job(plain), section, ())


def request_serving_job(document: Mapping[str, Any], database: Database) -> ServingJob:
    """The job of a request, for which no file is read."""
    plain, section = _parts(document, {})
    job = parse_request(plain)
    return _resolved(job, section, stored_calibrations(database, job))


def _parts(document: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[dict[str, Any], ServingSection]:
    """The sections of every job, with a placeholder for training, and the section of serving."""
    for key in document:
        if key not in ServingJobDocument.model_fields:
            check(ServingJobDocument, document, labels=labels)
    section = check(ServingSection, document.get("serving") or {}, "serving", labels, (("", ServingJobDocument),))
    rest = {name: value for name, value in document.items() if name not in ("serving", "assumed")}
    length = section.prompt_tokens + section.response_tokens
    if length > MAX_CONTEXT_TOKENS:
        raise InputError(
            Sentence("serving.prompt_tokens: {:,} tokens with the response are more than {:,}.", length, MAX_CONTEXT_TOKENS)
        )
    return {**rest, "training": {"seq_length": length, "global_batch_size": 1}}, section


def _resolved(job: Job, section: ServingSection, own: Sequence[Calibration]) -> ServingJob:
    profile = job.workload.cluster.profile
    if why := why_not_served(job.workload.model):
        raise InputError(why)
    if section.precision not in profile.matmul_flops_per_s and section.precision not in ("bf16", "fp16"):
        known = sorted(set(profile.matmul_flops_per_s) & {"bf16", "fp16", "fp8", "int8"})
        raise InputError(
            Sentence(
                "serving.precision: {!r} has no matmul rate on {}; give one of {}.",
                section.precision,
                profile.name,
                joined(", ", known),
            )
        )
    engine = Engine(
        precision=section.precision,
        cache_precision=section.cache_precision,
        graph=section.execution == "graph",
        asynchronous=section.asynchronous,
        overlap=Overlap(section.overlap),
        draft_tokens=section.draft_tokens,
        acceptance=section.acceptance,
        draft_layers=section.draft_layers,
        balanced=section.balanced_experts,
        shared_experts_apart=section.shared_experts_apart,
    )
    constants = constants_for(job.workload, own)
    workload = ServingWorkload(job.workload.model, job.workload.cluster, constants, engine)
    shape = RequestShape(section.prompt_tokens, section.response_tokens, section.cached_prompt_fraction)
    return ServingJob(job, section, workload, shape, own)


def layout_of(section: InstanceSection, job: ServingJob, where: str) -> ServingLayout:
    """The layout; ``InputError`` if it does not fit the model."""
    model = job.workload.model
    if model.num_attention_heads % section.tp:
        raise InputError(Sentence("{}.tp: {} does not divide {} heads.", where, section.tp, model.num_attention_heads))
    if section.pp > model.num_layers:
        raise InputError(Sentence("{}.pp: {} stages are more than {} layers.", where, section.pp, model.num_layers))
    spread = section.tp * section.dp
    ep = section.ep or (spread if section.dp > 1 and model.moe is not None else 1)
    if ep > 1 and model.moe is None:
        raise InputError(Sentence("{}.ep: {} is not allowed; {} has no experts.", where, ep, model.name))
    try:
        return ServingLayout(section.tp, section.pp, section.dp, ep, section.redundant_experts)
    except WorkloadError as error:
        raise InputError(Sentence("{}.{}.", where, error)) from None
