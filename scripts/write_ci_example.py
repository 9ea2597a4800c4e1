"""Writes examples/ci/baseline.json, the baseline of the worked example."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from app.cli.main import main

if __name__ == "__main__":
    os.chdir(ROOT / "examples/ci")
    sys.exit(main(["check", "job.yaml", "--write-baseline", "baseline.json", "--output", os.devnull]))
