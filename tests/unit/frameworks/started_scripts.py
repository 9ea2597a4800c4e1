"""Starts a launch file with a torchrun that only notes its arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path


def started(text: str, folder: Path, **variables: str) -> tuple[int, list[str]]:
    """The exit status of a script, and what it hands to torchrun."""
    (folder / "torchrun").write_text('#!/bin/bash\nprintf "%s\\n" "$@" > "$CALLED"\n')
    (folder / "torchrun").chmod(0o755)
    (folder / "plan.sh").write_text(text)
    called = folder / "called"
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "CALLED": str(called), "MASTER_ADDR": "a", "NODE_RANK": "0", **variables}
    done = subprocess.run(["bash", str(folder / "plan.sh")], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, called.read_text().splitlines() if called.exists() else []
