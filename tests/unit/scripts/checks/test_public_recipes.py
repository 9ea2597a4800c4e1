"""Recipes of a folder are counted by how they are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.checks.public_recipes import main
from tests.unit.app.recipes.recipes import MINDSPEED, SHARDED


def test_recipes_are_counted_by_their_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "examples"
    (folder / "inner").mkdir(parents=True)
    texts = {
        "read.sh": SHARDED,
        "inner/nodes-of-16.sh": SHARDED.replace("n_gpus_per_node=8", "n_gpus_per_node=16"),
        "ascend.yaml": MINDSPEED,
        "asked.sh": SHARDED.replace("nnodes=2", "nnodes=$NODES"),
        "lora.sh": SHARDED.replace("nnodes=2", "nnodes=2 actor_rollout_ref.model.lora_rank=8"),
        "sft.sh": "torchrun -m verl.trainer.fsdp_sft_trainer data.x=1\n",
        "other.sh": SHARDED.replace("nnodes=2", "nnodes=2 actor_rollout_ref.actor.ppo_epochs=2"),
        "filtered.yaml": MINDSPEED.replace("blocking: true", "filter_groups_enable: true\n  filter_groups_train_batch_size: 128"),
        "job.yaml": "model: qwen3-8b\n",
        "notes.txt": "python3 -m verl.trainer.main_ppo\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert main([str(folder), "--list"]) == 0
    done = capsys.readouterr()
    rows = dict(line.strip("| ").split(" | ") for line in done.out.splitlines()[2:])
    assert {name: int(count) for name, count in rows.items() if count != "0"} == {
        "read": 4,
        "another program": 1,
        "asked": 1,
        "adapters": 1,
        "another setting": 1,
    }
    assert "lora.sh\tline 15: actor_rollout_ref.model.lora_rank" in done.err
