"""A complete run record that tests change in one place."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from calibration.records.training import RefusedRecord, RunRecord, parse_run_record

_ROW: dict[str, Any] = {
    "id": "one-run",
    "suspect": None,
    "is_latest_for_config": True,
    "model": {
        "name": "Test",
        "family": "test",
        "num_layers": 32,
        "num_noop_layers": 0,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_query_groups": 32,
        "kv_channels": 128,
        "ffn_hidden_size": 11008,
        "gated_linear_unit": True,
        "vocab_size": 32000,
        "padded_vocab_size": None,
        "tied_embeddings": False,
        "mtp_num_layers": 0,
        "mla": None,
        "moe": None,
    },
    "cluster": {"hardware": "atlas-900-a2-podc", "hardware_basis": "named", "num_devices": 16, "devices_per_node": 8},
    "training": {"task": "pretrain", "seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
    "strategy": {
        "tp": 2,
        "sequence_parallel": True,
        "cp": 1,
        "cp_algo": None,
        "pp": 4,
        "vpp": 1,
        "ep": 1,
        "etp": 1,
        "dp": 2,
        "micro_batch_size": 1,
        "num_microbatches": 32,
        "schedule": "1f1b",
        "distributed_optimizer": True,
        "zero_stage": None,
        "moe_dispatcher": None,
        "recompute": {"granularity": "none", "method": None, "num_layers": None, "detail": None, "raw": None},
        "layer_layout": None,
        "layer_offset": None,
        "noop_layers": None,
        "features": ["flash_attention", "fused_norm", "fused_swiglu", "fused_rope"],
    },
    "software": {
        "framework": "MindSpeed-LLM",
        "version": "git 0123456789 (2025-03-01)",
        "backend": "torch_npu + Megatron core",
        "raw_flags": ["use-flash-attn"],
    },
    "measured": {"step_time_s": 10.0, "tokens_per_s_per_device": None, "peak_memory_bytes": None, "peak_memory_basis": None},
}
_MOE = {"num_experts": 64, "top_k": 8, "expert_ffn_hidden_size": 1408, "num_shared_experts": 2}


@pytest.fixture
def moe() -> dict[str, Any]:
    """A ``model.moe`` section."""
    return dict(_MOE)


@pytest.fixture(scope="session")
def row() -> Callable[..., dict[str, Any]]:
    """Builds the record; ``row({"strategy.tp": 4})`` sets keys by their path."""

    def build(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        record = copy.deepcopy(_ROW)
        for path, value in (changes or {}).items():
            *parents, leaf = path.split(".")
            section = record
            for parent in parents:
                section = section[parent]
            section[leaf] = value
        return record

    return build


@pytest.fixture(scope="session")
def read(row: Callable[..., dict[str, Any]]) -> Callable[..., RunRecord]:
    """Parses the record with the given changes, which must not refuse it."""

    def parse(changes: Mapping[str, Any] | None = None) -> RunRecord:
        record = parse_run_record(row(changes))
        assert isinstance(record, RunRecord), record
        return record

    return parse


@pytest.fixture
def refuse(row: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """The reason for which the record with the given changes is refused."""

    def parse(changes: Mapping[str, Any]) -> str:
        record = parse_run_record(row(changes))
        assert isinstance(record, RefusedRecord), record
        return record.reason

    return parse
