"""Draws legal plans of presets and flavors that torchtitan trains, and records what it makes of their files.

usage: python -m scripts.conformance.torchtitan_record TREE PYTHON

TREE: the files of torchtitan's tag v0.2.2. PYTHON: an interpreter with PyTorch, tyro, tokenizers, datasets and torchdata. The
record is ``tests/oracle/torchtitan_starts.json``; a test compares it with the plans, without PyTorch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.catalogue.models.presets import names
from app.catalogue.models.shape import model_to_mapping
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.torchtitan.flavors import FLAVORS
from frameworks.torchtitan.framework import TORCHTITAN
from scripts.conformance.sampled_lattice import sampled

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "oracle" / "torchtitan_starts.json"
START = ROOT / "scripts" / "conformance" / "torchtitan_start.py"
SIZES = (8, 64, 512)
PLANS = 4  # of each preset and size
SEQUENCES_A_DEVICE = 2
NO_PRESET = (("deepseek_v3", "671B"), ("llama4", "17bx16e"), ("llama4", "17bx128e"))
MODELS: dict[str, Any] = {name: name for name in names()} | {
    FLAVORS[name].model.name: model_to_mapping(FLAVORS[name].model) for name in NO_PRESET
}


def main() -> None:
    tree, python = sys.argv[1:]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        files: dict[str, dict[str, Any]] = {}
        for preset, model in MODELS.items():
            for size in SIZES:
                for index, (workload, plan) in enumerate(_drawn(model, size)):
                    name = f"{preset}-{size}-{index}.toml"
                    launch = launch_block(workload, plan)["torchtitan"]
                    profile = workload.cluster.profile
                    text = launch_file("torchtitan", launch, Start("Plan", size, profile.devices_per_node))[1]
                    (Path(temporary) / name).write_text(text, encoding="utf-8")
                    files[name] = {"preset": preset, "devices": size, "arguments": launch["arguments"]}
        asked = [python, str(START), tree, *(str(Path(temporary) / name) for name in files)]
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
            for line in started.stdout or ():
                said = json.loads(line)
                print(f"{len(rows) + 1} of {len(files)}: {said['file']}", flush=True)
                rows.append({**files[said.pop("file")], "said": said})
    RECORD.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    refused = [row for row in rows if row["said"]["verdict"] != "accept"]
    print(f"{len(rows)} files, {len(refused)} refused")
    for row in refused:
        print(row["preset"], row["devices"], row["said"])


def _drawn(model: Any, devices: int) -> Iterator[tuple[Workload, ParallelStrategy]]:
    """A few legal plans of a model's lattice, drawn at random; none for a model that torchtitan does not train."""
    document = {
        "model": model,
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": devices},
        "training": {"seq_length": 8192, "global_batch_size": SEQUENCES_A_DEVICE * devices},
    }
    return sampled(TORCHTITAN, document, PLANS, devices)


if __name__ == "__main__":
    main()
