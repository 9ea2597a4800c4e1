"""A job: model, training, devices and software, parsed from a file or flags and fully resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from app.catalogue.models.presets import Preset, known_name, resolve_model
from app.catalogue.models.presets import names as preset_names
from app.catalogue.models.shape import ModelSection, model_to_mapping
from app.jobs.assumed import NOT_GIVEN, Assumption, assumed_in, assumed_to_mapping
from app.jobs.defaults import fields_with_defaults, silent_fields
from app.jobs.delivery import DeliverySection
from app.jobs.expert_counts import counts_reference, counts_to_lists
from app.jobs.expert_load import expert_load, with_capacity
from app.jobs.fields import (
    DEFAULT_TRIALS,
    EXHAUSTIVE,
    SETTINGS,
    ClusterSection,
    JobDocument,
    SearchSection,
    SearchSettings,
    SoftwareSection,
    StrategySection,
    TrainingSection,
)
from app.jobs.headroom import headroom_bytes
from app.jobs.idle_recompute import without_idle_modules
from app.jobs.missing_fields import lacking, with_what_a_model_lacks
from app.jobs.optimizer import job_optimizer, optimizer_fields
from app.jobs.precision import check_gather, resolved_precision, with_usual_recipe, without_effect
from app.jobs.software import option_sentences, software_from_section, warn_of_software, written_options
from app.jobs.strategy import feature_warnings, strategy_from_section
from app.jobs.sweep import SweepSection
from app.jobs.task import check_precision, task_fields, training_task
from app.jobs.written_numbers import with_numbers
from cost_models.shapes.optimizers import Optimizer
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.training_task import Task, TrainingTask
from cost_models.shapes.workload import Cluster, MemoryRoom, Software, TrainingJob, Workload
from documents.checking import Section, check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.reading import LIMITS, parse_document, read_text
from documents.sentences import Sentence, joined
from hardware_profiles import catalogue as hardware
from hardware_profiles.nodes import in_nodes_of
from hardware_profiles.schema import HardwareProfile, Status
from search.plans.plan import strategy_to_mapping
from search.space.limits import SearchLimits, limits_from_section

SCHEMA_VERSION: Final = 1
MAX_TOKENS_PER_STEP = 10**13
PARTS: Final = (("", JobDocument), ("model", ModelSection))  # the section of each field of a job


@dataclass(frozen=True)
class Job:
    """A resolved job. ``document`` is the same job with every default filled in: parsing it gives this job again.

    ``is_target_given``: the job names its target; otherwise a search chooses one. ``assumed`` has the defaults in force outside
    the strategy, ``section`` the given fields of the strategy. ``assumptions`` are sentences that every answer lists.
    ``no_target_fits``: the usual target takes no plan that fits, so that physics alone is searched. ``uneven``: arguments of a
    launch script by which samples are packed, or as short as they are.
    """

    workload: Workload
    strategy: ParallelStrategy | None
    section: StrategySection | None
    limits: SearchLimits
    settings: SearchSettings
    delivery: DeliverySection | None
    assumed: Mapping[str, Assumption]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    document: dict[str, Any]
    is_target_given: bool
    no_target_fits: bool = False
    uneven: tuple[str, ...] = ()

    def with_defaults(self, taken: Mapping[str, tuple[Any, str]]) -> Job:
        """The job with these values of fields left to a default, each with its origin; its workload has them already."""
        entries = {field: Assumption(field, value, why) for field, (value, why) in taken.items()}
        assumed = {**self.assumed, **entries}
        document = {**self.document, "assumed": assumed_to_mapping(assumed)}
        for field, (value, _) in taken.items():
            section, _, name = field.partition(".")
            document[section] = {**document[section], name: value}
        told = tuple(entry.sentence() for entry in entries.values())
        return replace(self, assumed=assumed, document=document, assumptions=(*self.assumptions, *told))

    @property
    def calibration(self) -> str | None:
        """The calibration that the job names; the pricing code resolves it."""
        name: str | None = self.document["software"]["calibration"]
        return name


def load_job(source: str, flags: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]) -> Job:
    """The job of ``source`` (a preset, a ``config.json`` or a job file) and the flags, by section."""
    document, folder = job_document(source, flags)
    return parse_job(document, folder=folder, labels=labels)


def job_document(
    source: str, flags: Mapping[str, Mapping[str, Any]], model: type[Section] = JobDocument
) -> tuple[dict[str, Any], Path]:
    """The document of ``load_job`` before it is checked as ``model``, and the folder of its relative paths."""
    document, folder = _document(source)
    for section, values in flags.items():
        if values:
            document[section] = _with_flags(_as_mapping(document, section), values)
    if isinstance(document.get("assumed"), Mapping):
        given = {Sentence("{}.{}", section, name) for section, values in flags.items() for name in values}
        document["assumed"] = {name: entry for name, entry in document["assumed"].items() if name not in given}
    # A path in a flag is relative to the working folder, not to the job file.
    if "hardware" in flags.get("cluster", {}):
        document["cluster"]["hardware"] = _hardware_reference(document["cluster"]["hardware"], Path())
    if "calibration" in flags.get("software", {}):
        document["software"]["calibration"] = _calibration_reference(document["software"]["calibration"], Path())
    if "expert_counts" in flags.get("training", {}):
        document["training"]["expert_counts"] = counts_reference(document["training"]["expert_counts"], Path())
    return with_numbers(model, document), folder


def _with_flags(section: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The document with flags in place of the file's values; in a mapping such as ``switches``, only the named entries."""
    return {
        **section,
        **{
            name: {**section[name], **value} if isinstance(value, Mapping) and isinstance(section.get(name), Mapping) else value
            for name, value in flags.items()
        },
    }


def parse_job(
    document: Mapping[str, Any],
    *,
    folder: Path | None = None,
    labels: Mapping[str, str] | None = None,
    profile: HardwareProfile | None = None,
) -> Job:
    """The job in ``document``. Files that it names are read only if ``folder`` is given, relative to it.

    ``profile`` replaces the one that the document names: a stored job runs with its original numbers.
    """
    labels = labels or {}
    unknown = {key: value for key, value in document.items() if key not in JobDocument.model_fields}
    if unknown or document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        check(JobDocument, document, labels=labels, parts=PARTS)
    if document.get("model") in (None, ""):  # an unset shell variable gives an empty text
        others = lacking(ClusterSection, _as_mapping(document, "cluster"), "cluster", labels)
        also = Sentence(" Also missing: {}.", joined(", ", others)) if others else ""
        raise InputError(Sentence("model: missing; give a preset's name, the path of a config.json, or a mapping.{}", also))
    try:
        cluster_section = check(ClusterSection, _as_mapping(document, "cluster"), "cluster", labels, PARTS)
    except InputError as error:
        raise InputError(with_what_a_model_lacks(str(error), document["model"], labels)) from None
    training_section = check(TrainingSection, _as_mapping(document, "training"), "training", labels, PARTS)
    software_section = check(SoftwareSection, _as_mapping(document, "software"), "software", labels, PARTS)
    settings, limits = _search(_as_mapping(document, "search"), labels)
    delivery = None
    if document.get("delivery") is not None:
        delivery = check(DeliverySection, document["delivery"], "delivery", labels, PARTS)
        if delivery.mtbf_s is not None and "failures_per_node_day" in delivery.model_fields_set:
            raise InputError(Sentence("delivery: mtbf_s and failures_per_node_day say the same in two ways; give one of them."))
    sweep = None if document.get("sweep") is None else check(SweepSection, document["sweep"], "sweep", labels, PARTS)
    assumed: dict[str, str] = {}
    warnings: list[str] = []
    model, preset = resolve_model(document["model"], folder=folder, warnings=warnings)
    model = with_capacity(training_section, model, labels)
    hardware_reference = _hardware_reference(cluster_section.hardware, folder)
    profile = profile or (hardware.named if folder is None else hardware.profile)(hardware_reference)
    profile = in_nodes_of(profile, cluster_section.devices_per_node or profile.devices_per_node)
    task = training_task(training_section, model, assumed)
    optimizer = job_optimizer(training_section, task, model)
    training = _training(training_section, task, optimizer, preset, profile, labels, assumed)
    training = replace(training, **expert_load(training_section, model, folder, labels, assumed, warnings))
    workload = Workload(
        model=model,
        training=training,
        cluster=Cluster(
            profile=profile,
            **{name: value for name, value in cluster_section if name not in ("hardware", "devices_per_node")},
        ),
        software=software_from_section(software_section, profile, assumed),
        room=MemoryRoom(headroom_bytes(settings.min_headroom, profile.usable_hbm_bytes, labels), settings.fit_confidence),
    )
    workload = with_usual_recipe(workload, assumed)
    check_gather(training_section, workload)
    sections = {"cluster": cluster_section, "training": training_section, "software": software_section}
    told = {*assumed, *without_effect(training_section, workload)}
    assumed |= {name: NOT_GIVEN for name in silent_fields() if name not in told and not _is_given(sections, name)}
    _warn(cluster_section, profile, warnings)
    warn_of_software(workload, warnings)
    resolved = _resolved(
        workload,
        hardware_reference,
        _calibration_reference(software_section.calibration, folder),
        _as_mapping(document, "search"),
        settings,
        {"delivery": delivery, "sweep": sweep},
        cluster_section.devices_per_node,
    )
    taken = _assumptions(assumed, document.get("assumed"), resolved)
    job = Job(
        workload=workload,
        strategy=None,
        section=None,
        limits=limits,
        settings=settings,
        delivery=delivery,
        assumed=taken,
        assumptions=(
            *(entry.sentence() for entry in taken.values() if not entry.is_silent),
            *_factors(workload),
            *option_sentences(workload.software),
        ),
        warnings=tuple(warnings),
        document={**resolved, "assumed": assumed_to_mapping(taken)},
        is_target_given=software_section.target is not None,
    )
    return job if document.get("strategy") is None else with_strategy(job, document["strategy"], labels)


def with_strategy(job: Job, given: Any, labels: Mapping[str, str] | None = None) -> Job:
    """The job, which has no strategy, with one; ``InputError`` if the strategy does not fit the job."""
    section = check(StrategySection, given, "strategy", labels, PARTS)
    given_strategy = strategy_from_section(section, job.workload)
    strategy = without_idle_modules(job.workload, given_strategy)
    document = {name: part for name, part in job.document.items() if name != "assumed"}
    return replace(
        job,
        strategy=strategy,
        section=section,
        warnings=(*job.warnings, *feature_warnings(job.workload, given_strategy, section)),
        document={**document, "strategy": strategy_to_mapping(job.workload, strategy), "assumed": job.document["assumed"]},
    )


def _is_given(sections: Mapping[str, Section], field: str) -> bool:
    section, _, name = field.partition(".")
    given = sections[section].model_fields_set
    return name in given or (field == "software.year" and "release" in given)


def _assumptions(found: Mapping[str, str], stated: object, resolved: Mapping[str, Any]) -> dict[str, Assumption]:
    """Defaults taken now, after those that the document took when it was resolved."""

    def value_of(field: str) -> Any:
        section, _, name = field.partition(".")
        return resolved[section].get(name)

    allowed = [name for name in fields_with_defaults() if not name.startswith("strategy.")]
    earlier = {} if stated is None else assumed_in(stated, value_of, allowed)
    taken = {name: Assumption(name, value_of(name), why) for name, why in found.items()}
    # A reason that is derived again has its parts, which the text in a document has lost.
    return {**earlier, **{name: entry for name, entry in taken.items() if name not in earlier or entry.value is None}}


def _document(source: str) -> tuple[dict[str, Any], Path]:
    path = Path(source)
    is_file = os.path.exists(path) or path.suffix in DATA_SUFFIXES  # noqa: PTH110 - Path's raises for a long name
    if source in preset_names() or not source or not is_file:
        return {"model": known_name(source) or source}, Path()
    text = read_text(path, LIMITS.num_bytes)
    try:
        document = parse_document(text, source, is_json=path.suffix.lower() == ".json")
    except InputError as error:
        if path.suffix.lower() in DATA_SUFFIXES:
            raise
        reason = str(error).removeprefix(f"{source}: ").rstrip(".")
        raise InputError(
            Sentence(
                "{}: neither a job nor a launch script ({}); give a job file, a config.json, or a script named *.sh.",
                source,
                reason,
            )
        ) from None
    if "model" in document:
        return document, path.parent
    if "model_type" in document:
        return {"model": str(path.absolute())}, Path()
    raise InputError(Sentence("{}: neither a job (no key 'model') nor a Hugging Face config.json (no key 'model_type').", source))


DATA_SUFFIXES = (".json", ".yaml", ".yml")
SHORT_FORMS = {"cluster": "hardware", "software": "stack"}  # the field that a plain name in place of the mapping means


def _as_mapping(document: Mapping[str, Any], section: str) -> Any:
    value = document.get(section)
    if value is None:
        return {}
    if isinstance(value, str) and section in SHORT_FORMS:
        return {SHORT_FORMS[section]: value}
    if not isinstance(value, Mapping):
        kind = Sentence("a list") if isinstance(value, list) else repr(value)
        raise InputError(Sentence("{}: {} is not allowed; give a mapping of field names to values.", section, kind))
    return value


def _hardware_reference(name: str, folder: Path | None) -> str:
    """The name of a shipped profile, or an absolute path; any other name is unchanged."""
    if (known := hardware.known_name(name)) is not None:
        return known
    is_path = folder is not None and ("/" in name or name.endswith((".yaml", ".yml")))
    return os.path.abspath(folder / name) if is_path and folder is not None else name  # noqa: PTH100 - Path's keeps "..".


def _calibration_reference(name: str | None, folder: Path | None) -> str | None:
    """A server's id unchanged, or an absolute path."""
    if name is None or folder is None:
        return name
    path = os.path.abspath(folder / name)  # noqa: PTH100 - Path's keeps "..".
    is_path = "/" in name or name.endswith(".json") or os.path.exists(path)  # noqa: PTH110 - Path's raises for a long name
    return path if is_path else name


def _training(
    section: TrainingSection,
    task: TrainingTask,
    optimizer: Optimizer,
    preset: Preset | None,
    profile: HardwareProfile,
    labels: Mapping[str, str],
    assumed: dict[str, str],
) -> TrainingJob:
    default = preset.default_training if preset and task.name is Task.PRETRAIN else None

    def resolved(name: str, value: Any) -> Any:
        if value is None and default is not None and name in default.sources:
            assumed[f"training.{name}"] = default.why(name)
            return getattr(default, name)
        return value

    seq_length = resolved("seq_length", section.seq_length)
    global_batch_size = resolved("global_batch_size", section.global_batch_size)
    missing = [name for name, value in (("seq_length", seq_length), ("global_batch_size", global_batch_size)) if value is None]
    if missing:
        fields = joined(" and ", (labels.get(name := f"training.{field}", name) for field in missing))
        if task.name is not Task.PRETRAIN:
            raise InputError(
                Sentence("{}: missing; a preset's default is of its pre-training, not of {}; give it.", fields, task.name.value)
            )
        raise InputError(
            Sentence(
                "{}: missing; only model presets have a default, so give an integer{}.",
                fields,
                Sentence(" for each") * (len(missing) > 1),
            )
        )
    if seq_length * global_batch_size > MAX_TOKENS_PER_STEP:
        raise InputError(
            Sentence(
                "training.global_batch_size: {} sequences of {} tokens are more than {:.0e} tokens a step; give less.",
                global_batch_size,
                seq_length,
                MAX_TOKENS_PER_STEP,
            )
        )
    precision, recipe = resolved_precision(section, default, profile, assumed)
    check_precision(task, precision)
    return TrainingJob(
        seq_length=seq_length,
        global_batch_size=global_batch_size,
        precision=precision,
        fp8_recipe=recipe,
        fp8_param_gather=section.fp8_param_gather,
        task=task,
        optimizer=optimizer,
        train_tokens=resolved("train_tokens", section.train_tokens),
        mean_squared_length_fraction=section.mean_squared_length_fraction,
    )


def _factors(workload: Workload) -> list[str]:
    given = (
        ("cluster", workload.cluster.time_factor, Sentence("all device and communication time")),
        ("software", workload.software.time_factor, Sentence("device time")),
    )
    return [
        Sentence("{}.time_factor = {:g} (given in the job; multiplies {})", part, factor, what)
        for part, factor, what in given
        if factor != 1.0
    ]


def _search(mapping: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[SearchSettings, SearchLimits]:
    settings = check(SearchSection, mapping, "search", labels, PARTS)
    if settings.sampler != EXHAUSTIVE and settings.max_trials is None:
        settings = settings.model_copy(update={"max_trials": DEFAULT_TRIALS})
    return settings, limits_from_section(settings)


def _warn(cluster: ClusterSection, profile: HardwareProfile, warnings: list[str]) -> None:
    if profile.status is Status.ROADMAP:
        warnings.append(Sentence("{} is announced, not delivered: its numbers are the vendor's plan.", profile.name))
    elif profile.status is Status.UNVALIDATED:
        warnings.append(Sentence("{} is unvalidated: no measured training run backs its numbers.", profile.name))
    if profile.lacks_compute_capability:
        warnings.append(
            Sentence(
                "{} states no compute_capability: it gets the recipes of {}, the oldest devices with its precisions, "
                "and the times of the slowest devices from there on; add what torch.cuda.get_device_capability() returns.",
                profile.name,
                profile.least_compute_capability,
            )
        )
    devices, per_node = cluster.num_devices, profile.devices_per_node
    if devices > per_node and devices % per_node:
        below = devices - devices % per_node
        warnings.append(
            Sentence(
                "cluster.num_devices: {} devices do not fill nodes of {}, and launch files start {} on every node; "
                "give {} or {}.",
                devices,
                per_node,
                per_node,
                below,
                below + per_node,
            )
        )


def _resolved(
    workload: Workload,
    hardware_name: str,
    calibration: str | None,
    search: Mapping[str, Any],
    settings: SearchSettings,
    others: Mapping[str, Section | None],
    devices_per_node: int | None,
) -> dict[str, Any]:
    training = workload.training
    node = {} if devices_per_node is None else {"devices_per_node": devices_per_node}
    spread = training.expert_spread
    is_one_factor = training.expert_counts is None and spread is None
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "model": model_to_mapping(workload.model),
        "cluster": _section(ClusterSection, workload.cluster, hardware=hardware_name, **node),
        "training": _section(
            TrainingSection,
            training,
            expert_load_factor=training.expert_load_factor if is_one_factor else None,
            expert_counts=counts_to_lists(training.expert_counts),
            router_balance=None if spread is None or spread.assumed else spread.balance.value,
        )
        | task_fields(training.task)
        | optimizer_fields(training.optimizer),
        "software": _section(SoftwareSection, workload.software, calibration=calibration, **written_options(workload.software)),
        "search": {
            **{name: getattr(settings, name) for name in SETTINGS},
            **{k: v for k, v in search.items() if k not in SETTINGS},
        },
    }
    given = {name: section.model_dump(exclude_unset=True) for name, section in others.items() if section is not None}
    return {**document, **given}


def _section(kind: type[Section], resolved: Cluster | TrainingJob | Software, **others: Any) -> dict[str, Any]:
    """The fields of a section from ``others`` or ``resolved``; fields without effect on prices are in neither."""
    values = {**vars(resolved), **others}
    values.pop("task", None)  # several fields say it, and others the optimizer
    values.pop("optimizer", None)
    return {name: values[name] for name in kind.model_fields if name in values}
