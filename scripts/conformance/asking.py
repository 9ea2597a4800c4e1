"""Asks the frameworks about launch files: an answer for each file, with the values that they computed from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.conformance.checkouts import Checkouts, Tree, UncheckedError
from scripts.conformance.launch_files import REPOSITORIES, Header, header, run_script, smallest_start, yaml_processes

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Question:
    """A file, the size of its vocabulary, and the config.json that the file names, if any."""

    file: Path
    vocab_size: int | None = None
    config_json: Mapping[str, Any] | None = None
    like: Header | None = None  # header of an export, for a file without one of ours


@dataclass
class Answer:
    """``verdict``: accept, refuse, crash (check whether a stand-in is the reason) or unchecked. ``found``: computed values."""

    file: Path
    verdict: str
    header: Header | None = None
    trees: tuple[str, ...] = ()
    stage: str = ""
    error: str = ""
    text: str = ""
    place: str = ""
    warned: tuple[str, ...] = ()
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def release(self) -> str:
        """Target and release in the file's header."""
        return f"{self.header.target} {self.header.release}" if self.header else "?"


def ask(questions: Sequence[Question], checkouts: Checkouts, processes: int) -> list[Answer]:
    """Answers in the order of the questions."""
    answers: dict[Path, Answer] = {}
    groups: dict[tuple[str, tuple[Tree, ...]], list[dict[str, Any]]] = defaultdict(list)
    for index, question in enumerate(questions):
        answer = answers[question.file] = Answer(question.file, "unchecked")
        try:
            said = question.like or header(question.file)
            answer.header = said
            trees = tuple(checkouts.tree(name, said.commits[name]) for name in REPOSITORIES[said.target])
            answer.trees = tuple(tree.label for tree in trees)
            folder = checkouts.scratch / "starts" / f"{os.getpid()}-{index:05d}"
            groups[said.target, trees].append(_as_json(question, said.target, folder))
        except UncheckedError as error:
            answer.text = str(error)
    for (target, trees), asked in groups.items():
        for found in _probe(target, trees, asked, checkouts.scratch, processes):
            _fill(answers[Path(found.pop("file"))], found)
    return [answers[question.file] for question in questions]


def _as_json(question: Question, target: str, folder: Path) -> dict[str, Any]:
    common: dict[str, Any] = {"file": str(question.file), "vocab_size": question.vocab_size, "config_json": question.config_json}
    if target == "mindformers":
        folder.mkdir(parents=True, exist_ok=True)
        processes = yaml_processes(question.file)
        here = {
            "yaml": str(question.file.resolve()),
            "arguments": ["run_mindformer.py"],
            "environment": {},
            "folder": str(folder),
        }
        return {**common, **here, "num_processes": processes}
    started = run_script(question.file, folder)
    return {
        **common,
        "arguments": started.arguments,
        "environment": started.environment,
        "num_processes": started.num_processes if question.like is None else smallest_start(started),
        "folder": str(folder / "here"),
    }


def _probe(
    target: str, trees: Sequence[Tree], questions: list[dict[str, Any]], scratch: Path, processes: int
) -> Iterator[dict[str, Any]]:
    """Shares of the questions, each in a process that imports the framework once."""
    running = []
    for number in range(min(processes, len(questions))):
        share = questions[number::processes]
        asked, answered = (scratch / f"{name}-{os.getpid()}-{target}-{number}.json" for name in ("asked", "answered"))
        asked.write_text(json.dumps(share))
        answered.unlink(missing_ok=True)
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "scripts.conformance.probe",
            target,
            asked,
            answered,
            *(tree.path for tree in trees),
        ]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(scratch), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        running.append((process, share, asked, answered))
    for process, share, asked, answered in running:
        _, said = process.communicate()
        asked.unlink()
        if answered.exists():
            yield from json.loads(answered.read_text())
            answered.unlink()
            continue
        for question in share:
            yield {"file": question["file"], "verdict": "unchecked", "error": "NotImported", "text": said.strip()[-1500:]}


def _fill(answer: Answer, found: dict[str, Any]) -> None:
    answer.verdict = found.pop("verdict")
    answer.error, answer.text, answer.place = (found.pop(name, "") for name in ("error", "text", "at"))
    answer.warned = tuple(found.pop("warned", ()))
    answer.stage = (found.pop("stages", None) or [""])[-1]
    answer.found = found
