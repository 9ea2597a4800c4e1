"""Arguments of ``pretrain_gpt.py`` of Megatron-LM core 0.12 [megatron-0.12, arguments.py]."""

from __future__ import annotations

from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Feature, ParallelStrategy, Recompute, RecomputeModule
from cost_models.shapes.workload import Workload
from frameworks import environment, nearest
from frameworks.flags import (
    Flags,
    LaunchArguments,
    batch_flags,
    degree_flags,
    expert_flags,
    flag,
    full_recompute_flags,
    in_groups,
    model_flags,
    optimizer_flags,
    selective_recompute_flags,
    start_note,
    switches,
)
from frameworks.megatron_lm.release_0_12 import MEGATRON_LM

DISPATCHERS = {
    Dispatcher.NONE: "alltoall",
    Dispatcher.ALLGATHER: "allgather",
    Dispatcher.ALLTOALL: "alltoall",
    Dispatcher.TWO_LEVEL: "flex",  # DeepEP sends a token once to each node, then spreads it inside
}
MODULES = {
    RecomputeModule.CORE_ATTN: "core_attn",
    RecomputeModule.LAYERNORM: "layernorm",
    RecomputeModule.MLP_ACT: "moe_act",
    RecomputeModule.MLA_UP_PROJ: "mla_up_proj",
    RecomputeModule.MLP: "mlp",
    RecomputeModule.MOE: "moe",
}
FLOAT32_ROUTER_EXPERTS = 32  # from here on Megatron warns without --moe-router-dtype fp32


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Arguments, environment and notes of the nearest strategy that core 0.12 takes."""
    model = workload.model
    strategy, replaced = nearest.megatron(workload, planned)
    features = strategy.features
    flags = flag("num-layers", model.num_layers) + model_flags(model) + flag("make-vocab-size-divisible-by", 1)
    flags += batch_flags(workload, strategy) + _precision(workload)
    flags += degree_flags(strategy) + _pipeline(workload, strategy) + _context_parallel(strategy)
    flags += _experts(workload, strategy, features) + _recompute(strategy)
    flags += _optimizer(strategy, features) + _kernels(workload, features)
    notes = replaced + _notes(workload, strategy, planned)
    return LaunchArguments(tuple(in_groups(MEGATRON_LM, flags)), environment.megatron(strategy), notes)


def _precision(workload: Workload) -> Flags:
    return {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp8": ["--bf16", "--fp8-format", "hybrid"]}.get(
        workload.training.precision, []
    )


def _pipeline(workload: Workload, s: ParallelStrategy) -> Flags:
    if s.pp == 1:
        return []
    layout = s.layer_layout or default_layout(workload.model, s.pp, s.vpp, s.schedule)
    ranks = [sum(row[i] for row in layout) for i in range(s.pp)]
    if len(set(ranks)) == 1:
        return flag("num-layers-per-virtual-pipeline-stage", ranks[0] // s.vpp) if s.vpp > 1 else []
    flags = flag("num-virtual-stages-per-pipeline-rank", s.vpp) if s.vpp > 1 else []
    inner = ranks[1] if s.pp > 2 else ranks[-1]
    if ranks[0] != inner:
        flags += flag("decoder-first-pipeline-num-layers", ranks[0])
    if s.pp > 2 and ranks[-1] != inner:
        flags += flag("decoder-last-pipeline-num-layers", ranks[-1])
    return flags


def _context_parallel(s: ParallelStrategy) -> Flags:
    if s.cp == 1:
        return []
    if s.cp_algo == CpAlgo.HYBRID:
        sizes = flag("hierarchical-context-parallel-sizes", s.ulysses_degree, s.cp // s.ulysses_degree)
        return flag("cp-comm-type", "a2a+p2p") + sizes
    return flag("cp-comm-type", "a2a" if s.cp_algo == CpAlgo.ULYSSES else "p2p")


def _experts(workload: Workload, s: ParallelStrategy, features: Feature) -> Flags:
    moe = workload.model.moe
    if moe is None:
        return []
    pattern = "+".join(f"[{int(is_moe)}]*{length}" for is_moe, length in _runs(workload.model.moe_layers()))
    flags = expert_flags(workload) + flag("moe-layer-freq", f"({pattern})")
    flags += flag("expert-model-parallel-size", s.ep) + flag("expert-tensor-parallel-size", s.etp)
    dispatched = s.ep * s.etp > 1
    flags += flag("moe-token-dispatcher-type", DISPATCHERS[s.dispatcher] if dispatched else "alltoall")
    if s.dispatcher == Dispatcher.TWO_LEVEL and dispatched:
        flags += ["--moe-enable-deepep"]
    if moe.top_k == 1:
        flags += ["--moe-router-pre-softmax"]  # core 0.12 refuses softmax over a single expert otherwise
    if moe.num_experts >= FLOAT32_ROUTER_EXPERTS or s.dispatcher == Dispatcher.TWO_LEVEL:
        flags += flag("moe-router-dtype", "fp32")
    return flags + switches(
        features,
        {
            Feature.MOE_GROUPED_GEMM: "moe-grouped-gemm",
            Feature.MOE_PERMUTE_FUSION: "moe-permute-fusion",
            Feature.MOE_SHARED_EXPERT_OVERLAP: "moe-shared-expert-overlap",
            Feature.MOE_PAD_TO_CAPACITY: "moe-pad-expert-input-to-capacity",
        },
    )


def _runs(layers: tuple[bool, ...]) -> list[tuple[bool, int]]:
    runs: list[tuple[bool, int]] = []
    for is_moe in layers:
        if runs and runs[-1][0] == is_moe:
            runs[-1] = (is_moe, runs[-1][1] + 1)
        else:
            runs.append((is_moe, 1))
    return runs


def _recompute(s: ParallelStrategy) -> Flags:
    if s.recompute != Recompute.SELECTIVE:
        return full_recompute_flags(s)
    return selective_recompute_flags(s.recompute_modules, MODULES)


def _optimizer(s: ParallelStrategy, features: Feature) -> Flags:
    flags = optimizer_flags(s, features)
    if s.zero_stage >= 2:
        strategy = "optim_grads_params" if s.zero_stage == 3 else "optim_grads"
        flags += ["--use-custom-fsdp", *flag("data-parallel-sharding-strategy", strategy), "--no-gradient-accumulation-fusion"]
    elif s.zero_stage == 1 and 0 < s.optimizer_shard_size < s.dp * s.cp:
        flags += flag("num-distributed-optimizer-instances", s.dp * s.cp // s.optimizer_shard_size)
    return flags


def _kernels(workload: Workload, features: Feature) -> Flags:
    flags = flag("transformer-impl", "transformer_engine")
    flags += flag("attention-backend", "auto" if Feature.FLASH_ATTENTION in features else "unfused")
    if workload.model.gated_linear_unit and Feature.FUSED_SWIGLU not in features:
        flags += ["--no-bias-swiglu-fusion"]
    if workload.model.mla is not None or (not workload.model.learned_positions and Feature.FUSED_ROPE not in features):
        flags += ["--no-rope-fusion"]  # core 0.12 refuses the fused kernel with MLA
    if Feature.CUDA_GRAPH in features:
        flags += ["--enable-cuda-graph", "--te-rng-tracker"]
    return flags + switches(features, {Feature.TP_COMM_OVERLAP: "tp-comm-overlap"})


def _notes(workload: Workload, s: ParallelStrategy, planned: ParallelStrategy) -> tuple[str, ...]:
    notes = [start_note(workload)]
    model = workload.model
    if RecomputeModule.MLP_ACT in s.recompute_modules and model.moe is not None:
        dense = sum(not is_moe for is_moe in model.moe_layers())
        if dense or model.moe.num_shared_experts:
            notes.append(
                f"moe_act recomputes the activation of routed experts; {dense} dense layers and {model.moe.num_shared_experts} "
                "shared experts keep theirs, which takes slightly more memory than the plan states."
            )
    if model.mla is not None and Feature.FUSED_ROPE in planned.features:
        notes.append("Core 0.12 has no fused rotary embedding for MLA, so --no-rope-fusion is set.")
    if Feature.FUSED_NORM not in planned.features:
        notes.append("Transformer Engine always fuses the norms.")
    if s.zero_stage >= 2 and s.tp * s.cp > 1:
        notes.append(
            "Before Blackwell, tensor and context parallelism want CUDA_DEVICE_MAX_CONNECTIONS=1, which fully sharded data "
            "parallelism refuses; it is left unset."
        )
    return tuple(notes)
