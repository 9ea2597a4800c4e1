"""Requests made from the OpenAPI document, thousands of them: no fault of the server's, no answer that is not documented."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meshplan import Client
from tests.servers import Server, running_server

MAX_MEMORY_BYTES = 3 * 2**30  # of address space; without bounds on numbers, one request takes all there is
EXAMPLES = 6  # of each operation; `python -m benchmarks.fuzz` sends as many as it is given hours
MIN_CASES = 1500
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance,missing_required_header,ignored_auth"
)
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "search": {"tp": 8, "pp": 1, "cp": 1, "recompute": "none"},
}


def run(server: Server, folder: Path, examples: int, *options: str, settings: str = "") -> int:
    """Number of cases that were sent; fails with the report if one was answered wrongly."""
    (folder / "schemathesis.toml").write_text(settings)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"]
    command += ["run", f"{server.url}/openapi.json", "--checks", CHECKS, "-n", str(examples), "--seed", "20261121"]
    command += ["--generation-database", "none", "--request-timeout", "60", "--continue-on-failure", "--no-color", *options]
    report = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert report.returncode == 0, report.stdout[-6000:] + report.stderr[-2000:]
    found = re.search(r"([\d,]+) generated", report.stdout)
    assert found is not None, report.stdout
    return int(found[1].replace(",", ""))


@pytest.mark.slow
def test_no_request_is_answered_with_a_fault_or_otherwise_than_documented(tmp_path: Path) -> None:
    with running_server(tmp_path, max_memory_bytes=MAX_MEMORY_BYTES) as server, Client(server.url) as client:
        study = client.wait(client.submit(JOB).id, timeout_s=60)
        plan = client.plans(study.id)[0]
        # First with a study that exists, so that more than "no such study" is answered; then with any name at all.
        kept = client.keep_check({**JOB, "strategy": {"tp": 8}}, "a", budget={"step_time_s": {"max": 60}})
        known = f'[parameters]\nstudy_id = "{study.id}"\nplan_id = "{plan.plan_id}"\ncheck_id = "{kept["id"]}"\n'
        real = (
            "--include-path-regex",
            "/studies/|/checks/",
            "--exclude-method",
            "DELETE",
            "--phases",
            "fuzzing",
        )  # the next run has all
        cases = run(server, tmp_path, EXAMPLES, *real, settings=known)
        assert client.study(study.id).state == "completed"
        cases += run(server, tmp_path, EXAMPLES)
        assert cases >= MIN_CASES
        assert "request failed" not in server.log()
        assert client.models()  # it still lives
