"""Draws legal plans of every preset that MindSpeed-LLM's FSDP2 backend trains, and records what it makes of their files.

usage: python -m scripts.conformance.fsdp2_record TREE MINDSPEED PYTHON

TREE: the files of MindSpeed-LLM's master (c77308a1). MINDSPEED: those of MindSpeed's (028de58c). PYTHON: an interpreter with
PyTorch and transformers. The record is ``tests/oracle/fsdp2_starts.json``; a test compares it with the plans, without PyTorch.
The last rows are commands with arguments above a file, and what the parser reads of both.
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
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.mindspeed_llm_fsdp2.framework import MINDSPEED_FSDP2
from scripts.conformance.sampled_lattice import sampled

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "oracle" / "fsdp2_starts.json"
START = ROOT / "scripts" / "conformance" / "fsdp2_start.py"
SIZES = (8, 64, 512)
PLANS = 4  # of each preset and size
SEQUENCES_A_DEVICE = 2
FILE = """model: {model_name_or_path: here, model_id: qwen3_moe}
data: {cutoff_len: 4096, packing: False, dataset: {file_name: x.parquet}}
parallel: {fsdp_size: 16, ep_size: 1, recompute: True, recompute_modules: ['model.layers.{*}'], reshard_after_forward: 1}
training: {output_dir: out, lr: 1e-05, disable_shuffling: 1, per_device_train_batch_size: 1, save_total_limit: null}
"""
# Command lines above ``FILE``.
COMMANDS = (
    "--parallel.fsdp_size 64 --training.output_dir ./o",
    "--parallel.fsdp_size=32 --parallel.recompute_modules model.layers.{0-3} model.layers.{8-11} --parallel.ep_size 4",
    "--parallel.recompute --training.per_device_train_batch_size 2",
    "--parallel.recompute no --parallel.reshard_after_forward False --optimization.use_fused_rmsnorm",
    "--data.packing yes --optimization.moe_grouped_gemm t --training.gradient_accumulation_steps 8 --parallel.recompute",
    "--data.packing",
)


def main() -> None:
    tree, mindspeed, python = sys.argv[1:]
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder, cases = Path(temporary), []
        for preset in names():
            for size in SIZES:
                for index, (workload, plan) in enumerate(_drawn(preset, size)):
                    name = f"{preset}-{size}-{index}"
                    launch = launch_block(workload, plan)[MINDSPEED_FSDP2.name]
                    start = Start("Plan", size, workload.cluster.profile.devices_per_node)
                    text = launch_file(MINDSPEED_FSDP2.name, launch, start)[1]
                    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
                    rows[name] = {"preset": preset, "devices": size, "arguments": launch["arguments"]}
                    case = {
                        "words": [str(folder / f"{name}.yaml")],
                        "devices": size,
                        "layers": workload.model.num_layers,
                        "model_type": workload.model.constants.model_type,
                        "asked": sorted(entry.partition("=")[0] for entry in launch["arguments"]),
                    }
                    cases.append((name, case))
        (folder / "file.yaml").write_text(FILE, encoding="utf-8")
        for index, command in enumerate(COMMANDS):
            rows[f"command-{index}"] = {"command": command}
            cases.append((f"command-{index}", {"words": [str(folder / "file.yaml"), *command.split()]}))
        for name, case in cases:
            (folder / name).write_text(json.dumps(case), encoding="utf-8")
        started = [python, str(START), tree, mindspeed, *(str(folder / name) for name, _ in cases)]
        with subprocess.Popen(started, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                said = json.loads(line)
                rows[said.pop("file")]["said"] = said
    RECORD.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows.values()) + "\n]\n", encoding="utf-8")
    refused = [row for row in rows.values() if row["said"]["verdict"] != "accept"]
    print(f"{len(rows)} files, {len(refused)} refused")
    for row in refused:
        print(row)


def _drawn(preset: str, devices: int) -> Iterator[tuple[Workload, ParallelStrategy]]:
    """A few legal plans of a preset's lattice, drawn at random; none for a model that the backend does not train."""
    document = {
        "model": preset,
        "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": devices},
        "training": {"seq_length": 32768, "global_batch_size": SEQUENCES_A_DEVICE * devices},
        "search": {"tp": [1], "pp": [1]},
    }
    return sampled(MINDSPEED_FSDP2, document, PLANS, devices)


if __name__ == "__main__":
    main()
