"""Rotary positions in the older and the newer form of a config.json."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.catalogue.models.huggingface.reading import ImportedModel, model_from_config
from cost_models.shapes.model_constants import ModelConstants, RopeScaling
from documents.errors import InputError

FIXTURES = Path(__file__).parents[5] / "fixtures" / "huggingface"


def imported(name: str, **changes: object) -> ImportedModel:
    config: dict[str, Any] = {**json.loads((FIXTURES / f"{name}.json").read_text()), **changes}
    return model_from_config({key: value for key, value in config.items() if value is not ...})


def constants(name: str, **changes: object) -> ModelConstants:
    return imported(name, **changes).model.constants


@pytest.mark.parametrize("name", ["qwen3-8b", "llama-3.1-70b", "deepseek-v3", "gpt-oss-20b", "glm-4.5", "qwen3-next-80b-a3b"])
def test_both_forms_say_the_same(name: str) -> None:
    config = json.loads((FIXTURES / f"{name}.json").read_text())
    old = {key: config[key] for key in ("rope_theta", "partial_rotary_factor") if key in config}
    scaling = dict(config.get("rope_scaling") or {"rope_type": "default"})
    scaling["rope_type"] = scaling.pop("type", scaling.get("rope_type"))
    newer = constants(name, rope_theta=..., rope_scaling=..., partial_rotary_factor=..., rope_parameters={**old, **scaling})
    assert newer == constants(name)


def test_layers_with_a_window_have_their_own_base_in_the_newer_form() -> None:
    parameters = {
        "full_attention": {"rope_theta": 2e6, "rope_type": "linear", "factor": 4.0},
        "sliding_attention": {"rope_theta": 3e4, "rope_type": "default"},
    }
    found = constants("gemma-3-1b", rope_theta=..., rope_scaling=..., rope_local_base_freq=..., rope_parameters=parameters)
    assert (found.rotary_base, found.local_rotary_base) == (2e6, 3e4)
    assert found.rope_scaling == RopeScaling("linear", 4.0)
    parameters["sliding_attention"] = {"rope_theta": 3e4, "rope_type": "linear", "factor": 2.0}
    with pytest.raises(InputError, match=r"rope_parameters\.sliding_attention\.rope_type: 'linear' is not allowed"):
        constants("gemma-3-1b", rope_theta=..., rope_scaling=..., rope_parameters=parameters)


@pytest.mark.parametrize(
    ("name", "base"),
    [("llama-2-7b", 1e4), ("mixtral-8x7b", 1e6), ("gemma-3-1b", 1e6), ("gpt-oss-20b", 1.5e5), ("minimax-m2", 5e6)],
)
def test_a_file_without_a_base_has_its_librarys(name: str, base: float) -> None:
    assert constants(name, rope_theta=...).rotary_base == base


def test_gpt_oss_without_scaling_has_its_librarys() -> None:
    assert constants("gpt-oss-20b", rope_scaling=...) == constants("gpt-oss-20b")


def test_yarn_has_the_librarys_betas_where_it_names_none() -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    assert constants("qwen3-8b", rope_scaling=scaling).rope_scaling == RopeScaling(
        "yarn", 4.0, 32_768, beta_fast=32.0, beta_slow=1.0
    )


def test_an_attention_factor_must_be_the_librarys_own() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    own = 0.1 * math.log(4.0) + 1.0
    assert constants("qwen3-8b", rope_scaling={**scaling, "attention_factor": own}) == constants("qwen3-8b", rope_scaling=scaling)
    with pytest.raises(InputError, match=r"rope_scaling\.attention_factor: 2\.0 is not allowed; give 1\.13863, or leave it out"):
        constants("qwen3-8b", rope_scaling={**scaling, "attention_factor": 2.0})


def test_dynamic_scaling_is_named() -> None:
    found = imported("qwen3-8b", rope_scaling={"type": "dynamic", "factor": 2.0})
    assert found.model.constants.rope_scaling is None
    assert found.notes == (
        "rope_scaling: dynamic stretches only sequences above max_position_embeddings (40960); it is in no launch file.",
    )


def test_hunyuans_alpha_is_a_larger_base() -> None:
    found = constants("hunyuan-7b")
    assert found.rotary_base == pytest.approx(1e4 * 1000 ** (128 / 126))
    assert found.rope_scaling is None
    plain = constants("hunyuan-7b", rope_scaling=None)
    assert plain == dataclasses.replace(found, rotary_base=1e4)
    with pytest.raises(InputError, match=r"rope_scaling\.factor: 2\.0 is not allowed; give 1\.0 beside alpha"):
        constants("hunyuan-7b", rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 2.0})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "rope_scaling.rope_type: 'longrope' is not supported; supported"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling.factor: missing; give a number above 0."),
        ({"rope_scaling": {"type": "llama3", "factor": 8.0}}, "rope_scaling.low_freq_factor: missing; give a number above 0."),
        ({"rope_scaling": 8}, "rope_scaling: 8 is not allowed; give a mapping with rope_type"),
        ({"rope_parameters": {"rope_theta": 5}}, "rope_parameters.rope_theta: 5.0 is not allowed; rope_theta says 1000000.0."),
        ({"rope_theta": 0}, "rope_theta: 0 is not allowed; give a number above 0"),
        ({"rms_norm_eps": 2}, "rms_norm_eps: 2 is not allowed; give a number above 0 and at most 1."),
        ({"hidden_act": "xielu"}, "hidden_act: 'xielu' is not allowed (did you mean 'silu'?)"),
    ],
)
def test_bad_values_get_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        constants("qwen3-8b", **changes)
    assert str(caught.value).startswith(f"config.json: {sentence}")
    assert "\n" not in str(caught.value)
