"""Numbers as people write them."""

import pytest

from app.jobs.fields import JobDocument
from app.jobs.written_numbers import number, quantity, with_numbers


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("seq_length", "4k", 4096),
        ("seq_length", "128K", 131_072),
        ("seq_length", "1M", 1_048_576),
        ("seq_length", "4,096", 4096),
        ("num_devices", "1e3", 1000),
        ("num_devices", "1,024", 1024),
        ("num_devices", "1Ki", 1024),
        ("num_devices", "8.0", 8),
        ("train_tokens", "2T", 2_000_000_000_000),
        ("train_tokens", "36.00 T", 36_000_000_000_000),
        ("train_tokens", "500b", 500_000_000_000),
        ("budget_usd", "100k", 100_000),
        ("inter_node_bytes_per_s", "400Gbps", 50_000_000_000),
        ("inter_node_bytes_per_s", "400 Gbit/s", 50_000_000_000),
        ("inter_node_bytes_per_s", "400Gb/s", 50_000_000_000),
        ("inter_node_bytes_per_s", "20 GB/s", 20_000_000_000),
        ("checkpoint_bytes", "65536MiB", 68_719_476_736),
        ("checkpoint_bytes", "64gib", 68_719_476_736),
        ("detection_s", "45min", 2700),
        ("detection_s", "3.1h", 11_160),
        ("repair_s", "3d", 259_200),
        ("top", "2e1", 20),
    ],
)
def test_a_number_is_read_where_a_person_would_write_it(field: str, text: str, expected: int) -> None:
    assert number(text, field) == pytest.approx(expected)
    assert number(text, field, whole=True) == expected


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("num_devices", "4k"),  # 4,000 or 4,096?
        ("global_batch_size", "4K"),
        ("num_devices", "8.5"),
        ("inter_node_bytes_per_s", "400gb/s"),  # bits or bytes?
        ("seq_length", "4x"),
        ("seq_length", ""),
        ("seq_length", "k"),
        ("seq_length", "1,2,4"),
        ("seq_length", "٤"),
        ("train_tokens", "1e999"),
        ("top", "9" * 100),
    ],
)
def test_what_is_ambiguous_or_no_number_is_not_guessed(field: str, text: str) -> None:
    assert number(text, field, whole=True) is None


def test_a_job_has_numbers_wherever_it_takes_no_text() -> None:
    job = {
        "model": "64",
        "cluster": {"hardware": "8k", "num_devices": "64"},
        "training": {"seq_length": "8k", "precision": "BF16", "train_tokens": "2T"},
        "search": {"tp": ["1", 2], "pp": {"min": "2", "max": 4}, "min_headroom": "4GiB"},
        "strategy": {"recompute": "full", "layer_layout": ["16", "16"]},
        "unknown": {"seq_length": "8k"},
    }
    assert with_numbers(JobDocument, job) == {
        "model": "64",
        "cluster": {"hardware": "8k", "num_devices": 64},
        "training": {"seq_length": 8192, "precision": "bf16", "train_tokens": 2e12},
        "search": {"tp": [1, 2], "pp": {"min": 2, "max": 4}, "min_headroom": "4GiB"},
        "strategy": {"recompute": "full", "layer_layout": [16, 16]},
        "unknown": {"seq_length": "8k"},
    }


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("repair_s", 259_200.0, "3d"),
        ("detection_s", 60.0, "1min"),
        ("detection_s", 90.0, "1.5min"),
        ("checkpoint_fixed_s", 3.0, "3s"),
        ("checkpoint_fixed_s", 0.0, "0"),
        ("checkpoint_fixed_s", 0.25, "0.25"),
        ("noticed_after_s", 3601.0, "3601s"),
        ("storage_write_bytes_per_s", 1e11, "100GB/s"),
        ("storage_write_bytes_per_s", 2.5e12, "2.5TB/s"),
        ("pue", 1.25, "1.25"),
        ("recovery", "job", "job"),
    ],
)
def test_a_default_is_shown_as_a_job_file_takes_it(field: str, value: float | str, shown: str) -> None:
    assert quantity(field, value) == shown
    if isinstance(value, float):
        assert number(shown, field) == value
