"""Scripts in 8 bits: format and recipe are read, priced, and kept by a proposal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.exit_codes import DONE

SCRIPT = """#!/bin/bash
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --use-mcore-models --transformer-impl transformer_engine \\
  --fp8-format {form} --fp8-recipe {recipe} --num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288 \\
  --num-attention-heads 32 --kv-channels 128 --group-query-attention --num-query-groups 8 --qk-layernorm --seq-length 4096 \\
  --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --padded-vocab-size 151936 \\
  --untie-embeddings-and-output-weights --disable-bias-linear --position-embedding-type rope --normalization RMSNorm \\
  --swiglu --use-fused-rmsnorm --use-fused-swiglu --use-fused-rotary-pos-emb --use-flash-attn --use-distributed-optimizer \\
  --bf16 --spec mindspeed_llm.tasks.models.spec.qwen3_spec layer_spec --attention-dropout 0 --hidden-dropout 0
"""


@pytest.mark.parametrize("hardware", ["ascend-950pr", "atlas-950-pod-1024"])
@pytest.mark.parametrize(
    ("form", "recipe", "precision"), [("e4m3", "mxfp8", "fp8"), ("hif8", "tensorwise", "hif8"), ("hybrid", "delayed", "fp8")]
)
def test_mindspeed_llm_on_the_950(
    hardware: str, form: str, recipe: str, precision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT.format(form=form, recipe=recipe))
    assert main(["tune", str(path), "--hardware", hardware, "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["violations"], found["not_understood"]) == ([], [])
    training = found["job"]["training"]
    assert (training["precision"], training["fp8_recipe"]) == (precision, recipe)
    assert f"--fp8-format {form} --fp8-recipe {recipe}" in found["script"]
    assert found["estimate"]["step_time_s"] > found["best"]["estimate"]["step_time_s"] > 0
    assert ("mc2" in found["best"]["strategy"]["features"]) <= (recipe == "mxfp8")  # the only recipe that has it


@pytest.mark.parametrize(
    ("training", "flags"),
    [
        ("precision: fp8, fp8_recipe: tensorwise, fp8_param_gather: true", "--fp8-recipe tensorwise --fp8-param-gather"),
        ("precision: fp8, fp8_recipe: tensorwise, fp8_param_gather: false", "--fp8-recipe tensorwise"),
        ("precision: nvfp4", "--fp4-format e2m1 --fp4-recipe nvfp4"),
    ],
)
def test_a_file_of_ours_is_read_in_its_release_at_its_price(
    training: str, flags: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "model: qwen3-8b\ncluster: {hardware: b200-sxm-180gb, num_devices: 8}\nsoftware: {target: megatron-lm@0.19}\n"
        f"strategy: {{tp: 2}}\ntraining: {{seq_length: 4096, global_batch_size: 64, {training}}}\n"
    )
    assert main(["estimate", str(job), "--json"]) == DONE
    planned = json.loads(capsys.readouterr().out)
    assert main(["search", str(job), "--top", "1", "--save-dir", str(tmp_path / "files"), "--json"]) == DONE
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    path = tmp_path / "files" / "plan-1.megatron-lm.sh"
    written = path.read_text()
    assert flags in " ".join(written.replace("\\", " ").split())
    assert ("--fp8-param-gather" in written) == ("--fp8-param-gather" in flags)
    assert main(["estimate", str(path), "--hardware", "b200-sxm-180gb", "--json"]) == DONE
    read = json.loads(capsys.readouterr().out)
    assert read["job"]["software"]["target"] == planned["job"]["software"]["target"] == "megatron-lm@0.19"
    for name in ("step_time_s", "peak_memory_bytes"):
        assert read["estimate"][name] == pytest.approx(plan["estimate"][name], rel=1e-9)


@pytest.mark.parametrize("target", [(), ("--target", "megatron-lm@0.19")])
def test_a_plan_without_a_stated_recipe_has_the_price_of_its_file(
    target: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ("qwen3-8b", "--hardware", "h100-sxm-80gb", "--devices", "8", "--seq-length", "8192", "--global-batch-size", "64")
    files = tmp_path / "files"
    search = ("search", *job, *target, "--precision", "fp8", "--tp", "2", "--pp", "1", "--top", "1", "--save-dir", str(files))
    assert main([*search, "--json"]) == DONE
    document = json.loads(capsys.readouterr().out)
    (plan,) = document["plans"]
    written = "".join(path.read_text() for path in files.glob("plan-1.megatron-lm.sh"))
    assert document["job"]["training"]["fp8_recipe"] == "delayed"
    assert any(each.startswith("training.fp8_recipe = delayed (default of megatron-lm@0.") for each in document["assumptions"])
    (files / "defaults.sh").write_text(written.replace("  --fp8-recipe delayed\n", ""))  # as Megatron-LM takes it by itself
    for name in ("plan-1.megatron-lm.sh", "defaults.sh", "plan-1.job.yaml"):
        hardware = () if name.endswith("yaml") else ("--hardware", "h100-sxm-80gb")
        assert main(["estimate", str(files / name), *hardware, "--json"]) == DONE
        read = json.loads(capsys.readouterr().out)
        assert read["job"]["training"]["fp8_recipe"] == "delayed"
        for number in ("step_time_s", "peak_memory_bytes", "fits_probability"):
            assert read["estimate"][number] == pytest.approx(plan["estimate"][number], rel=1e-9), (name, number)
