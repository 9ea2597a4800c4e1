"""Recipes as people write them, of both frameworks, and how tests read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.recipes.files import load_recipe
from app.recipes.reading import RecipeJob, Stated

# A Megatron recipe with variables, an array, and arguments of the user at its end.
MEGATRON = """#!/usr/bin/env bash
set -x
train_tp=4
MODEL_PATH=${MODEL_PATH:-"Qwen/Qwen3-30B-A3B"}
max_prompt_length=$((1024 * 2))
max_response_length=$((1024 * 4))
lengths=(
    data.max_prompt_length=${max_prompt_length}
    data.max_response_length=${max_response_length}
    data.train_batch_size=256
)
python3 -m verl.trainer.main_ppo --config-path=config \\
    --config-name='ppo_megatron_trainer.yaml' \\
    "${lengths[@]}" \\
    algorithm.adv_estimator=grpo \\
    data.train_files="$HOME/data/train.parquet" \\
    actor_rollout_ref.model.path="${MODEL_PATH}" \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$(((max_prompt_length + max_response_length) * 2)) \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=${train_tp} \\
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \\
    actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=2 \\
    actor_rollout_ref.actor.megatron.expert_model_parallel_size=8 \\
    actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1 \\
    actor_rollout_ref.actor.megatron.param_offload=True \\
    actor_rollout_ref.actor.megatron.grad_offload=True \\
    actor_rollout_ref.actor.megatron.optimizer_offload=True \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.7 \\
    actor_rollout_ref.rollout.n=8 \\
    trainer.logger='["console","wandb"]' \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=4 $@
"""
SHARDED = """python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=gae \\
    data.train_batch_size=512 data.max_prompt_length=512 data.max_response_length=1024 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.actor.strategy=fsdp2 \\
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 \\
    actor_rollout_ref.actor.fsdp_config.param_offload=False \\
    actor_rollout_ref.rollout.name=sglang \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=4 \\
    actor_rollout_ref.rollout.enforce_eager=True \\
    critic.model.path=Qwen/Qwen2.5-7B-Instruct \\
    critic.ulysses_sequence_parallel_size=2 \\
    trainer.nnodes=2 trainer.n_gpus_per_node=8
"""
MINDSPEED = """defaults:
  - model:
      - qwen3_235b_a22b
megatron_training:
  model: qwen3_235b_a22b
  use_flash_attn: true
  use_fused_rmsnorm: true
  use_fused_swiglu: true
  use_fused_rotary_pos_emb: true
  sequence_parallel: true
  use_distributed_optimizer: true
  global_batch_size: 256
  seq_length: 8192
  stage: ray_grpo
  swap_optimizer: true
  moe_alltoall_overlap_comm: true
  no_pad_to_seq_lengths: true
  reset_attention_mask: true
actor_config:
  model: qwen3_235b_a22b
  micro_batch_size: 2
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 16
  expert_model_parallel_size: 4
  moe_tp_extend_ep: true
  num_layers: 96
  noop_layers: "5,95"
  recompute_granularity: full
  recompute_method: block
  recompute_num_layers: 6
rl_config:
  use_integrated_worker: true
  use_remove_padding: true
  blocking: true
  mini_batch_size: 128
  n_samples_per_prompt: 8
  max_prompt_length: 8192
  adv_estimator: group_norm
  actor_resource:
    num_npus: 128
generate_config:
  infer_tensor_parallel_size: 4
  infer_expert_parallel_size: 8
  enable_expert_parallel: true
  max_num_seqs: 64
  max_model_len: 16384
  gpu_memory_utilization: 0.85
  offload_train_optimizer: false
  offload_train_grad: true
  offload_train_param: true
  sampling_config:
    max_tokens: 8192
"""
GPU, NPU = "h100-sxm-80gb", "atlas-800t-a3"


def read(
    folder: Path,
    text: str,
    name: str = "run.sh",
    hardware: str = GPU,
    *,
    mean: float | None = 600.0,
    values: Sequence[str] = (),
    files: Sequence[Path] = (),
    assume: Sequence[str] = (),
    lengths: Mapping[str, Any] | None = None,
    **stated: Any,
) -> RecipeJob:
    """The job of a recipe's text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    stated["lengths"] = lengths or ({} if mean is None else {"mean": mean})
    return load_recipe(path, Stated(hardware, **stated), values=values, files=files, assume=assume)
