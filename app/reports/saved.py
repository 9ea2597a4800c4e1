"""A search's report, job and launch arguments as files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from app.errors import InputError
from app.reports.search import print_search
from app.reports.terminal import json_text

REPORT_WIDTH = 140


def save_report(folder: Path, document: Mapping[str, Any]) -> None:
    """``report.txt``, ``report.json``, ``job.yaml``, and for each plan a job and its launch arguments; replaces older ones."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "report.txt").open("w", encoding="utf-8") as file:
            print_search(Console(file=file, width=REPORT_WIDTH, no_color=True, highlight=False), document)
        _write(folder / "report.json", json_text(document))
        _write(folder / "job.yaml", _yaml(document["job"]))
        for plan in document["plans"]:
            _save_plan(folder, plan, document["job"])
    except OSError as error:
        raise InputError(f"--save-dir: {folder} cannot be written ({error.strerror or error}).") from None


def _save_plan(folder: Path, plan: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    stem = f"plan-{plan['rank']}"
    _write(folder / f"{stem}.job.yaml", _yaml({**job, "strategy": plan["strategy"]}))
    for framework, launch in plan["launch"].items():
        if launch is not None and launch["arguments"] is not None:
            _write(folder / f"{stem}.{framework}.sh", _shell(framework, plan, launch))


def _shell(framework: str, plan: Mapping[str, Any], launch: Mapping[str, Any]) -> str:
    lines = [f'# {framework}, plan {plan["rank"]} ({plan["plan_id"]}): source this, then pass "${{ARGUMENTS[@]}}".']
    lines += [f"# {note}" for note in launch["notes"]]
    lines += [f"export {name}={shlex.quote(str(value))}" for name, value in launch["environment"].items()]
    return "\n".join([*lines, "ARGUMENTS=(", *_argument_lines(launch["arguments"]), ")"]) + "\n"


def _argument_lines(arguments: list[str]) -> list[str]:
    lines: list[str] = []
    for argument in arguments:
        if argument.startswith("--") or not lines:
            lines.append(f"  {shlex.quote(argument)}")
        else:
            lines[-1] += f" {shlex.quote(argument)}"
    return lines


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=130, default_flow_style=None)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
