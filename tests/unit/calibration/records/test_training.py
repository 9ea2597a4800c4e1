import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibration.records.training import RefusedRecord, RunRecord, parse_run_record, read_run_records, record_lines
from cost_models.shapes.router_balance import RouterBalance
from documents.bounds import RUN_BYTES
from documents.errors import InputError

Read = Callable[..., RunRecord]
Refuse = Callable[..., str]
Row = Callable[..., dict[str, Any]]


def test_a_complete_record_becomes_a_workload_and_a_strategy_without_warnings(read: Read) -> None:
    record = read()
    assert record.warnings == ()
    assert (record.id, record.category, record.recompute_stated) == ("one-run", "dense_multi", True)
    assert record.workload.cluster.num_devices == 16
    assert record.workload.training.global_batch_size == 64
    strategy = record.strategy
    assert (strategy.tp, strategy.pp, strategy.dp, strategy.zero_stage, strategy.sequence_parallel) == (2, 4, 2, 1, True)
    assert record.measured.step_time_s == 10.0


def test_nothing_that_names_or_measures_a_run_reaches_its_prediction(row: Row) -> None:
    plain = parse_run_record(row())
    renamed = row({"id": "other", "model.name": "Other", "model.family": "x", "cluster.hardware_basis": "unclear"})
    renamed |= {"source": {"url": "u", "date": "2019-01-01"}, "notes": {"text": "no flash attention"}, "tier": "B"}
    renamed["measured"] = {"step_time_s": 99.0, "peak_memory_bytes": 1.0, "peak_memory_basis": "device"}
    other = parse_run_record(renamed)
    assert isinstance(plain, RunRecord)
    assert isinstance(other, RunRecord)
    assert (plain.workload, plain.strategy) == (other.workload, other.strategy)


def test_the_step_time_follows_from_the_token_rate(read: Read) -> None:
    # 64 samples x 4096 tokens = 262,144 tokens; 16 devices x 1,024 tokens/s = 16,384 tokens/s; 16 s.
    record = read({"measured.step_time_s": None, "measured.tokens_per_s_per_device": 1024.0})
    assert record.measured.step_time_s == pytest.approx(16.0)


def test_unknown_keys_are_ignored(row: Row) -> None:
    record = row({"strategy.colour": "red", "weather": 3})
    assert isinstance(parse_run_record(record), RunRecord)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model.num_layers": None}, "model.num_layers: missing; give an integer from 1 to 10,000."),
        ({"model.num_layers": 3.5}, "model.num_layers: 3.5 is not allowed; give an integer from 1 to 10,000."),
        ({"model.hidden_size": True}, "model.hidden_size: true is not allowed; give an integer from 1 to 1,000,000."),
        ({"model.hidden_size": float("nan")}, "model.hidden_size: nan is not allowed; give an integer from 1 to 1,000,000."),
        ({"training.global_batch_size": 0},
         "training.global_batch_size: 0 is not allowed; give an integer from 1 to 10,000,000."),
        ({"cluster.num_devices": 10**9}, "cluster.num_devices: 1000000000 is not allowed; give an integer from 1 to 1,000,000."),
        ({"cluster": "a cluster"}, "cluster: 'a cluster' is not allowed; give a mapping with hardware, num_devices, "
         "devices_per_node, inter_node_bytes_per_s_per_device, hardware_basis."),
        ({"measured.step_time_s": -1},
         "measured.step_time_s: -1 is not allowed; give a number above 1e-06 and at most 1,000,000,000,000,000,000."),
        ({"measured.step_time_s": 1e-320},
         "measured.step_time_s: 1e-320 is not allowed; give a number above 1e-06 and at most 1,000,000,000,000,000,000."),
        (
            {"measured.step_time_s": None, "measured.tokens_per_s_per_device": 1e18},
            "measured.tokens_per_s_per_device: 1e+18 is not allowed; give a rate at which a step takes more than 1e-06 s.",
        ),
        (
            {"cluster.inter_node_bytes_per_s_per_device": 1e-320},
            "cluster.inter_node_bytes_per_s_per_device: 1e-320 is not allowed; give a number from 1,000,000 to "
            "10,000,000,000,000.",
        ),
        ({"measured.peak_memory_by_rank_bytes": 5},
         "measured.peak_memory_by_rank_bytes: 5 is not allowed; give a list of at most 100,000 "
         "(a number above 0 and at most 1,000,000,000,000,000,000 each)."),
        ({"strategy.pp": 16, "strategy.tp": 1, "strategy.dp": 1, "model.num_layers": 8},
         "strategy.pp: 16 x vpp 1 = 16 virtual stages are not allowed; at most model.num_layers 8 + 2 have something to hold."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_sentence(refuse: Refuse, changes: dict[str, Any], sentence: str) -> None:
    assert refuse(changes) == sentence


def test_unknown_hardware_is_refused_with_the_nearest_name(refuse: Refuse) -> None:
    reason = refuse({"cluster.hardware": "atlas-900-a2-pod"})
    assert reason.startswith(
        "cluster.hardware: hardware 'atlas-900-a2-pod' is unknown (did you mean 'atlas-900-a2-podc' (910B2)?)"
    )


def test_a_record_never_opens_a_file(refuse: Refuse, tmp_path: Path) -> None:
    assert "is unknown" in refuse({"cluster.hardware": str(tmp_path / "mine.yaml")})


def test_a_refused_record_keeps_what_it_measured_and_its_category(row: Row) -> None:
    record = parse_run_record(row({"strategy.tp": 3}))
    assert isinstance(record, RefusedRecord)
    assert (record.id, record.category, record.measured.step_time_s) == ("one-run", "dense_multi", 10.0)


@pytest.mark.parametrize(
    ("text", "precision", "is_mapped"),
    [
        ("fp16", "fp16", False),
        ("MXFP8", "fp8", True),
        ("fp8_cs", "fp8", True),
        ("float8 e4m3", "fp8", True),
        ("mxfp4", "nvfp4", True),
        ("bf16_mixed", "bf16", True),
        ("bfloat16", "bf16", True),
        ("int4", "bf16", True),
        (None, "bf16", True),
    ],
)
def test_precisions_are_mapped(read: Read, text: str | None, precision: str, is_mapped: bool) -> None:
    record = read({"training.precision": text})
    assert record.workload.training.precision == precision
    assert bool(record.warnings) == is_mapped


def test_an_unknown_memory_basis_is_compared_with_the_device_peak(read: Read) -> None:
    record = read({"measured.peak_memory_bytes": 1e9, "measured.peak_memory_basis": "nvidia-smi"})
    assert record.measured.peak_memory_basis == "device"
    assert record.warnings == ("measured.peak_memory_basis: 'nvidia-smi' is not a known basis, compared with the device's peak.",)


def write(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    return path


def test_a_file_is_read_in_order_and_broken_lines_are_refused_by_number(tmp_path: Path, row: Row) -> None:
    good = json.dumps(row())
    long_number = good.replace('"num_layers": 32', '"num_layers": ' + "9" * 5000)
    lines = ["\ufeff" + good, "", "{", "[1]", "[" * 100_000, b"\xff\xfe", long_number, json.dumps(row({"id": ""}))]
    records = read_run_records(write(tmp_path / "runs.jsonl", *lines))
    assert [(record.line_number, type(record)) for record in records] == [
        (1, RunRecord),
        *((number, RefusedRecord) for number in range(3, 8)),
        (8, RunRecord),
    ]
    reasons = [record.reason for record in records if isinstance(record, RefusedRecord)]
    assert reasons == [
        "Line 3 is not JSON: Expecting property name enclosed in double quotes at column 2.",
        "Line 4 is [1]; a JSON object is needed.",
        "Line 5 is not JSON that can be read: too deep, or a number too long.",
        "Line 6 is not UTF-8 text.",
        "Line 7 is not JSON that can be read: too deep, or a number too long.",
    ]
    assert records[-1].id == "line-8"


def test_a_record_may_go_on_in_indented_lines(tmp_path: Path, row: Row) -> None:
    plain = json.dumps(row())
    lines = [*json.dumps(row(), indent=1).splitlines(), plain, *plain.replace(", ", ",\n  ").splitlines(), " " + plain]
    records = read_run_records(write(tmp_path / "runs.jsonl", *lines))
    after = len(json.dumps(row(), indent=1).splitlines())
    assert [type(record) for record in records] == [RunRecord] * 4
    assert [record.line_number for record in records] == [1, after + 1, after + 2, len(lines)]


def test_an_oversized_line_is_refused_and_the_rest_is_read(tmp_path: Path, row: Row) -> None:
    padded = json.dumps(row() | {"notes": "x" * RUN_BYTES})
    refused, good = read_run_records(write(tmp_path / "runs.jsonl", padded, json.dumps(row())))
    assert isinstance(refused, RefusedRecord)
    assert refused.reason == f"Line 1 holds {len(padded)} bytes; at most 1048576 are read."
    assert isinstance(good, RunRecord)


@pytest.mark.parametrize(("content", "message"), [(b"", "holds no readable run record."), (b"{}", "The first line says: ")])
def test_a_file_without_a_readable_record_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path / "runs.jsonl", content)
    with pytest.raises(InputError, match=message):
        read_run_records(path)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: no such file\."):
        read_run_records(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="is a directory"):
        read_run_records(tmp_path)


def test_an_oversized_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row) -> None:
    path = write(tmp_path / "runs.jsonl", json.dumps(row()))
    monkeypatch.setattr("calibration.records.training.RUNS_BYTES", 10)
    with pytest.raises(InputError, match="larger than"):
        read_run_records(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [\n' + " 1,\n" * 150_000 + " 1]\n}\n",
        '{"a": "' + "x" * 300_000 + '"} x\n' + " 1\n" * 150_000,
        "{" + '"\\"' * 150_000 + "\n" + ' "\n' * 150_000,
        "[\n" + ' {"a": 1}\n ,\n' * 40_000 + "}\n",
    ],
    ids=["a list of lines", "no JSON before many lines", "quotes that never end", "objects that end in every line"],
)
def test_a_record_of_many_lines_takes_time_by_its_length(tmp_path: Path, text: str) -> None:
    began_s = time.process_time()
    assert len(list(record_lines(write(tmp_path / "runs.jsonl", text)))) == 1
    assert time.process_time() - began_s < 3.0  # minutes if each line reads those before it again


@pytest.mark.parametrize(
    ("changes", "balance", "warns"),
    [
        ({"software.framework": "Megatron-Bridge"}, RouterBalance.FORCED, True),
        ({"software.framework": "NeMo AutoModel (FSDP2)"}, RouterBalance.FORCED, True),
        ({"software.framework": "Megatron-LM"}, RouterBalance.AUXILIARY_LOSS, False),
        ({"software.framework": "Megatron-LM", "model.moe.capacity_factor": 1.0}, RouterBalance.FORCED, True),
        (
            {"software.framework": "Megatron-LM", "software.raw_flags": ["moe-router-force-load-balancing"]},
            RouterBalance.FORCED,
            False,
        ),
        (
            {"software.framework": "Megatron-LM", "software.raw_flags": ["moe-router-enable-expert-bias"]},
            RouterBalance.LOSS_FREE,
            False,
        ),
        (
            {"software.framework": "Megatron-Bridge", "training.router_balance": "auxiliary-loss"},
            RouterBalance.AUXILIARY_LOSS,
            False,
        ),
    ],
)
def test_a_silent_balance_is_that_of_the_framework_s_benchmarks(
    read: Read, moe: dict[str, Any], changes: dict[str, Any], balance: RouterBalance, warns: bool
) -> None:
    record = read({"model.moe": moe, "cluster.hardware": "h100-sxm-80gb", "software.raw_flags": [], **changes})
    spread = record.workload.training.expert_spread
    assert spread is not None
    assert spread.balance is balance
    assert any("router_balance" in warning for warning in record.warnings) == warns


def test_the_last_rank_s_memory_stands_in_for_a_peak_that_is_not_known(read: Read) -> None:
    last = {"measured.peak_memory_last_rank_bytes": 6e10, "measured.allocated_after_step_last_rank_bytes": 6e9}
    measured = read(last).measured
    assert (measured.peak_memory_bytes, measured.peak_memory_basis, measured.peak_of_last_rank) == (6e10, "allocated", True)
    assert measured.allocated_after_step_last_rank_bytes == 6e9
    both = read({**last, "measured.peak_memory_bytes": 7e10, "measured.peak_memory_basis": "device"}).measured
    assert (both.peak_memory_bytes, both.peak_memory_basis, both.peak_of_last_rank) == (7e10, "device", False)


def test_memory_may_have_been_measured_under_an_earlier_version(read: Read) -> None:
    stated = {"software.framework": "MindSpeed-LLM", "software.version": "git 634edae3c3 (2025-06-09)"}
    plain, apart = read(stated), read({**stated, "software.memory_version": "git 6f6b00ad74 (2024-08-22)"})
    assert plain.of_memory is plain
    assert apart.workload == plain.workload
    assert (apart.workload.software.year, apart.of_memory.workload.software.year) == (2025.42, 2024.58)
    assert apart.of_memory.of_memory == apart.of_memory
