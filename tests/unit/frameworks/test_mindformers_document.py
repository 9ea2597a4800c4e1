"""YAML documents of MindFormers as options."""

from __future__ import annotations

from typing import Any

import pytest

from frameworks.document import MAX_DEPTH, MAX_OPTIONS, options_from_document
from frameworks.framework import ReadingError
from frameworks.mindformers.table import RELEASE


def test_sections_become_paths_and_values_json() -> None:
    document = {
        "use_legacy": False,
        "parallel_config": {"data_parallel": 4, "model_parallel": 2},
        "model": {"model_config": {"architectures": ["Qwen3ForCausalLM"], "rms_norm_eps": 1e-6, "q_lora_rank": None}},
        "callbacks": [{"type": "MFLossMonitor"}],
    }
    assert options_from_document(RELEASE, document) == [
        "use_legacy=false",
        "parallel_config.data_parallel=4",
        "parallel_config.model_parallel=2",
        'model.model_config.architectures=["Qwen3ForCausalLM"]',
        "model.model_config.rms_norm_eps=1e-06",
        "model.model_config.q_lora_rank=null",
        'callbacks=[{"type": "MFLossMonitor"}]',
    ]


def test_patterns_of_recompute_are_one_value() -> None:
    document = {"recompute_config": {"recompute": True, "select_recompute": {r"mlp\.mul": True}}}
    assert options_from_document(RELEASE, document) == [
        "recompute_config.recompute=true",
        'recompute_config.select_recompute={"mlp\\\\.mul": true}',
    ]


def nested(levels: int) -> dict[str, Any]:
    return {"a": nested(levels - 1)} if levels else {"b": 1}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({1: 2}, ("'1' is no key",)),
        ({"a": {"b=c": 1}}, ("'a.b=c' is no key",)),
        ({"a": {"": 1}}, ("is no key",)),
        (nested(MAX_DEPTH), ("deeper than 10 levels",)),
        ({str(number): number for number in range(MAX_OPTIONS + 1)}, ("more than 5000 values",)),
        ({"a": "x" * 30_000}, ("a is 30002 characters long",)),
        ({"a": [{(1, 2): 3}]}, ("a has a value that no option can hold",)),
    ],
)
def test_a_document_that_no_options_mean_is_refused_with_the_path(document: dict[Any, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ReadingError) as refused:
        options_from_document(RELEASE, document)
    assert all(word in str(refused.value) for word in words)
