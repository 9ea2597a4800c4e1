"""Memory that this process uses."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")  # Linux: pages of the process, the second number those in memory
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def resident_bytes() -> int:
    """Bytes in memory now; where the system does not tell, the most that there have been."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
