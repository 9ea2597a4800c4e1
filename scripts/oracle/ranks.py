"""Runs each pipeline rank of each case in a process of its own."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scripts.oracle.cases import Case


def run_each(run: Callable[[Case, int], dict[str, Any]], cases: Iterable[Case], out: Path) -> int:
    """Writes what ``run`` answers for every rank of every case to ``out``; 1 if a case failed."""
    found: dict[str, Any] = {}
    failed = False
    for case in cases:
        answers = [in_a_process(run, case, rank) for rank in range(case["strategy"]["pp"])]
        if all(answers):
            found[case["name"]] = [json.loads(answer) for answer in answers]
        failed |= not all(answers)
        print(case["name"], "ran" if all(answers) else "failed", flush=True)
        out.write_text(json.dumps(found))
    return int(failed)


def in_a_process(run: Callable[[Case, int], dict[str, Any]], case: Case, rank: int) -> bytes:
    """The answer as JSON; empty if it failed."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(read)
            answer = json.dumps(run(case, rank)).encode()
            with os.fdopen(write, "wb") as stream:
                stream.write(answer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return answer
