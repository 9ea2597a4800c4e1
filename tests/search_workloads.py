"""Small workloads that the tests of the search share."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from cost_models.constants import Constants
from cost_models.shapes.workload import Cluster, LocalAttention, MlaShape, ModelShape, MoeShape, Software, TrainingJob, Workload
from hardware_profiles.catalogue import profile
from search.objectives.table import OBJECTIVES
from search.session.request import SearchOptions, SearchRequest
from search.space.search_space import SearchSpace

DENSE = ModelShape(
    name="small-dense",
    num_layers=12,
    hidden_size=2048,
    num_attention_heads=16,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=6144,
    vocab_size=32000,
)
MOE = replace(
    DENSE,
    name="small-moe",
    num_query_groups=16,
    mla=MlaShape(q_lora_rank=512, kv_lora_rank=256, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
    moe=MoeShape(
        num_experts=32,
        top_k=4,
        expert_ffn_hidden_size=4096,
        num_shared_experts=1,
        shared_expert_ffn_hidden_size=4096,
        num_leading_dense_layers=1,
    ),
)

WINDOWED = replace(
    DENSE,
    name="small-windowed",
    tied_embeddings=True,
    sandwich_norm=True,
    local_attention=LocalAttention("window", full_attention_every=6, window=1024),
)
RECURRENT = replace(
    DENSE,
    name="small-recurrent",
    num_query_groups=2,
    attention_output_gate=True,
    moe=MoeShape(num_experts=32, top_k=4, expert_ffn_hidden_size=512, num_shared_experts=1, shared_expert_ffn_hidden_size=512),
    local_attention=LocalAttention(
        "linear", full_attention_every=4, num_key_heads=8, num_value_heads=16, key_head_dim=128, value_head_dim=128, conv_kernel=4
    ),
)


def workload(
    model: ModelShape = DENSE,
    *,
    hardware: str = "atlas-800t-a2",
    num_devices: int = 16,
    seq_length: int = 4096,
    global_batch_size: int = 64,
    target: str = "any",
) -> Workload:
    """A training job of a small model on a named product."""
    return Workload(
        model=model,
        training=TrainingJob(seq_length=seq_length, global_batch_size=global_batch_size),
        cluster=Cluster(profile(hardware), num_devices),
        software=Software("mindspeed-llm", target=target),
    )


def request(
    job: Workload, space: SearchSpace, constants: Constants, objective: str = "step_time", **fields: Any
) -> SearchRequest:
    """A request by the name of its objective; options of a search are given beside its other fields."""
    names = [each.name for each in dataclasses.fields(SearchOptions) if each.name in fields]
    options = SearchOptions(**{name: fields.pop(name) for name in names})
    given = {name: value for name, value in fields.items() if value is not None}
    return SearchRequest(job, space, constants, objective=OBJECTIVES[objective], options=options, **given)
