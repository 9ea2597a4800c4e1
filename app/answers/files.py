"""A search's report, job and launch arguments as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.answers.schemas import SearchDocument
from app.answers.tables.search import print_search
from app.text.documents import json_text, plain
from app.text.terminal import plain_text
from documents.errors import InputError
from frameworks.framework import Start
from frameworks.launch_files import launch_file
from hardware_profiles import catalogue
from hardware_profiles.schema import ProfileError

REPORT_WIDTH = 140
USUAL_DEVICES_PER_NODE = 8
EXPERT_COUNTS = "expert_counts.json"


def make_folder(folder: Path) -> None:
    """Before a search, so that none is lost for want of a place to write to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"--save-dir: {folder} is a file; give a folder.") from None
    except OSError as error:
        raise InputError(f"--save-dir: {folder} cannot be made ({error.strerror or error}).") from None


def save_report(folder: Path, document: SearchDocument) -> None:
    """``report.txt``, ``report.json``, ``job.yaml``, and for each plan a job and its launch files; replaces older ones."""
    try:
        with (folder / "report.txt").open("w", encoding="utf-8") as file:
            print_search(plain_text(file, REPORT_WIDTH), document)
        _write(folder / "report.json", json_text(document))
        job = _with_counts_apart(folder, document.job)
        _write(folder / "job.yaml", _yaml(job))
        for plan in document.plans:
            save_plan(folder, plain(plan), job)
    except OSError as error:
        raise InputError(f"--save-dir: {folder} cannot be written ({error.strerror or error}).") from None


def _with_counts_apart(folder: Path, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """The job with its routing counts, which are long, in a file that all saved jobs name."""
    counts = job["training"].get("expert_counts")  # a server of old does not state it
    if counts is None:
        return job
    _write(folder / EXPERT_COUNTS, json_text({"expert_counts": counts}))
    return {**job, "training": {**job["training"], "expert_counts": EXPERT_COUNTS}}


def save_plan(folder: Path, plan: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    for _, name, text in plan_files(plan, job, _devices_per_node(job["cluster"]["hardware"])):
        _write(folder / name, text)


def plan_files(plan: Mapping[str, Any], job: Mapping[str, Any], devices_per_node: int) -> Iterator[tuple[str | None, str, str]]:
    """Framework, name and text of each file: the job with the plan's strategy, then what launches it."""
    stem = f"plan-{plan['rank']}"
    yield None, f"{stem}.job.yaml", _yaml({**job, "strategy": plan["strategy"]})
    start = Start(f"Plan {plan['rank']} ({plan['plan_id']})", job["cluster"]["num_devices"], devices_per_node)
    for framework, launch in plan["launch"].items():
        if launch is not None and launch["arguments"] is not None:
            suffix, text = launch_file(framework, launch, start)
            yield framework, f"{stem}.{framework}.{suffix}", text


def _devices_per_node(hardware: str) -> int:
    """A server may know hardware that this machine does not; the file's comments say how many processes to start."""
    try:
        return catalogue.profile(hardware).devices_per_node
    except ProfileError:
        return USUAL_DEVICES_PER_NODE


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=130, default_flow_style=None)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
