"""The baseline of a check: an earlier answer, with the profile and calibration that priced it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from app.answers.price import estimate_document
from app.answers.provenance import priced_with
from app.answers.schemas import EstimateDocument
from app.checks.schemas import CheckDocument
from app.jobs.job import SCHEMA_VERSION, Job, parse_job
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration, calibration_document, calibration_for, calibration_from_mapping
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile
from hardware_profiles.schema import HardwareProfile
from hardware_profiles.writer import profile_document

HASHES = ("version", "calibration", "hardware_profile")
FILES = ("cluster.hardware", "software.calibration")  # fields that may name one
MAX_DEPTH = 32
_SIZES = ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "moe")
LARGEST = 1e30
MAX_CHANGES, MAX_PATH = 20, 100  # changes of the job in a report; characters of a field's path
NAME, MAX_NAMES = re.compile(r"[a-z][a-z0-9_]{0,59}"), 12  # names in a list, such as features, and how many are reported
SOURCES = Sentence("`meshplan check --write-baseline`, `meshplan estimate --json` or `meshplan search --json`")


@dataclass(frozen=True)
class Baseline:
    """An earlier priced strategy. ``calibration`` and ``profile`` are set if the file has them in full."""

    name: str
    job: Mapping[str, Any]
    estimate: Mapping[str, Any]
    priced_with: Mapping[str, Any]
    calibration: Calibration | None
    profile: HardwareProfile | None


def baseline_document(job: Job, priced: EstimateDocument | CheckDocument, own: Sequence[Calibration] = ()) -> dict[str, Any]:
    """An estimate's document, with the calibration and the profile that priced it in full."""
    calibration, parts = calibration_for(job.workload, own), plain(priced)
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: parts[name] for name in ("priced_with", "job", "strategy", "estimate", "delivery") if name in parts},
        "calibration": calibration_document(calibration),
        "hardware_profile": profile_document(job.workload.cluster.profile),
    }


def parse_baseline(document: Mapping[str, Any], name: str) -> Baseline:
    """The baseline in a document of one of our commands; ``InputError`` for others. For a search it is the plan to run."""
    _check_values(document, name)
    chosen = document
    if "plans" in document:
        plans = document["plans"]
        if not isinstance(plans, list) or not plans or not isinstance(plans[0], Mapping):
            raise InputError(Sentence("{}: this search found no plan to compare with; give the answer of another.", name))
        named = document.get("recommended")
        plan_id = named.get("plan_id") if isinstance(named, Mapping) else None
        chosen = next((plan for plan in plans if isinstance(plan, Mapping) and plan.get("plan_id") == plan_id), plans[0])
    job, strategy, estimate = document.get("job"), chosen.get("strategy"), chosen.get("estimate")
    tool = document.get("priced_with")
    if not (isinstance(job, Mapping) and isinstance(strategy, Mapping) and isinstance(estimate, Mapping)):
        raise InputError(Sentence("{}: no baseline (it needs job, strategy and estimate); make one with {}.", name, SOURCES))
    if not isinstance(tool, Mapping):
        raise InputError(Sentence("{}: it does not say what priced it (no priced_with); make it anew with {}.", name, SOURCES))
    if not all(isinstance(tool.get(key), str | None) and len(tool.get(key) or "") <= 60 for key in HASHES):
        raise InputError(Sentence("{}: its priced_with is not as our commands write it; make it anew with {}.", name, SOURCES))
    delivered = chosen.get("delivery")
    return Baseline(
        name=name,
        job={**job, "strategy": strategy},
        estimate={**estimate, **delivered} if isinstance(delivered, Mapping) else estimate,
        priced_with=tool,
        calibration=_calibration(document.get("calibration"), name),
        profile=_profile(document.get("hardware_profile"), name),
    )


def refuse_another_model(job: Job, baseline: Baseline) -> None:
    """Raise ``InputError`` for a baseline whose model has another name and another shape than the job's."""
    old, new = baseline.job.get("model"), job.document["model"]
    if not isinstance(old, Mapping) or old.get("name") == new["name"]:
        return
    if any(old.get(field) != new[field] for field in _SIZES if field in new):
        raise InputError(
            Sentence(
                "{}: is of {}, and the job trains {}; give a baseline of the same model.",
                baseline.name,
                show(old.get("name")),
                new["name"],
            )
        )


def _check_values(document: Mapping[str, Any], name: str) -> None:
    """Refuse values that no answer of ours has, before they are used."""
    inner: list[tuple[Any, int]] = [(document, 1)]
    while inner:
        value, depth = inner.pop()
        if depth > MAX_DEPTH:
            raise InputError(
                Sentence("{}: no baseline (it is nested deeper than {} levels); make one with {}.", name, MAX_DEPTH, SOURCES)
            )
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            raise InputError(
                Sentence("{}: it holds {}, which no answer of ours does; make it anew with {}.", name, show(value), SOURCES)
            )
        if isinstance(value, Mapping | list):
            inner += [(item, depth + 1) for item in (value.values() if isinstance(value, Mapping) else value)]


def _calibration(document: object, name: str) -> Calibration | None:
    return None if document is None else calibration_from_mapping(document, Sentence("{}: calibration", name))


def _profile(document: object, name: str) -> HardwareProfile | None:
    return None if document is None else parse_profile(document, Sentence("{}: hardware_profile", name))


def pinned(job: Job, baseline: Baseline) -> tuple[Job, tuple[Calibration, ...]]:
    """The job on the baseline's profile, and the baseline's calibration; ``InputError`` if the baseline has only hashes."""
    profile, current = job.workload.cluster.profile, priced_with(job.workload)
    if baseline.profile is not None and baseline.profile.name == profile.name:
        workload = replace(job.workload, cluster=replace(job.workload.cluster, profile=baseline.profile))
        job = replace(job, workload=workload)
    elif baseline.profile is None and baseline.priced_with.get("hardware_profile") != current["hardware_profile"]:
        raise _only_hashes(baseline, Sentence("hardware profile"))
    if baseline.calibration is not None:
        return job, (baseline.calibration,)
    if baseline.priced_with.get("calibration") != current["calibration"]:
        raise _only_hashes(baseline, "calibration")
    return job, ()


def _only_hashes(baseline: Baseline, what: str) -> InputError:
    return InputError(
        Sentence(
            "pin (--pin): {} names its {} by hash, and this one is another; write the baseline with "
            "`meshplan check --write-baseline`, which keeps it in full.",
            baseline.name,
            what,
        )
    )


def repriced(baseline: Baseline, job: Job, own: Sequence[Calibration]) -> EstimateDocument:
    """The baseline's job priced with the profile and calibration of ``job``; ``InputError`` if it has no price."""
    old = _old_job(baseline, job)
    assert old.strategy is not None  # parse_baseline sets it
    return estimate_document(old, old.strategy, own, simulated=is_simulated(baseline), replayed=False)


def is_simulated(baseline: Baseline) -> bool:
    """Whether the numbers of the baseline are simulated, like the numbers of a search."""
    return baseline.estimate.get("fidelity") == "simulated"


def _old_job(baseline: Baseline, job: Job) -> Job:
    cluster = baseline.job.get("cluster")
    hardware = cluster.get("hardware") if isinstance(cluster, Mapping) else None
    now = job.workload.cluster.profile
    same_name = baseline.profile is not None and baseline.profile.name == now.name
    if same_name or hardware == job.document["cluster"]["hardware"]:
        return parse_job(baseline.job, profile=now)
    return parse_job(baseline.job, profile=None if hardware in catalogue.names() else baseline.profile)


def tool_changes(baseline: Baseline, now: Mapping[str, Any]) -> list[str]:
    """Sentences on changes of the tool since the baseline was priced."""
    words = {
        "version": Sentence("version of meshplan"),
        "calibration": "calibration",
        "hardware_profile": Sentence("hardware profile"),
    }
    return [
        Sentence("The {} is {}; the baseline was priced with {}.", what, now[name], baseline.priced_with.get(name) or "another")
        for name, what in words.items()
        if baseline.priced_with.get(name) != now[name]
    ]


def job_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Fields of two jobs that differ, up to ``MAX_CHANGES``.

    Search settings, and the list of given fields, do not affect the price and are left out.
    """
    others = ("search", "schema_version", "assumed")
    before, after = ({key: value for key, value in job.items() if key not in others} for job in (old, new))
    changes = list(_differences(before, after, ""))
    if len(changes) > MAX_CHANGES:
        changes = [*changes[:MAX_CHANGES], Sentence("and {} more", len(changes) - MAX_CHANGES)]
    return changes


def _same_file(before: object, after: object) -> bool:
    """Whether two paths name the same user's file: folders differ between machines, so the content is compared by hash."""
    return isinstance(before, str) and isinstance(after, str) and PurePath(before).name == PurePath(after).name


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            if (path, name) == ("strategy", "name"):  # it follows from the fields
                continue
            yield from _differences(before.get(name), after.get(name), Sentence("{}.{}", path, name).lstrip("."))
    elif before != after and not (path in FILES and _same_file(before, after)):
        yield Sentence("{}: {}", path[:MAX_PATH], _names_moved(before, after) or f"{show(before)} -> {show(after)}")


def _names_moved(before: Any, after: Any) -> str | None:
    """Names added and removed between two lists, such as features; None if the lists differ in another way."""
    lists = [names for names in (before, after) if isinstance(names, list) and len(set(map(str, names))) == len(names)]
    if len(lists) < 2 or not all(isinstance(name, str) and NAME.fullmatch(name) for names in lists for name in names):
        return None
    moved = [f"+{name}" for name in after if name not in before] + [f"-{name}" for name in before if name not in after]
    return joined(", ", [*moved[:MAX_NAMES], *(["..."] if len(moved) > MAX_NAMES else [])]) or None
