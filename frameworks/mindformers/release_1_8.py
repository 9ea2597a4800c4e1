"""Keys of MindFormers' YAML, release 1.8, for models of the mcore branch (``use_legacy: False``).

Sources: [mindformers-1.8, template.py], which refuses unknown keys, [mindformers-1.8, transformer_config_utils.py] for
``model_config``, [mindformers-1.8, config_args.py] for MindSpore's own context. A name is the path of a key, joined by points.
"""

from __future__ import annotations

from frameworks.release import Argument, Exclusion, Kind, Release, Requirement

SWITCH, INTEGER, NUMBER, TEXT = Kind.SWITCH, Kind.INTEGER, Kind.NUMBER, Kind.TEXT


def _keys(section: str, kind: Kind, **defaults: bool | float | str | None) -> tuple[Argument, ...]:
    return tuple(Argument(f"{section}.{name}" if section else name, kind, default) for name, default in defaults.items())


def _lists(section: str, kind: Kind, *names: str) -> tuple[Argument, ...]:
    return tuple(Argument(f"{section}.{name}", kind, None, many=True) for name in names)


def _one_of(name: str, default: str | None, *choices: str) -> Argument:
    return Argument(name, TEXT, default, choices)


MODEL = (
    *_keys("model.model_config", TEXT, model_type=None, architectures=None, hidden_act="gelu", input_layout="BNSD"),
    *_keys("model.model_config", INTEGER, num_hidden_layers=0, hidden_size=0, intermediate_size=None, num_attention_heads=0),
    *_keys("model.model_config", INTEGER, num_key_value_heads=None, head_dim=None, vocab_size=128000, seq_length=4096),
    *_keys("model.model_config", INTEGER, max_position_embeddings=4096, num_nextn_predict_layers=None, q_lora_rank=None),
    *_keys("model.model_config", INTEGER, kv_lora_rank=None, qk_nope_head_dim=None, qk_rope_head_dim=None, v_head_dim=None),
    *_keys("model.model_config", SWITCH, gated_linear_unit=False, add_bias_linear=True, attention_bias=False),
    *_keys("model.model_config", SWITCH, tie_word_embeddings=False, qk_layernorm=False, multi_latent_attention=False),
    *_keys("model.model_config", SWITCH, sandwich_norm=False, use_contiguous_weight_layout_attention=False),
    *_keys("model.model_config", SWITCH, input_sliced_sig=False, use_attn_mask_compression=False),
    _one_of("model.model_config.normalization", "LayerNorm", "LayerNorm", "RMSNorm"),
    *_keys("model.model_config", TEXT, position_embedding_type="rope"),
    *_keys("model.model_config", NUMBER, hidden_dropout=0.0, attention_dropout=0.1, rms_norm_eps=1e-5, rope_theta=10000.0),
    *(
        _one_of(f"model.model_config.{name}", default, "float32", "float16", "bfloat16")
        for name, default in (
            *(("params_dtype", "float32"), ("compute_dtype", "bfloat16"), ("layernorm_compute_dtype", "float32")),
            *(("softmax_compute_dtype", "float32"), ("rotary_dtype", "float32")),
        )
    ),
)

KERNELS = (
    *_keys("model.model_config", SWITCH, use_flash_attention=True, fused_norm=True, use_fused_swiglu=False),
    *_keys("model.model_config", SWITCH, use_fused_rope=False, fine_grain_interleave=False),
)

EXPERTS = (
    *_keys("model.model_config", INTEGER, num_experts=None, num_experts_per_tok=2, moe_intermediate_size=None),
    *_keys("model.model_config", INTEGER, n_shared_experts=0, moe_shared_expert_intermediate_size=None, npu_nums_per_device=8),
    *_keys("model.model_config", INTEGER, first_k_dense_replace=None, n_group=None, topk_group=None),
    *_lists("model.model_config", INTEGER, "moe_layer_freq"),
    *_keys("model.model_config", SWITCH, moe_grouped_gemm=False, moe_permute_fusion=False, moe_shared_expert_overlap=False),
    *_keys("model.model_config", SWITCH, moe_pad_expert_input_to_capacity=False, moe_router_pre_softmax=False),
    *_keys("model.model_config", SWITCH, norm_topk_prob=True),
    *_keys("model.model_config", NUMBER, capacity_factor=None, routed_scaling_factor=None),
    _one_of("model.model_config.moe_token_dispatcher_type", "alltoall", "alltoall", "alltoall_deredundency"),
    *_keys("model.model_config", TEXT, moe_router_load_balancing_type="aux_loss", router_dense_type="float32"),
)

PARALLELISM = (
    *_keys("parallel_config", INTEGER, data_parallel=1, model_parallel=1, pipeline_stage=1, context_parallel=1),
    *_keys("parallel_config", INTEGER, expert_parallel=1, micro_batch_num=1, seq_split_num=1, ulysses_degree_in_cp=1),
    *_keys("parallel_config", INTEGER, gradient_aggregation_group=4, optimizer_shard=None),
    *_keys("parallel_config", SWITCH, use_seq_parallel=False, vocab_emb_dp=True),
    _one_of("parallel_config.context_parallel_algo", "colossalai_cp", "colossalai_cp", "ulysses_cp", "hybrid_cp"),
    *_keys("parallel_config", NUMBER, mem_coeff=0.1),
    *_keys("", INTEGER, micro_batch_interleave_num=1),
    *_lists("model.model_config", INTEGER, "offset"),
    *_keys("model.model_config", INTEGER, pp_interleave_num=1),
    *_keys("parallel.pipeline_config", SWITCH, pipeline_interleave=False),
    _one_of("parallel.pipeline_config.pipeline_scheduler", "1f1b", "gpipe", "1f1b", "seqpipe", "zero_bubble_v"),
)

RECOMPUTE = (
    *_lists("recompute_config", TEXT, "recompute", "select_recompute", "select_recompute_exclude"),
    *_lists("recompute_config", TEXT, "select_comm_recompute", "select_comm_recompute_exclude"),
    *_keys("recompute_config", SWITCH, parallel_optimizer_comm_recompute=False, mp_comm_recompute=True),
    *_keys("recompute_config", SWITCH, recompute_slice_activation=False),
)

OPTIMIZER = (
    *_keys("parallel", SWITCH, enable_parallel_optimizer=False, enable_alltoall=False, full_batch=True, gradients_mean=False),
    *_keys("parallel.parallel_optimizer_config", SWITCH, gradient_accumulation_shard=True),
    *_keys("parallel.parallel_optimizer_config", INTEGER, parallel_optimizer_threshold=-1, optimizer_weight_shard_size=-1),
    *_keys("optimizer", TEXT, type="AdamW"),
    *_keys("optimizer", SWITCH, swap=False),
    *_lists("optimizer", NUMBER, "betas"),
    *_keys("optimizer", NUMBER, eps=1e-8, weight_decay=0.0),
    *_keys("swap_config", SWITCH, swap=False),
    *_keys("swap_config", INTEGER, default_prefetch=1),
    *_lists("swap_config", TEXT, "layer_swap", "op_swap"),
)

RUN = (
    *_keys("", SWITCH, use_parallel=False, use_legacy=True, auto_trans_ckpt=False, resume_training=False, profile=False),
    *_keys("", TEXT, output_dir="./output", load_checkpoint="", load_ckpt_format="ckpt", pretrained_model_dir=""),
    _one_of("run_mode", None, "train", "finetune", "eval", "predict"),
    *_keys("", INTEGER, seed=1),
    *_keys("runner_config", INTEGER, batch_size=1, epochs=1, sink_size=1, gradient_accumulation_steps=1),
    *_keys("runner_config", SWITCH, sink_mode=True),
    *_keys("parallel", INTEGER, parallel_mode=1),
    *_lists("parallel", TEXT, "dataset_strategy"),
    *_keys("context", INTEGER, mode=0, max_call_depth=10000, device_id=0),
    *_keys("context", TEXT, device_target="Ascend", max_device_memory="58GB", memory_optimize_level="O1"),
    _one_of("context.jit_config.jit_level", "O0", "O0", "O1", "O2"),
    *_keys("trainer", TEXT, type="CausalLanguageModelingTrainer", model_name=None),
    *_keys("lr_schedule", TEXT, type="CosineWithWarmUpLR"),
    *_keys("lr_schedule", NUMBER, learning_rate=5e-5, lr_end=0.0, warmup_ratio=0.0),
    *_keys("lr_schedule", INTEGER, total_steps=-1),
    *_keys("runner_wrapper", TEXT, type="MFTrainOneStepCell"),
    *_keys("runner_wrapper", NUMBER, scale_sense=1.0),
    *_keys("runner_wrapper", SWITCH, use_clip_grad=True),
    *_keys("train_dataset_task", TEXT, type="CausalLanguageModelDataset"),
)

GROUPS = {
    "Parallelism": PARALLELISM,
    "Model": MODEL,
    "Experts": EXPERTS,
    "Kernels": KERNELS,
    "Recompute": RECOMPUTE,
    "Optimizer, its sharding, and swap": OPTIMIZER,
    "Run": RUN,
}

CONFIGURATION = "[mindformers-1.8, Parallel configuration]"
CONFIG = "[mindformers-1.8, transformer_config.py]"

RELEASE = Release(
    name="mindformers",
    version="1.8",
    commits={"mindspore-lab/mindformers": "r1.8.0"},
    groups=GROUPS,
    exclusions=(
        Exclusion(
            ("parallel_config.use_seq_parallel", "parallel_config.model_parallel=1"),
            "[mindformers-1.8, model_parallel_config.py]",
        ),
        Exclusion(("parallel_config.pipeline_stage>1", "runner_config.gradient_accumulation_steps>1"), CONFIGURATION),
        Exclusion(("parallel_config.pipeline_stage=1", "parallel_config.micro_batch_num>1"), CONFIGURATION),
        Exclusion(("model.model_config.num_nextn_predict_layers>1",), CONFIG, "mindformers_mtp"),
    ),
    requirements=(
        Requirement(
            ("model.model_config.pp_interleave_num>1",), ("parallel.pipeline_config.pipeline_interleave",), CONFIGURATION
        ),
        Requirement(("model.model_config.pp_interleave_num>1",), ("parallel_config.pipeline_stage>1",), CONFIGURATION),
        Requirement(
            ("parallel.parallel_optimizer_config.optimizer_weight_shard_size>0",),
            ("parallel.enable_parallel_optimizer",),
            CONFIGURATION,
        ),
        Requirement(
            ("parallel_config.context_parallel_algo=hybrid_cp",), ("parallel_config.ulysses_degree_in_cp>1",), CONFIGURATION
        ),
        Requirement(
            ("model.model_config.num_experts>0", "parallel_config.model_parallel>1"),
            ("parallel_config.use_seq_parallel",),
            "[mindformers-1.8, training_graph/transformer/moe/moe_layer.py]",
            "mindformers_experts_need_sequence_parallel",
        ),
        Requirement(("model.model_config.moe_pad_expert_input_to_capacity",), ("model.model_config.capacity_factor",), CONFIG),
        Requirement(("swap_config.op_swap",), ("swap_config.swap",), "[mindformers-1.8, training_graph/transformer/utils.py]"),
    ),
)
