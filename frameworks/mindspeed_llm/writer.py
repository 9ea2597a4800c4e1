"""Arguments of ``pretrain_gpt.py`` of MindSpeed-LLM on MindSpeed.

Sources: [mindspeed-llm, features_manager; mindspeed, features_manager].
"""

from __future__ import annotations

from cost_models.shapes.strategy import CpAlgo, Dispatcher, Feature, ParallelStrategy, Recompute, RecomputeModule, Schedule
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
from frameworks.mindspeed_llm.release import MINDSPEED_LLM
from frameworks.mindspeed_llm.rules import first_moe_position, noop_positions
from frameworks.rule import layout_of

CP_ALGOS = {CpAlgo.RING: "megatron_cp_algo", CpAlgo.ULYSSES: "ulysses_cp_algo", CpAlgo.HYBRID: "hybrid_cp_algo"}
MODULES = {
    RecomputeModule.CORE_ATTN: "core_attn",
    RecomputeModule.MLP: "mlp",
    RecomputeModule.MOE: "moe",
}
MODULE_SWITCHES = {
    RecomputeModule.LAYERNORM: "recompute-norm",
    RecomputeModule.MLP_ACT: "recompute-activation-function",
    RecomputeModule.MLA_UP_PROJ: "recompute-mla-up-proj",
}
COC_PARALLEL_NUM = 2


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Arguments, environment and notes of the nearest strategy that MindSpeed-LLM takes."""
    strategy, replaced = nearest.mindspeed(workload, planned)
    features = strategy.features
    flags = ["--use-mcore-models", *_layers(workload, strategy), *model_flags(workload.model), *_vocabulary(workload, strategy)]
    if workload.model.sandwich_norm:
        flags += ["--post-norm"]
    if workload.model.mla is not None:
        flags += flag("spec", "mindspeed_llm.tasks.models.spec.deepseek_spec", "layer_spec")
    flags += batch_flags(workload, strategy)
    flags += {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp8": ["--bf16"], "nvfp4": ["--bf16"]}.get(workload.training.precision, [])
    flags += degree_flags(strategy) + _context_parallel(strategy, features)
    flags += _experts(workload, strategy, features) + _recompute(strategy)
    flags += optimizer_flags(strategy, features) + _memory(features) + _kernels(workload, strategy, features)
    notes = replaced + _notes(workload, strategy, planned)
    return LaunchArguments(tuple(in_groups(MINDSPEED_LLM, flags)), environment.torch_npu(workload), notes)


def _layers(workload: Workload, s: ParallelStrategy) -> Flags:
    layout = layout_of(workload, s)
    slots = max(map(max, layout))
    flags = flag("num-layers", slots * s.pp * s.vpp)
    noops = noop_positions(layout)
    if noops:
        flags += flag("noop-layers", ",".join(map(str, noops)))
    if s.schedule is Schedule.DUALPIPE_V:
        flags += flag("schedules-method", "dualpipev")
        flags += switches(s.features, {Feature.DUALPIPEV_DW_DETACH: "dualpipev-dw-detach"})
    elif s.vpp > 1:
        flags += flag("num-layers-per-virtual-pipeline-stage", slots)
    return flags


def _vocabulary(workload: Workload, s: ParallelStrategy) -> Flags:
    rows = workload.model.vocab_size
    return flag("vocab-size", rows) + flag("padded-vocab-size", -(-rows // s.tp) * s.tp) + flag("make-vocab-size-divisible-by", 1)


def _context_parallel(s: ParallelStrategy, features: Feature) -> Flags:
    if s.cp == 1 or s.cp_algo == CpAlgo.NONE:
        return []
    flags = flag("context-parallel-algo", CP_ALGOS[s.cp_algo])
    if s.cp_algo == CpAlgo.HYBRID:
        flags += flag("ulysses-degree-in-cp", s.ulysses_degree)
    if s.cp_algo != CpAlgo.ULYSSES:
        flags += switches(features, {Feature.CP_SEND_RECV_OVERLAP: "use-cp-send-recv-overlap"})
    return flags


def _extends_ep(s: ParallelStrategy, features: Feature) -> bool:
    return Feature.MOE_TP_EXTEND_EP in features and s.tp > 1


def _experts(workload: Workload, s: ParallelStrategy, features: Feature) -> Flags:
    moe = workload.model.moe
    if moe is None:
        return []
    flags = expert_flags(workload)
    flags += flag("first-k-dense-replace", first_moe_position(layout_of(workload, s), workload.model)) + flag("moe-layer-freq", 1)
    if _extends_ep(s, features):
        # MindSpeed counts the expert ranks outside tp here, and its dispatcher wants the experts' tp to be the layers'.
        flags += flag("expert-model-parallel-size", s.ep // s.tp) + flag("expert-tensor-parallel-size", s.tp)
        flags += ["--moe-tp-extend-ep", *flag("moe-token-dispatcher-type", "alltoall_seq")]
    else:
        flags += flag("expert-model-parallel-size", s.ep) + flag("expert-tensor-parallel-size", s.etp)
        gathers = s.dispatcher == Dispatcher.ALLGATHER and s.ep * s.etp > 1
        flags += flag("moe-token-dispatcher-type", "allgather" if gathers else "alltoall")
    if moe.top_k == 1:
        flags += ["--moe-router-pre-softmax"]
    flags += switches(
        features,
        {
            Feature.MOE_GROUPED_GEMM: "moe-grouped-gemm",
            Feature.MOE_PERMUTE_FUSION: "moe-permute-fusion",
            Feature.MOE_PERMUTATION_ASYNC_COMM: "moe-permutation-async-comm",
            Feature.MOE_SHARED_EXPERT_OVERLAP: "moe-shared-expert-overlap",
            Feature.MOE_ALLTOALL_OVERLAP_COMM: "moe-alltoall-overlap-comm",
            Feature.MOE_ALLGATHER_OVERLAP_COMM: "moe-allgather-overlap-comm",
            Feature.MOE_COMM_OVERLAP: "moe-fb-overlap",
            Feature.MOE_PAD_TO_CAPACITY: "moe-pad-expert-input-to-capacity",
        },
    )
    return flags + (flag("moe-zero-memory", "level0") if Feature.MOE_ZERO_MEMORY in features else [])


def _recompute(s: ParallelStrategy) -> Flags:
    if s.recompute == Recompute.NONE:
        return []
    plan = s.recompute_layers_per_stage
    if s.recompute == Recompute.SELECTIVE:
        flags = selective_recompute_flags(s.recompute_modules, MODULES)
    elif plan:
        flags = (
            flag("recompute-granularity", "full") + flag("recompute-method", "block") + flag("recompute-num-layers", max(plan))
        )
        flags += ["--enable-recompute-layers-per-pp-rank"]
    else:
        flags = full_recompute_flags(s)
    return flags + [f"--{name}" for module, name in MODULE_SWITCHES.items() if module in s.recompute_modules]


def _memory(features: Feature) -> Flags:
    return switches(
        features,
        {
            Feature.REUSE_FP32_PARAM: "reuse-fp32-param",
            Feature.SWAP_OPTIMIZER: "swap-optimizer",
            Feature.SWAP_ATTENTION: "swap-attention",
        },
    )


def _kernels(workload: Workload, s: ParallelStrategy, features: Feature) -> Flags:
    model = workload.model
    flags = ["--no-masked-softmax-fusion", "--attention-softmax-in-fp32"]
    flags += switches(features, {Feature.FLASH_ATTENTION: "use-flash-attn"})
    if model.gated_linear_unit:
        flags += switches(features, {Feature.FUSED_NORM: "use-fused-rmsnorm", Feature.FUSED_SWIGLU: "use-fused-swiglu"})
    if not model.learned_positions:
        flags += ["--use-rotary-position-embeddings"]
        flags += switches(features, {Feature.FUSED_ROPE: "use-fused-rotary-pos-emb"})
    flags += switches(features, {Feature.MC2: "use-ascend-mc2"})
    if Feature.COC in features:
        flags += ["--use-ascend-coc", *flag("coc-parallel-num", COC_PARALLEL_NUM)]
    if Feature.TP_2D in features:
        flags += ["--tp-2d", *flag("tp-x", s.tp // 2), *flag("tp-y", 2)]
    return flags


def _notes(workload: Workload, s: ParallelStrategy, planned: ParallelStrategy) -> tuple[str, ...]:
    notes = [start_note(workload)]
    layout = layout_of(workload, s)
    noops = noop_positions(layout)
    if noops:
        total = max(map(max, layout)) * s.pp * s.vpp
        notes.append(
            f"{len(noops)} no-op layers fill {workload.model.num_layers} layers up to {total}; layer positions count them."
        )
    if Feature.COC in s.features:
        notes.append(f"Try --coc-parallel-num {COC_PARALLEL_NUM}, 4 and 8; the plan does not choose between them.")
    if Feature.TP_2D in s.features:
        notes.append(f"tp {s.tp} is split into {s.tp // 2} x 2; other splits are possible.")
    if planned.dispatcher == Dispatcher.HIERARCHICAL and s.dispatcher != planned.dispatcher and s.ep * s.etp > 1:
        notes.append(
            "Hierarchical all-to-all exists in MindSpeed core_r0.8.0 (--moe-hierarchical-alltoallv with --moe-tp-extend-ep), "
            "not in the release that these arguments are for."
        )
    return tuple(notes)
