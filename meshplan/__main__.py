"""Starts the command line from the private tree of a wheel, or from the checkout."""

import gc

from meshplan.application import ours

# New containers between two collections of cyclic garbage. There is hardly any here, and with Python's default of 700 the
# collections took a twentieth of a search.
COLLECT_EVERY = 50_000


def main() -> int:
    """Exit code of the command in ``sys.argv``."""
    gc.set_threshold(COLLECT_EVERY)
    return int(ours("app.cli.main").main())


if __name__ == "__main__":
    raise SystemExit(main())
