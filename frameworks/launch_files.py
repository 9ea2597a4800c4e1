"""Launch files as text, in the form that each framework starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frameworks.framework import Start
from frameworks.registry import BY_LABEL, BY_NAME


def launch_file(framework: str, launch: Mapping[str, Any], start: Start) -> tuple[str, str]:
    """Suffix and text of the launch file of one entry of ``launch_block`` that has arguments."""
    record = BY_LABEL.get(launch["target"], BY_NAME[framework])  # a server of old may name a release of old
    return record.suffix, record.file(record.release, record.purposes, launch, start)
