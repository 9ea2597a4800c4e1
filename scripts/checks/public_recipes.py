"""Counts how the recipes of verl and MindSpeed-RL are answered: read, asked about, or refused, with the reasons.

usage: python -m scripts.checks.public_recipes FOLDER...

Each folder has recipes: shell scripts, and YAML files with sections of MindSpeed-RL. Nothing is run. Each is read for GPUs and,
if it does not start there, for Atlas A3, with answers and a filter's share that no recipe states. The table of
docs/recipes.md comes from here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from app.recipes.files import load_recipe
from app.recipes.forms import is_recipe, is_verl_configuration
from app.recipes.reading import RecipeJob, Stated
from documents.errors import InputError
from documents.reading import read_text

HARDWARE = ("h100-sxm-80gb", "atlas-800t-a3")
ELSEWHERE = ("runs on Ascend", "nodes have")  # what other hardware changes
KINDS = {  # answer -> parts of messages, the first that holds
    "another program": ("is not read; programs", "no command in it starts"),
    "own configuration": ("is no configuration that verl ships",),
    "asked": ("--set ", "give --model", "give --with", "give --devices", "give --mean-prompt"),
    "adapters": ("it decides which weights are trained",),
    "pictures": ("reads pictures too",),
    "another reward model": ("known to be of the policy's shape",),
    "turns with tools": ("multi_turn", "custom_cls"),
    "optimizer on the host": ("optimizer_cpu_offload", "in part, which is not priced"),
}
OTHER = "another setting"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--list", action="store_true", help="one line for each recipe")
    given = parser.parse_args(arguments)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for folder in given.folders:
        for path in recipes_in(folder):
            answer, said = answered(path)
            counts[answer][folder.name] += 1
            if given.list:
                print(answer, path.relative_to(folder), said, sep="\t", file=sys.stderr)
    names = [folder.name for folder in given.folders]
    print(f"| answer | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for answer in ("read", *KINDS, OTHER):
        print(f"| {answer} | {' | '.join(str(counts[answer][name]) for name in names)} |")
    return 0


def recipes_in(folder: Path) -> Iterator[Path]:
    """Recipes of a folder, in the order of their paths. Configurations of verl count with the scripts that name them."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".sh", ".yaml", ".yml") and is_recipe(str(path)):
            if path.suffix == ".sh" or not is_verl_configuration(read_text(path)):
                yield path


def answered(path: Path) -> tuple[str, str]:
    """How a recipe is answered, and what it states or why it is refused."""
    message = ""
    for hardware in HARDWARE:
        try:
            return "read", _said(_read(path, hardware))
        except InputError as error:
            message = str(error).removeprefix(f"{path}: ")
            if not any(part in message for part in ELSEWHERE):
                break
    kind = next((kind for kind, parts in KINDS.items() if any(part in message for part in parts)), OTHER)
    return kind, message


def _read(path: Path, hardware: str) -> RecipeJob:
    stated = Stated(hardware, lengths={"mean": 100.0})
    try:
        return load_recipe(path, stated)
    except InputError as error:
        if "--kept-fraction" not in str(error):
            raise
    return load_recipe(path, stated._replace(kept_fraction=0.5))


def _said(found: RecipeJob) -> str:
    recipe = found.recipe
    parts = {**recipe.post_training, **recipe.strategy, "devices": recipe.num_devices, "rollout": dict(recipe.rollout)}
    return f"{found.job.job.workload.model.name} {parts}"


if __name__ == "__main__":
    sys.exit(main())
