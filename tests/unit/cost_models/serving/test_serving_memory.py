"""What an instance holds."""

import math
from dataclasses import replace

import pytest

from cost_models.serving.engine import ServingLayout
from cost_models.serving.memory import (
    kv_bytes_per_request,
    kv_bytes_per_token,
    kv_capacity_tokens,
    serving_memory,
    weight_bytes,
)
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.workload import LocalAttention
from tests.serving import served, served_preset
from tests.workloads import DENSE, GROUPED, SPARSE


def test_one_device_holds_the_whole_model() -> None:
    counted = num_parameters(SPARSE)
    final_norm = SPARSE.hidden_size
    assert weight_bytes(served(SPARSE), ServingLayout()) == 2 * (counted.total - final_norm)


def test_weights_divide_over_degrees() -> None:
    whole = weight_bytes(served(), ServingLayout())
    norms = 8 * 2 * 1024 * 2
    assert weight_bytes(served(), ServingLayout(tp=4)) == pytest.approx((whole - norms) / 4 + norms)
    spread = weight_bytes(served(SPARSE), ServingLayout(dp=8, ep=8))
    assert weight_bytes(served(SPARSE), ServingLayout()) - spread == 6 * 14 * 3 * 1024 * 512 * 2
    assert weight_bytes(served(SPARSE), ServingLayout(dp=8, ep=8, redundant_experts=8)) - spread == 6 * 3 * 1024 * 512 * 2


def test_keys_and_values_of_a_token() -> None:
    assert kv_bytes_per_token(served(), ServingLayout()) == 8 * 2 * 1024 * 2
    assert kv_bytes_per_token(served(GROUPED), ServingLayout(tp=8)) == 8 * 2 * 128 * 2
    assert kv_bytes_per_token(served(cache_precision="fp8"), ServingLayout(pp=2)) == 4 * 2 * 1024
    deepseek = served_preset("deepseek-v3", "h800-sxm-80gb", 8)
    assert kv_bytes_per_token(deepseek, ServingLayout(tp=8)) == 61 * 576 * 2


def test_capacity_is_what_is_left_over_what_a_token_takes() -> None:
    workload = served()
    memory = serving_memory(workload, ServingLayout(), utilisation=0.5)
    assert memory.limit_bytes == 0.5 * (60e9 - 1e9)
    assert memory.communicator_bytes == 0.0
    tokens = kv_capacity_tokens(workload, ServingLayout(), utilisation=0.5)
    assert tokens == math.floor(memory.cache_bytes / (8 * 2 * 1024 * 2))
    sparse = served(SPARSE)
    one, eight = (kv_capacity_tokens(sparse, ServingLayout(dp=dp, ep=dp)) for dp in (1, 8))
    # Experts that are spread leave room, a communicator for them and one for all takes some.
    spared = 6 * 14 * 3 * 1024 * 512 * 2 - 2 * 4e8
    assert eight == pytest.approx(8 * (one + spared / (8 * 2 * 1024 * 2)), abs=16)


def test_a_model_that_does_not_fit_holds_no_token() -> None:
    large = replace(DENSE, num_layers=10_000)
    assert serving_memory(served(large), ServingLayout()).cache_bytes < 0.0
    assert kv_capacity_tokens(served(large), ServingLayout()) == 0.0


def test_windows_are_kept_a_request_and_recurrences_whatever_its_length() -> None:
    window = replace(DENSE, local_attention=LocalAttention("window", full_attention_every=4, window=128))
    assert kv_bytes_per_token(served(window), ServingLayout()) == 2 * 2 * 1024 * 2
    assert kv_bytes_per_request(served(window), ServingLayout()) == 6 * 128 * 2 * 1024 * 2
    recurrent = replace(
        DENSE, local_attention=LocalAttention("linear", num_key_heads=8, num_value_heads=8, key_head_dim=16, value_head_dim=16)
    )
    assert kv_capacity_tokens(served(recurrent), ServingLayout()) == math.inf
    assert kv_bytes_per_request(served(recurrent), ServingLayout(tp=2)) == 8 * 8 * 256 * 4 / 2
    # A stage keeps what its own layers keep; of 8 layers on 3 stages the fullest has 3.
    for pp, layers in ((2, 4), (3, 3), (4, 2)):
        assert kv_bytes_per_request(served(recurrent), ServingLayout(pp=pp)) == pytest.approx(layers * 8 * 256 * 4)
        assert kv_bytes_per_request(served(window), ServingLayout(pp=pp)) == pytest.approx(layers * 6 / 8 * 128 * 2 * 1024 * 2)
        assert kv_bytes_per_token(served(window), ServingLayout(pp=pp)) == pytest.approx(layers * 2 / 8 * 2 * 1024 * 2)
    assert kv_bytes_per_request(served(), ServingLayout()) == 0.0
