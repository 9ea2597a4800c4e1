"""Traces of torch.profiler and torch_npu, in the form in which these write them; the fixtures are made up by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from calibration.traces import events
from calibration.traces.groups import Layout
from calibration.traces.measured import TraceError, UnknownKernel
from calibration.traces.timelines import read_step
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy

FIXTURES = Path(__file__).parents[3] / "fixtures" / "traces"
GPU = Layout(ParallelStrategy(tp=2, pp=2, dp=4))
NPU = Layout(ParallelStrategy(tp=2, dp=8, ep=8, dispatcher=Dispatcher.ALLTOALL))


def test_a_step_of_torch_profiler() -> None:
    """Step 5 of 10,000 us: matmul 3,000, attention 1,000, elementwise 500 + Adam 500, an unknown kernel 250.

    The all-gather 4,000-5,500 is beside the last two until 4,750, so that 750 show; reduce-scatter 1,000; receive 500; copy 200.
    """
    found = read_step(FIXTURES / "torch.pt.trace.json", GPU)
    assert (found.source, found.rank, found.step, found.ranks) == ("torch.profiler", 0, 5, (0,))
    assert found.step_times_s == pytest.approx({5: 10e-3, 6: 11e-3, 7: 9.5e-3})
    assert found.exposed_s == pytest.approx(
        {
            "matmul": 3e-3,
            "attention": 1e-3,
            "vector": 1e-3,
            "other_kernels": 0.25e-3,
            "tp_comm": 0.75e-3,
            "dp_comm": 1e-3,
            "pipeline": 0.5e-3,
            "host_transfer": 0.2e-3,
            "free": 2.3e-3,
        }
    )
    assert found.masked_s == pytest.approx({"tp_comm": 0.75e-3})
    assert sum(found.exposed_s.values()) == pytest.approx(found.step_time_s)
    assert found.unknown == (UnknownKernel("void house::mystery_kernel<int>(int*)", 1, pytest.approx(0.25e-3)),)


def test_a_step_of_torch_npu() -> None:
    """Matmul 4,000 us, attention 900, norm 600, a kernel of the house 100; tokens exchanged 1,400, 100 of it beside that one.

    Two groups of which nothing is known but a hash may serve tensors or gradients. Times since 1970 keep their nanoseconds.
    """
    found = read_step(FIXTURES / "trace_view.json", NPU, step=3)
    assert (found.source, found.rank, found.step, found.ranks) == ("torch_npu.profiler", 3, 3, (3,))
    expected = {
        "matmul": 4e-3,
        "attention": 0.9e-3,
        "vector": 0.6e-3,
        "other_kernels": 0.1e-3,
        "ep_comm": 1.3e-3,
        "tp_comm+dp_comm": 1.3e-3,
        "free": 1.8e-3,
    }
    assert found.exposed_s == pytest.approx(expected, abs=1e-9)
    assert found.masked_s == pytest.approx({"ep_comm": 0.1e-3})
    assert any("reducescatter (1 ms) may serve TP or DP" in note for note in found.notes)
    assert any("EVENT_WAIT (2, 4 ms)" in note for note in found.notes)


def test_packed_and_plain_are_one(tmp_path: Path) -> None:
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress((FIXTURES / "torch.pt.trace.json").read_bytes()))
    assert read_step(packed, GPU, rank=0, step=6) == read_step(FIXTURES / "torch.pt.trace.json", GPU, rank=0, step=6)


def test_a_trace_without_marks_is_one_step(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [kernel("gemm", 100, 50), kernel("gemm", 200, 50)]}))
    found = read_step(path, GPU)
    assert (found.step, found.step_time_s) == (None, pytest.approx(150e-6))
    assert found.exposed_s == pytest.approx({"matmul": 100e-6, "free": 50e-6})
    with pytest.raises(TraceError, match="does not number its steps"):
        read_step(path, GPU, step=1)


def kernel(name: str, start: Any, length: Any, process: int = 0) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": process, "tid": 7, "ts": start, "dur": length, "args": {}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no trace: it has no list `traceEvents`"),
        ("[{]", "is not JSON: .* line 1, column 3"),
        ('{"traceEvents": [', "is not JSON"),
        ('{"a": 1}', "has no list `traceEvents`"),
        ("[]", "holds no work of a device"),
        ("[" * 100_000, "too deep"),
        (json.dumps([kernel("a", "x", 1)]), "'a' whose `ts` and `dur` are no times"),
        (json.dumps([kernel("a", 1, -1)]), "are no times"),
        (json.dumps([kernel("a", "9" * 100, 1)]), "are no times"),
        (json.dumps([kernel("a", 1e300, 1)]), "are no times"),
        (json.dumps([kernel("a", 1, 0)]), "profile a whole step"),
        ("", "no column"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=sentence):
        read_step(path, GPU)


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = FIXTURES / "torch.pt.trace.json"
    packed = tmp_path / "bomb.gz"
    packed.write_bytes(gzip.compress(b" " * 3 * 2**20))
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(path.read_bytes())[:-20])
    with pytest.raises(TraceError, match="no whole gzip file"):
        read_step(torn, GPU)
    monkeypatch.setattr(events, "MAX_EVENTS", 5)
    with pytest.raises(TraceError, match="more than 5 events; profile one step"):
        read_step(path, GPU)
    monkeypatch.undo()
    monkeypatch.setattr(events, "MAX_KEPT", 5)
    with pytest.raises(TraceError, match="more than 5 events of devices"):
        read_step(path, GPU)
    monkeypatch.setattr(events, "TRACE_BYTES", 2**20)
    with pytest.raises(TraceError, match="more than 1 MiB"):
        read_step(packed, GPU)
    monkeypatch.undo()
    with pytest.raises(TraceError, match="holds no rank 4; it has 0"):
        read_step(path, GPU, rank=4)
