"""Files of MindFormers with layers of ``use_legacy: True``: priced, changed in place, and never written anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.launch_scripts.files import load_script
from frameworks.launch import launch_block
from tests.unit.frameworks.test_mindformers_jobs import LLAMA_FILE

HARDWARE = "atlas-800t-a2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "finetune_llama3_8b.yaml"
    parallel = {**LLAMA_FILE["parallel_config"], "data_parallel": 1, "model_parallel": 8}
    steps = {"batch_size": 1, "gradient_accumulation_steps": 16}
    path.write_text(yaml.safe_dump({**LLAMA_FILE, "parallel_config": parallel, "runner_config": steps}))
    return path


def test_its_own_plan_has_a_price(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(file), "--hardware", HARDWARE, "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert found["job"]["software"]["legacy_layers"] is True
    assert found["estimate"]["step_time_s"] > 0


def test_a_proposal_recomputes_whole_layers_in_the_same_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Modules have other names in these layers, and their kernels no switches."""
    assert main(["tune", str(file), "--hardware", HARDWARE, "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["violations"], found["speedup"] > 1.0) == ([], True)
    assert found["best"]["strategy"]["recompute"]["granularity"] != "selective"
    changed = yaml.safe_load(found["script"])
    assert changed["model"]["model_config"]["type"] == "LlamaConfig"
    assert not {"use_legacy", "bias_swiglu_fusion", "use_fused_rope"} & {*changed, *changed["model"]["model_config"]}
    assert changed["parallel_config"]["model_parallel"] == found["best"]["strategy"]["tp"] < 8


def test_no_file_is_written_for_such_layers(file: Path) -> None:
    job = load_script(file, HARDWARE).job
    assert job.strategy is not None
    entry = launch_block(job.workload, job.strategy)["mindformers"]
    assert entry["arguments"] is None
    assert any("use_legacy: True" in note for note in entry["notes"])


def test_other_stacks_have_no_such_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = {
        "model": "llama-2-7b",
        "cluster": {"hardware": HARDWARE, "num_devices": 8},
        "training": {"global_batch_size": 8},
        "software": {"legacy_layers": True},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    assert main(["estimate", str(path)]) == BAD_INPUT
    assert "software.legacy_layers: these are layers of MindFormers" in capsys.readouterr().err


def test_a_plan_of_these_layers_keeps_their_residual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "finetune_glm4.yaml"
    model = {**LLAMA_FILE["model"]["model_config"], "type": "ChatGLM2Config"}
    path.write_text(yaml.safe_dump({**LLAMA_FILE, "model": {**LLAMA_FILE["model"], "model_config": model}}))
    assert main(["tune", str(path), "--hardware", HARDWARE, "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert found["job"]["software"]["fp32_residual"] == "stream"
    assert "residual_dtype" not in yaml.safe_load(found["script"])["model"]["model_config"]


@pytest.mark.parametrize(
    ("software", "words"),
    [
        ({"stack": "mindspeed-llm", "fp32_residual": "layer"}, "software.fp32_residual: these are layers of MindFormers"),
        ({"stack": "mindformers", "fp32_residual": "sums"}, "software.fp32_residual: sums is not of these layers"),
        (
            {"stack": "mindformers", "legacy_layers": True, "fp32_residual": "layer"},
            "software.fp32_residual: layer is not of these layers",
        ),
        ({"stack": "mindformers", "fp32_residual": "streams"}, "stream"),
    ],
)
def test_a_residual_of_other_layers_is_refused(
    software: dict[str, object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {
        "model": "qwen3-8b",
        "cluster": {"hardware": HARDWARE, "num_devices": 8},
        "training": {"global_batch_size": 8},
        "software": software,
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    assert main(["estimate", str(path)]) == BAD_INPUT
    assert words in capsys.readouterr().err


def test_a_plan_by_stage_is_compared_and_changed_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its keys go with it, since a proposal recomputes whole layers."""
    path = tmp_path / "finetune_by_stage.yaml"
    parallel = {"data_parallel": 1, "model_parallel": 4, "pipeline_stage": 2, "micro_batch_num": 32, "use_seq_parallel": True}
    recompute = {"recompute": False, "select_recompute": True, "select_comm_recompute": [16, 2]}
    document = {**LLAMA_FILE, "parallel_config": parallel, "recompute_config": recompute, "runner_config": {"batch_size": 1}}
    path.write_text(yaml.safe_dump(document))
    assert main(["tune", str(path), "--hardware", HARDWARE, "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert found["strategy"]["tensor_plan"][0][1]["dense"][0] == {
        "recompute": ["gathered_input", "mlp_activation"], "swap": [], "layers": 2,
    }  # fmt: skip
    assert (found["violations"], found["speedup"] > 1.0) == ([], True)
    changed = yaml.safe_load(found["script"])["recompute_config"]
    assert "select_comm_recompute" not in changed
    assert changed["select_recompute"] is False
