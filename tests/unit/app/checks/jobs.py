"""Jobs of the check tests."""

from typing import Any

from app.checks.check import check_job
from app.jobs.job import Job, parse_job
from app.text.json_documents import plain

SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "train_tokens": 1e11},
    "search": {"tp": [2, 4, 8], "pp": 1, "cp": 1, "vpp": 1, "micro_batch_size": [1, 2], "recompute": "none", "zero_stage": 1},
    "strategy": {"tp": 8, "micro_batch_size": 1},
}


def small_job(**parts: Any) -> Job:
    """The small job with other parts; a part of None is left out."""
    document = {**SMALL, **parts}
    return parse_job({name: value for name, value in document.items() if value is not None})


def checked(*given: Any, **options: Any) -> dict[str, Any]:
    """The document of a check, as it is printed."""
    return plain(check_job(*given, **options).document)
