"""Starts the command line from the private tree of a wheel, or from the checkout."""

import gc
import sys
from importlib import import_module
from pathlib import Path

# New containers between two collections of cyclic garbage, of which there is hardly any here: Python's 700 made looking for it
# a twentieth of a search.
COLLECT_EVERY = 50_000


def main() -> int:
    """Exit code of the command in ``sys.argv``."""
    gc.set_threshold(COLLECT_EVERY)
    package = Path(__file__).resolve().parent
    tree = package / "_tree"
    sys.path.insert(0, str(tree if tree.is_dir() else package.parent))  # before a foreign `app` or `search`
    return int(import_module("app.cli.main").main())


if __name__ == "__main__":
    raise SystemExit(main())
