"""Detection of recipes."""

from __future__ import annotations

import re
from pathlib import Path

from app.launch_scripts.forms import is_launch_script
from documents.reading import read_text

_SECTION = re.compile(r"^(megatron_training|actor_config|rl_config|generate_config)[ \t]*:", re.M)
_VERL = re.compile(r"^(actor_rollout_ref|async_training)[ \t]*:", re.M)


def is_recipe(source: str) -> bool:
    """Whether a command's job is a recipe: a shell script, or a YAML file of MindSpeed-RL or verl."""
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        text = read_text(path) if path.is_file() else ""
        return is_mindspeed_rl(text) or is_verl_configuration(text)
    return path.suffix != ".json" and is_launch_script(source)


def is_mindspeed_rl(text: str) -> bool:
    """Whether a text is a YAML file of MindSpeed-RL."""
    return not text.startswith("#!") and len(set(_SECTION.findall(text))) > 1


def is_verl_configuration(text: str) -> bool:
    """Whether a text is a YAML file of verl."""
    return not text.startswith("#!") and _VERL.search(text) is not None
