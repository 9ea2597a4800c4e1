"""TOML files: recognised by their tables, read by path, and edited where the value stands."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from app.cli.main import main
from app.launch_scripts.forms import form_of, is_launch_script
from app.launch_scripts.launch import Given
from app.launch_scripts.reading import read_launch
from app.launch_scripts.toml_launch import TomlLaunch
from documents.errors import InputError
from frameworks.registry import BY_NAME

RELEASE = BY_NAME["torchtitan"].release
TEXT = """# A file of one's own.
[model]
name = "llama3"  # the family
flavor = "8B"

[training]  # batch
local_batch_size = 1
dataset = "a # in a text"

[parallelism]
data_parallel_shard_degree = 8
module_fqns_per_model_part = [
  ["tok_embeddings", "layers.0"],  # ] in a comment
  ["layers.1", "norm", "output"],
]
"tensor_parallel_degree" = 2
[quantize.linear]
float8.recipe_name = "rowwise"
"""


def launch(text: str = TEXT) -> TomlLaunch:
    return TomlLaunch(text, Given("plan.toml"), RELEASE)


def test_values_are_read_by_path_with_their_lines() -> None:
    read = launch()
    assert dict(entry.split("=", 1) for entry in read.arguments)["training.dataset"] == '"a # in a text"'
    assert read.line_of("model.name") == 3
    assert read.line_of("parallelism.tensor_parallel_degree") == 16
    assert read.line_of("quantize.linear.float8.recipe_name") == 18
    assert read.line_of("training.seq_len") is None
    assert (read.num_devices, read.entry, read.not_understood, dict(read.environment)) == (None, "", (), {})


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("model.name", '"qwen3"', 'name = "qwen3"  # the family'),
        ("training.dataset", '"c4"', 'dataset = "c4"'),
        ("parallelism.module_fqns_per_model_part", '[["a"], ["b"]]', 'module_fqns_per_model_part = [["a"], ["b"]]'),
        ("parallelism.tensor_parallel_degree", "4", '"tensor_parallel_degree" = 4'),
        ("training.seq_len", "4096", "seq_len = 4096"),
        ("compile.enable", "true", "enable = true"),
    ],
)
def test_a_value_is_set_where_it_stands_or_in_its_table(name: str, value: str, line: str) -> None:
    read = launch()
    changed = read.again(next(read.with_values(name, (value,))))
    assert line in changed.text.splitlines()
    assert changed.said() == {**read.said(), name: (value,)}


def test_a_value_that_takes_lines_is_left_out_whole() -> None:
    read = launch()
    changed = read.again(next(read.without("parallelism.module_fqns_per_model_part")))
    assert changed.said() == {name: v for name, v in read.said().items() if name != "parallelism.module_fqns_per_model_part"}
    assert "layers.1" not in changed.text
    assert list(read.without("training.seq_len")) == []


def test_what_is_no_toml_is_refused_with_its_place() -> None:
    with pytest.raises(InputError, match=r"plan.toml: not valid TOML: .*line 2"):
        launch("[training]\nseq_len = \n")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (TEXT, "toml"),
        ("[parallelism]\n", "toml"),
        ("model:\n  model_config:\n", "yaml"),
        ("#!/bin/bash\ncat > x.toml <<EOF\n[training]\nEOF\n", "sh"),
        ("torchrun pretrain_gpt.py\n[training]\n", "sh"),
        ("[tool.ruff]\nline-length = 130\n", "sh"),
    ],
)
def test_a_file_is_recognised_by_its_content(text: str, form: str) -> None:
    assert form_of(text) == form


def test_a_command_takes_a_toml_file_of_torchtitan_alone(tmp_path: Path) -> None:
    own, other = tmp_path / "own.toml", tmp_path / "other.toml"
    own.write_text(TEXT, encoding="utf-8")
    other.write_text("[tool.ruff]\n", encoding="utf-8")
    assert is_launch_script(str(own))
    assert not is_launch_script(str(other))


def test_a_toml_file_is_torchtitans_whatever_the_devices() -> None:
    assert read_launch(TEXT, Given("x"), "ascend", None)[1].name == "torchtitan"
    with pytest.raises(InputError, match="does not start from such a file; give torchtitan"):
        read_launch(TEXT, Given("x"), "nvidia", "megatron-lm")


def test_the_text_of_the_example_is_toml() -> None:
    assert tomllib.loads(TEXT)["parallelism"]["module_fqns_per_model_part"][1] == ["layers.1", "norm", "output"]


JOB = """[model]
name = "llama3"
flavor = "8B"

[training]
global_batch_size = 64
seq_len = 4096

[parallelism]
data_parallel_shard_degree = 8

[compile]
enable = {}
components = ["loss"]
"""


def estimated(tmp_path: Path, enable: str, hardware: str) -> int:
    path = tmp_path / "own.toml"
    path.write_text(JOB.format(enable), encoding="utf-8")
    return main(["estimate", str(path), "--hardware", hardware, "--json"])


def test_a_switch_that_is_a_text_is_refused_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert estimated(tmp_path, '"yes"', "h100-sxm-80gb") == 2
    said = capsys.readouterr().err
    assert "line 13: 'compile.enable': its value is not understood: takes no value, in a file true or false, and has yes" in said


@pytest.mark.parametrize("enable", ["true", "false"])
def test_devices_without_torchtitan_price_the_layout_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], enable: str
) -> None:
    assert estimated(tmp_path, enable, "atlas-800t-a2") == 0
    told = "torchtitan runs on no ascend device: the layout is priced as stack mindspeed-llm runs it."
    assert told in json.loads(capsys.readouterr().out)["warnings"]
    assert estimated(tmp_path, enable, "h100-sxm-80gb") == 0
    assert told not in json.loads(capsys.readouterr().out)["warnings"]
