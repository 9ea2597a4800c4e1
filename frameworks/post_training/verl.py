"""verl's command for a post-training step: Hydra overrides of the program for the plan's placement."""

from __future__ import annotations

import shlex
from pathlib import Path

from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.post_training.plan import Draft, Exported, PostTrainingPlan, Setting, common_notes, exported
from frameworks.release import read_release

RELEASE = read_release(Path(__file__).parent / "verl_0.7.json")
PLUS = Sentence("Added with a plus")
ADVANTAGE = {"ppo": "gae", "grpo": "grpo", "dapo": "grpo"}
OVERLAPS = ("overlap_grad_reduce", "overlap_param_gather")  # which verl switches off [verl-0.8, megatron_utils.py]
MOVES = ("swap_optimizer", "swap_attention", "reuse_fp32_param")  # switches of MindSpeed
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@dataclass(frozen=True)
class Program:
    """One of verl's programs: the module, its configuration, and the groups of settings that only this configuration has."""

    module: str
    config_name: str
    groups: tuple[str, ...] = ()


SYNCHRONOUS = Program("verl.trainer.main_ppo", "ppo_megatron_trainer.yaml")
FILTERED = Program("recipe.dapo.main_dapo", "dapo_megatron_trainer.yaml", (Sentence("Dynamic sampling"),))
ASYNCHRONOUS = Program(
    "recipe.fully_async_policy.fully_async_main", "fully_async_ppo_megatron_trainer.yaml", (Sentence("Fully asynchronous"),)
)
_OF_ONE_PROGRAM = {group for program in (FILTERED, ASYNCHRONOUS) for group in program.groups}


def write(plan: PostTrainingPlan) -> Exported:
    """The command, or the reasons why the release has none."""
    draft = Draft(RELEASE)
    draft.notes += common_notes(plan)
    program = program_of(plan)
    _data(draft, plan)
    _actor(draft, plan)
    _layout(draft, plan, f"{ACTOR}.megatron")
    if plan.algorithm == "ppo":
        draft.put("critic", enable=True)
        draft.put("critic.model", path="$MODEL_PATH")
        _layout(draft, plan, "critic.megatron")
    _rollout(draft, plan)
    _devices(draft, plan)
    if program is ASYNCHRONOUS:
        _ahead(draft, plan)
    if program is FILTERED:
        draft.put("algorithm.filter_groups", enable=True, metric="acc")
    if plan.reward_model:
        draft.put("reward_model", enable=True)
        draft.notes.append(Sentence("The reward model's path is the user's."))
    return exported(draft, "post-training.verl.sh", [*_refused(plan), *foreign(draft, program)], _text(draft, program))


def program_of(plan: PostTrainingPlan) -> Program:
    """The program for the plan's placement."""
    if plan.placement == "separate":
        return ASYNCHRONOUS
    return FILTERED if plan.kept_fraction < 1.0 else SYNCHRONOUS


def foreign(draft: Draft, program: Program) -> list[str]:
    """Settings that only another program's configuration has."""
    known = {
        argument.name
        for title, arguments in RELEASE.groups.items()
        for argument in arguments
        if title not in _OF_ONE_PROGRAM or title in program.groups
    }
    return [Sentence("{} is no setting of {}.", name, program.module) for name in draft.settings if name not in known]


def _refused(plan: PostTrainingPlan) -> list[str]:
    reasons: list[str] = []
    if plan.placement not in ("fully-colocated", "separate"):
        reasons.append(
            Sentence("placement {}: the release has all tasks on all devices, or a rollout pool of its own", plan.placement)
        )
    if plan.unbounded:
        reasons.append(Sentence("staleness without a bound: staleness_threshold is one."))
    if plan.zero_stage > 1:
        reasons.append(Sentence("ZeRO stage {}: the Megatron engine shards the optimizer alone.", plan.zero_stage))
    if plan.precision not in ("bf16", "fp8"):
        reasons.append(Sentence("rollout in {}: the release takes bfloat16, or fp8 by quantization.", plan.precision))
    if plan.cp > 1 and plan.cp_algo != "ring":
        reasons.append(Sentence("context parallelism by {}: that of the Megatron engine is a ring.", plan.cp_algo))
    reasons += [Sentence("{}: the release has no setting for it.", name) for name in MOVES if name in plan.switches]
    if plan.placement == "separate" and plan.algorithm == "ppo":
        reasons.append(Sentence("a critic beside a rollout pool of its own: the program has none."))
    if plan.placement == "separate" and plan.kept_fraction < 1.0:
        reasons.append(Sentence("a filter of groups beside a rollout pool of its own: the program has none."))
    for what, devices in (("train", plan.train_devices), (Sentence("roll out"), plan.rollout_devices)):
        if devices > plan.devices_per_node and devices % plan.devices_per_node:
            reasons.append(Sentence("{} devices that {} are no whole nodes of {}.", devices, what, plan.devices_per_node))
    middle = plan.stage_layers[1:-1]
    if len(set(middle)) > 1 or (plan.vpp > 1 and len(set(plan.stage_layers)) > 1):
        reasons.append(
            Sentence("stages of {} layers: only the first and the last may differ.", joined(", ", map(str, plan.stage_layers)))
        )
    return reasons


def _data(draft: Draft, plan: PostTrainingPlan) -> None:
    draft.put(
        "data",
        train_files="$TRAIN_FILE",
        val_files="$TEST_FILE",
        max_prompt_length=plan.max_prompt_tokens,
        max_response_length=plan.max_response_tokens,
        train_batch_size=0 if plan.placement == "separate" else plan.prompts,
    )
    draft.put("algorithm", adv_estimator=ADVANTAGE[plan.algorithm], use_kl_in_reward=plan.reference and plan.algorithm == "ppo")


def _actor(draft: Draft, plan: PostTrainingPlan) -> None:
    draft.put("actor_rollout_ref.model", path="$MODEL_PATH")
    draft.put("actor_rollout_ref", hybrid_engine=plan.placement != "separate")
    draft.put(
        ACTOR,
        use_kl_loss=plan.reference and plan.algorithm != "ppo",
        ppo_mini_batch_size=plan.prompts_per_update,
        use_dynamic_bsz=plan.batching == "packed",
    )
    if plan.batching == "packed":
        draft.put(ACTOR, ppo_max_token_len_per_gpu=-(-plan.micro_batch_tokens // plan.cp))
    else:
        draft.put(ACTOR, ppo_micro_batch_size_per_gpu=plan.micro_batch_size)
        draft.put(f"{ACTOR}.megatron", use_remove_padding=plan.batching == "samples")
    if not plan.old_log_prob and plan.placement != "separate":
        draft.notes.append(Sentence("The release computes the old log-probabilities again."))
    if overlaps := [name for name in OVERLAPS if name in plan.switches]:
        draft.notes.append(Sentence("{}: verl leaves it off unless override_ddp_config has it.", joined(", ", overlaps)))


def _layout(draft: Draft, plan: PostTrainingPlan, section: str) -> None:
    offload = plan.offload and plan.placement != "separate"
    draft.put(
        section,
        tensor_model_parallel_size=plan.tp,
        pipeline_model_parallel_size=plan.pp,
        context_parallel_size=plan.cp,
        expert_model_parallel_size=plan.ep,
        use_distributed_optimizer=plan.zero_stage >= 1,
        param_offload=offload,
        grad_offload=offload,
        optimizer_offload=offload,
    )
    if plan.has_experts:
        draft.put(section, expert_tensor_parallel_size=1)
    if plan.vpp > 1:
        draft.put(section, virtual_pipeline_model_parallel_size=plan.vpp)
    if section.startswith("critic"):
        return
    override = f"{section}.override_transformer_config"
    if plan.recompute:
        method = "uniform" if plan.recompute_layers is None else "block"
        draft.put(
            override, recompute_granularity="full", recompute_method=method, recompute_num_layers=plan.recompute_layers or 1
        )
    if len(set(plan.stage_layers)) > 1:
        draft.put(
            override,
            num_layers_in_first_pipeline_stage=plan.stage_layers[0],
            num_layers_in_last_pipeline_stage=plan.stage_layers[-1],
        )


def _rollout(draft: Draft, plan: PostTrainingPlan) -> None:
    draft.put(
        ROLLOUT,
        name="vllm",
        n=plan.samples,
        tensor_model_parallel_size=plan.rollout_tp,
        data_parallel_size=plan.rollout_dp if plan.rollout_ep > 1 else 1,
        expert_parallel_size=plan.rollout_ep,
        pipeline_model_parallel_size=plan.rollout_pp,
        max_num_seqs=plan.max_requests,
        gpu_memory_utilization=plan.memory_fraction,
        enforce_eager=not plan.captures_graphs,
    )
    if plan.precision == "fp8":
        draft.put(ROLLOUT, quantization="fp8")
    if plan.queue and plan.placement != "separate":
        draft.notes.append(
            Sentence("A queue of samples has no setting here where devices are shared; its gain is nothing there.")
        )


def _devices(draft: Draft, plan: PostTrainingPlan) -> None:
    nodes, each = _nodes(plan.train_devices, plan.devices_per_node)
    draft.put("trainer", nnodes=nodes, n_gpus_per_node=each, device="npu" if plan.on_ascend else "cuda")


def _ahead(draft: Draft, plan: PostTrainingPlan) -> None:
    """Settings of a separate rollout pool: batches ahead, weights exchanged once a step of the plan."""
    nodes, each = _nodes(plan.rollout_devices, plan.devices_per_node)
    draft.put("rollout", nnodes=nodes, n_gpus_per_node=each, n=plan.samples)
    draft.put("data", gen_batch_size=1)
    draft.put(ROLLOUT, calculate_log_probs=True)
    draft.put(
        "async_training",
        staleness_threshold=float(plan.staleness),
        trigger_parameter_sync_step=plan.updates,
        require_batches=1,
        partial_rollout=plan.partial,
        use_rollout_log_probs=not plan.old_log_prob,
    )
    if plan.staleness > 1.0:
        draft.notes.append(
            Sentence(
                "staleness_threshold {:g} lets {:g} batches wait or be under way; the age of an answer has no bound of its own.",
                plan.staleness,
                plan.staleness,
            )
        )


def _nodes(devices: int, each: int) -> tuple[int, int]:
    return (devices // each, each) if devices > each else (1, devices)


def _text(draft: Draft, program: Program) -> str:
    added = {argument.name for argument in RELEASE.groups[PLUS]}
    lines = [
        "#!/usr/bin/env bash",
        f"# Placement and parallel settings for {RELEASE.name} {RELEASE.version}; run in its checkout.",
        "# MODEL_PATH, TRAIN_FILE and TEST_FILE, learning rate, rewards and sampling are the user's.",
        *(f"# Not in these settings: {note}" for note in draft.notes),
        "set -eu",
        "",
        f"exec python3 -m {program.module} --config-path=config --config-name={program.config_name} \\",
        *(f"    {'+' if name in added else ''}{name}={_value(value)} \\" for name, value in draft.settings.items()),
        '    "$@"',
    ]
    return "\n".join(lines) + "\n"


def _value(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value)
    text = str(value)
    return f'"{text}"' if text.startswith("$") else shlex.quote(text)
