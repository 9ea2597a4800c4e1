"""Checks, as a commit-msg hook, that a commit of the dashboard's bundle holds nothing else."""

from __future__ import annotations

import subprocess

BUILT = "app/static/dashboard/"


def sources_beside_built(names: list[str]) -> list[str]:
    """Files that must be in another commit: the sources, if the commit holds built files as well."""
    sources = [name for name in names if not name.startswith(BUILT)]
    return sources if len(sources) < len(names) else []


def main() -> int:
    command = ["git", "diff", "--cached", "--name-only", "--no-renames"]
    found = sources_beside_built(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    if found:
        print(f"{BUILT} is built: commit it apart from {', '.join(found[:3])}{' and others' if len(found) > 3 else ''}.")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
