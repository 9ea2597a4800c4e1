"""What holds for every layout of a serving instance, above all over pipeline stages."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import kv_bytes_per_request, kv_bytes_per_token, weight_bytes
from cost_models.serving.service import RequestShape, prefill_rate
from cost_models.serving.steps import decode_step, prefill
from cost_models.shapes.workload import LocalAttention
from tests.serving import served
from tests.workloads import DENSE, GROUPED, LATENT, SPARSE

WINDOW = replace(GROUPED, local_attention=LocalAttention("window", full_attention_every=4, window=128))
RECURRENT = replace(
    SPARSE,
    local_attention=LocalAttention("linear", num_key_heads=8, num_value_heads=8, key_head_dim=16, value_head_dim=16),
)
workloads = st.builds(
    lambda model, num_layers, tied, cache: served(
        replace(model, num_layers=num_layers, tied_embeddings=tied), cache_precision=cache
    ),
    st.sampled_from((DENSE, GROUPED, SPARSE, LATENT, WINDOW, RECURRENT)),
    st.integers(4, 12),
    st.booleans(),
    st.sampled_from(("bf16", "fp8")),
)
stages = st.integers(1, 6)


@st.composite
def layouts(draw: st.DrawFn, pp: int = 1) -> ServingLayout:
    tp, dp = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    return ServingLayout(tp=tp, pp=pp, dp=dp, ep=draw(st.sampled_from((1, tp * dp))))


def share(workload: ServingWorkload, pp: int) -> float:
    """Layers of the fullest stage, of all."""
    return math.ceil(workload.model.num_layers / pp) / workload.model.num_layers


@settings(max_examples=60)
@given(workloads, layouts(), stages)
def test_a_stage_caches_what_its_own_layers_keep(workload: ServingWorkload, whole: ServingLayout, pp: int) -> None:
    staged = replace(whole, pp=pp)
    for cached in (kv_bytes_per_token, kv_bytes_per_request):
        assert cached(workload, staged) == pytest.approx(share(workload, pp) * cached(workload, whole))


@settings(max_examples=60)
@given(workloads, layouts(), stages)
def test_stages_hold_the_weights_of_their_layers_and_one_end(workload: ServingWorkload, whole: ServingLayout, pp: int) -> None:
    table = workload.model.vocab_size * workload.model.hidden_size * 2 / whole.tp
    layers = weight_bytes(workload, whole) - table * (1 if workload.model.tied_embeddings else 2)
    if pp > 1:
        assert weight_bytes(workload, replace(whole, pp=pp)) == pytest.approx(share(workload, pp) * layers + table)


@settings(max_examples=40)
@given(workloads, layouts(), st.integers(2, 6), st.integers(1, 64), st.integers(1, 4096))
def test_stages_decode_as_many_times_the_requests_in_the_same_time_but_for_hops(
    workload: ServingWorkload, whole: ServingLayout, pp: int, requests: int, context: int
) -> None:
    one = decode_step(workload, whole, requests, context)
    several = decode_step(workload, replace(whole, pp=pp), requests * pp, context)
    for name, value in one.parts_s.items():
        if name != "pipeline":
            assert float(several.parts_s[name]) == pytest.approx(float(value)), name
    assert float(several.parts_s["pipeline"]) > 0.0 == float(one.parts_s["pipeline"])


@settings(max_examples=40)
@given(workloads, layouts(), st.integers(2, 6), st.integers(16, 4096))
def test_stages_prefill_other_prompts_meanwhile(workload: ServingWorkload, whole: ServingLayout, pp: int, tokens: int) -> None:
    shape = RequestShape(prompt_tokens=tokens, response_tokens=10)
    staged = replace(whole, pp=pp)
    one, several = prefill_rate(workload, whole, shape), prefill_rate(workload, staged, shape)
    assert several.prompts_per_pass == one.prompts_per_pass
    hops_s = float(prefill(workload, staged, one.prompts_per_pass, tokens).parts_s["pipeline"])
    assert several.pass_s == pytest.approx(one.pass_s + hops_s)
    assert several.prompts_per_s == pytest.approx(pp * several.prompts_per_pass / several.pass_s)
