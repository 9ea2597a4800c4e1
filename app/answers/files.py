"""A search's report, job and launch arguments as files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from app.answers.folder import REPORT
from app.answers.recommended import recommended_plan
from app.answers.schemas import ByTensorDocument, LaunchDocument, SearchDocument
from app.answers.tables.by_tensor import slower_sentence
from app.answers.tables.search import print_search
from app.language.choice import said
from app.text.json_documents import json_text, plain
from app.text.terminal import plain_text
from documents.sentences import Sentence, all_plain
from frameworks.framework import Start
from frameworks.launch_files import launch_file
from hardware_profiles import catalogue
from hardware_profiles.schema import ProfileError

REPORT_WIDTH = 140
USUAL_DEVICES_PER_NODE = 8
EXPERT_COUNTS = "expert_counts.json"
BY_TENSOR = "by-tensor"


def report_files(document: SearchDocument) -> dict[str, str]:
    """Text by name of ``report.txt``, ``report.json``, ``job.yaml``, and of each plan's job and launch files."""
    report = io.StringIO()
    print_search(plain_text(report, REPORT_WIDTH), document)
    files = {"report.txt": report.getvalue(), REPORT: json_text(document)}
    job: Mapping[str, Any] = document.job
    counts = job["training"].get("expert_counts")  # an older server does not state it
    if counts is not None:  # they are long, so all saved jobs refer to one file
        files[EXPERT_COUNTS] = json_text({"expert_counts": counts})
        job = {**job, "training": {**job["training"], "expert_counts": EXPERT_COUNTS}}
    files["job.yaml"] = _yaml(job)
    for plan in document.plans:
        files |= files_of_plan(plain(plan), job)
    if document.by_tensor:
        files |= _files_by_tensor(document, document.by_tensor[0], job)
    return files


def _files_by_tensor(document: SearchDocument, plan: ByTensorDocument, job: Mapping[str, Any]) -> dict[str, str]:
    """Texts by name of the job of a plan by tensor, and of what launch files can state of it, which they say first."""
    strategy = {name: value for name, value in plain(plan.strategy).items() if name != "name"}
    start = Start(
        Sentence("Plan by tensor ({})", plan.plan_id), job["cluster"]["num_devices"], _devices_per_node(job["cluster"]), said
    )
    files = {f"{BY_TENSOR}.job.yaml": _yaml({**job, "strategy": strategy})}
    for each in plan.exports:
        if each.launch is not None:
            launch = plain(each.launch)
            first = [*filter(None, (slower_sentence(document, each), each.why))]
            launch["launchable"] &= each.strategy == plan.strategy
            launch["notes"] = list(dict.fromkeys((*first, *launch["notes"])))
            suffix, text = launch_file(each.target.partition("@")[0], launch, start)
            files[f"{BY_TENSOR}.{each.target}.{suffix}"] = text
    return files


def launch_file_names(document: SearchDocument) -> dict[str, LaunchDocument]:
    """Names of the files that launch the plan to run on the frameworks that take it, that of the job's target first."""
    if not document.plans:
        return {}
    plan = recommended_plan(document)
    of_plan = plan_files(plain(plan), document.job, _devices_per_node(document.job["cluster"]))
    takers = {target.partition("@")[0] for target in plan.launchable_on}
    target = document.job["software"]["target"].partition("@")[0]
    found: dict[str, LaunchDocument] = {}
    for framework, name, _ in sorted(of_plan, key=lambda each: each[0] != target):
        launch = None if framework is None else plan.launch.get(framework)
        if launch is not None and framework in takers:
            found[name] = launch
    return found


def plan_files(
    plan: Mapping[str, Any], job: Mapping[str, Any], devices_per_node: int, say: Callable[[str], str] = said
) -> Iterator[tuple[str | None, str, str]]:
    """Framework, name and text of each file: the job with the plan's strategy, then the launch files with comments by ``say``."""
    stem = f"plan-{plan['rank']}"
    strategy = {name: value for name, value in plan["strategy"].items() if name != "name"}
    yield None, f"{stem}.job.yaml", _yaml({**job, "strategy": strategy})
    title = Sentence("Plan {} ({})", plan["rank"], plan["plan_id"])
    start = Start(title, job["cluster"]["num_devices"], devices_per_node, say)
    for framework, launch in plan["launch"].items():
        if launch is not None and launch["arguments"] is not None:
            suffix, text = launch_file(framework, launch, start)
            yield framework, f"{stem}.{framework}.{suffix}", text


def files_of_plan(plan: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """Texts of a plan's job and launch files by name."""
    per_node = _devices_per_node(job["cluster"])
    return {name: text for _, name, text in plan_files(plan, job, per_node)}


def _devices_per_node(cluster: Mapping[str, Any]) -> int:
    """Devices of a node. A server may know hardware that this machine does not; then the file's comments give the processes."""
    if given := cluster.get("devices_per_node"):
        return int(given)
    try:
        return catalogue.profile(cluster["hardware"]).devices_per_node
    except ProfileError:
        return USUAL_DEVICES_PER_NODE


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(all_plain(document), sort_keys=False, allow_unicode=True, width=130, default_flow_style=None)
