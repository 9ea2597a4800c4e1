"""MindSpeed-RL's YAML for a post-training step. Rollout shares the training devices; a reference can have its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from documents.sentences import Sentence
from frameworks.post_training.plan import Draft, Exported, PostTrainingPlan, Setting, common_notes, exported
from frameworks.release import read_release

RELEASE = read_release(Path(__file__).parent / "mindspeed_rl_master.json")
SHARED = {"fully-colocated": True, "train-infer-colocated": False}  # placement -> use_integrated_worker
# Switches that a file turns on, which are off otherwise.
SWITCHES = (
    *("overlap_grad_reduce", "overlap_param_gather", "reuse_fp32_param", "swap_optimizer", "swap_attention"),
    "moe_alltoall_overlap_comm",
)
STAGES = {"grpo": "ray_grpo", "dapo": "ray_dapo", "ppo": "ray_ppo"}
_NO_NAME = re.compile(r"[^a-z0-9]+")


def write(plan: PostTrainingPlan) -> Exported:
    """The settings, or the reasons why the release has none."""
    draft = Draft(RELEASE)
    draft.notes += common_notes(plan)
    file = RELEASE.models.get(plan.model, {}).get("file")
    name = str(file or _NO_NAME.sub("_", plan.model.lower())[:64])
    if file is None:
        draft.notes.append(Sentence("The release has no file of this model: configs/model/{}.yaml has to be written.", name))
    _engines(draft, plan, name)
    _actor(draft, plan, name, "actor_config")
    if not SHARED.get(plan.placement, False):  # workers apart have settings of their own [mindspeed-rl, train_grpo.py]
        _actor(draft, plan, name, "ref_config")
        _actor(draft, plan, name, "reward_config")
    if plan.algorithm == "ppo":
        _actor(draft, plan, name, "critic_config")
        draft.put("rl_config.critic_resource", num_npus=plan.train_devices)
    _algorithm(draft, plan)
    _rollout(draft, plan)
    return exported(draft, "post-training.mindspeed-rl.yaml", _refused(plan), _text(draft, name))


def _refused(plan: PostTrainingPlan) -> list[str]:
    """Reasons why the release rejects the plan as a whole [mindspeed-rl, validate_config.py and vllm_weight_container.py]."""
    reasons: list[str] = []
    if not plan.on_ascend:
        reasons.append(Sentence("MindSpeed-RL runs on Ascend."))
    if plan.placement not in SHARED:
        reasons.append(Sentence("placement {}: rollout has no devices of its own in this release", plan.placement))
    if plan.precision != "bf16":
        reasons.append(Sentence("rollout in {}: the release takes bfloat16 alone.", plan.precision))
    replicas = plan.train_devices // (plan.tp * plan.pp * plan.cp)
    for what, count in ((Sentence("training"), replicas), ("rollout", plan.rollout_devices // plan.rollout_tp)):
        if plan.prompts % count:
            reasons.append(Sentence("{} prompts a step are no multiple of {} replicas of {}.", plan.prompts, count, what))
    if plan.reward_model and SHARED.get(plan.placement):
        reasons.append(Sentence("a reward model beside rollout and training on the same devices."))
    experts = plan.rollout_ep if plan.rollout_ep > 1 else plan.rollout_tp
    if plan.ep > 1 and (plan.ep % plan.tp or experts % plan.ep):
        reasons.append(
            Sentence(
                "experts over {} devices of training, tp {}, and {} of rollout: each has to divide the next.",
                plan.ep,
                plan.tp,
                experts,
            )
        )
    if max(plan.tp, plan.rollout_tp) % min(plan.tp, plan.rollout_tp):
        reasons.append(Sentence("tp {} of training and {} of rollout: one has to divide the other.", plan.tp, plan.rollout_tp))
    if plan.train_devices != plan.rollout_devices:
        reasons.append(
            Sentence("{} devices train and {} roll out, which have to be the same.", plan.train_devices, plan.rollout_devices)
        )
    return reasons


def _engines(draft: Draft, plan: PostTrainingPlan, name: str) -> None:
    draft.put(
        "megatron_training",
        model=name,
        stage=STAGES[plan.algorithm],
        global_batch_size=plan.prompts,
        seq_length=plan.max_prompt_tokens + plan.max_response_tokens,
        use_mcore_models=True,
        bf16=True,
        use_flash_attn=True,
        use_fused_rmsnorm=True,
        use_fused_swiglu=True,
        use_fused_rotary_pos_emb=True,
        sequence_parallel=plan.tp > 1,
        use_distributed_optimizer=plan.zero_stage >= 1,
        distributed_backend="nccl",
        no_shared_storage=True,
        no_pad_to_seq_lengths=True,
        reset_attention_mask=True,
        tokenizer_type="PretrainedFromHF",
        tokenizer_name_or_path="./MODEL",
        data_path="./DATA",
    )


def _actor(draft: Draft, plan: PostTrainingPlan, name: str, section: str) -> None:
    draft.put(
        section,
        model=name,
        micro_batch_size=plan.micro_batch_size,
        tensor_model_parallel_size=plan.tp,
        pipeline_model_parallel_size=plan.pp,
        expert_model_parallel_size=max(plan.ep // plan.tp, 1),  # outside tp
        context_parallel_size=plan.cp,
        load="./CHECKPOINT",
    )
    if plan.cp > 1:
        draft.put(section, context_parallel_algo="megatron_cp_algo" if plan.cp_algo == "ring" else "ulysses_cp_algo")
    if plan.ep > 1:
        draft.put(section, moe_tp_extend_ep=True)
    if plan.recompute:
        method = "uniform" if plan.recompute_layers is None else "block"
        draft.put(section, recompute_granularity="full", recompute_method=method, recompute_num_layers=plan.recompute_layers or 1)
    draft.put(section, **{name: True for name in SWITCHES if name in plan.switches and (plan.has_experts or "moe" not in name)})
    if plan.vpp > 1:
        draft.put(section, num_layers_per_virtual_pipeline_stage=max(sum(plan.stage_layers) // (plan.pp * plan.vpp), 1))
        if sum(plan.stage_layers) % (plan.pp * plan.vpp):
            draft.notes.append(
                Sentence(
                    "{}: {} layers do not fill {} x {} virtual stages evenly, which needs empty layers (noop_layers) here.",
                    section,
                    sum(plan.stage_layers),
                    plan.pp,
                    plan.vpp,
                )
            )
    elif len(set(plan.stage_layers)) > 1:
        draft.put(section, num_layer_list=",".join(map(str, plan.stage_layers)))


def _algorithm(draft: Draft, plan: PostTrainingPlan) -> None:
    integrated = SHARED.get(plan.placement, False)
    draft.put(
        "rl_config",
        use_integrated_worker=integrated,
        blocking=not plan.queue,
        adv_estimator="gae" if plan.algorithm == "ppo" else "group_norm",
        n_samples_per_prompt=plan.samples,
        mini_batch_size=plan.prompts_per_update,
        max_prompt_length=plan.max_prompt_tokens,
        use_remove_padding=plan.batching != "padded",
        use_dynamic_bsz=plan.batching == "packed",
        rule_reward=not plan.reward_model,
    )
    if plan.batching == "packed":
        draft.put(
            "rl_config", **{f"{task}_max_packing_token_size": plan.micro_batch_tokens for task in ("ref", "actor", "update")}
        )
    if plan.old_log_prob and plan.updates == 1:
        draft.notes.append(
            Sentence("With one update a step the release takes the old log-probabilities from it, and saves their pass.")
        )
    if plan.kept_fraction < 1.0:
        draft.put("rl_config", filter_groups_enable=True, filter_groups_train_batch_size=plan.prompts)
    draft.put("rl_config.actor_resource", num_npus=plan.train_devices)
    if not integrated and plan.reference_devices:
        draft.put("rl_config.reference_resource", num_npus=plan.reference_devices)
        draft.notes.append(Sentence("The reference keeps the actor's layout, which has to divide its own devices."))
    if not plan.reference and plan.algorithm != "dapo":
        draft.notes.append(Sentence("The release always has a reference; a weight of zero for it (init_kl_coef) is the user's."))


def _rollout(draft: Draft, plan: PostTrainingPlan) -> None:
    length = plan.max_prompt_tokens + plan.max_response_tokens
    draft.put(
        "generate_config",
        infer_tensor_parallel_size=plan.rollout_tp,
        infer_pipeline_parallel_size=plan.rollout_pp,
        infer_expert_parallel_size=max(plan.rollout_ep // plan.rollout_tp, 1),  # outside tp
        max_num_seqs=plan.max_requests,
        max_model_len=length,
        max_num_batched_tokens=max(length, 2048),
        dtype="bfloat16",
        gpu_memory_utilization=plan.memory_fraction,
        enforce_eager=not plan.captures_graphs,
        enable_expert_parallel=plan.rollout_ep > 1,
        offload_train_optimizer=plan.offload,
        offload_train_grad=plan.offload,
        offload_train_param=plan.offload,
    )
    draft.put("generate_config.sampling_config", max_tokens=plan.max_response_tokens)


def _text(draft: Draft, model: str) -> str:
    """The file: comments, then nested keys."""
    lines = [
        f"# Placement and parallel settings for {RELEASE.name} {RELEASE.version} ({RELEASE.commits['Ascend/MindSpeed-RL']}).",
        "# Paths in capitals, learning rate, rewards and sampling are the user's.",
        *(f"# Not in these settings: {note}" for note in draft.notes),
        "defaults:",
        "  - model:",
        Sentence("      - {}", model),
    ]
    tree: dict[str, Any] = {}
    for name, value in draft.settings.items():
        *path, leaf = name.split(".")
        inner = tree
        for part in path:
            inner = inner.setdefault(part, {})
        inner[leaf] = value
    for section, inside in tree.items():
        lines += ["", f"{section}:", *_nested(inside, "  ")]
    return "\n".join(lines) + "\n"


def _nested(tree: dict[str, Any], lead: str) -> list[str]:
    lines = []
    for name, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{lead}{name}:", *_nested(value, lead + "  ")]
        else:
            lines.append(Sentence("{}{}: {}", lead, name, _scalar(value)))
    return lines


def _scalar(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
