"""Runs MindSpeed-LLM's loss by chunks, and prints what it held and multiplied.

usage: PYTHON -m scripts.oracle.chunked_loss FILE

PYTHON is an interpreter with PyTorch (2.13 was used; no device is needed), FILE MindSpeed-LLM's fsdp2/features/chunkloss.py. Each
line is a JSON object for one case: ``peak`` are the most bytes at once beside the loss' input and the head's weights, ``kept``
those that wait for the backward, ``flops`` those of the forward's matmuls. tests/oracle/chunked_loss.json holds the lines.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import torch

from scripts.oracle.meters import Storages

CASES = [
    {"samples": samples, "tokens": 256, "hidden": hidden, "vocabulary": 4000, "chunk": chunk}
    for samples, hidden, chunk in (
        (1, 64, 16),
        (1, 64, 64),
        (2, 64, 64),
        (1, 256, 64),
        (2, 256, 128),
        (1, 512, 16),
        (1, 512, 128),
    )
]


def run(module: Any, case: dict[str, int]) -> dict[str, Any]:
    torch.manual_seed(1)
    size = (case["samples"], case["tokens"])
    hidden = torch.randn(*size, case["hidden"], dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(case["vocabulary"], case["hidden"], dtype=torch.bfloat16, requires_grad=True)
    labels = torch.split(torch.randint(0, case["vocabulary"], size), case["chunk"], dim=1)
    given = {"ignore_index": -100, "reduction": "sum", "alpha": torch.tensor(size[0] * size[1])}
    meter = Storages()
    meter.leave_out(hidden)
    meter.leave_out(weight)
    meter.peak_bytes = 0
    with meter:
        loss = module.chunk_loss(
            hidden, weight, None, module.calculate_lm_loss, [{"shift_labels": part, **given} for part in labels], case["chunk"]
        )
        found = {"peak": meter.peak_bytes, "kept": meter.live_bytes(), "flops": sum(meter.flops.values())}
        meter.flops.clear()
        loss.backward()
    assert not meter.flops  # all matmuls ran in the forward
    return found


def main() -> int:
    spec = importlib.util.spec_from_file_location("chunkloss", sys.argv[1])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for case in CASES:
        print(json.dumps({**case, **run(module, case)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
