"""Launch arguments of one framework, and the flags that Megatron-LM and MindSpeed-LLM share.

Names are those of core 0.12 [megatron-0.12, arguments.py]. What a strategy leaves open (data, tokenizer, learning rate,
checkpoints, the router's loss) is left to the user.
"""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.shapes.strategy import Feature, ParallelStrategy, Recompute, RecomputeMethod, RecomputeModule, Schedule
from cost_models.shapes.workload import ModelShape, Workload
from frameworks.release import Release


@dataclass(frozen=True)
class LaunchArguments:
    """``arguments`` as a shell would pass them, ``environment`` variables, and one sentence a note."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    notes: tuple[str, ...]


Flags = list[str]


def flag(name: str, *values: object) -> Flags:
    """One flag with its values."""
    return [f"--{name}", *map(str, values)]


def in_groups(release: Release, flags: Flags) -> Flags:
    """The flags in the order of the release's groups, so that a launch file has one block for each."""
    written: list[Flags] = []
    for argument in flags:
        if argument.startswith("--"):
            written.append([])
        written[-1].append(argument)
    order = list(release.groups)
    return [a for one in sorted(written, key=lambda f: order.index(release.group_of(f[0].removeprefix("--")) or "")) for a in one]


def switches(given: Feature, names: dict[Feature, str]) -> Flags:
    """The flags of the features that are on, in the order of ``names``."""
    return [f"--{name}" for feature, name in names.items() if feature in given]


def model_flags(model: ModelShape) -> Flags:
    """Width, heads, norms and embeddings; the number of layers is the framework's matter."""
    flags = flag("hidden-size", model.hidden_size) + flag("ffn-hidden-size", model.ffn_hidden_size)
    flags += flag("num-attention-heads", model.num_attention_heads)
    if model.mla is None:
        if model.num_query_groups != model.num_attention_heads:
            flags += ["--group-query-attention", *flag("num-query-groups", model.num_query_groups)]
        flags += flag("kv-channels", model.kv_channels)
    flags += flag("position-embedding-type", "learned_absolute" if model.learned_positions else "rope")
    flags += flag("normalization", "RMSNorm" if model.gated_linear_unit else "LayerNorm")
    if model.gated_linear_unit:
        flags += ["--swiglu", "--disable-bias-linear"]
        if model.attention_bias:
            flags += ["--add-qkv-bias"]
    elif model.moe is not None:
        flags += ["--disable-bias-linear"]
    if not model.tied_embeddings:
        flags += ["--untie-embeddings-and-output-weights"]
    if model.qk_layernorm or model.mla is not None:
        flags += ["--qk-layernorm"]
    if model.mtp_num_layers:
        flags += flag("mtp-num-layers", model.mtp_num_layers)
    return flags + mla_flags(model) + flag("attention-dropout", "0.0") + flag("hidden-dropout", "0.0")


def mla_flags(model: ModelShape) -> Flags:
    """Multi-head latent attention."""
    mla = model.mla
    if mla is None:
        return []
    flags = ["--multi-latent-attention"]
    if mla.q_lora_rank:
        flags += flag("q-lora-rank", mla.q_lora_rank)
    return (
        flags
        + flag("kv-lora-rank", mla.kv_lora_rank)
        + flag("qk-head-dim", mla.qk_nope_head_dim)
        + flag("qk-pos-emb-head-dim", mla.qk_rope_head_dim)
        + flag("v-head-dim", mla.v_head_dim)
    )


def batch_flags(workload: Workload, strategy: ParallelStrategy) -> Flags:
    """Lengths and batch sizes."""
    training = workload.training
    return (
        flag("seq-length", training.seq_length)
        + flag("max-position-embeddings", training.seq_length)
        + flag("micro-batch-size", strategy.micro_batch_size)
        + flag("global-batch-size", training.global_batch_size)
    )


def degree_flags(strategy: ParallelStrategy) -> Flags:
    """Tensor, sequence, pipeline and context parallelism; how layers and cp are split is the framework's matter."""
    flags = flag("tensor-model-parallel-size", strategy.tp)
    if strategy.sequence_parallel:
        flags += ["--sequence-parallel"]
    flags += flag("pipeline-model-parallel-size", strategy.pp)
    if strategy.schedule is Schedule.INTERLEAVED:
        if Feature.OVERLAP_P2P not in strategy.features:
            flags += ["--no-overlap-p2p-communication"]
        if strategy.microbatch_group_size_per_vp_stage:
            flags += flag("microbatch-group-size-per-virtual-pipeline-stage", strategy.microbatch_group_size_per_vp_stage)
    return flags + flag("context-parallel-size", strategy.cp)


def expert_flags(workload: Workload) -> Flags:
    """Shape of the experts and of the routing."""
    moe = workload.model.moe
    if moe is None:
        return []
    flags = flag("num-experts", moe.num_experts) + flag("moe-router-topk", moe.top_k)
    flags += flag("moe-ffn-hidden-size", moe.expert_ffn_hidden_size)
    if moe.shared_expert_ffn_hidden_size:
        flags += flag("moe-shared-expert-intermediate-size", moe.shared_expert_ffn_hidden_size)
    if moe.num_groups > 1:
        flags += flag("moe-router-num-groups", moe.num_groups) + flag("moe-router-group-topk", moe.group_topk)
    if moe.capacity_factor is not None:
        flags += flag("moe-expert-capacity-factor", moe.capacity_factor)
    return flags


def full_recompute_flags(strategy: ParallelStrategy) -> Flags:
    """Full recompute; Megatron counts the layers of each virtual stage, as strategies do."""
    if strategy.recompute != Recompute.FULL or strategy.recompute_method == RecomputeMethod.NONE:
        return []
    if strategy.recompute_layers_per_stage is not None:
        return []
    return (
        flag("recompute-granularity", "full")
        + flag("recompute-method", strategy.recompute_method.label)
        + flag("recompute-num-layers", strategy.recompute_num_layers)
    )


def selective_recompute_flags(modules: RecomputeModule, names: dict[RecomputeModule, str]) -> Flags:
    """Selective recompute of those modules that ``names`` has."""
    wanted = [name for module, name in names.items() if module in modules]
    return flag("recompute-granularity", "selective") + flag("recompute-modules", *wanted) if wanted else []


def optimizer_flags(strategy: ParallelStrategy, features: Feature) -> Flags:
    """Distributed optimizer and the overlap of its collectives."""
    flags = ["--use-distributed-optimizer"] if strategy.zero_stage else []
    flags += switches(features, {Feature.OVERLAP_GRAD_REDUCE: "overlap-grad-reduce"})
    if strategy.zero_stage and Feature.OVERLAP_GRAD_REDUCE in features:
        flags += switches(features, {Feature.OVERLAP_PARAM_GATHER: "overlap-param-gather"})
    return flags + switches(features, {Feature.GRAD_REDUCE_IN_BF16: "grad-reduce-in-bf16"})


def has_replicas(workload: Workload, strategy: ParallelStrategy) -> bool:
    """Whether any parameters sit on several ranks, so that gradients are reduced at all."""
    ranks = strategy.tp * strategy.cp * strategy.dp
    return strategy.dp * strategy.cp > 1 or (workload.model.moe is not None and ranks > strategy.ep * strategy.etp)


def start_note(workload: Workload) -> str:
    """How many processes the launcher starts."""
    per_node = workload.cluster.profile.devices_per_node
    nodes = -(-workload.cluster.num_devices // per_node)
    return (
        f"Start {min(per_node, workload.cluster.num_devices)} processes on each of {nodes} nodes (torchrun --nnodes and "
        "--nproc-per-node); data, tokenizer, learning rate, checkpoints and the router's loss are left to you."
    )
