"""Tens of thousands of requests made from the OpenAPI document: no error, no undocumented answer, no wrong acceptance.

``--raw``: so many more with other media types, duplicate keys and ambiguous framing (``raw_requests``). Links from answers to
further requests are followed by Schemathesis (its stateful phase).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from benchmarks.raw_requests import answer_to, drawn
from meshplan import Client
from scripts.dashboard.server import server

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance,missing_required_header,ignored_auth,"
    "negative_data_rejection,refused_for_its_form"
)
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "search": {"tp": 8, "pp": 1, "cp": 1, "recompute": "none"},
}
# A body that is too long for its schema is refused for its length before it is read.
SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 428, 429, 431, 503]

"""
# A body that matches the schema may be no job: 422 with a sentence on the job. A sentence on the form contradicts the schema.
HOOKS = """
import re
import schemathesis

FORM = re.compile(
    r"unknown key|: missing; give (an integer|a number|text|one of|true or false|a list|a mapping)"
    r"|is not allowed; give (an integer|a number|text|one of|true or false|a list|a mapping)"
)

@schemathesis.check
def refused_for_its_form(ctx, response, case):
    if response.status_code == 422 and case.meta is not None and case.meta.generation.mode.is_positive:
        detail = response.json().get("detail", "")
        assert not FORM.search(detail), f"valid against the schema, refused: {detail}"
"""


def run(url: str, folder: Path, examples: int, seed: int, *options: str, parameters: str = "") -> tuple[int, bool]:
    """Number of cases, and whether all answers were right; otherwise the report is printed."""
    (folder / "schemathesis.toml").write_text(SETTINGS + parameters)
    (folder / "hooks.py").write_text(HOOKS)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"]
    command += ["run", f"{url}/openapi.json", "--checks", CHECKS, "-n", str(examples), "--seed", str(seed)]
    command += ["--generation-database", "none", "--request-timeout", "300", "--continue-on-failure", "--no-color", *options]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(folder)}
    report = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"([\d,]+) generated", report.stdout)
    if report.returncode != 0 or found is None:
        print(report.stdout, report.stderr[-4000:], sep="\n")
    return int(found[1].replace(",", "")) if found else 0, report.returncode == 0


def run_raw(url: str, num_cases: int, seed: int) -> bool:
    """Whether all drawn requests were answered right; the wrong answers are printed."""
    numbers, is_fine = random.Random(seed), True
    for path in ("estimates", "checks"):  # starts the processes that price, which takes seconds and is no fault
        httpx.post(f"{url}/v1/{path}", json={}, timeout=300)
    for _ in range(num_cases):
        case = drawn(numbers)
        wrong = answer_to(url, case)
        if wrong is not None:
            is_fine = False
            print(f"{case.label}: {wrong}", flush=True)
    print(f"{num_cases:,} raw requests, {'all' if is_fine else 'NOT all'} answered well", flush=True)
    return is_fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--raw", type=int, default=5000, help="requests drawn as bytes")
    parser.add_argument("--examples", type=int, default=100, help="of each operation and phase, in one round")
    parser.add_argument("--seed", type=int, default=20261121)
    given = parser.parse_args()
    cases, seed, is_fine = 0, given.seed, True
    with tempfile.TemporaryDirectory() as folder, server(workers=1) as url, Client(url) as client:
        study = client.wait(client.submit(JOB).id, timeout_s=900)
        httpx.get(f"{url}/openapi.json", timeout=300).raise_for_status()  # made once; Schemathesis waits ten seconds
        known = f'[parameters]\nstudy_id = "{study.id}"\nplan_id = "{client.plans(study.id)[0].plan_id}"\n'
        is_fine = run_raw(url, given.raw, seed)
        while cases < given.cases:
            # First with a study that exists, so that answers are not only "no such study"; then with any name.
            of_study = ("--include-path-regex", "/studies/", "--exclude-method", "DELETE")
            for options, parameters in ((of_study, known), ((), "")):
                more, went_well = run(url, Path(folder), given.examples, seed, *options, parameters=parameters)
                cases, is_fine, seed = cases + more, is_fine and went_well, seed + 1
                print(f"{cases:,} cases, {'all' if is_fine else 'NOT all'} answered well", flush=True)
                if more == 0:
                    return 2
        client.models()  # the server still runs
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
