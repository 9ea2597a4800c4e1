"""What the commands of this folder ask for: a repository of Megatron-LM, an interpreter, and which cases to run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path


def parsed(command: str, description: str | None, releases: Iterable[str]) -> argparse.Namespace:
    """The arguments of ``python -m command``; ``release`` lists those of ``releases`` that are asked for, all by default."""
    parser = argparse.ArgumentParser(prog=f"python -m {command}", description=(description or "").split("\n")[0])
    parser.add_argument("megatron", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="", help="a part of the names of the cases that run")
    parser.add_argument("--release", choices=releases, action="append")
    options = parser.parse_args()
    options.release = options.release or list(releases)
    return options
