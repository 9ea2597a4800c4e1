"""Draws legal plans of presets and flavors that torchtitan trains, and records what it makes of their files.

usage: python -m scripts.conformance.torchtitan_record TREE PYTHON [TARGET]

TREE: the files of torchtitan's tag v0.2.2, or of main's commit for TARGET torchtitan@2026.08. PYTHON: an interpreter with PyTorch
and what the release imports. The record is ``tests/oracle/torchtitan_starts.json`` or ``torchtitan_main_starts.json``; a test
compares it with the plans, without PyTorch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from app.catalogue.models.presets import names
from app.catalogue.models.shape import model_to_mapping
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from frameworks.framework import Framework, Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.torchtitan.flavors import FLAVORS, FLAVORS_MAIN, Flavor
from frameworks.torchtitan.framework import TORCHTITAN, TORCHTITAN_MAIN
from scripts.conformance.sampled_lattice import sampled

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "conformance"
SIZES = (8, 64, 512)
PLANS = 4  # of each preset and size
SEQUENCES_A_DEVICE = 2


class Judged(NamedTuple):
    """A release: its record, the script of its start, and flavors that no preset is."""

    framework: Framework
    record: str
    start: str
    others: tuple[Flavor, ...]

    @property
    def models(self) -> dict[str, Any]:
        """Presets by name, and the other flavors as documents."""
        return {name: name for name in names()} | {each.model.name: model_to_mapping(each.model) for each in self.others}


_LATENT = ("deepseek_v3", "671B")
JUDGED = {
    judged.framework.target.label: judged
    for judged in (
        Judged(
            TORCHTITAN,
            "torchtitan_starts.json",
            "torchtitan_start.py",
            tuple(FLAVORS[name] for name in (_LATENT, ("llama4", "17bx16e"), ("llama4", "17bx128e"))),
        ),
        Judged(TORCHTITAN_MAIN, "torchtitan_main_starts.json", "torchtitan_main_start.py", (FLAVORS_MAIN[_LATENT],)),
    )
}


def main() -> None:
    tree, python, *target = sys.argv[1:]
    judged = JUDGED[target[0] if target else TORCHTITAN.target.label]
    framework = judged.framework
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        files: dict[str, dict[str, Any]] = {}
        for preset, model in judged.models.items():
            for size in SIZES:
                for index, (workload, plan) in enumerate(_drawn(framework, model, size)):
                    name = f"{preset}-{size}-{index}.{framework.suffix}"
                    launch = launch_block(workload, plan)["torchtitan"]
                    profile = workload.cluster.profile
                    text = launch_file("torchtitan", launch, Start("Plan", size, profile.devices_per_node))[1]
                    (Path(temporary) / name).write_text(text, encoding="utf-8")
                    files[name] = {"preset": preset, "devices": size, "arguments": launch["arguments"]}
        asked = [python, str(FOLDER / judged.start), tree, *(str(Path(temporary) / name) for name in files)]
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
            for line in started.stdout or ():
                said = json.loads(line)
                print(f"{len(rows) + 1} of {len(files)}: {said['file']}", flush=True)
                rows.append({**files[said.pop("file")], "said": said})
    (ROOT / "tests" / "oracle" / judged.record).write_text(
        "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8"
    )
    refused = [row for row in rows if row["said"]["verdict"] != "accept"]
    print(f"{len(rows)} files, {len(refused)} refused")
    for row in refused:
        print(row["preset"], row["devices"], row["said"])


def _drawn(framework: Framework, model: Any, devices: int) -> Iterator[tuple[Workload, ParallelStrategy]]:
    """A few legal plans of a model's lattice, drawn at random; none for a model that torchtitan does not train."""
    document = {
        "model": model,
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": devices},
        "training": {"seq_length": 8192, "global_batch_size": SEQUENCES_A_DEVICE * devices},
    }
    return sampled(framework, document, PLANS, devices)


if __name__ == "__main__":
    main()
