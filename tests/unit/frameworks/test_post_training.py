"""Settings for MindSpeed-RL and verl, read back by a reader that knows none of the writers."""

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml

from frameworks.post_training import mindspeed_rl, verl
from frameworks.post_training.plan import Draft, PostTrainingPlan, exported

PLAN = PostTrainingPlan(
    model="qwen2.5-32b",
    placement="fully-colocated",
    stage_layers=(16, 16, 16, 16),
    has_experts=False,
    on_ascend=True,
    devices_per_node=16,
    train_devices=32,
    rollout_devices=32,
    idle_devices=0,
    reference_devices=None,
    prompts=64,
    samples=16,
    updates=2,
    mean_prompt_tokens=150.0,
    max_response_tokens=2048,
    algorithm="grpo",
    reference=True,
    reward_model=False,
    kept_fraction=1.0,
    staleness=0.0,
    unbounded=False,
    partial=False,
    queue=False,
    offload=True,
    tp=4,
    pp=4,
    cp=1,
    ep=1,
    vpp=1,
    micro_batch_size=1,
    zero_stage=1,
    recompute=True,
    rollout_tp=2,
    rollout_pp=1,
    rollout_dp=1,
    rollout_ep=1,
    max_requests=256,
    memory_fraction=0.6,
    precision="bf16",
    cache_precision="bf16",
    captures_graphs=False,
    draft_tokens=0,
    scheduling="groups",
)
APART = replace(PLAN, placement="separate", train_devices=16, rollout_devices=32, staleness=1.0, partial=True, offload=False)
SPARSE = replace(PLAN, model="qwen3-30b-a3b", has_experts=True, pp=1, stage_layers=(48,), ep=8, rollout_tp=4, rollout_ep=16)


def words(plan: PostTrainingPlan) -> tuple[str, dict[str, str]]:
    """The module that a verl command starts, and its overrides."""
    text = verl.write(plan).text
    assert text is not None
    found = shlex.split(text.split("exec ")[1].replace("\\\n", " "))
    return found[2], dict(word.split("=", 1) for word in found if "=" in word and not word.startswith("--"))


def keys(plan: PostTrainingPlan) -> dict[str, Any]:
    """MindSpeed-RL's file."""
    text = mindspeed_rl.write(plan).text
    assert text is not None
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_verl_has_the_degrees_of_both_sides() -> None:
    module, found = words(PLAN)
    assert module == "verl.trainer.main_ppo"
    actor = "actor_rollout_ref.actor.megatron."
    assert {found[f"{actor}{name}_model_parallel_size"] for name in ("tensor", "pipeline")} == {"4"}
    assert found[f"{actor}override_transformer_config.recompute_granularity"] == "full"
    assert found["actor_rollout_ref.rollout.tensor_model_parallel_size"] == "2"
    assert (found["trainer.nnodes"], found["trainer.n_gpus_per_node"], found["trainer.device"]) == ("2", "16", "npu")
    assert (found["data.train_batch_size"], found["actor_rollout_ref.actor.ppo_mini_batch_size"]) == ("64", "32")
    assert "rollout.nnodes" not in found


def test_a_rollout_pool_of_its_own_is_another_program_of_verl() -> None:
    module, found = words(APART)
    assert module == "recipe.fully_async_policy.fully_async_main"
    assert (found["trainer.nnodes"], found["rollout.nnodes"]) == ("1", "2")
    assert found["data.train_batch_size"] == "0"
    assert found["actor_rollout_ref.hybrid_engine"] == "False"
    # A batch of the step is made of its updates; one whole batch may be ahead.
    assert found["async_training.trigger_parameter_sync_step"] == "2"
    assert found["async_training.staleness_threshold"] == "1.0"
    assert found["async_training.partial_rollout"] == "True"


def test_layers_that_only_the_ends_have_fewer_of_are_added_to_megatrons_own() -> None:
    _, found = words(replace(PLAN, stage_layers=(15, 17, 17, 15)))
    added = "+actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_"
    assert (found[f"{added}first_pipeline_stage"], found[f"{added}last_pipeline_stage"]) == ("15", "15")
    assert "the last may differ" in verl.write(replace(PLAN, stage_layers=(17, 16, 15, 16))).refused[0]


def test_mindspeed_rl_has_the_degrees_of_both_sides() -> None:
    found = keys(PLAN)
    assert found["defaults"] == [{"model": ["qwen25_32b"]}]
    assert found["actor_config"]["tensor_model_parallel_size"] == 4
    assert found["generate_config"]["infer_tensor_parallel_size"] == 2
    assert found["generate_config"]["enforce_eager"] is True
    assert found["rl_config"]["actor_resource"] == {"num_npus": 32}
    assert found["rl_config"]["mini_batch_size"] == 32
    assert found["megatron_training"]["global_batch_size"] == 64
    assert found["generate_config"]["max_model_len"] >= found["megatron_training"]["seq_length"] == 768 + 2048


def test_mindspeed_rl_counts_experts_outside_tp() -> None:
    found = keys(SPARSE)
    assert found["actor_config"]["expert_model_parallel_size"] == 2
    assert found["actor_config"]["moe_tp_extend_ep"] is True
    assert found["generate_config"]["infer_expert_parallel_size"] == 4
    assert "each has to divide the next" in mindspeed_rl.write(replace(SPARSE, rollout_ep=1)).refused[0]


def test_stages_that_differ_are_listed_for_mindspeed_rl() -> None:
    assert keys(replace(PLAN, stage_layers=(17, 16, 15, 16)))["actor_config"]["num_layer_list"] == "17,16,15,16"


def test_a_reference_with_devices_of_its_own_needs_workers_apart() -> None:
    found = keys(replace(PLAN, placement="train-infer-colocated", reference_devices=16))["rl_config"]
    assert found["use_integrated_worker"] is False
    assert found["reference_resource"] == {"num_npus": 16}


def test_a_critic_has_the_actors_layout() -> None:
    plan = replace(PLAN, algorithm="ppo")
    assert keys(plan)["critic_config"]["tensor_model_parallel_size"] == 4
    assert keys(plan)["rl_config"]["adv_estimator"] == "gae"
    _, found = words(plan)
    assert found["critic.megatron.tensor_model_parallel_size"] == "4"


def test_a_filter_of_groups_is_another_program_of_verl() -> None:
    module, found = words(replace(PLAN, algorithm="dapo", reference=False, kept_fraction=0.5))
    assert module == "recipe.dapo.main_dapo"
    assert found["algorithm.filter_groups.enable"] == "True"
    assert keys(replace(PLAN, algorithm="dapo", kept_fraction=0.5))["rl_config"]["filter_groups_enable"] is True


@pytest.mark.parametrize(
    ("change", "who", "sentence"),
    [
        ({"placement": "hybrid"}, "both", "placement hybrid"),
        ({"placement": "separate"}, "mindspeed-rl", "no devices of its own"),
        ({"placement": "train-infer-colocated"}, "verl", "placement train-infer-colocated"),
        ({"precision": "int8"}, "both", "rollout in int8"),
        ({"on_ascend": False}, "mindspeed-rl", "runs on Ascend"),
        ({"prompts": 63}, "mindspeed-rl", "no multiple of 2 replicas|no multiple of 16 replicas"),
        ({"zero_stage": 3}, "verl", "ZeRO stage 3"),
        ({"rollout_pp": 2}, "both", "exclude each other"),
        ({"train_devices": 24, "rollout_devices": 24}, "verl", "no whole nodes of 16"),
        ({"reward_model": True}, "mindspeed-rl", "reward model"),
        ({"placement": "separate", "algorithm": "ppo"}, "verl", "critic"),
        ({"placement": "separate", "unbounded": True}, "verl", "without a bound"),
    ],
)
def test_what_a_release_does_not_have_is_refused_with_a_sentence(change: dict[str, Any], who: str, sentence: str) -> None:
    plan = replace(PLAN, **change)
    found = {"mindspeed-rl": mindspeed_rl.write(plan), "verl": verl.write(plan)}
    for name, answer in found.items():
        if who in (name, "both"):
            assert answer.text is None
            assert re.search(sentence, " ".join(answer.refused))


def test_what_has_no_setting_is_said_in_the_file() -> None:
    plan = replace(PLAN, draft_tokens=1, cache_precision="int8", idle_devices=8, prompts=63, updates=2, train_devices=16, pp=4)
    text = verl.write(plan).text or ""
    for part in ("1 drafted tokens", "Keys and values in int8", "8 training devices are left out", "do not divide 63 prompts"):
        assert f"# Not in these settings: {part}" in text.replace("2 updates do not", "do not")
    assert all(line.startswith("#") for line in text.splitlines() if "Not in these settings" in line)


@pytest.mark.parametrize("release", [verl.RELEASE, mindspeed_rl.RELEASE])
def test_no_setting_is_written_that_a_release_does_not_know(release: Any) -> None:
    draft = Draft(release)
    draft.put("actor_rollout_ref.actor.megatron", tensor_model_paralel_size=4)
    answer = exported(draft, "a-file", [], "text")
    assert answer.text is None
    assert "is no argument of" in answer.refused[0]


def test_a_setting_of_another_program_is_not_written() -> None:
    draft = Draft(verl.RELEASE)
    draft.put("async_training", partial_rollout=True)
    assert verl.foreign(draft, verl.SYNCHRONOUS) == ["async_training.partial_rollout is no setting of verl.trainer.main_ppo."]
    assert verl.foreign(draft, verl.ASYNCHRONOUS) == []


def test_a_models_name_cannot_end_a_line() -> None:
    text = mindspeed_rl.write(replace(PLAN, model="a\nrl_config: {}\n")).text or ""
    assert yaml.safe_load(text)["actor_config"]["model"] == "a_rl_config_"
    assert "configs/model/a_rl_config_.yaml has to be written" in text
