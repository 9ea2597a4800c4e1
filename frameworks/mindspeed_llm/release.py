"""Arguments of MindSpeed-LLM on MindSpeed and Megatron-LM core 0.12.

Megatron's arguments hold unless MindSpeed or MindSpeed-LLM defines them again [mindspeed, features_manager;
mindspeed-llm, arguments.py; mindspeed-llm, features_manager]. Left out: post-training, inference, profiling, conversion.
"""

from __future__ import annotations

from frameworks.megatron_lm import release_0_12 as megatron
from frameworks.release import Exclusion, Release, Requirement, choice, integer, integers, number, switches, text, texts

LLM = "[mindspeed-llm, arguments.py]"
ROUTER = "[mindspeed-llm, moe_router.py]"
FB_OVERLAP = "[mindspeed, fb_overlap.py]"
SWAP = "[mindspeed, swap_optimizer_feature.py]"
RECOMPUTE_SWITCHES = "[mindspeed, features_manager/recompute; mindspeed-llm, arguments.py]"
DUALPIPEV = "[mindspeed, dualpipev_feature.py]"

MODEL = (
    *megatron.MODEL,
    *switches("post-norm", "embed-layernorm", "use-glm-rope", "square-alibi-mask", "fill-neg-inf", "input-embeds-norm"),
    *switches("add-dense-bias", "add-output-layer-bias", "skip-bias-add", "add-rmsnorm-offset", "geglu", "gelu-tanh"),
    *switches("input-layernorm-in-fp32", "no-post-layer-norm", "share-kvstates", "mla-fa-without-pad", "mla-mm-split"),
    *switches("mla-up-proj-tp-overlap", "mla-fa-divide-qk", "mtp-mem-efficient-logits"),
    *integers("padded-vocab-size", "sliding-window", "query-pre-attn-scalar", "kv-lora-rank", "qk-head-dim"),
    *integers("qk-pos-emb-head-dim", "v-head-dim", "interleave-sliding-window"),
    integer("padded-base-length", 128),
    number("output-logit-softcapping", None),
    number("attn-logit-softcapping", None),
    number("scale-emb", None),
    number("scale-depth", None),
    number("dim-model-base", None),
    integer("output-layer-slice-num", 1),
    choice("position-embedding-type", "learned_absolute", "learned_absolute", "rope", "mrope", "relative", "none", "alibi"),
    number("rope-scaling-factor", 1.0),
    integer("rope-scaling-beta-fast", 32),
    integer("rope-scaling-beta-slow", 1),
    number("rope-scaling-mscale", 1.0),
    number("rope-scaling-mscale-all-dim", 0.0),
    integer("rope-scaling-original-max-position-embeddings", None),
)

PARALLELISM = (
    *megatron.PARALLELISM,
    choice(
        "context-parallel-algo",
        "ulysses_cp_algo",
        "ulysses_cp_algo",
        "megatron_cp_algo",
        "hybrid_cp_algo",
        "kvallgather_cp_algo",
        "adaptive_cp_algo",
        "hybrid_adaptive_cp_algo",
    ),
    integer("ulysses-degree-in-cp", None),
    integer("cp-window-size", 1),
    choice("attention-mask-type", "causal", "causal", "general"),
    choice("cp-attention-mask-type", "causal", "causal", "general"),
    *switches("use-cp-send-recv-overlap", "use-fused-ring-attention-update", "megatron-cp-in-bnsd", "attention-mask-on-cpu"),
    *switches("kv-head-repeat-before-uly-alltoall", "adaptive-cp-without-coarse", "adaptive-cp-dynamic-attn-mask"),
    *switches("adaptive-cp-only-reschedule", "adaptive-cp-manually-set-mask-list"),
    *texts("noop-layers", "num-layer-list", "pipeline-model-parallel-layout", "pipeline-num-transformer-layers"),
    choice("schedules-method", None, "dualpipev"),
    *switches("dualpipev-dw-detach", "variable-seq-lengths", "optimize-send-recv-comm", "tp-2d"),
    integer("tp-x", 1),
    integer("tp-y", 1),
    *switches("enable-overlap-ag-with-matmul", "enable-overlap-matmul-with-rs", "enable-backward-overlap-ag-with-matmul"),
    integer("distributed-timeout-minutes", 45),
)

EXPERTS = (
    *megatron.EXPERTS,
    integer("first-k-dense-replace", None),
    integer("moe-layer-freq", None),
    integer("n-shared-experts", None),
    *switches("shared-expert-gate", "norm-topk-prob", "seq-aux", "router-gating-in-fp32", "fix-router"),
    *switches("moe-revert-type-after-topk", "moe-tp-extend-ep", "moe-permutation-async-comm", "moe-allgather-overlap-comm"),
    *switches("moe-alltoall-overlap-comm", "moe-fb-overlap", "moe-unperm2-mem-optim", "moe-unperm2-mem-optim-swap"),
    *switches("use-fused-moe-token-permute-and-unpermute", "gemm-gradient-accumulation-fusion", "moe-alltoall-mc2"),
    integer("shared-expert-gate-output-dimension", 1),
    choice("moe-zero-memory", "disable", "disable", "level0", "level1"),
    integer("moe-zero-memory-num-layers", None),
    number("moe-device-level-aux-loss-coeff", 0.0),
    number("moe-comm-aux-loss-coeff", 0.0),
    choice(
        "moe-router-load-balancing-type",
        "aux_loss",
        "aux_loss",
        "seq_aux_loss",
        "sinkhorn",
        "none",
        "group_limited_greedy",
        "softmax_topk",
        "pai_megatron_aux_loss",
        "sparsemixer_topk",
    ),
)

RECOMPUTE = (
    *megatron.RECOMPUTE,
    *switches("enable-recompute-layers-per-pp-rank", "recompute-activation-function", "recompute-norm", "recompute-in-advance"),
    *switches("recompute-in-bubble", "recompute-mla-up-proj", "mla-zero-memory", "recompute-mtp-norm", "recompute-mtp-layer"),
    *integers("recompute-activation-function-num-layers", "recompute-norm-num-layers"),
)

OPTIMIZER = (
    *megatron.OPTIMIZER,
    *switches("reuse-fp32-param", "swap-optimizer", "swap-attention", "mla-swap-core-attn-out", "o2-optimizer", "o2-gradient"),
    integer("swap-optimizer-times", 16),
    text("swap-modules", "input_norm,self_attention,post_attention_norm"),
    text("hccl-group-buffer"),
    integer("param-and-grad-buffer-pad", None),
)

KERNELS = (
    *megatron.KERNELS,
    *switches("use-fused-rmsnorm", "use-fused-swiglu", "use-fused-rotary-pos-emb", "use-fused-mlp", "use-ascend-mc2"),
    *switches("use-ascend-coc", "coc-fused-kernel", "jit-compile", "use-deter-comp"),
    choice("transformer-impl", "local", "local", "transformer_engine"),
    integer("coc-mode", -1),
    integer("coc-parallel-num", 1),
    integer("pre-tockens", 65536),
    integer("next-tockens", 0),
    choice("sparse-mode", "0", *map(str, range(9))),
    choice("shape-order", "SBH", "SBH", "BSH", "BSND", "BNSD", "TND"),
    choice("optimization-level", "2", "0", "1", "2"),
)

RUN = (
    *megatron.RUN,
    choice("tokenizer-type", None, *megatron.TOKENIZERS, "PretrainedFromHF"),
    *texts("tokenizer-name-or-path", "prompt-type", "prompt-type-path"),
    *switches("tokenizer-not-use-fast", "no-shuffle", "neat-pack", "padded-samples", "no-shared-storage", "async-log-allreduce"),
    *switches("load-checkpoint-loosely"),
    choice("ckpt-format", "torch", "torch", "torch_dist", "zarr"),
    choice("stage", None, "sft", "dpo", "orm", "prm", "simpo", "ray_ppo", "ray_online_dpo", "ray_grpo", "trl_ppo"),
    choice("ai-framework", "pytorch", "pytorch", "mindspore"),
)

GROUPS = {
    "Model": MODEL,
    "Lengths, batch and precision": megatron.TRAINING,
    "Parallelism": PARALLELISM,
    "Experts": EXPERTS,
    "Recompute": RECOMPUTE,
    "Optimizer, its communication, and swap": OPTIMIZER,
    "Kernels": KERNELS,
    "Data, schedule, checkpoints": RUN,
}

# What MindSpeed-LLM bypasses of Megatron's own checks: the spec next to experts, MTP next to context parallelism, virtual
# stages over pp 2, the fused permutation of alltoall_seq, and the fused rotary embedding of MLA.
_BYPASSED = (
    ("num-experts>0", "spec"),
    ("mtp-num-layers>0", "context-parallel-size>1"),
    ("moe-token-dispatcher-type=alltoall_seq", "moe-permute-fusion"),
)
_BYPASSED_NEEDS = (
    ("multi-latent-attention",),
    ("num-layers-per-virtual-pipeline-stage", "no-overlap-p2p-communication"),
    ("num-virtual-stages-per-pipeline-rank", "no-overlap-p2p-communication"),
)

EXCLUSIONS = (
    *(exclusion for exclusion in megatron.EXCLUSIONS if exclusion.conditions not in _BYPASSED),
    Exclusion(("recompute-activation-function", "recompute-method=uniform"), LLM),
    Exclusion(
        ("recompute-granularity=selective", "recompute-activation-function"), RECOMPUTE_SWITCHES, "mindspeed_recompute_mix"
    ),
    Exclusion(("recompute-norm", "recompute-method=uniform"), LLM),
    Exclusion(("recompute-granularity=selective", "recompute-norm"), RECOMPUTE_SWITCHES, "mindspeed_recompute_mix"),
    Exclusion(("moe-zero-memory!=disable", "recompute-method"), LLM, "mindspeed_zero_memory"),
    Exclusion(("mla-zero-memory", "recompute-mla-up-proj"), LLM),
    Exclusion(("moe-expert-capacity-factor", "moe-token-dispatcher-type=allgather"), ROUTER, "mindspeed_capacity"),
    Exclusion(("use-ascend-mc2", "num-experts>0"), "[mindspeed, mc2.py]", "mindspeed_mc2"),
    Exclusion(("use-ascend-mc2", "use-ascend-coc"), "[mindspeed, mc2.py]", "mindspeed_mc2"),
    Exclusion(("use-ascend-coc", "num-experts>0"), "[mindspeed, locl_coc.py]", "mindspeed_coc"),
    *(
        Exclusion(("tp-2d", other), "[mindspeed, tp_2d.py]", "mindspeed_tp_2d")
        for other in (
            *("sequence-parallel", "use-fused-rmsnorm", "use-ascend-coc", "expert-model-parallel-size>1"),
            "context-parallel-algo=hybrid_cp_algo",
        )
    ),
    Exclusion(("swap-optimizer", "reuse-fp32-param"), SWAP),
    Exclusion(("moe-tp-extend-ep", "moe-expert-capacity-factor"), "[mindspeed, tp_extend_ep.py]", "mindspeed_tp_extend_ep"),
    Exclusion(("moe-permute-fusion", "moe-token-dispatcher-type=allgather"), "[mindspeed, fused_moe_permute.py]"),
    Exclusion(
        ("moe-permute-fusion", "moe-token-dispatcher-type=alltoall", "moe-alltoall-overlap-comm"),
        "[mindspeed, fused_moe_permute.py]",
    ),
    Exclusion(
        ("moe-alltoall-overlap-comm", "moe-token-dispatcher-type=alltoall", "moe-tp-extend-ep"),
        "[mindspeed, moe_alltoall_overlap.py]",
    ),
    *(
        Exclusion(("moe-fb-overlap", other), FB_OVERLAP, "mindspeed_fb_overlap")
        for other in ("overlap-grad-reduce", "moe-alltoall-overlap-comm", "swap-attention", "moe-tp-extend-ep")
    ),
    *(
        Exclusion(("moe-fb-overlap", other), FB_OVERLAP)
        for other in (
            *("moe-zero-memory-num-layers", "recompute-in-bubble", "recompute-in-advance", "use-legacy-models"),
            "moe-zero-memory=level1",
        )
    ),
    Exclusion(("recompute-in-bubble", "recompute-granularity"), "[mindspeed, ripipe_schedules_feature.py]"),
    Exclusion(("recompute-in-bubble", "recompute-in-advance"), "[mindspeed, ripipe_schedules_feature.py]"),
    Exclusion(("schedules-method=dualpipev", "num-layers-per-virtual-pipeline-stage"), DUALPIPEV),
    Exclusion(("schedules-method=dualpipev", "context-parallel-size>1"), DUALPIPEV, "mindspeed_dualpipev"),
    Exclusion(("schedules-method=dualpipev", "overlap-grad-reduce"), DUALPIPEV),
    Exclusion(("schedules-method=dualpipev", "swap-attention"), DUALPIPEV),
    Exclusion(("schedules-method=dualpipev", "tp-2d"), DUALPIPEV),
    Exclusion(("num-layer-list", "num-layers-per-virtual-pipeline-stage"), "[mindspeed-llm, num_layer_list.py]"),
)

REQUIREMENTS = (
    *(rule for rule in megatron.REQUIREMENTS if rule.when not in _BYPASSED_NEEDS),
    Requirement(("use-ascend-mc2",), ("sequence-parallel",), "[mindspeed, mc2.py]", "mindspeed_mc2"),
    Requirement(("reuse-fp32-param",), ("bf16",), "[mindspeed, reuse_fp32_param.py]"),
    Requirement(("use-fused-rotary-pos-emb",), ("position-embedding-type=rope",), "[mindspeed, fused_rope.py]"),
    Requirement(
        ("enable-recompute-layers-per-pp-rank",),
        ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"),
        LLM,
    ),
    Requirement(
        ("enable-recompute-layers-per-pp-rank",),
        ("recompute-method=block", "swap-attention", "recompute-activation-function"),
        LLM,
    ),
    Requirement(
        ("context-parallel-size>1", "context-parallel-algo=hybrid_cp_algo"),
        ("ulysses-degree-in-cp",),
        "[mindspeed, context_parallel_feature.py]",
    ),
    Requirement(("moe-tp-extend-ep",), ("moe-permutation-async-comm",), "[mindspeed, tp_extend_ep.py]"),
    Requirement(("moe-tp-extend-ep",), ("moe-grouped-gemm",), "[mindspeed, tp_extend_ep.py]", "mindspeed_tp_extend_ep"),
    *(
        Requirement(
            ("moe-allgather-overlap-comm",), (need,), "[mindspeed, moe_allgather_overlap.py]", "mindspeed_allgather_overlap"
        )
        for need in ("moe-token-dispatcher-type=allgather", "moe-grouped-gemm")
    ),
    Requirement(("moe-allgather-overlap-comm",), ("moe-permutation-async-comm",), "[mindspeed, moe_allgather_overlap.py]"),
    *(
        Requirement(("moe-alltoall-overlap-comm",), needs, "[mindspeed, moe_alltoall_overlap.py]", "mindspeed_alltoall_overlap")
        for needs in (
            ("moe-token-dispatcher-type=alltoall", "moe-token-dispatcher-type=alltoall_seq"),
            ("moe-grouped-gemm",),
        )
    ),
    Requirement(
        ("moe-alltoall-overlap-comm", "moe-token-dispatcher-type=alltoall_seq"),
        ("moe-permutation-async-comm",),
        "[mindspeed, moe_alltoall_overlap.py]",
    ),
    *(
        Requirement(("moe-fb-overlap",), (need,), FB_OVERLAP, "mindspeed_fb_overlap")
        for need in (
            *("expert-model-parallel-size>1", "expert-tensor-parallel-size=1", "moe-token-dispatcher-type=alltoall"),
            "moe-grouped-gemm",
        )
    ),
    Requirement(
        ("moe-zero-memory!=disable",),
        ("moe-alltoall-overlap-comm", "moe-fb-overlap"),
        "[mindspeed, moe_zero_memory.py]",
        "mindspeed_zero_memory",
    ),
    Requirement(("swap-optimizer",), ("use-distributed-optimizer",), SWAP, "mindspeed_swap_optimizer"),
    Requirement(("moe-zero-memory-num-layers",), ("moe-zero-memory!=disable",), "[mindspeed, moe_zero_memory.py]"),
    Requirement(("multi-latent-attention",), ("kv-lora-rank",), "[mindspeed-llm, mla_feature.py]"),
    Requirement(("multi-latent-attention",), ("qk-head-dim",), "[mindspeed-llm, mla_feature.py]"),
    Requirement(("multi-latent-attention",), ("qk-pos-emb-head-dim",), "[mindspeed-llm, mla_feature.py]"),
    Requirement(("multi-latent-attention",), ("v-head-dim",), "[mindspeed-llm, mla_feature.py]"),
    Requirement(("schedules-method=dualpipev",), ("untie-embeddings-and-output-weights",), DUALPIPEV, "mindspeed_dualpipev"),
    Requirement(("schedules-method=dualpipev",), ("moe-fb-overlap",), LLM, "mindspeed_dualpipev"),
    Requirement(("schedules-method=dualpipev",), ("pipeline-model-parallel-size>1",), DUALPIPEV),
)

# Names of the same switch in releases since 2023 (AscendSpeed, ModelLink) that published scripts still carry.
FORMER = {
    "use-mc2": "use-ascend-mc2",
    "moe-intermediate-size": "moe-ffn-hidden-size",
    "multi-head-latent-attention": "multi-latent-attention",
    "qk-nope-head-dim": "qk-head-dim",
    "qk-rope-head-dim": "qk-pos-emb-head-dim",
}

RELEASE = Release(
    name="mindspeed-llm",
    version="master",
    commits={"Ascend/MindSpeed": "028de58c", "Ascend/MindSpeed-LLM": "c77308a1", "NVIDIA/Megatron-LM": "5cb6dbb3"},
    groups=GROUPS,
    exclusions=EXCLUSIONS,
    requirements=REQUIREMENTS,
    former=FORMER,
)
