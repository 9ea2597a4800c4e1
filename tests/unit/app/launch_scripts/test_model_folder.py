"""Files of MindFormers that leave the sizes of their model to the ``config.json`` of a folder, as its templates do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from tests.unit.frameworks.test_mindformers_jobs import QWEN_FILE

CONFIG = Path(__file__).resolve().parents[3] / "fixtures/huggingface/qwen3-32b.json"
SIZES = (
    *("model_type", "architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "rms_norm_eps"),
    *("num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings", "rope_theta", "attention_bias"),
)


def file_of(folder: Path, *, named: str = "path/to/model", **stated: Any) -> Path:
    given = {key: value for key, value in QWEN_FILE["model"]["model_config"].items() if key not in SIZES}
    path = folder / "pretrain.yaml"
    document = {**QWEN_FILE, "pretrained_model_dir": named, "model": {"model_config": {**given, **stated}}}
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def priced(capsys: pytest.CaptureFixture[str], path: Path, *flags: str, command: str = "estimate") -> dict[str, Any]:
    assert main([command, str(path), "--hardware", "atlas-800t-a2", "--json", *flags]) == DONE
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def beside(folder: Path) -> Path:
    path = folder / "config.json"
    path.write_text(CONFIG.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_sizes_of_the_folder_give_the_price_of_a_file_that_states_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole = tmp_path / "whole.yaml"
    stated = {**QWEN_FILE["model"]["model_config"], "max_position_embeddings": 40960}
    whole.write_text(yaml.safe_dump({**QWEN_FILE, "model": {"model_config": stated}}), encoding="utf-8")
    folder = priced(capsys, file_of(tmp_path), "--with", str(beside(tmp_path)))
    assert folder["estimate"] == priced(capsys, whole)["estimate"]


def test_what_the_file_states_wins(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = file_of(tmp_path, num_hidden_layers=32, offset=0)
    assert priced(capsys, path, "--with", str(beside(tmp_path)))["job"]["model"]["num_layers"] == 32


def test_a_folder_on_this_machine_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    beside(tmp_path)
    assert priced(capsys, file_of(tmp_path, named=str(tmp_path)))["job"]["model"]["num_layers"] == 64


def test_a_changed_file_still_leaves_its_sizes_to_the_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = priced(capsys, file_of(tmp_path), "--with", str(beside(tmp_path)), command="tune")
    changed = yaml.safe_load(found["script"])
    assert found["changes"]
    assert not {"num_hidden_layers", "hidden_size"} & set(changed["model"]["model_config"])
    again = tmp_path / "again.yaml"
    again.write_text(found["script"], encoding="utf-8")
    read_back = priced(capsys, again, "--with", str(tmp_path / "config.json"))
    assert read_back["estimate"]["step_time_s"] == pytest.approx(found["best"]["estimate"]["step_time_s"], rel=1e-9)


def test_without_the_folder_it_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["estimate", str(file_of(tmp_path)), "--hardware", "atlas-800t-a2"]) == BAD_INPUT
    assert "give --with config.json, the model's" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[1]", "{", '{"num_hidden_layers": "many"}'])
def test_a_configuration_that_says_no_model_is_refused(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    beside(tmp_path).write_text(text, encoding="utf-8")
    flags = ["--with", str(tmp_path / "config.json"), "--hardware", "atlas-800t-a2"]
    assert main(["estimate", str(file_of(tmp_path)), *flags]) == BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
