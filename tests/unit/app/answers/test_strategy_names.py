"""The names of strategies: the dashboard writes what commands and reports print."""

from __future__ import annotations

import json
from pathlib import Path

from app.answers.schemas import StrategyDocument
from app.answers.tables.estimate import strategy_text
from cost_models.shapes.switches import SWITCHES

FIXTURE = Path(__file__).resolve().parents[4] / "dashboard" / "src" / "components" / "strategyNames.json"


def test_the_dashboard_names_a_strategy_as_the_server_does() -> None:
    entries = json.loads(FIXTURE.read_text(encoding="utf-8"))
    for entry in entries:
        assert str(strategy_text(StrategyDocument.model_validate(entry["strategy"]))) == entry["name"]
    said = " ".join(entry["name"] for entry in entries).split()
    named = {str(feature.name).lower() for feature, switch in SWITCHES.items() if switch.priced and not switch.by_default}
    assert named <= set(said)  # each switch that a name tells is in one of them
    assert {"by", "rank", "block:2", "full:3", "groups", "SP", "empty", "ZeRO-2", "alltoall_seq", "dualpipev"} <= set(
        " ".join(said).replace(",", "").split()
    )
