from collections.abc import Callable
from typing import Any

import pytest

from calibration.records.training import RunRecord

Read = Callable[..., RunRecord]
NEMO: dict[str, Any] = {"cluster.hardware": "h100-sxm-80gb", "software.framework": "NeMo", "software.version": "25.02"}


@pytest.mark.parametrize(
    ("changes", "recipe"),
    [
        ({}, "delayed"),  # Transformer Engine's default
        ({"training.precision_detail": "FP8 (hybrid, per-tensor)"}, "delayed"),
        ({"training.precision_detail": "FP8-CS"}, "tensorwise"),
        ({"training.precision_detail": "FP8-MX"}, "mxfp8"),
        ({"training.precision_detail": "MXFP8"}, "mxfp8"),
        ({"training.precision": "mxfp8"}, "mxfp8"),
        ({"training.precision_detail": "FP8 delayed scaling"}, "delayed"),
        ({"training.precision_detail": "FP8 current scaling"}, "tensorwise"),
        ({"training.precision_detail": "per-tensor current scaling"}, "tensorwise"),
        ({"training.precision_detail": "FP8 blockwise scaling"}, "blockwise"),
        ({"training.precision_detail": "FP8-SC"}, "blockwise"),
        ({"training.precision_detail": "fp8_subchannel"}, "blockwise"),
        ({"training.precision_detail": "FP8"}, None),  # a column of a table whose others name a recipe
        ({"training.precision_detail": "FP8-CS", "software.raw_flags": ["fp8-recipe=blockwise"]}, "blockwise"),
        ({"software.raw_flags": ["fp8-recipe=custom"]}, None),
        ({"software.framework": "torchtitan"}, None),  # layers of PyTorch's own
        ({"training.precision": "bf16", "training.precision_detail": "FP8-CS"}, None),
        ({"training.precision": "nvfp4"}, None),
    ],
)
def test_the_recipe_of_eight_bits_is_stated_or_the_default_of_the_layers(
    read: Read, changes: dict[str, Any], recipe: str | None
) -> None:
    record = read({**NEMO, "training.precision": "fp8", **changes})
    assert record.workload.training.fp8_recipe == recipe


def test_the_words_of_a_recipe_are_read(read: Read) -> None:
    record = read({**NEMO, "training.precision": "fp8", "training.precision_detail": "FP8-CS"})
    assert not any("precision_detail" in warning for warning in record.warnings)


@pytest.mark.parametrize(
    ("field", "words"), [("precision_detail", "FP8 rowwise"), ("precision_detail", "per-channel"), ("precision", "fp8_rowwise")]
)
def test_words_that_are_not_understood_leave_the_recipe_open_and_are_said(read: Read, field: str, words: str) -> None:
    record = read({**NEMO, "training.precision": "fp8", f"training.{field}": words})
    assert record.workload.training.fp8_recipe is None
    said = f"training.{field}: {words!r} names no known recipe of 8 bits; none is assumed."
    assert said in record.warnings
