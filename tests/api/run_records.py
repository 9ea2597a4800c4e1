"""Published runs of one hardware and stack, as a user would send his own."""

import json
from pathlib import Path
from typing import Any

RUNS = Path(__file__).resolve().parents[2] / "calibration/runs/ascend.jsonl"
HARDWARE, STACK = "atlas-900-a2-podc", "mindspeed-llm"


def usable_records(count: int) -> list[dict[str, Any]]:
    """The first runs that a calibration can learn from."""
    rows = [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]
    return [
        row
        for row in rows
        if row["is_latest_for_config"]
        and not row.get("suspect")
        and row["measured"].get("step_time_s")
        and row["cluster"]["hardware"] == HARDWARE
        and row["software"]["framework"].lower().startswith("mindspeed-llm")
    ][:count]
