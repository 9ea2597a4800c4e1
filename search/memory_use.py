"""Memory that this process and others use."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def resident_bytes() -> int:
    """Bytes in memory now; where the system does not tell, the most that there have been."""
    try:
        return _pages("self") * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def resident_bytes_of(pid: int) -> int:
    """Bytes of another process in memory; 0 if it has ended, or where the system does not tell."""
    try:
        return _pages(str(pid)) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _pages(process: str) -> int:
    """Pages of a process in memory, the second number of Linux's ``statm``."""
    return int(Path("/proc", process, "statm").read_text().split()[1])
