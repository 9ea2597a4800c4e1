"""Arguments that Megatron-LM and MindSpeed-LLM share, by name; a bare argument has the value ``()``.

Names are those of core 0.12 [megatron-0.12, arguments.py]. What a strategy leaves open (data, tokenizer, learning rate,
checkpoints, the router's loss) is left to the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload
from frameworks.release import Release
from frameworks.table import Table, settled

BARE: tuple[str, ...] = ()
Arguments = dict[str, Any]


def where(condition: object, *names: str) -> Arguments:
    """Bare arguments, if a condition holds."""
    return dict.fromkeys(names, BARE) if condition else {}


def tokens(release: Release, arguments: Mapping[str, Any], features: Feature) -> tuple[str, ...]:
    """The arguments as a shell passes them, in the order of the release's groups: a launch file has one block for each."""
    final = settled(release, arguments, features, _words)
    order = list(release.groups)
    names = sorted(final, key=lambda name: order.index(release.group_of(name) or ""))
    return tuple(token for name in names for token in (f"--{name}", *_words(final[name])))


def _words(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def model_arguments(model: ModelShape) -> Arguments:
    """Width, heads, norms and embeddings; the number of layers is the framework's matter."""
    arguments: Arguments = {
        "hidden-size": model.hidden_size,
        "ffn-hidden-size": model.ffn_hidden_size,
        "num-attention-heads": model.num_attention_heads,
    }
    if model.mla is None:
        if model.num_query_groups != model.num_attention_heads:
            arguments |= {"group-query-attention": BARE, "num-query-groups": model.num_query_groups}
        arguments["kv-channels"] = model.kv_channels
    arguments |= {
        "position-embedding-type": "learned_absolute" if model.learned_positions else "rope",
        "normalization": "RMSNorm" if model.gated_linear_unit else "LayerNorm",
        **where(model.gated_linear_unit, "swiglu"),
        **where(model.gated_linear_unit or model.moe is not None, "disable-bias-linear"),
        **where(model.gated_linear_unit and model.attention_bias, "add-qkv-bias"),
        **where(not model.tied_embeddings, "untie-embeddings-and-output-weights"),
        **where(model.qk_layernorm or model.mla is not None, "qk-layernorm"),
    }
    if model.mtp_num_layers:
        arguments["mtp-num-layers"] = model.mtp_num_layers
    return arguments | _mla(model) | {"attention-dropout": "0.0", "hidden-dropout": "0.0"}


def _mla(model: ModelShape) -> Arguments:
    mla = model.mla
    if mla is None:
        return {}
    return {
        "multi-latent-attention": BARE,
        **({"q-lora-rank": mla.q_lora_rank} if mla.q_lora_rank else {}),
        "kv-lora-rank": mla.kv_lora_rank,
        "qk-head-dim": mla.qk_nope_head_dim,
        "qk-pos-emb-head-dim": mla.qk_rope_head_dim,
        "v-head-dim": mla.v_head_dim,
    }


def batch_arguments(workload: Workload, strategy: ParallelStrategy) -> Arguments:
    """Lengths and batch sizes."""
    training = workload.training
    return {
        "seq-length": training.seq_length,
        "max-position-embeddings": training.seq_length,
        "micro-batch-size": strategy.micro_batch_size,
        "global-batch-size": training.global_batch_size,
    }


def degree_arguments(table: Table, s: ParallelStrategy) -> Arguments:
    """Tensor, sequence, pipeline and context parallelism; how layers and cp are split is the framework's matter."""
    names = table.columns
    arguments: Arguments = {names["tp"]: s.tp, **where(s.sequence_parallel, names["sequence_parallel"]), names["pp"]: s.pp}
    arguments |= table.arguments_of(Feature.OVERLAP_P2P)
    if s.schedule is Schedule.INTERLEAVED and s.microbatch_group_size_per_vp_stage:
        arguments[names["microbatch_group_size_per_vp_stage"]] = s.microbatch_group_size_per_vp_stage
    return arguments | {names["cp"]: s.cp}


def expert_arguments(workload: Workload) -> Arguments:
    """Shape of the experts and of the routing."""
    moe = workload.model.moe
    if moe is None:
        return {}
    arguments: Arguments = {
        "num-experts": moe.num_experts,
        "moe-router-topk": moe.top_k,
        "moe-ffn-hidden-size": moe.expert_ffn_hidden_size,
    }
    if moe.shared_expert_ffn_hidden_size:
        arguments["moe-shared-expert-intermediate-size"] = moe.shared_expert_ffn_hidden_size
    if moe.num_groups > 1:
        arguments |= {"moe-router-num-groups": moe.num_groups, "moe-router-group-topk": moe.group_topk}
    if moe.capacity_factor is not None:
        arguments["moe-expert-capacity-factor"] = moe.capacity_factor
    return arguments


def full_recompute(s: ParallelStrategy) -> Arguments:
    """Full recompute; Megatron counts the layers of each virtual stage, as strategies do."""
    if s.recompute is not Recompute.FULL or s.recompute_method is RecomputeMethod.NONE:
        return {}
    return {
        "recompute-granularity": "full",
        "recompute-method": s.recompute_method.label,
        "recompute-num-layers": s.recompute_num_layers,
    }


def selective_recompute(table: Table, modules: RecomputeModule) -> Arguments:
    """Selective recompute of those modules that have a name in the table."""
    wanted = tuple(name for module, name in table.modules.items() if module in modules)
    return {"recompute-granularity": "selective", "recompute-modules": wanted} if wanted else {}
