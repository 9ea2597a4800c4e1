"""Detection of launch scripts and their form."""

from __future__ import annotations

import re
from pathlib import Path

from documents.reading import read_text

_JOB_SECTION = re.compile(r"^(cluster|training|strategy|search)\s*:", re.M)
_KEY = re.compile(r"^(use_parallel|run_mode|parallel_config|parallel|runner_config|context|recompute_config|model)\s*:", re.M)
_TABLE = re.compile(r"^[ \t]*\[(training|parallelism|activation_checkpoint)\][ \t]*(#.*)?$", re.M)
# Comments, empty lines, keys and tables: a shell script that writes such a file begins with something else.
_TOML = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[[\w.\-\"' ]+\]|[\w.\-\"']+[ \t]*=)")
_SHELL = re.compile(r"#!\s*\S*(?:/|\s)(?:ba|da|z|k)?sh\b")
_SHELL_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")


def is_launch_script(source: str) -> bool:
    """Whether a command's model is a launch script: a file whose first line or suffix names a shell, or one by its keys."""
    path = Path(source)
    if path.suffix in _SHELL_SUFFIXES:
        return True
    if not path.is_file():
        return False
    text = read_text(path)
    if _SHELL.match(text):
        return True
    if path.suffix == ".toml":
        return is_toml(text)
    return path.suffix in (".yaml", ".yml") and is_yaml(text) and not _JOB_SECTION.search(text)


def form_of(text: str) -> str:
    """The form of a launch script, as the suffix of its file."""
    return "toml" if is_toml(text) else "yaml" if is_yaml(text) else "sh"


def is_toml(text: str) -> bool:
    """Whether a text is a torchtitan file: it has tables of its configuration, and no line before them that a shell runs."""
    return not text.startswith("#!") and _TABLE.search(text) is not None and _TOML.match(text) is not None


def is_yaml(text: str) -> bool:
    """Whether a text is a MindFormers file rather than a shell script."""
    return not text.startswith("#!") and _KEY.search(text) is not None
