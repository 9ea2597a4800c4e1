"""The jobs that a sweep is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import field
from itertools import product
from pathlib import Path
from typing import Any

from app.jobs.fields import EXHAUSTIVE, HowToSearch
from app.jobs.job import PARTS, Job, parse_job
from app.jobs.sweep import DeviceRange, SweepSection
from cost_models.shapes.workload import WorkloadError
from documents.checking import check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence
from hardware_profiles.schema import HardwareProfile

MAX_POINTS = 1024
HALVED = 5  # device counts, if only the largest is given
_FIELDS = {  # field of the sweep -> field of the job
    "hardware": ("cluster", "hardware"),
    "software": ("software", "stack"),
    "seq_length": ("training", "seq_length"),
    "global_batch_size": ("training", "global_batch_size"),
    "devices": ("cluster", "num_devices"),
}
_SHORT_FORMS = {"cluster": "hardware", "software": "stack"}  # the field that a plain name in place of the mapping means


@dataclass(frozen=True)
class Source:
    """A job's document as given, the folder of its files (without one, none are read), and the user's names of its fields.

    ``profiles`` replace the catalogue's current ones.
    """

    document: Mapping[str, Any]
    folder: Path | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, HardwareProfile] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """One combination of values; ``software`` is the part of the job that differs."""

    hardware: str | None
    software: Mapping[str, Any] | None
    seq_length: int | None
    global_batch_size: int | None
    devices: int | None


def section_of(source: Source) -> SweepSection:
    """The sweep section of a document."""
    given = source.document.get("sweep")
    return check(SweepSection, {} if given is None else given, "sweep", source.labels, PARTS)


def points_of(source: Source) -> list[Point]:
    """All combinations, with devices innermost, so that neighbours are similar."""
    section = section_of(source)
    devices, batches = _counts(section), _listed(section.global_batch_size)
    stacks = [{"stack": each} if isinstance(each, str) else each for each in _listed(section.software)]
    axes = [_listed(section.hardware), stacks, _listed(section.seq_length), batches, devices]
    number = 1
    for axis in axes:
        number *= max(len(axis), 1)
    if number > MAX_POINTS:
        raise InputError(Sentence("sweep: {:,} points are more than {:,}; give fewer values.", number, MAX_POINTS))
    points = [Point(*combination) for combination in product(*(axis or [None] for axis in axes))]
    return [_scaled(source, point, devices) for point in points] if section.scale_batch else points


def job_of(source: Source, point: Point) -> Job:
    """The job of a point; ``InputError`` if it is none."""
    document: dict[str, Any] = deepcopy({name: part for name, part in source.document.items() if name != "sweep"})
    values = {name: getattr(point, name) for name in _FIELDS if name != "software" and getattr(point, name) is not None}
    changed = {_FIELDS[name]: value for name, value in values.items()}
    changed |= {("software", name): value for name, value in (point.software or {}).items()}
    if point.hardware is not None or point.software is not None:
        _forget_defaults(document)
    for (section, name), value in changed.items():
        _mapping(document, section)[name] = value
        if isinstance(document.get("assumed"), dict):
            document["assumed"].pop(Sentence("{}.{}", section, name), None)
    profile = source.profiles.get(str(_mapping(document, "cluster").get("hardware")))
    job = parse_job(document, folder=source.folder, labels=source.labels, profile=profile)
    if job.settings.sampler != EXHAUSTIVE:
        raise InputError(Sentence("search.sampler: a sweep prices every strategy; leave it out."))
    if constraints_of(job) and job.workload.training.train_tokens is None:
        raise InputError(Sentence("search: a deadline or a budget is for how many tokens? Give training.train_tokens."))
    return job


def refuse_unread(job: Job) -> None:
    """Raise ``InputError`` for an option of a search that a sweep does not read. Stored sweeps may still hold one."""
    for name in ("max_trials", "seed", "refine", "refine_front", "by_tensor"):
        if getattr(job.settings, name) != HowToSearch.model_fields[name].default:
            raise InputError(Sentence("search.{}: a sweep does not read it; leave it out.", name))


def constraints_of(job: Job) -> dict[str, float]:
    """Constraints of a point, by the name of its number."""
    settings = job.settings
    given = {"days": settings.deadline_days, "cost_usd": settings.budget_usd}
    return {name: most for name, most in given.items() if most is not None}


def first_jobs(source: Source, check: Callable[[Job], None]) -> list[Job]:
    """The first valid point of each hardware and software; ``InputError`` if there is none at all."""
    found: dict[str, Job] = {}
    refusal: InputError | WorkloadError | None = None
    for point in points_of(source):
        kind = repr((point.hardware, point.software))
        if kind not in found:
            try:
                job = job_of(source, point)
                check(job)
                found[kind] = job
            except (InputError, WorkloadError) as error:
                refusal = refusal or error
    if not found and refusal is not None:
        raise refusal
    return list(found.values())


def _counts(section: SweepSection) -> list[int]:
    given, most = section.devices, section.devices_at_most
    if isinstance(given, DeviceRange):
        if given.step is None:
            counts = [given.min]
            while 2 * counts[-1] <= given.max:
                counts.append(2 * counts[-1])
        else:
            counts = list(range(given.min, given.max + 1, given.step)[: MAX_POINTS + 1])  # more are refused
    elif given is None and most is not None:
        counts = sorted({most >> halved for halved in range(HALVED) if most >> halved})
    else:
        counts = sorted(_listed(given))
    kept = [count for count in counts if most is None or count <= most]
    if counts and not kept:
        raise InputError(Sentence("sweep.devices: every count is above devices_at_most, {:,}.", most))
    return kept


def _listed(values: Any) -> list[Any]:
    given = [] if values is None else values if isinstance(values, list) else [values]
    return [value for place, value in enumerate(given) if value not in given[:place]]


def _scaled(source: Source, point: Point, devices: list[int]) -> Point:
    if not devices:
        raise InputError(Sentence("sweep.scale_batch: the batch grows with the devices, of which sweep.devices gives no counts."))
    smallest = Point(point.hardware, point.software, point.seq_length, point.global_batch_size, devices[0])
    batch = job_of(source, smallest).workload.training.global_batch_size
    assert point.devices is not None
    if batch * point.devices % devices[0]:
        raise InputError(
            Sentence(
                "sweep.scale_batch: {} sequences on {} devices are no whole number on {}; "
                "give counts that are multiples of the smallest.",
                batch,
                devices[0],
                point.devices,
            )
        )
    return Point(point.hardware, point.software, point.seq_length, batch * point.devices // devices[0], point.devices)


def _mapping(document: dict[str, Any], section: str) -> dict[str, Any]:
    value = document.get(section)
    if value is None or (isinstance(value, str) and section in _SHORT_FORMS):
        value = {} if value is None else {_SHORT_FORMS[section]: value}
        document[section] = value
    if not isinstance(value, dict):
        raise InputError(Sentence("{}: {!r} is not allowed; give a mapping of field names to values.", section, value))
    return value


def _forget_defaults(document: dict[str, Any]) -> None:
    """Remove defaults that a resolved job took for its hardware and stack, so that other points take their own."""
    assumed = document.get("assumed")
    for name in list(assumed) if isinstance(assumed, dict) else []:
        section, _, field_name = str(name).partition(".")
        if isinstance(document.get(section), dict):
            document[section].pop(field_name, None)
        assumed.pop(name)  # type: ignore[union-attr]
