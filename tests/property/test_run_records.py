"""No record, however broken, may do anything but become a prediction or a sentence."""

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from calibration.records.training import RefusedRecord, RunRecord, parse_run_record
from calibration.validation.predictions import validate
from cost_models.constants import prior_constants

RUNS = Path(__file__).resolve().parents[2] / "calibration" / "runs"
REAL = [json.loads(line) for name in ("ascend", "gpu") for line in (RUNS / f"{name}.jsonl").read_text("utf-8").splitlines()[::40]]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["hybrid", "zb-v", "1,2,3", "[[1", "Et*9|(t*99|)*99", "full", "-1", "([0]*3+[1]*9)", "fp8"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=10,
)


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return [path]
    return [path, *(leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key)))]


@given(st.dictionaries(st.sampled_from(["id", "model", "cluster", "training", "strategy", "software", "measured"]), json_values))
def test_any_object_is_read_or_refused(row: dict[str, Any]) -> None:
    record = parse_run_record(row)
    assert isinstance(record, RunRecord | RefusedRecord)
    if isinstance(record, RefusedRecord):
        assert record.reason.endswith(".")
        assert "\n" not in record.reason


@given(st.data())
def test_a_real_record_with_broken_values_is_read_or_refused(data: st.DataObject) -> None:
    row = copy.deepcopy(data.draw(st.sampled_from(REAL)))
    paths = [
        path for key in ("model", "cluster", "training", "strategy", "software", "measured") for path in leaves(row[key], (key,))
    ]
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3)):
        section = row
        for key in path[:-1]:
            section = section.get(key) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section[path[-1]] = data.draw(json_values)
    record = parse_run_record(row)
    if isinstance(record, RunRecord):
        strategy, workload = record.strategy, record.workload
        assert strategy.tp * strategy.pp * strategy.cp * strategy.dp == workload.cluster.num_devices
        assert strategy.micro_batch_size * strategy.dp <= workload.training.global_batch_size
        (predicted,) = validate([record], lambda w: prior_constants(w.cluster.profile.family)).rows
        assert predicted.refused is not None or predicted.predicted_step_time_s > 0.0
    else:
        assert len(record.reason) < 2000
