"""Twelve recipes that their authors ship, whose settings and steps were read off by a person, not by the reader.

verl b178a3cd, ``examples``, and MindSpeed-RL 05a90d77, ``configs``. ``SETTINGS`` of a file are those that decide the step;
``STEP`` has the devices, prompts, answers to each, updates, longest prompt and answer, and the layouts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.unit.app.recipes.recipes import GPU, NPU, read

ACTOR, ROLLOUT, CRITIC = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "critic"
MEGATRON, SHARDED = f"{ACTOR}.megatron", f"{ACTOR}.fsdp_config"


class Step(NamedTuple):
    """``batch``: devices, prompts, samples, updates, longest prompt, longest answer; ``rollout``: tp, ep, memory fraction."""

    layers: int
    batch: tuple[int, int, int, int, int, int]
    tasks: tuple[str, bool, bool]  # algorithm, reference, states to the host
    layout: dict[str, Any]
    rollout: tuple[int, int | None, float]


def of_verl(
    algorithm: str, batch: tuple[int, int, int], lengths: tuple[int, int], model: str, **more: object
) -> dict[str, object]:
    """Settings that every script has: train batch, mini batch and samples; longest prompt and answer."""
    return {
        "algorithm.adv_estimator": algorithm,
        "data.train_batch_size": batch[0],
        f"{ACTOR}.ppo_mini_batch_size": batch[1],
        f"{ROLLOUT}.n": batch[2],
        "data.max_prompt_length": lengths[0],
        "data.max_response_length": lengths[1],
        "actor_rollout_ref.model.path": model,
        f"{ROLLOUT}.name": "vllm",
        **more,
    }


def places(nodes: int, each: int, tp: int, fraction: float) -> dict[str, object]:
    """Devices, and an instance of the rollout."""
    return {
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": each,
        f"{ROLLOUT}.tensor_model_parallel_size": tp,
        f"{ROLLOUT}.gpu_memory_utilization": fraction,
    }


def degrees(**of: int) -> dict[str, object]:
    """Degrees of Megatron by their beginnings."""
    return {f"{MEGATRON}.{name}_parallel_size": value for name, value in of.items()}


KL, PER_GPU = {f"{ACTOR}.use_kl_loss": True}, f"{ACTOR}.ppo_micro_batch_size_per_gpu"
FULL = {
    f"+{MEGATRON}.override_transformer_config.recompute_{name}": value
    for name, value in {"method": "uniform", "granularity": "full", "num_layers": 1}.items()
}
VERL: dict[str, tuple[str, dict[str, object], Step]] = {
    "grpo_trainer/run_qwen3-8b.sh": (
        "ppo_trainer",
        {**of_verl("grpo", (1024, 256, 5), (512, 1024), "Qwen/Qwen3-8B"), **KL, PER_GPU: 32, **places(1, 8, 2, 0.6)},
        Step(
            36, (8, 1024, 5, 4, 512, 1024), ("grpo", True, False),
            {"tp": 1, "pp": 1, "cp": 1, "zero_stage": 3, "micro_batch_size": 32, "batching": "samples", "recompute": True},
            (2, None, 0.6),
        ),
    ),
    "grpo_trainer/run_qwen2-7b_math_megatron.sh": (
        "ppo_megatron_trainer",
        {
            **of_verl("grpo", (1024, 256, 5), (1024, 1024), "Qwen/Qwen2-7B-Instruct"), **KL, PER_GPU: 4, **places(1, 8, 2, 0.6),
            **degrees(tensor_model=2, pipeline_model=2),
        },
        Step(
            28, (8, 1024, 5, 4, 1024, 1024), ("grpo", True, False),
            {"tp": 2, "pp": 2, "ep": 1, "zero_stage": 1, "micro_batch_size": 4, "batching": "samples", "recompute": False},
            (2, None, 0.6),
        ),
    ),
    "grpo_trainer/run_moonlight16b_math_megatron.sh": (
        "ppo_megatron_trainer",
        {
            **of_verl("grpo", (192, 64, 5), (1024, 2048), "moonshotai/Moonlight-16B-A3B"), **KL, PER_GPU: 16,
            **places(3, 8, 4, 0.6), **degrees(tensor_model=4, pipeline_model=3, expert_model=4, expert_tensor=1),
        },
        Step(
            27, (24, 192, 5, 3, 1024, 2048), ("grpo", True, False),
            {"tp": 4, "pp": 3, "ep": 4, "micro_batch_size": 16, "batching": "samples", "recompute": False}, (4, None, 0.6),
        ),
    ),
    "ppo_trainer/run_deepseek7b_llm_sp2.sh": (
        "ppo_trainer",
        {
            **of_verl("gae", (1024, 256, 1), (512, 512), "deepseek-ai/deepseek-llm-7b-chat"), PER_GPU: 32,
            f"{ACTOR}.ulysses_sequence_parallel_size": 2, f"{CRITIC}.ulysses_sequence_parallel_size": 2,
            f"{CRITIC}.model.path": "deepseek-ai/deepseek-llm-7b-chat", f"{CRITIC}.ppo_micro_batch_size_per_gpu": 64,
            **places(1, 8, 4, 0.6),
        },
        Step(
            30, (8, 1024, 1, 4, 512, 512), ("ppo", False, False),
            {"cp": 2, "cp_algo": "ulysses", "zero_stage": 3, "micro_batch_size": 32, "batching": "samples"}, (4, None, 0.6),
        ),
    ),
    "ppo_trainer/run_qwen2-7b_seq_balance.sh": (
        "ppo_trainer",
        {
            **of_verl("gae", (4096, 512, 1), (4096, 4096), "Qwen/Qwen2-7B-Instruct"), f"{ACTOR}.use_dynamic_bsz": True,
            f"{ACTOR}.ppo_max_token_len_per_gpu": 24000, f"{CRITIC}.model.path": "Qwen/Qwen2-7B-Instruct",
            **places(1, 8, 2, 0.5),
        },
        Step(
            28, (8, 4096, 1, 8, 4096, 4096), ("ppo", False, False),
            {"zero_stage": 3, "micro_batch_size": 1, "batching": "packed", "pack_tokens": 24000}, (2, None, 0.5),
        ),
    ),
    "grpo_trainer/run_qwen2_5_32b_grpo_npu.sh": (
        "ppo_trainer",
        {
            **of_verl("grpo", (1024, 128, 5), (1024, 1024), "Qwen/Qwen2.5-32B-Instruct"), **KL, PER_GPU: 2,
            "actor_rollout_ref.model.use_remove_padding": False, **places(2, 16, 8, 0.4),
        },
        Step(
            64, (32, 1024, 5, 8, 1024, 1024), ("grpo", True, False),
            {"zero_stage": 3, "micro_batch_size": 2, "batching": "padded", "recompute": True}, (8, None, 0.4),
        ),
    ),
    "tuning/70b/qwen2-70b_grpo_32_h800_fsdp_vllm.sh": (
        "ppo_trainer",
        {
            **of_verl("grpo", (1024, 256, 5), (512, 512), "Qwen/Qwen2-72B-Instruct"), **KL, f"{ACTOR}.use_dynamic_bsz": True,
            f"{ACTOR}.ppo_max_token_len_per_gpu": 24000, f"{SHARDED}.param_offload": True, f"{SHARDED}.optimizer_offload": True,
            **places(4, 8, 16, 0.6),
        },
        Step(
            80, (32, 1024, 5, 4, 512, 512), ("grpo", True, True),
            {"zero_stage": 3, "batching": "packed", "pack_tokens": 24000}, (16, None, 0.6),
        ),
    ),
    "gspo_trainer/test_gspo_qwen30b_a3b_ep.sh": (
        "ppo_megatron_trainer",
        {
            **of_verl("grpo", (256, 32, 16), (2048, 8192), "Qwen3-30B-A3B-Base"), f"{ACTOR}.use_dynamic_bsz": True,
            f"{ACTOR}.ppo_max_token_len_per_gpu": 10240, **places(2, 8, 1, 0.8), **FULL,
            **degrees(tensor_model=4, pipeline_model=1, expert_model=4, expert_tensor=1),
            **{f"{MEGATRON}.{state}_offload": True for state in ("param", "grad", "optimizer")},
            f"{ROLLOUT}.data_parallel_size": 4, f"{ROLLOUT}.expert_parallel_size": 4,
        },
        Step(
            48, (16, 256, 16, 8, 2048, 8192), ("grpo", False, True),
            {"tp": 4, "pp": 1, "ep": 4, "micro_batch_size": 1, "batching": "packed", "recompute": True}, (1, 4, 0.8),
        ),
    ),
}  # fmt: skip
KERNELS = {
    **dict.fromkeys(("use_flash_attn", "use_fused_rmsnorm", "use_fused_swiglu", "use_fused_rotary_pos_emb"), True),
    **dict.fromkeys(("sequence_parallel", "use_distributed_optimizer"), True),
}
OFFLOADS = {f"offload_train_{state}": True for state in ("optimizer", "grad", "param")}
Sections = dict[str, dict[str, object]]
MINDSPEED: dict[str, tuple[Sections, Step]] = {
    "grpo_deepseek_r1_671b_A3.yaml": (
        {
            "megatron_training": {
                **KERNELS, "model": "deepseekv3_671b", "global_batch_size": 512, "stage": "ray_grpo", "swap_optimizer": True,
                "moe_alltoall_overlap_comm": True, "reset_attention_mask": True, "no_pad_to_seq_lengths": True,
            },
            "actor_config": {
                "model": "deepseekv3_671b", "micro_batch_size": 1, "tensor_model_parallel_size": 4,
                "pipeline_model_parallel_size": 8, "expert_model_parallel_size": 8, "moe_tp_extend_ep": True,
                "num_layer_list": "7,7,8,8,8,8,8,7", "recompute_granularity": "full", "recompute_method": "block",
                "recompute_num_layers": 4,
            },
            "rl_config": {
                "use_remove_padding": True, "mini_batch_size": 512, "max_prompt_length": 1024, "n_samples_per_prompt": 16,
                "actor_resource": {"num_npus": 256},
            },
            "generate_config": {
                **OFFLOADS, "offload_train_optimizer": False, "infer_tensor_parallel_size": 4, "infer_expert_parallel_size": 64,
                "max_num_seqs": 128, "max_model_len": 3072, "gpu_memory_utilization": 0.7, "enable_expert_parallel": True,
                "sampling_config": {"max_tokens": 2048},
            },
        },
        Step(
            61, (256, 512, 16, 1, 1024, 2048), ("grpo", True, True),
            {
                "tp": 4, "pp": 8, "ep": 32, "stage_layers": [7, 7, 8, 8, 8, 8, 8, 7], "recompute_layers": 4,
                "micro_batch_size": 1, "batching": "samples",
            },
            (4, 256, 0.7),
        ),
    ),
    "grpo_qwen25_32b_A3.yaml": (
        {
            "megatron_training": {
                **KERNELS, "model": "qwen25_32b", "global_batch_size": 64, "stage": "ray_grpo", "reset_attention_mask": True,
                "no_pad_to_seq_lengths": True,
            },
            "actor_config": {
                "model": "qwen25_32b", "micro_batch_size": 2, "tensor_model_parallel_size": 4,
                "pipeline_model_parallel_size": 4, "num_layer_list": "16,17,16,15",
            },
            "rl_config": {
                "use_remove_padding": True, "mini_batch_size": 64, "max_prompt_length": 1024, "n_samples_per_prompt": 16,
                "actor_resource": {"num_npus": 16},
            },
            "generate_config": {
                **OFFLOADS, "infer_tensor_parallel_size": 2, "max_num_seqs": 64, "max_model_len": 3072,
                "gpu_memory_utilization": 0.6, "sampling_config": {"max_tokens": 2048},
            },
        },
        Step(
            64, (16, 64, 16, 1, 1024, 2048), ("grpo", True, True),
            {
                "tp": 4, "pp": 4, "stage_layers": [16, 17, 16, 15], "recompute": False, "micro_batch_size": 2,
                "batching": "samples",
            },
            (2, None, 0.6),
        ),
    ),
    "dapo_qwen25_32b_A2_20k.yaml": (
        {
            "megatron_training": {
                **KERNELS, "model": "qwen25_32b", "global_batch_size": 256, "stage": "ray_dapo", "no_pad_to_seq_lengths": True,
                "reset_attention_mask": True,
            },
            "actor_config": {
                "model": "qwen25_32b", "micro_batch_size": 1, "tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 2,
                "context_parallel_size": 2, "context_parallel_algo": "megatron_cp_algo",
            },
            "rl_config": {
                "use_remove_padding": True, "use_dynamic_bsz": True, "actor_max_packing_token_size": 45056,
                "update_max_packing_token_size": 22528, "mini_batch_size": 32, "max_prompt_length": 2048,
                "n_samples_per_prompt": 16, "filter_groups_enable": False, "actor_resource": {"num_npus": 64},
            },
            "generate_config": {
                **OFFLOADS, "infer_tensor_parallel_size": 4, "max_num_seqs": 1024, "max_model_len": 22528,
                "gpu_memory_utilization": 0.85, "sampling_config": {"max_tokens": 20480},
            },
        },
        Step(
            64, (64, 256, 16, 8, 2048, 20480), ("grpo", False, True),
            {"tp": 8, "pp": 2, "cp": 2, "cp_algo": "ring", "micro_batch_size": 1, "batching": "packed"}, (4, None, 0.85),
        ),
    ),
    "ppo_qwen25_32b_A3.yaml": (
        {
            "megatron_training": {
                **KERNELS, "model": "qwen25_32b", "global_batch_size": 128, "stage": "ray_ppo", "no_pad_to_seq_lengths": True,
            },
            "actor_config": {"model": "qwen25_32b", "micro_batch_size": 1, "tensor_model_parallel_size": 8},
            "critic_config": {"model": "qwen25_32b", "micro_batch_size": 1, "tensor_model_parallel_size": 8},
            "rl_config": {
                "adv_estimator": "gae", "use_kl_in_reward": False, "mini_batch_size": 128, "max_prompt_length": 2048,
                "n_samples_per_prompt": 8, "actor_resource": {"num_npus": 32}, "critic_resource": {"num_npus": 32},
            },
            "generate_config": {
                **OFFLOADS, "infer_tensor_parallel_size": 8, "max_num_seqs": 1024, "max_model_len": 4096,
                "gpu_memory_utilization": 0.4, "sampling_config": {"max_tokens": 2048},
            },
        },
        Step(
            64, (32, 128, 8, 1, 2048, 2048), ("ppo", True, True),
            {"tp": 8, "pp": 1, "micro_batch_size": 1, "batching": "padded", "recompute": False}, (8, None, 0.4),
        ),
    ),
}  # fmt: skip


def compare(folder: Path, text: str, name: str, hardware: str, wanted: Step) -> None:
    """Read a text, and compare its job."""
    found = read(folder, text, name, hardware, mean=100.0).job
    section, layout, rollout = found.section, found.layout, found.rollout
    cluster = found.job.workload.cluster
    batch = (
        cluster.num_devices,
        section.prompts,
        section.samples,
        section.updates,
        section.max_prompt_tokens,
        section.lengths.cap,
    )
    assert found.job.workload.model.num_layers == wanted.layers
    assert batch == wanted.batch
    assert (section.algorithm, section.reference, section.offload) == wanted.tasks
    assert layout is not None
    assert {field: getattr(layout, field) for field in wanted.layout} == wanted.layout
    assert (rollout.tp, rollout.ep, rollout.memory_fraction) == wanted.rollout


@pytest.mark.parametrize("name", VERL)
def test_scripts_of_verl(tmp_path: Path, name: str) -> None:
    configuration, settings, wanted = VERL[name]
    lines = [f"    {setting}={value} \\" for setting, value in settings.items()]
    text = "\n".join([f"python3 -m verl.trainer.main_ppo --config-name={configuration} \\", *lines, "    $@", ""])
    compare(tmp_path, text, "run.sh", NPU if "npu" in name else GPU, wanted)


@pytest.mark.parametrize("name", MINDSPEED)
def test_files_of_mindspeed_rl(tmp_path: Path, name: str) -> None:
    sections, wanted = MINDSPEED[name]
    text = "".join(f"{section}: {json.dumps(settings)}\n" for section, settings in sections.items())
    compare(tmp_path, text, "recipe.yaml", NPU, wanted)
