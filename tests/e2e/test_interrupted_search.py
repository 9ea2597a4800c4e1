"""Ctrl-C in the real command, at several moments of a search: a ranked answer, which says whether it is proved."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.commands import NOT_TAKEN_OVER, ROOT

JOB = ("qwen3-30b-a3b", "--hardware", "atlas-800t-a2", "--devices", "32", "--global-batch-size", "128", "--seq-length", "4096")
LIMITS = ("--pp", "1..8", "--micro-batch-size", "1,2", "--cp", "1")
ENDS_S = 240.0  # on a machine that does much else


def interrupted(text: str, *arguments: str) -> tuple[int, dict[str, Any] | None, str]:
    """Exit code, answer and messages of a search on a terminal, which is interrupted once that shows the text."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_TAKEN_OVER}
    terminal, theirs = pty.openpty()
    search = subprocess.Popen(
        [sys.executable, "-m", "meshplan", "search", *JOB, *LIMITS, *arguments, "--json"],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    too_long = threading.Timer(ENDS_S, search.kill)
    too_long.start()
    shown = [""]

    def watch() -> None:
        has_come = False
        while True:
            try:
                read = os.read(terminal, 1 << 16)
            except OSError:  # the terminal of a process that has ended
                return
            shown[0] += read.decode(errors="replace")
            if not read:
                return
            if not has_come and text in shown[0]:
                has_come = True
                search.send_signal(signal.SIGINT)

    watching = threading.Thread(target=watch)
    watching.start()
    assert search.stdout is not None
    with search.stdout:
        answer = search.stdout.read()
    code = search.wait()
    watching.join()
    too_long.cancel()
    os.close(terminal)
    return code, json.loads(answer) if answer.strip() else None, shown[0]


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["serial", "process://2"])
@pytest.mark.parametrize("moment", ["starting", "enumerating and bounding", "explaining"])
def test_an_interrupted_search_answers_with_what_it_has_found(moment: str, executor: str) -> None:
    code, answer, shown = interrupted(moment, "--executor", executor)
    assert "Traceback" not in shown
    assert answer is not None, shown[-1000:]
    assert "Interrupted: the answer so far follows" in shown
    proof, plans = answer["proof"], answer["plans"]
    assert code == (5 if proof["stopped_by"] else 0)
    assert (proof["stopped_by"] == "interrupt") == (not proof["proved_best"])
    assert [plan["rank"] for plan in plans] == list(range(1, len(plans) + 1))
    assert {plan["estimate"]["fidelity"] for plan in plans} <= {"simulated"}
    counts = answer["counts"]
    assert counts["enumerated"] == counts["legal"] + sum(rejected["count"] for rejected in answer["rejections"])
    if moment == "explaining":
        assert proof["proved_best"]  # nothing was left to find
        assert proof["places"] == len(plans) > 0
    else:
        assert proof["stopped_by"] == "interrupt"


@pytest.mark.slow
def test_what_a_time_limit_cuts_is_ranked_and_not_called_proved() -> None:
    code, answer, _ = interrupted("nothing shows this", "--executor", "process://2", "--time-limit", "0.05", "--top", "1000")
    assert code == 5
    assert answer is not None
    assert (answer["proof"]["stopped_by"], answer["proof"]["proved_best"], answer["proof"]["places"]) == ("time_limit", False, 0)
    times_s = [plan["estimate"]["step_time_s"] for plan in answer["plans"]]
    assert times_s
    assert {plan["estimate"]["fidelity"] for plan in answer["plans"]} == {"simulated"}
