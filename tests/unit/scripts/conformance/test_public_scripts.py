"""The count of answers for the scripts of a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.checks.public_scripts import main

MODEL = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64"
READ = f"torchrun --nproc_per_node 8 pretrain_gpt.py {MODEL} --vocab-size 1024"
SCRIPTS = {
    "a.sh": READ,
    "b/c.slurm": f"srun python pretrain_gpt.py {MODEL} --vocab-size 1024",
    "d.sh": f"{READ} --optimizer-cpu-offload",
    "e.sh": READ.replace("pretrain_gpt", "pretrain_bert"),
    "f.sh": "echo done",
    "g.txt": "no script",
    "h.sh": READ.replace(" --vocab-size 1024", ""),
}


def test_each_script_is_counted_once_by_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in SCRIPTS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert main(["h100-sxm-80gb", str(tmp_path), "--devices", "16"]) == 0
    # read: a, and c with the devices of the call; asked: h; argument: d; program: e; no training: f
    assert capsys.readouterr().out.splitlines()[-1] == f"| {tmp_path.name} | 2 | 1 | 1 | 1 | 0 | 0 | 1 |"
