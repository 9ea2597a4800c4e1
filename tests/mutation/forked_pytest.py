"""Runs pytest again and again in forks of one process that has loaded what every run needs: most of a short run is loading.

Each line of standard input is a JSON list: a file for the output, then the arguments of pytest. The answer is the exit status.
"""

import json
import os
import signal
import sys
from pathlib import Path

import hypothesis
import numpy
import pytest
import xdist.scheduler  # type: ignore[import-untyped]
import yaml

LOADED = (hypothesis, numpy, pytest, xdist, yaml)  # nothing of the product: a run reads what has just been written
LIMIT_S = 120


def main() -> None:
    for line in sys.stdin:
        output, *arguments = json.loads(line)
        pid = os.fork()
        if not pid:
            signal.alarm(LIMIT_S)
            for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
                stream.flush()
                os.dup2(os.open(Path(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            sys.exit(pytest.main(arguments))  # an ordinary end, so that servers of the run are stopped
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
