"""A job says that its devices leave a node partly empty."""

from __future__ import annotations

import pytest

from app.jobs.job import parse_job


@pytest.mark.parametrize(("devices", "is_warned"), [(60, True), (12, True), (64, False), (8, False), (4, False)])
def test_devices_that_fill_no_whole_nodes_are_a_warning(devices: int, is_warned: bool) -> None:
    warnings = parse_job({"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": devices}}).warnings
    assert any("do not fill nodes of 8, and launch files start 8 on every node" in line for line in warnings) is is_warned
    assert any("give 56 or 64" in line for line in warnings) is (devices == 60)
