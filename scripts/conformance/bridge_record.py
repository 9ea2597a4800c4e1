"""Draws legal plans of LoRA for every preset, and records what Megatron-Bridge itself makes of their files.

usage: python -m scripts.conformance.bridge_record BRIDGE MEGATRON PYTHON

BRIDGE, MEGATRON: trees of the commits that the files name, Megatron-Bridge v0.6.0 and Megatron-LM core_v0.19.0. PYTHON: an
interpreter with PyTorch, transformers 5.8 to 5.12 and omegaconf. The Hugging Face model of a file is the preset's published
configuration. The record is ``tests/oracle/bridge_starts.json``; a test compares it with the plans, without PyTorch.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.catalogue.models.presets import names
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.registry import BY_LABEL
from scripts.conformance.cases import IMPORTED
from scripts.conformance.published import ARCHITECTURES
from scripts.conformance.sampled_lattice import sampled

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "oracle" / "bridge_starts.json"
START = ROOT / "scripts" / "conformance" / "bridge_start.py"
FRAMEWORK = BY_LABEL["megatron-lm@0.19"]
SIZES = (8, 64, 512)
PLANS = 1  # of each preset, number of devices and adapter
SEQUENCES_A_DEVICE = 2
ADAPTERS: tuple[dict[str, Any], ...] = (
    {"rank": 16},
    {"rank": 8, "alpha": 32, "target_modules": ["linear_proj", "linear_fc1", "linear_fc2"]},
)
# What differs of some numbers of devices, by the index of the adapter.
TRAINING = {(8, 1): {"precision": "fp8"}, (64, 1): {"mean_squared_length_fraction": 0.5}}
SEARCH = {(512, 0): {"bf16_moments": True, "grad_reduce_in_bf16": True}}
NARROWER = {"micro_batch_size": [1, 2], "vpp": {"max": 4}, "tp": {"max": 8}, "pp": {"max": 8}, "cp": [1, 2]}


def main() -> None:
    bridge, megatron, python = sys.argv[1:]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        files: dict[str, dict[str, Any]] = {}
        asked: list[dict[str, Any]] = []
        for preset, size, workload, plan in _drawn():
            name = f"{preset}-{size}-{len(files)}.py"
            model = Path(temporary) / preset
            model.mkdir(exist_ok=True)
            config = json.loads((IMPORTED / f"{preset}.json").read_text(encoding="utf-8"))
            config.setdefault("architectures", [ARCHITECTURES.get(config["model_type"], "")])
            (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
            launch = launch_block(workload, plan)[FRAMEWORK.name]
            text = launch_file(FRAMEWORK.name, launch, Start("Plan", size, workload.cluster.profile.devices_per_node))[1]
            (Path(temporary) / name).write_text(text, encoding="utf-8")
            asked.append({"file": str(Path(temporary) / name), "model": str(model), "processes": size})
            files[name] = {"preset": preset, "devices": size, "arguments": launch["arguments"]}
        questions = Path(temporary) / "questions.json"
        questions.write_text(json.dumps(asked), encoding="utf-8")
        command = [python, str(START), bridge, megatron, str(questions)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
            for line in started.stdout or ():
                said = json.loads(line)
                rows.append({**files[Path(said.pop("file")).name], "said": said})
                print(f"{len(rows)} of {len(files)}: {rows[-1]['preset']} {said['verdict']} {said.get('error', '')}", flush=True)
    RECORD.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    print(dict(Counter(row["said"]["verdict"] for row in rows)), len(files) - len(rows), "without an answer")


def _drawn() -> Iterator[tuple[str, int, Workload, ParallelStrategy]]:
    """A few legal plans of each preset with a published configuration, on each number of devices."""
    for preset in names():
        if not (IMPORTED / f"{preset}.json").is_file():
            continue
        for size in SIZES:
            for index, adapter in enumerate(ADAPTERS):
                training = {
                    "seq_length": 4096,
                    "global_batch_size": SEQUENCES_A_DEVICE * size,
                    "task": "lora",
                    "adapter": adapter,
                }
                document = {
                    "model": preset,
                    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": size},
                    "training": training | TRAINING.get((size, index), {}),
                    "search": NARROWER | SEARCH.get((size, index), {}),
                }
                with contextlib.suppress(InputError):  # no adapters of linear attention are priced
                    for workload, plan in sampled(FRAMEWORK, document, PLANS, size):
                        yield preset, size, workload, plan


if __name__ == "__main__":
    main()
