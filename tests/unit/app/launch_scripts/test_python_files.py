"""Python files, which start Megatron-Bridge and are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.launch_scripts.files import load_script
from app.launch_scripts.forms import is_launch_script
from documents.errors import InputError


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/usr/bin/python3.12", "#! /opt/venv/bin/python"])
def test_a_python_file_is_refused_by_name(first: str, tmp_path: Path) -> None:
    path = tmp_path / "plan-1.megatron-lm.py"
    path.write_text(f'{first}\nPLAN = {{"model.tensor_model_parallel_size": 2}}\n', encoding="utf-8")
    assert is_launch_script(str(path))
    with pytest.raises(InputError, match=r"plan-1\.megatron-lm\.py: Python is not read"):
        load_script(path, "h100-sxm-80gb")
