"""Exports the plans of a case as ``--save-dir`` does: a folder for each case, a job and a launch file for each plan."""

from __future__ import annotations

import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.answers.files import plan_files
from app.answers.search import search_document
from app.jobs.job import Job
from app.text.json_documents import plain
from documents.errors import InputError
from frameworks.framework import Framework
from frameworks.launch import launch_block
from hardware_profiles import catalogue
from scripts.conformance.cases import Case, framework_of, job_of
from scripts.conformance.drawing import drawn
from search.plans.plan import strategy_to_mapping

LAYOUT = ("tp", "pp", "cp", "ep", "etp", "schedule", "zero_stage")


@dataclass(frozen=True)
class Exported:
    """A launch file with its job. ``origin``: searched or drawn. Without a file, ``why`` is the reason."""

    case: Case
    origin: str
    launchable: bool
    file: Path | None = None
    job: Path | None = None
    arguments: tuple[str, ...] = ()
    why: str = ""


def exported(cases: Iterable[Case], folder: Path, processes: int) -> Iterator[Exported]:
    """Files of all cases, in order."""
    with ProcessPoolExecutor(processes) as pool:
        for made in pool.map(partial(export_case, folder=folder), cases):
            yield from made


def export_case(case: Case, folder: Path) -> list[Exported]:
    """The first plans of a search, with different layouts if possible, then drawn plans."""
    place = folder / case.folder
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    framework = framework_of(case)
    try:
        job = job_of(case)
        plans = plain(search_document(job))["plans"]
        found = [_save(place, case, framework, job, plan, "first") for plan in _of_each_layout(plans, case.num_first)]
        others = drawn(job.workload, framework, case.num_drawn, zlib.crc32(case.folder.encode())) if case.num_drawn else []
        for index, strategy in enumerate(others):
            plan = {
                "rank": len(plans) + 1 + index,
                "plan_id": f"drawn-{index + 1}",
                "strategy": strategy_to_mapping(job.workload, strategy),
                "launch": launch_block(job.workload, strategy),
            }
            found.append(_save(place, case, framework, job, plan, "drawn"))
    except InputError as error:
        return [Exported(case, "first", launchable=False, why=str(error))]
    return found or [Exported(case, "first", launchable=False, why="no plan is legal and fits")]


def _of_each_layout(plans: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The first plan of each layout, then the others by rank."""
    by_layout: dict[str, dict[str, Any]] = {}
    for plan in plans:
        strategy = plan["strategy"]
        by_layout.setdefault(repr([*(strategy[name] for name in LAYOUT), strategy["recompute"]["granularity"]]), plan)
    leading = list(by_layout.values())
    ranked = [*leading, *(plan for plan in plans if plan not in leading)]
    return ranked[:count]


def _save(place: Path, case: Case, framework: Framework, job: Job, plan: Mapping[str, Any], origin: str) -> Exported:
    """The plan's job and its launch file for the case's target."""
    launch = plan["launch"][framework.name]
    written: dict[str | None, Path] = {}
    nodes = catalogue.profile(case.hardware).devices_per_node
    for name, file, text in plan_files({**plan, "launch": {framework.name: launch}}, job.document, nodes):
        written[name] = place / file
        written[name].write_text(text, encoding="utf-8")
    if framework.name not in written:
        return Exported(case, origin, launchable=False, why=" ".join(launch["notes"]))
    return Exported(case, origin, launch["launchable"], written[framework.name], written[None], tuple(launch["arguments"]))


def timed(started_s: float) -> str:
    """Seconds since then, for progress lines."""
    return f"{time.monotonic() - started_s:.0f} s"
