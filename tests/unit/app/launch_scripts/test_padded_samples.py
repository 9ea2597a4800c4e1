"""A file whose handler pads its samples takes no lengths of packed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.main import main
from tests.unit.frameworks.test_mindformers_jobs import QWEN_FILE
from tests.unit.frameworks.test_mindformers_tasks import PACKED

PADS = {"type": "AlpacaInstructDataHandler", "seq_length": 4096, "padding": True}


def status(tmp_path: Path, handlers: list[dict[str, Any]], *flags: str) -> int:
    path = tmp_path / "tuned.yaml"
    loader = {**PACKED["data_loader"], "handler": handlers}  # type: ignore[dict-item]
    path.write_text(yaml.safe_dump({**QWEN_FILE, "run_mode": "finetune", "train_dataset": {**PACKED, "data_loader": loader}}))
    return main(["estimate", str(path), "--hardware", "atlas-800t-a2", *flags])


def test_lengths_are_refused_where_samples_are_padded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert status(tmp_path, [PADS], "--lengths", "512:4096") == 2
    assert "data_loader.handler" in (said := capsys.readouterr().err)
    assert "pads samples to the sequence" in said
    assert status(tmp_path, [PADS]) == 0
    assert status(tmp_path, [{**PADS, "padding": False}, {"type": "PackingHandler"}], "--lengths", "512:4096") == 0
