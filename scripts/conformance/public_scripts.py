"""Counts how the launch scripts of other repositories are answered: read, asked about, or refused, with the reasons.

usage: python -m scripts.checks.public_scripts HARDWARE FOLDER...

Each folder is a checkout. A script is a file that names a shell in its suffix or first line. Nothing is run. The table of
docs/tune.md comes from here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from app.launch_scripts.files import load_script
from app.launch_scripts.forms import is_launch_script
from documents.errors import InputError

ANSWERS = ("read", "asked", "argument", "program", "rejected", "shell", "no training")
MOST_BYTES = 2**18


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hardware")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--list", action="store_true", help="one line for each script")
    parser.add_argument("--devices", type=int, help="for scripts that leave them to the user")
    given = parser.parse_args(arguments)
    print(f"| checkout | {' | '.join(ANSWERS)} |\n|---|{'---:|' * len(ANSWERS)}")
    for folder in given.folders:
        counts: Counter[str] = Counter()
        for path in scripts_in(folder):
            answer, reason = answered(path, given.hardware, given.devices)
            counts[answer] += 1
            if given.list:
                print(answer, path.relative_to(folder), reason, sep="\t", file=sys.stderr)
        print(f"| {folder.name} | {' | '.join(str(counts[answer]) for answer in ANSWERS)} |")
    return 0


def scripts_in(folder: Path) -> list[Path]:
    """Shell scripts of a checkout, in the order of their paths."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    plain = (path for path in files if path.suffix in ("", ".sh", ".bash", ".slurm", ".sbatch", ".txt"))
    return [path for path in plain if path.stat().st_size < MOST_BYTES and _is_script(path)]


def _is_script(path: Path) -> bool:
    try:
        return is_launch_script(str(path))
    except InputError:
        return False


def answered(path: Path, hardware: str, devices: int | None = None) -> tuple[str, str]:
    """How a script is answered, one of ``ANSWERS``, and the message of a refusal."""
    try:
        load_script(path, hardware)
    except InputError as error:
        message = str(error).removeprefix(f"{path}: ")
        if devices is not None and ("--devices" in message):
            return _again(path, hardware, devices)
        return _kind(message), message
    return "read", ""


def _again(path: Path, hardware: str, devices: int) -> tuple[str, str]:
    try:
        load_script(path, hardware, devices=devices)
    except InputError as error:
        message = str(error).removeprefix(f"{path}: ")
        return _kind(message), message
    return "read", ""


def _kind(message: str) -> str:
    if "no command in it starts" in message:
        return "no training"
    if "are read" in message or "is a program of" in message or "whose scripts are not read" in message:
        return "program"
    if "--assume" in message:
        return "argument"
    if any(flag in message for flag in ("--set", "--vocab-size", "--devices", "--with")):
        return "asked"
    if message.startswith("line ") and "shell" not in message and "'--" not in message:
        return "shell"
    return "rejected"


if __name__ == "__main__":
    sys.exit(main())
