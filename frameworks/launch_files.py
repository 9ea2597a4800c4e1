"""Text of launch files, in each framework's own format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frameworks.framework import Start
from frameworks.registry import BY_LABEL, BY_NAME


def launch_file(framework: str, launch: Mapping[str, Any], start: Start) -> tuple[str, str]:
    """Suffix and text of the launch file for an entry of ``launch_block`` with arguments."""
    record = BY_LABEL.get(launch["target"], BY_NAME[framework])  # an older server may name an older release
    suffix = record.suffix_of(launch["arguments"]) if record.suffix_of else record.suffix
    return suffix, record.file(record.release, record.purposes, launch, start)
