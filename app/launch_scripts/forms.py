"""Detection of launch scripts and their form."""

from __future__ import annotations

import re
from pathlib import Path

from documents.reading import read_text

FSDP2_FILE, FSDP2_SCRIPT = "fsdp2.yaml", "fsdp2.sh"
_JOB_SECTION = re.compile(r"^(cluster|training|strategy|search)\s*:", re.M)
_KEY = re.compile(r"^(use_parallel|run_mode|parallel_config|parallel|runner_config|context|recompute_config|model)\s*:", re.M)
_TABLE = re.compile(r"^[ \t]*\[(training|parallelism|activation_checkpoint)\][ \t]*(#.*)?$", re.M)
# Comments, empty lines, keys and tables: a shell script that writes such a file begins with something else.
_TOML = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[[\w.\-\"' ]+\]|[\w.\-\"']+[ \t]*=)")
_FSDP2_SECTIONS = frozenset(("model", "data", "parallel", "training", "optimization"))
_TOP = re.compile(r"^([A-Za-z_]\w*)[ \t]*:", re.M)
_FSDP2_PROGRAM = re.compile(r"^[^#\n]*\btrain_fsdp2\.py\b", re.M)
_SHELL = re.compile(r"#![ \t]*\S*(?:/|[ \t])(?:ba|da|z|k)?sh\b")
_SHELL_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")
PYTHON, CONFIGURATION = "py", "torchtitan.py"
_PYTHON = re.compile(r"#![ \t]*\S*(?:/|[ \t])python[\d.]*\b")
_IMPORTED = re.compile(r"^[ \t]*from torchtitan\.[\w.]* import\b", re.M)
_RETURNED = re.compile(r"^[ \t]*return [\w.]*\.Config\(", re.M)


def is_launch_script(source: str) -> bool:
    """Whether a command's model is a launch script: by a suffix of shells or Python, a first line that names a shell, or keys."""
    path = Path(source)
    if path.suffix in (*_SHELL_SUFFIXES, f".{PYTHON}"):
        return True
    if not path.is_file():
        return False
    text = read_text(path)
    if _SHELL.match(text):
        return True
    if path.suffix == ".toml":
        return is_toml(text)
    if path.suffix not in (".yaml", ".yml"):
        return False
    return is_fsdp2_yaml(text) or (is_yaml(text) and not _JOB_SECTION.search(text))


def form_of(text: str) -> str:
    """The form of a launch script: the suffix of its file, or one of the forms of a framework that share a suffix."""
    if _PYTHON.match(text):
        return PYTHON
    if is_configuration(text):
        return CONFIGURATION
    if is_toml(text):
        return "toml"
    if is_fsdp2_yaml(text):
        return FSDP2_FILE
    if is_yaml(text):
        return "yaml"
    return FSDP2_SCRIPT if _FSDP2_PROGRAM.search(text) else "sh"


def is_configuration(text: str) -> bool:
    """Whether a text is a Python configuration of torchtitan: it imports some of it, and returns a ``Config`` below."""
    imported = _IMPORTED.search(text)
    return imported is not None and _RETURNED.search(text, imported.end()) is not None


def is_fsdp2_yaml(text: str) -> bool:
    """Whether a text is a YAML file of MindSpeed-LLM's FSDP2 backend: of its sections, one that no job and no MindFormers has."""
    found = set(_TOP.findall(text)) if not text.startswith("#!") else set()
    return found <= _FSDP2_SECTIONS and len(found) > 1 and bool(found & {"parallel", "optimization", "data"})


def is_toml(text: str) -> bool:
    """Whether a text is a torchtitan file: it has tables of its configuration, and no line before them that a shell runs."""
    return not text.startswith("#!") and _TABLE.search(text) is not None and _TOML.match(text) is not None


def is_yaml(text: str) -> bool:
    """Whether a text is a MindFormers file rather than a shell script."""
    return not text.startswith("#!") and _KEY.search(text) is not None
