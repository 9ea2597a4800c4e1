"""Changes of layout in the answers of post-training."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.cli.main import main
from app.rl.job import parse_rl_job
from app.rl.schemas import RlDocument, RlSwitches
from app.rl.service import rl_document, rl_search_document
from app.rl.tables import print_rl_search
from documents.errors import InfeasibleError, InputError
from tests.unit.app.rl.test_rl_documents import JOB

GIVEN = {"group_s": 0.25, "communicator_s": 2.0, "graph_s": 0.5, "num_graphs": 12}


def answer(switch: dict[str, Any] | None = None, *, layouts: dict[str, Any] | None = None, **section: Any) -> RlDocument:
    wanted = {**JOB["post_training"], "placement": "fully-colocated", "switch": switch or {}, **section}
    return rl_document(
        parse_rl_job({**JOB, "strategy": {"tp": 4}, "rollout": {"tp": 2}, **(layouts or {}), "post_training": wanted})
    )


def changes(found: RlDocument) -> RlSwitches:
    assert found.switches is not None
    return found.switches


def test_both_changes_add_up_to_their_tasks() -> None:
    found = answer()
    both = changes(found)
    assert both.to_rollout.seconds == pytest.approx(found.parts_s["to_rollout"])
    assert both.to_train.seconds == pytest.approx(found.parts_s["to_train"])
    for change in (both.to_rollout, both.to_train):
        for name in ("seconds", "low_s", "high_s", "first_s", "first_low_s", "first_high_s"):
            assert sum(getattr(part, name) for part in change.parts) == pytest.approx(getattr(change, name))
        assert change.low_s <= change.seconds <= change.high_s
        assert change.first_low_s <= change.first_s <= change.first_high_s
    copies = [part for part in both.to_rollout.parts if part.part.startswith("offload_")]
    assert sum(part.seconds for part in copies) == pytest.approx(found.reshard.offload_s) == pytest.approx(found.reshard.onload_s)


def test_the_links_carry_what_the_busiest_device_lacks() -> None:
    both = changes(answer())
    weights = both.to_rollout.parts[0]
    assert [link.tier for link in both.links] == ["nvlink", "infiniband"]
    # Of two instances of tp 2 in a replica of tp 4, ranks 1 and 2 have nothing of their half; both halves are in the node.
    assert sum(link.device_bytes for link in both.links) == pytest.approx(weights.device_bytes)
    assert both.links[1].device_bytes == 0.0
    sharded_bytes = weights.device_bytes
    assert both.kept_bytes + sharded_bytes == pytest.approx(both.shard_bytes)
    assert both.links_s == pytest.approx(both.links[0].seconds)
    matched = changes(answer({"rank_order": "matched"}))
    assert matched.to_rollout.parts[0].device_bytes == pytest.approx(sharded_bytes / 2)


def test_separate_pools_exchange_weights_and_keep_the_rest() -> None:
    found = answer(placement="separate")
    both = changes(found)
    assert both.to_rollout.seconds == pytest.approx(found.parts_s["sync"])
    assert both.to_train.seconds == 0.0
    assert both.kept_bytes == 0.0
    assert both.links[0].device_bytes == 0.0
    assert [group.size for group in both.groups if group.side == "weights"] == [16]


def test_what_is_opened_again_lengthens_every_step() -> None:
    kept, again = answer(GIVEN), answer({**GIVEN, "communicators": "reopened", "graphs": "recaptured"})
    opened = [part for part in changes(kept).to_rollout.parts + changes(kept).to_train.parts if part.first_s != part.seconds]
    assert {part.part for part in opened} == {"groups_made", "communicators_opened", "graphs_captured"}
    assert next(part for part in opened if part.part == "graphs_captured").first_s == 6.0
    longer_s = sum(part.first_s for part in opened)
    both_s = changes(again).to_rollout.seconds + changes(again).to_train.seconds
    assert both_s == pytest.approx(changes(kept).to_rollout.seconds + changes(kept).to_train.seconds + longer_s)
    assert again.step_time_s == pytest.approx(kept.step_time_s + 1.05 * longer_s)
    assert kept.reshard.residual_bytes == changes(kept).training_communicator_bytes > 0.0
    assert again.reshard.residual_bytes == changes(again).training_communicator_bytes == 0.0
    assert not any("post_training.switch" in line for line in again.assumptions)


def test_seconds_that_nobody_gives_widen_the_step_and_are_assumed() -> None:
    wide = answer({"communicators": "reopened", "graphs": "recaptured"})
    sure = answer({"communicators": "reopened", "graphs": "recaptured", **GIVEN})
    assert wide.step_time_high_s / wide.step_time_s > sure.step_time_high_s / sure.step_time_s
    assert wide.step_time_low_s / wide.step_time_s < sure.step_time_low_s / sure.step_time_s
    told = [line for line in wide.assumptions if line.startswith("post_training.switch")]
    assert [line.split(" = ")[0].rpartition(".")[2] for line in told] == ["group_s", "communicator_s", "graph_s"]
    assert "0.3 to 4.1 were published" in told[1]
    eager = answer({"graphs": "recaptured"}, layouts={"rollout": {"tp": 2, "execution": "eager"}})
    assert changes(eager).to_rollout.parts[-1].first_s == 0.0
    assert not any("graph_s" in line for line in eager.assumptions)


def test_an_order_that_does_not_nest_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="rank order matched: instances of tp 1, pp 3, ep 1 do not nest"):
        answer({"rank_order": "matched"}, layouts={"strategy": {"tp": 2, "pp": 2}, "rollout": {"tp": 1, "pp": 3}})
    with pytest.raises(InputError, match="rank_order"):
        answer({"rank_order": "random"})


def test_a_search_shows_what_changes_of_layout_take() -> None:
    wanted = {**JOB["post_training"], "top": 3, "switch": GIVEN}
    found = rl_search_document(parse_rl_job({**JOB, "post_training": wanted}))
    best = changes(found.best)
    assert found.plans[0].switch_s == pytest.approx(best.to_rollout.seconds + best.to_train.seconds)
    with StringIO() as out:
        print_rl_search(Console(file=out, width=200), found)
        assert "switch" in out.getvalue().splitlines()[2]


def test_the_table_is_chinese_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "job.json"
    path.write_text(json.dumps(JOB), encoding="utf-8")
    assert main(["--language", "zh", "rl", "estimate", str(path)]) == 0
    text = capsys.readouterr().out
    for words in ("打开通信域", "捕获计算图", "换出优化器状态", "权重经由", "保留的通信域"):
        assert words in text
