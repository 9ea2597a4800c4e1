"""The executed counts, as they were recorded: one file a release, one line a pipeline rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("executed")
MEGATRON = "NVIDIA/Megatron-LM"
SOURCES = {"0.19": "core_v0.19.0", "0.12": "core_v0.12.3", "0.12.0": "core_v0.12.0"}  # tags of the releases
TRANSFORMERS = "transformers"  # under FSDP2, of the versions in its records
RECORDS = (*SOURCES, TRANSFORMERS)

Records = dict[str, list[dict[str, Any]]]  # pipeline ranks of a case


def recorded(release: str) -> Records:
    path = FOLDER / f"{release}.json"
    found: Records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def record(release: str, found: Records) -> None:
    FOLDER.mkdir(exist_ok=True)
    cases = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(rank) for rank in ranks) + "\n]"
        for name, ranks in sorted(found.items())
    ]
    (FOLDER / f"{release}.json").write_text("{\n" + ",\n".join(cases) + "\n}\n", encoding="utf-8")
