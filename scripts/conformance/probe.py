"""Runs one framework's start on launch files, each in its own process. Only ``asking.py`` runs this.

usage: python -m scripts.conformance.probe TARGET QUESTIONS ANSWERS TREE...

The framework is imported once, with stand-ins for accelerator libraries; a fork checks one file. Stages follow the
framework's own order, so that the first exception is the one that a user would see.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.conformance import accelerators, megatron_start, mindformers_start
from scripts.conformance.stages import RefusedError, Stages

# Exceptions that validators raise on purpose. Any other is a crash of the framework or of a stand-in.
REFUSALS = (AssertionError, ValueError, RuntimeError, NotImplementedError, argparse.ArgumentError, RefusedError)
WARNINGS = re.compile(r"WARN|warn|deprecat|ignored|w(?:ill|ould) be set|Setting ")
MOST_WARNINGS = 40
Start = Callable[[dict[str, Any], Stages], None]


def main() -> None:
    target, questions, answers, *trees = sys.argv[1:]
    paths = [str(Path(tree).resolve()) for tree in trees]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # A framework must not import our own packages.
    own = {str(Path.cwd()), ""}
    sys.path[:] = [*paths, *(entry for entry in sys.path if entry not in own)]
    ask: Start = STARTS[target]()
    found = [_in_a_fork(ask, question, paths) for question in json.loads(Path(questions).read_text())]
    Path(answers).write_text(json.dumps(found))


def _megatron() -> Start:
    accelerators.gpus()
    importlib.import_module("megatron.training.initialize")
    importlib.import_module("pretrain_gpt")

    def run(question: dict[str, Any], stages: Stages) -> None:
        entry = importlib.import_module(
            "pretrain_hybrid" if "--hybrid-layer-pattern" in question["arguments"] else "pretrain_gpt"
        )
        megatron_start.run(question, stages, entry, {"tokenizer_type": "GPT2BPETokenizer"})

    return run


def _mindspeed() -> Start:
    accelerators.npus()
    # Only modules independent of arguments are imported before the fork. Patches do, and precede Megatron as in a start.
    os.environ["TRAINING_BACKEND"] = "none yet"
    importlib.import_module("mindspeed_llm.features_manager")
    vars(sys.modules["mindspeed_llm"]).pop("backend", None)
    adaptor = "mindspeed_llm.tasks.megatron_adaptor_v2"
    sys.modules.pop(adaptor, None)

    def run(question: dict[str, Any], stages: Stages) -> None:
        stages.enter("adapt")
        vars(sys.modules["mindspeed_llm"])["megatron_adaptor"] = importlib.import_module(adaptor)
        megatron_start.run(question, stages, importlib.import_module("pretrain_gpt"), {})

    return run


def _mindformers() -> Start:
    accelerators.mindspore()
    importlib.import_module("mindformers")
    return mindformers_start.run


STARTS: dict[str, Callable[[], Start]] = {"megatron-lm": _megatron, "mindspeed-llm": _mindspeed, "mindformers": _mindformers}


def _in_a_fork(ask: Start, question: dict[str, Any], trees: Sequence[str]) -> dict[str, Any]:
    """Answer in a child process, so that the question's environment and folder stay there."""
    read, write = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(_answer(ask, question, trees), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"file": question["file"], "verdict": "crash", "error": "Died", "text": "no answer"}


def _answer(ask: Start, question: dict[str, Any], trees: Sequence[str]) -> dict[str, Any]:
    log = Path(question["folder"]) / "said.txt"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1, closefd=False) for stream in (1, 2))
    os.environ.clear()
    os.environ.update(question["environment"])
    os.environ.update(
        {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(question["num_processes"]), "MASTER_ADDR": "localhost"},
        MASTER_PORT="6000",
    )
    os.chdir(question["folder"])
    sys.argv = list(question["arguments"])
    stages = Stages()
    answer: dict[str, Any] = {"file": question["file"], "verdict": "accept"}
    try:
        ask(question, stages)
    except SystemExit as error:
        answer |= {"verdict": "refuse", "error": "SystemExit", "text": _last_error(log, error), "at": _place(error, trees)}
    except BaseException as error:
        refused = isinstance(error, REFUSALS) and stages.names != ["adapt"]
        answer |= {"verdict": "refuse" if refused else "crash", "error": type(error).__name__, "text": str(error)}
        answer |= {"at": _place(error, trees), "traceback": traceback.format_exc()[-4000:]}
    answer |= {"stages": stages.names, "warned": _warnings(log), **stages.found}
    return answer


def _said(log: Path) -> list[str]:
    sys.stdout.flush()
    sys.stderr.flush()
    return [line for line in log.read_text(errors="replace").splitlines() if line.strip()]


def _last_error(log: Path, error: SystemExit) -> str:
    lines = _said(log)
    said = [line.split("error: ", 1)[1] for line in lines if "error: " in line]
    return said[-1] if said else f"exit {error.code}: {lines[-1] if lines else ''}"


def _warnings(log: Path) -> list[str]:
    found = {line[:300] for line in _said(log) if "....." not in line and WARNINGS.search(line)}
    return sorted(found)[:MOST_WARNINGS]


def _place(error: BaseException, trees: Sequence[str]) -> str:
    """Deepest line of the framework, without the folders of this machine; a bare assertion shows its text."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        tree = next((tree for tree in trees if frame.filename.startswith(f"{tree}{os.sep}")), None)
        if tree is not None:
            asserted = f" ({frame.line})" if isinstance(error, AssertionError) and not str(error) else ""
            place = f"{os.path.relpath(frame.filename, tree)}:{frame.lineno}{asserted}"
    return place


if __name__ == "__main__":
    main()
