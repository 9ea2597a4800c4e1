"""Detection of recipes."""

from __future__ import annotations

import re
from pathlib import Path

from app.launch_scripts.forms import is_launch_script
from documents.reading import read_text

_SECTION = re.compile(r"^(megatron_training|actor_config|rl_config|generate_config)[ \t]*:", re.M)


def is_recipe(source: str) -> bool:
    """Whether a command's job is a recipe: a shell script, or a YAML file with sections of MindSpeed-RL."""
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        return path.is_file() and is_mindspeed_rl(read_text(path))
    return path.suffix != ".json" and is_launch_script(source)


def is_mindspeed_rl(text: str) -> bool:
    """Whether a text is a YAML file of MindSpeed-RL."""
    return not text.startswith("#!") and len(set(_SECTION.findall(text))) > 1
