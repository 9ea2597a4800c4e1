"""Keys that a family does not read: keys without effect on price or model, and keys that must not be ignored."""

from __future__ import annotations

from collections.abc import Mapping

from documents.errors import InputError, show
from documents.sentences import joined

TOKENS = """
bos_token_id eos_token_id pad_token_id sep_token_id eod_token_id cls_token_id mask_token_id unk_token_id tokenizer_class
image_token_id image_token_index boi_token_index eoi_token_index im_start_id im_end_id im_newline_id text_start_id
text_end_id pad_id org_vocab_size add_bos_token
"""
FORMAT = """
architectures auto_map transformers_version torch_dtype dtype quantization_config quantization_bit compression_config
_name_or_path _from_model_config attn_implementation _attn_implementation _attn_implementation_autoset
"""
INFERENCE = """
use_cache cache_implementation is_decoder is_encoder_decoder return_dict output_attentions output_hidden_states
output_router_logits do_sample temperature top_k top_p num_beams max_length max_new_tokens repetition_penalty
"""
TRAINING = """
embd_pdrop resid_pdrop residual_dropout
attention_dropout hidden_dropout initializer_range init_method_std router_aux_loss_coef router_jitter_noise
aux_loss_alpha seq_aux z_loss_weight mtp_loss_lambda gradient_checkpointing pretraining_tp ep_size
moe_random_routing_dropped_token fp32_residual_connection attention_softmax_in_fp32 bias_dropout_fusion
apply_query_key_layer_scaling id2label label2id rescale_prenorm_residual time_step_min time_step_max time_step_floor
time_step_limit
"""
# Stated by another key, or about a kernel only; windows start at max_window_layers only if one is used.
REPEATED = """
qk_head_dim indexer_rope_interleave index_skip_topk_offset
initial_context_length model_max_length original_rope prefix_projection pre_seq_len block_size shared_moe_mode
max_window_layers add_classification_head class_num pool_type text_config vision_config
expand mamba_ssm_cache_dtype use_mamba_kernels mtp_hybrid_override_pattern mtp_layers_block_type num_logits_to_keep
moe_shared_expert_overlap
"""
NEUTRAL = frozenset(" ".join((TOKENS, FORMAT, INFERENCE, TRAINING, REPEATED)).split())

# Keys that change the price or the mathematics of a model; a family that does not read one cannot represent it.
WEIGHTY = frozenset(
    """
    n_routed_experts num_routed_experts num_experts num_local_experts moe_num_experts num_experts_per_tok moe_topk moe_k
    n_shared_experts num_shared_expert num_shared_experts shared_expert_intermediate_size shared_intermediate_size
    moe_intermediate_size first_k_dense_replace num_dense_layers moe_layer_freq mlp_only_layers decoder_sparse_step n_group
    topk_group norm_topk_prob routed_scaling_factor scoring_func topk_method kv_lora_rank q_lora_rank qk_nope_head_dim
    qk_rope_head_dim v_head_dim use_mla index_topk index_n_heads index_head_dim
    index_topk_freq index_topk_pattern indexer_types index_share_for_mtp_iteration sliding_window use_sliding_window
    layer_types sliding_window_pattern attn_type_list attention_chunk_size full_attention_interval linear_num_key_heads
    linear_num_value_heads linear_key_head_dim linear_value_head_dim linear_attn_config use_cla cla_share_factor
    compress_ratios moe_latent_size mamba_d_state ssm_cfg hybrid_override_pattern num_kv_shared_layers num_nextn_predict_layers
    num_mtp_layers num_mtp_modules hidden_size_per_layer_input laurel_rank altup_num_inputs attention_bias qkv_bias mlp_bias
    add_qkv_bias add_bias_linear bias use_qk_norm qk_layernorm qk_norm use_parallel_residual parallel_attn alibi
    partial_rotary_factor rotary_pct rotary_dim attn_logit_softcapping final_logit_softcapping embedding_multiplier
    residual_multiplier attention_multiplier logits_scaling logit_scale scale_emb scale_depth query_pre_attn_scalar
    no_rope_layers nope_layer_interval hc_mult block_configs
    """.split()
)
# With these values a weighty key has no effect.
WEIGHTLESS: tuple[object, ...] = (None, False, 0, [], {}, "")
WEIGHTLESS_BY_KEY: Mapping[str, tuple[object, ...]] = {
    "cla_share_factor": (1, 2),  # only use_cla reads it
    "moe_layer_freq": (1,),
    "decoder_sparse_step": (1,),
    "n_group": (1,),
    "topk_group": (1,),
    "partial_rotary_factor": (1, 1.0),
    "rotary_pct": (1, 1.0),
    "routed_scaling_factor": (1, 1.0),
    "embedding_multiplier": (1, 1.0),
    "residual_multiplier": (1, 1.0),
    "logits_scaling": (1, 1.0),
    "logit_scale": (1, 1.0),
}


def weigh(config: Mapping[str, object], read: frozenset[str], model_type: str) -> str | None:
    """Refuse weighty keys that this family does not read; return a sentence on unknown keys, if there are any."""
    unread = [key for key in config if key not in read]
    for key in unread:
        value = config[key]
        if key in WEIGHTY and not _weightless(key, value, config):
            raise InputError(f"{key}: {show(value)} is not modelled for {model_type}; leave it out if the model does not use it.")
    strange = [key for key in unread if key not in NEUTRAL and key not in WEIGHTY and config[key] is not None]
    if not strange:
        return None
    shown = joined(", ", (show(key) if not key.isprintable() or len(key) > 60 else key for key in strange[:8]))
    return f"not read: {shown}{f' and {len(strange) - 8} more' if len(strange) > 8 else ''}."


def _weightless(key: str, value: object, config: Mapping[str, object]) -> bool:
    if any(value is none or (type(value) is type(none) and value == none) for none in WEIGHTLESS):
        return True
    if key == "sliding_window" and config.get("use_sliding_window") is False:
        return True
    if key == "layer_types" and isinstance(value, list):
        return all(kind == "full_attention" for kind in value)
    return any(type(value) is type(none) and value == none for none in WEIGHTLESS_BY_KEY.get(key, ()))
