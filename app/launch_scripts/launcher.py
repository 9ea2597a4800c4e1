"""Launchers: the number of processes that torchrun, msrun, srun, mpirun or deepspeed start, and Slurm's directives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

_FLAG = re.compile(r"--?[A-Za-z]")
_DIRECTIVE = re.compile(r"^#SBATCH[ \t]+(-[-\w]+)(?:[= \t]+|(?=\d))([^\s#]+)", re.M)
_ALIASES = {
    "n": "ntasks", "N": "nodes", "nproc-per-node": "nproc_per_node", "local_worker_num": "nproc_per_node",
    "local-worker-num": "nproc_per_node", "worker-num": "worker_num",
}  # fmt: skip
_SLURM = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
}
Flags = Mapping[str, str | None]


def directives(text: str) -> dict[str, str]:
    """Numbers of the ``#SBATCH`` lines of a script, by the long name of the option."""
    found: dict[str, str] = {}
    for flag, value in _DIRECTIVE.findall(text):
        name = flag.lstrip("-")
        name = _ALIASES.get(name, name)
        if name == "gres" and (devices := re.fullmatch(r"(?:gpu|npu)(?::[\w-]+)?:(\d+)", value)):
            name, value = "gpus-per-node", devices[1]
        if name in _SLURM and value.isdecimal():
            found[name] = value
    return found


def slurm_variables(text: str) -> dict[str, str]:
    """The variables that Slurm sets in a script, from its ``#SBATCH`` lines."""
    stated = directives(text)
    if "ntasks" not in stated and {"nodes", "ntasks-per-node"} <= stated.keys():
        stated["ntasks"] = str(int(stated["nodes"][:7]) * int(stated["ntasks-per-node"][:7]))
    return {variable: value for name, value in stated.items() for variable in _SLURM[name]}


def num_processes(words: Sequence[str | None], text: str) -> int | None:
    """Processes that the words in front of a program start; an unknown word is ``None``, and so is an unknown number.

    ``text``: the script, whose ``#SBATCH`` lines hold for ``srun``.
    """
    programs = {word.rpartition("/")[2] for word in words if word}
    flags, slurm = _flags(words), directives(text)
    if "worker_num" in flags:
        return _count(flags["worker_num"])
    if "nproc_per_node" in flags:
        nodes = _count(flags["nnodes"]) if "nnodes" in flags else 1
        if nodes is None and "srun" in programs:
            nodes = _count({**slurm, **flags}.get("nodes"))
        return _product(_count(flags["nproc_per_node"]), nodes)
    if "deepspeed" in programs:
        nodes = _count(flags["num_nodes"]) if "num_nodes" in flags else None if "hostfile" in flags else 1
        return _product(_count(flags.get("num_gpus")), nodes)
    if programs & {"mpirun", "mpiexec"}:
        return _count(flags.get("np", flags.get("ntasks")))
    if "srun" in programs:
        both: Flags = {**slurm, **flags}
        stated = "ntasks" if "ntasks" in flags or not {"nodes", "ntasks-per-node"} & flags.keys() else ""
        if stated in both:
            return _count(both[stated])
        return _product(_count(both.get("nodes")), _count(both.get("ntasks-per-node")))
    return None


def _flags(words: Sequence[str | None]) -> dict[str, str | None]:
    """Values of options; those of an unknown value are ``None``."""
    found: dict[str, str | None] = {}
    split: list[str | None] = []
    for word in words:
        flag, equals, value = (word or "").partition("=")
        short = re.fullmatch(r"(-[nN])(\d+)", flag)
        if equals and _FLAG.match(flag):
            split += [flag, value]
        else:
            split += [short[1], short[2]] if short else [word]
    for option, given in pairwise([*split, None]):
        if option and _FLAG.match(option):
            name = option.lstrip("-")
            found[_ALIASES.get(name, name)] = given
    return found


def _count(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[1-9]\d{0,6}", text) else None


def _product(one: int | None, other: int | None) -> int | None:
    return one * other if one and other else None
