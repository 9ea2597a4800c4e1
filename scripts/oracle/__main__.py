"""Runs the matrix on the user's frameworks and records what they held, sent and multiplied.

usage: python -m scripts.oracle MEGATRON --python PYTHON [--only TEXT] [--release RELEASE]

MEGATRON is a work tree or a git directory of NVIDIA/Megatron-LM with the tags of the releases. PYTHON is an interpreter with
PyTorch (2.9 was used; no device is needed), einops, packaging and transformers. Records are in scripts/oracle/executed; `make
docs` writes docs/verification.md from them. A release takes about five minutes on two cores. Nothing is installed or fetched.
Exit status: 0 all cases ran, 1 some did not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.conformance.checkouts import Checkouts
from scripts.oracle.arguments import parsed
from scripts.oracle.cases import CASES, Case
from scripts.oracle.records import MEGATRON, RECORDS, SOURCES, record, recorded

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    options = parsed("scripts.oracle", __doc__, RECORDS)
    status = 0
    for release in options.release:
        chosen = [case for case in CASES if release in case["releases"] and options.only in case["name"]]
        with tempfile.TemporaryDirectory() as scratch:
            if release in SOURCES:
                tree = Checkouts({MEGATRON: options.megatron}, Path(scratch)).tree(MEGATRON, SOURCES[release])
                runner = ["scripts.oracle.megatron", str(tree.path)]
            else:
                runner = ["scripts.oracle.transformers_fsdp"]
            status |= run([options.python, "-W", "ignore", "-m", *runner], chosen, Path(scratch) / "found.json", release)
    return status


def run(command: list[str], cases: list[Case], out: Path, release: str) -> int:
    asked = out.with_name("cases.json")
    asked.write_text(json.dumps(cases))
    quiet = {"TORCHDYNAMO_DISABLE": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    status = subprocess.run([*command, str(asked), str(out)], cwd=ROOT, env=os.environ | quiet, check=False).returncode
    record(release, recorded(release) | json.loads(out.read_text()))
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
